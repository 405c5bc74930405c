// The lowerings for ctypes: a call by name on host arrays, computed by the interpreter of graphs. No device, compiler or torch is involved,
// so that what a test finds is a lowering's fault.
//
// call(name, in, &out, &out_n): `in` is a list of arguments, then of outputs; `out` the results and the faults. Little endian; see Reader.
#include <cstdlib>

#include "all_lowerings.h"  // every header of csrc/lower, made by cmake
#include "core/graph_eval.h"

namespace tiny::lower {
namespace {

struct Row {
  const char* name;
  Lowering1 one = nullptr;
  LoweringN many = nullptr;
  Row(const char* name, Lowering1 f) : name(name), one(f) {}
  Row(const char* name, LoweringN f) : name(name), many(f) {}
};
const Row kRows[] = {
#define ATEN(name, lowering) {name, lowering},
#define ATEN_WRITES(name, lowering, writes) {name, lowering},
#define CPU(name, reason)
#include "aten_math.def"
#define ATEN(name, lowering) {name, lowering},
#define ATEN_WRITES(name, lowering, writes) {name, lowering},
#define CPU(name, reason)
#include "aten_nn.def"
};

// lowerings.py has these lists too, in this order.
static_assert(static_cast<int>(ArgKind::Complex) == 4 && static_cast<int>(ArgKind::Text) == 10 && static_cast<int>(ArgKind::Other) == 13);
static_assert(static_cast<int>(DType::count) == 16);

struct Reader {
  const char* at;
  template <class T> T take() {
    T v;
    std::memcpy(&v, at, sizeof v);
    at += sizeof v;
    return v;
  }
  Dims dims() {
    Dims d;
    for (int64_t n = take<int64_t>(); n > 0; --n) d.push_back(take<int64_t>());
    return d;
  }
  std::string text() {
    int64_t n = take<int64_t>();
    std::string s(at, n);
    at += n;
    return s;
  }
  Tensor tensor(testing::GraphEval& eval) {
    auto d = static_cast<DType>(take<int64_t>());
    Dims sizes = dims();
    int64_t n = product(sizes);
    testing::Value v = testing::load_value(d, n, at);
    at += n * itemsize(d);
    return eval.leaf(v, sizes);
  }
  ArgValue value(testing::GraphEval& eval) {
    ArgValue v;
    v.kind = static_cast<ArgKind>(take<int64_t>());
    switch (v.kind) {
      case ArgKind::Tensor:
        v.category = static_cast<Category>(take<int64_t>());
        v.tensor = tensor(eval);
        break;
      case ArgKind::Int: case ArgKind::Bool: case ArgKind::DType: v.i = take<int64_t>(); break;
      case ArgKind::Double: v.d = take<double>(); break;
      case ArgKind::Ints: case ArgKind::Bools: v.ints = dims(); break;
      case ArgKind::Doubles:
        for (int64_t n = take<int64_t>(); n > 0; --n) v.doubles.push_back(take<double>());
        break;
      case ArgKind::Tensors:
        for (int64_t n = take<int64_t>(); n > 0; --n) v.tensors.push_back(take<int64_t>() ? tensor(eval) : Tensor());
        break;
      case ArgKind::Text: v.text = text(); break;
      default: break;
    }
    return v;
  }
};

struct Writer {
  std::string bytes;
  void put(int64_t v) { bytes.append(reinterpret_cast<const char*>(&v), sizeof v); }
  void put(const std::string& s) { put(static_cast<int64_t>(s.size())), bytes += s; }
  void put(const testing::Value& v, const Dims& sizes) {
    put(static_cast<int64_t>(v.dtype));
    put(static_cast<int64_t>(sizes.size()));
    for (int64_t s : sizes) put(s);
    std::string data(v.numel() * itemsize(v.dtype), '\0');
    testing::store_value(v, data.data());
    bytes += data;
  }
};

Args::Rng draw(Args&, int, int64_t numel) {
  static int64_t offset = 0;
  Tensor at = constant(DType::u64, offset);
  offset += numel;
  return {constant(DType::u64, int64_t{42}), at};
}

void run(const Row& row, Reader in, Writer& out) {
  testing::GraphEval eval;
  Args args;
  args.op = row.name;
  args.rng_hook = draw;
  for (int64_t n = in.take<int64_t>(); n > 0; --n) args.values.push_back(in.value(eval));
  for (int64_t n = in.take<int64_t>(); n > 0; --n) {
    auto d = static_cast<DType>(in.take<int64_t>());
    args.outs.push_back({d, in.dims()});
  }
  Results results = row.one ? Results{row.one(args)} : row.many(args);
  out.put(static_cast<int64_t>(results.size()));
  for (const Tensor& t : results) {
    out.put(int64_t{t.defined()});
    if (t.defined()) out.put(eval.run(t), t.sizes());
  }
  out.put(static_cast<int64_t>(eval.faults.size()));
  for (const auto& f : eval.faults) out.put(f.text);
}

}  // namespace
}  // namespace tiny::lower

/// 0: results in *out. 1: the lowering threw, *out is kind and text. 2: no such row. The caller frees *out.
extern "C" int call(const char* name, const char* in, char** out, int64_t* out_n) {
  using namespace tiny;
  lower::Writer w;
  int status = 2;
  for (const lower::Row& row : lower::kRows) {
    if (std::string_view(row.name) != name) continue;
    try {
      lower::run(row, {in}, w);
      status = 0;
    } catch (const Error& e) {
      w.bytes.clear();
      w.put(static_cast<int64_t>(e.kind)), w.put(std::string(e.what()));
      status = 1;
    } catch (const std::exception& e) {
      w.bytes.clear();
      w.put(int64_t{-1}), w.put(std::string(e.what()));
      status = 1;
    }
    break;
  }
  *out = static_cast<char*>(std::malloc(w.bytes.size() + 1));
  std::memcpy(*out, w.bytes.data(), w.bytes.size());
  *out_n = static_cast<int64_t>(w.bytes.size());
  return status;
}
extern "C" void release(char* p) { std::free(p); }
/// Names of all rows, one a line.
extern "C" const char* rows() {
  static const std::string all = [] {
    std::string s;
    for (const auto& row : tiny::lower::kRows) s += std::string(row.name) + "\n";
    return s;
  }();
  return all.c_str();
}
