// An interpreter of tensor graphs on plain vectors: the judge in differential tests of everything below the graph. It follows ops.def word
// by word, checks each node's shape, dtype and bounds on the way (std::logic_error for a malformed graph), and is in no hurry.
#pragma once
#include <algorithm>
#include <complex>
#include <initializer_list>
#include <numbers>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "base/buffer.h"
#include "runtime/builtin/builtin.h"
#include "scalar_eval.h"
#include "tensor/tensor.h"
#include "uop/dft.h"

namespace tiny::testing {

struct Value {
  DType dtype = DType::void_;
  std::vector<Cell> cells;

  Value() = default;
  Value(DType d, int64_t n) : dtype(d), cells(static_cast<size_t>(n)) {}
  int64_t numel() const { return static_cast<int64_t>(cells.size()); }
  double number(int64_t k) const { return is_float(dtype) ? cells[k].f : static_cast<double>(cells[k].i); }
  std::vector<double> numbers() const {
    std::vector<double> out;
    for (int64_t k = 0; k < numel(); ++k) out.push_back(number(k));
    return out;
  }
};

/// Numbers as a value of dtype `d`, rounded or wrapped to it.
template <class Numbers>
inline Value value_of(DType d, const Numbers& numbers) {
  Value v(d, 0);
  for (double x : numbers) v.cells.push_back(convert(DType::f64, d, Cell{x, 0}));
  return v;
}
inline Value value_of(DType d, std::initializer_list<double> numbers) { return value_of(d, std::vector<double>(numbers)); }

/// The elements in memory, and back.
inline Value load_value(DType d, int64_t numel, const void* memory) {
  Value v(d, numel);
  const char* p = static_cast<const char*>(memory);
  for (Cell& c : v.cells) {
    uint64_t bits = 0;
    std::memcpy(&bits, p, itemsize(d));
    c = bits_cell(d, bits);
    p += itemsize(d);
  }
  return v;
}
inline void store_value(const Value& v, void* memory) {
  char* p = static_cast<char*>(memory);
  for (Cell c : v.cells) {
    uint64_t bits = cell_bits(v.dtype, c);
    std::memcpy(p, &bits, itemsize(v.dtype));
    p += itemsize(v.dtype);
  }
}

class GraphEval {
 public:
  /// The first fault of a CHECK, as the device would report it.
  struct Fault {
    std::string text;
    int64_t value = 0, limit = 0;
  };
  std::vector<Fault> faults;
  /// Values of leaves, instead of what their buffers hold.
  std::unordered_map<const UOp*, Value> given;

  /// A leaf with this value. Its buffer is real host memory that lives until the process ends: other judges may read it too.
  Tensor leaf(const Value& v, Dims sizes) {
    auto* memory = new std::vector<uint64_t>((v.numel() * itemsize(v.dtype) + 7) / 8 + 1);
    store_value(v, memory->data());
    auto* b = new Buffer{nullptr, memory->data(), static_cast<size_t>(v.numel() * itemsize(v.dtype)), {1}};
    return Tensor(make_buffer_node(b, v.dtype, v.numel()), std::move(sizes));
  }

  const Value& run(const Tensor& t) { return run(t.node()); }
  const Value& run(UOp* root) {
    held_.push_back(Ref::share(root));
    std::vector<UOp*> stack{root};
    while (!stack.empty()) {
      UOp* u = stack.back();
      if (done_.count(u)) { stack.pop_back(); continue; }
      size_t before = stack.size();
      for (UOp* s : u->sources())
        if (!done_.count(s)) stack.push_back(s);
      if (stack.size() != before) continue;
      stack.pop_back();
      Value v = given.count(u) ? given[u] : eval(u);
      expect(v.dtype == u->dtype && v.numel() == u->numel, u, "value does not fit the node");
      done_.emplace(u, std::move(v));
    }
    return done_.at(root);
  }

 private:
  std::unordered_map<const UOp*, Value> done_;
  std::vector<Ref> held_;  // an evaluated node lives on, so that no other takes its address

  static void expect(bool ok, const UOp* u, const char* what) {
    if (!ok) throw std::logic_error(std::string("malformed graph: ") + info(u->op).name + "." + info(u->dtype).name + ": " + what);
  }
  const Value& in(const UOp* u, int k) const { return done_.at(u->src[k]); }
  static const Cell& element(const Value& v, int64_t i) { return v.cells[v.numel() == 1 ? 0 : i]; }

  /// Calls f(flat position in the box, address) for each index of the box `sizes`, row-major.
  template <class F> static void walk(const Dims& sizes, const Dims& strides, int64_t offset, F f) {
    int64_t n = product(sizes);
    for (int64_t k = 0; k < n; ++k) {
      int64_t rest = k, at = offset;
      for (size_t d = sizes.size(); d-- > 0;) at += rest % sizes[d] * strides[d], rest /= sizes[d];
      f(k, at);
    }
  }

  Value eval(const UOp* u) {
    expect(info(u->op).nsrc < 0 || info(u->op).nsrc == u->nsrc, u, "number of sources");
    expect(has(u->op, group::Graph), u, "not an operator of the tensor graph");
    expect(u->numel >= 0, u, "numel");
    switch (u->op) {
      case Op::BUFFER: return load_value(u->dtype, u->numel, u->arg.buf->ptr);
      case Op::EMPTY: return garbage(u);
      case Op::CONST:
        expect(u->numel == 1, u, "a CONST is one element");
        return one(u->dtype, is_float(u->dtype) ? Cell{u->arg.f, 0} : Cell{0, u->arg.i});
      case Op::SCALAR:
        expect(u->numel == 1 && (u->dtype == DType::f64 || u->dtype == DType::i64 || u->dtype == DType::u64), u, "dtype or numel");
        return one(u->dtype, u->dtype == DType::f64 ? Cell{u->arg.f, 0} : Cell{0, u->arg.i});
      case Op::IOTA: return iota(u);
      case Op::VIEW: return view(u);
      case Op::PAD: return pad(u);
      case Op::REDUCE: return reduce(u);
      case Op::SCAN: return scan(u);
      case Op::GATHER: return gather(u);
      case Op::ASSIGN: return assign(u);
      case Op::SCATTER: return scatter(u);
      case Op::DFT: return dft(u);
      case Op::CALL: return Value(DType::void_, 0);
      case Op::RESULT: return result(u);
      case Op::PAIRS: return pairs(u);
      case Op::CONTIGUOUS: return in(u, 0);
      case Op::CHECK: return check(u);
      default: return elementwise(u);
    }
  }

  static Value one(DType d, Cell c) {
    Value v(d, 1);
    v.cells[0] = c;
    return v;
  }

  /// What nobody may rely on.
  static Value garbage(const UOp* u) {
    Value v(u->dtype, u->numel);
    for (Cell& c : v.cells) c = is_float(u->dtype) ? Cell{std::nan(""), 0} : Cell{0, wrap(u->dtype, 0x5a5a5a5a5a5a5a5a)};
    return v;
  }

  static Value iota(const UOp* u) {
    expect(u->dtype == DType::i64, u, "dtype");
    Value v(DType::i64, u->numel);
    for (int64_t k = 0; k < u->numel; ++k) v.cells[k].i = k;
    return v;
  }

  Value pairs(const UOp* u) {
    for (int k : {0, 1}) expect(in(u, k).numel() == 1 || in(u, k).numel() * 2 == u->numel, u, "sizes");
    Value v(u->dtype, u->numel);
    for (int64_t k = 0; k < u->numel; ++k) v.cells[k] = element(in(u, static_cast<int>(k % 2)), k / 2);
    return v;
  }

  Value view(const UOp* u) {
    const Record& r = *u->arg.rec;
    expect(r.a.size() == r.b.size() && product(r.a) == u->numel, u, "sizes");
    Value v(u->dtype, u->numel);
    walk(r.a, r.b, r.n, [&](int64_t k, int64_t at) {
      expect(at >= 0 && at < in(u, 0).numel(), u, "outside the source");
      v.cells[k] = in(u, 0).cells[at];
    });
    return v;
  }

  Value pad(const UOp* u) {
    const Record& r = *u->arg.rec;
    expect(r.a.size() == r.b.size() && r.a.size() == r.c.size(), u, "dimensions");
    expect(product(r.c) == u->numel && product(r.a) == in(u, 0).numel(), u, "sizes");
    Value v(u->dtype, u->numel);
    for (int64_t k = 0; k < u->numel; ++k) {
      int64_t rest = k, at = 0, weight = 1;
      bool inside = true;
      for (size_t d = r.c.size(); d-- > 0;) {
        int64_t i = rest % r.c[d] - r.b[d];
        rest /= r.c[d];
        inside &= i >= 0 && i < r.a[d];
        at += i * weight, weight *= r.a[d];
      }
      if (inside) v.cells[k] = in(u, 0).cells[at];
    }
    return v;
  }

  /// Sums and products of floats are carried in double and rounded once: the exact result, to which a kernel comes close.
  static Cell combine(Op op, DType d, Cell a, Cell b) {
    if (op == Op::NOOP) return b;
    if (is_float(d)) return {apply_float(op, a.f, b.f), 0};
    return {0, apply_int(op, d, a.i, b.i)};
  }
  static Cell rounded(DType d, Cell c) { return is_float(d) ? Cell{round_to(d, c.f), 0} : c; }

  Value reduce(const UOp* u) {
    int64_t columns = reduce_columns(u);
    expect(has(reduce_op(u), group::Red) && columns >= 1 && u->numel * columns == in(u, 0).numel(), u, "rows and columns");
    Value v(u->dtype, u->numel);
    for (int64_t r = 0; r < u->numel; ++r) {
      Cell acc = in(u, 0).cells[r * columns];
      for (int64_t c = 1; c < columns; ++c) acc = combine(reduce_op(u), u->dtype, acc, in(u, 0).cells[r * columns + c]);
      v.cells[r] = rounded(u->dtype, acc);
    }
    return v;
  }

  Value scan(const UOp* u) {
    int64_t columns = reduce_columns(u);
    expect(columns >= 1 && u->numel == in(u, 0).numel() && u->numel % columns == 0, u, "rows and columns");
    Value v(u->dtype, u->numel);
    Cell acc;
    for (int64_t k = 0; k < u->numel; ++k) {
      acc = k % columns == 0 ? in(u, 0).cells[k] : combine(reduce_op(u), u->dtype, acc, in(u, 0).cells[k]);
      v.cells[k] = rounded(u->dtype, acc);
    }
    return v;
  }

  Value gather(const UOp* u) {
    expect(in(u, 1).dtype == DType::i64 && in(u, 0).dtype == u->dtype && in(u, 1).numel() == u->numel, u, "sources");
    Value v(u->dtype, u->numel);
    for (int64_t k = 0; k < u->numel; ++k) {
      int64_t at = in(u, 1).cells[k].i;
      expect(at >= 0 && at < in(u, 0).numel(), u, "index outside the source");
      v.cells[k] = in(u, 0).cells[at];
    }
    return v;
  }

  Value assign(const UOp* u) {
    const Record& r = *u->arg.rec;
    expect(r.a.size() == r.b.size() && product(r.a) == in(u, 1).numel() && in(u, 0).numel() == u->numel, u, "sizes");
    expect(in(u, 0).dtype == u->dtype && in(u, 1).dtype == u->dtype, u, "dtypes");
    Value v = in(u, 0);
    std::vector<bool> written(v.cells.size());
    walk(r.a, r.b, r.n, [&](int64_t k, int64_t at) {
      expect(at >= 0 && at < v.numel() && !written[at], u, "outside the destination, or written twice");
      written[at] = true;
      v.cells[at] = in(u, 1).cells[k];
    });
    return v;
  }

  Value scatter(const UOp* u) {
    const Record& r = *u->arg.rec;
    const Value &index = in(u, 1), &src = in(u, 2);
    bool of_rows = r.a.size() == 3 && index.numel() == r.a[0] * r.a[1];
    expect(r.a.size() == 3 && product(r.a) == src.numel() && (of_rows || src.numel() == index.numel()) && in(u, 0).numel() == u->numel, u,
           "sizes");
    expect(index.dtype == DType::i64 && src.dtype == u->dtype && in(u, 0).dtype == u->dtype, u, "dtypes");
    Op op = static_cast<Op>(r.n);
    Value v = in(u, 0);
    std::vector<int64_t> owner(v.cells.size(), -1);
    for (int64_t k = 0; k < src.numel(); ++k) {
      int64_t at = index.cells[of_rows ? k / r.a[2] : k].i, lane = k / (r.a[1] * r.a[2]) * r.a[2] + k % r.a[2];
      if (at < 0) continue;
      if (of_rows) at = at * r.a[2] + k % r.a[2];
      expect(at < v.numel(), u, "index outside the destination");
      expect(owner[at] < 0 || owner[at] == lane, u, "updates of different b or d meet");
      owner[at] = lane;
      v.cells[at] = rounded(u->dtype, combine(op, u->dtype, v.cells[at], src.cells[k]));
    }
    return v;
  }

  /// Sorting is done again here; other builtins are judged by tests of their own.
  Value result(const UOp* u) {
    const UOp* call = u->src[0];
    expect(call->is(Op::CALL) && u->arg.i >= 0 && u->arg.i < static_cast<int64_t>(call->arg.rec->b.size() / 2), u, "number of a result");
    const Record& r = *call->arg.rec;
    expect(u->dtype == static_cast<DType>(r.b[2 * u->arg.i]) && u->numel == r.b[2 * u->arg.i + 1], u, "dtype or numel");
    if (static_cast<BuiltinName>(r.n) == BuiltinName::argsort) return sort(u, r.a[1], r.a[2] != 0, in(call, 0));
    std::vector<std::vector<uint64_t>> memory;
    std::vector<void*> buffers;
    auto add = [&](DType d, int64_t n) {
      memory.emplace_back(static_cast<size_t>(n * itemsize(d) + 7) / 8);
      buffers.push_back(memory.back().data());
    };
    for (size_t k = 0; k < r.b.size(); k += 2) add(static_cast<DType>(r.b[k]), r.b[k + 1]);
    for (int k = 0; k < call->nsrc; ++k) {
      add(in(call, k).dtype, in(call, k).numel());
      store_value(in(call, k), buffers.back());
    }
    builtin_function(static_cast<BuiltinName>(r.n))(buffers.data(), nullptr, r.a.data(), device(0));
    return load_value(u->dtype, u->numel, buffers[u->arg.i]);
  }

  Value sort(const UOp* u, int64_t columns, bool descending, const Value& x) {
    expect(u->dtype == DType::i64 && columns >= 1 && x.numel() == u->numel && u->numel % columns == 0, u, "rows and columns");
    Value v(DType::i64, u->numel);
    for (int64_t row = 0; row < u->numel; row += columns) {
      std::vector<int64_t> order(columns);
      std::iota(order.begin(), order.end(), 0);
      auto less = [&](int64_t i, int64_t j) {
        Cell a = x.cells[row + i], b = x.cells[row + j];
        if (!is_float(x.dtype)) return less_int(x.dtype, a.i, b.i);
        return std::isnan(b.f) ? !std::isnan(a.f) : a.f < b.f;
      };
      std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return descending ? less(j, i) : less(i, j); });
      for (int64_t c = 0; c < columns; ++c) v.cells[row + c].i = order[c];
    }
    return v;
  }

  /// By the definition, in more than double.
  Value dft(const UOp* u) {
    Dft d = Dft::of(*u->arg.rec);
    const Value &re = in(u, 0), &im = in(u, 1);
    expect(re.numel() == d.elements_in() && (im.numel() == re.numel() || im.numel() == 1) && u->numel == d.numel(), u, "numel");
    expect(re.dtype == u->dtype && im.dtype == u->dtype && in(u, 2).dtype == u->dtype && in(u, 2).numel() == d.roots(), u, "sources");
    expect(d.remaining(0) == d.n && d.first == 0 && d.last == d.passes(), u, "passes");
    using Number = std::complex<long double>;
    bool to_half = d.kind == DftKind::ToHalf, from_half = d.kind == DftKind::FromHalf, backwards = d.inverse || from_half;
    int64_t n = to_half || from_half ? 2 * d.n : d.n, given = from_half ? d.n + 1 : d.n, wanted = to_half ? d.n + 1 : n;
    std::vector<Number> roots, x(static_cast<size_t>(n));
    for (int64_t k = 0; k < n; ++k) {
      long double turns = static_cast<long double>(backwards ? k : -k) / static_cast<long double>(n);
      roots.push_back(std::polar(1.0L, 2 * std::numbers::pi_v<long double> * turns));
    }
    Value v(u->dtype, u->numel);
    for (int64_t column = 0; column < d.batch * d.inner; ++column) {
      int64_t outer = column / d.inner, inner = column % d.inner;
      for (int64_t k = 0; k < given; ++k) {
        int64_t at = (outer * given + k) * d.inner + inner;
        Number y(element(re, at).f, element(im, at).f);
        if (to_half) x[2 * k] = y.real(), x[2 * k + 1] = y.imag();
        else if (from_half) x[k] = k == 0 || k == d.n ? y.real() : y, x[(n - k) % n] = std::conj(x[k]);
        else x[k] = y;
      }
      for (int64_t j = 0; j < wanted; ++j) {
        Number sum = 0;
        for (int64_t i = 0, at = 0; i < n; ++i, at = at + j < n ? at + j : at + j - n) sum += x[i] * roots[at];
        put_number(d, from_half ? (outer * d.n + j / 2) * d.inner + inner : (outer * wanted + j) * d.inner + inner, from_half ? j % 2 : -1,
                   sum * static_cast<long double>(d.scale), v);
      }
    }
    return v;
  }

  /// part 0, 1: the real part of `sum` is one of the parts of number `at`; -1: it is the number.
  static void put_number(const Dft& d, int64_t at, int64_t part, std::complex<long double> sum, Value& v) {
    auto put = [&](int64_t p, long double x) {
      int64_t place = d.result == DftResult::Pairs ? 2 * at + p : at + p * d.elements_out();
      if (d.result != DftResult::Real || p == 0) v.cells[place].f = round_to(v.dtype, static_cast<double>(x));
    };
    if (part >= 0) return put(part, sum.real());
    put(0, sum.real()), put(1, sum.imag());
  }

  Value check(const UOp* u) {
    expect(in(u, 1).dtype == DType::bool_ && in(u, 0).dtype == u->dtype, u, "dtypes");
    Value v(u->dtype, u->numel);
    for (int64_t k = 0; k < u->numel; ++k) {
      if (element(in(u, 1), k).i) v.cells[k] = element(in(u, 0), k);
      else faults.push_back({u->arg.rec->text, is_float(u->dtype) ? 0 : element(in(u, 0), k).i, u->arg.rec->n});
    }
    return v;
  }

  Value elementwise(const UOp* u) {
    expect(is_elementwise(u->op), u, "unknown operator");
    bool ternary = u->op == Op::WHERE;
    DType d = in(u, ternary ? 1 : 0).dtype;
    for (int k = ternary; k < u->nsrc; ++k) expect(in(u, k).dtype == d, u, "sources of different dtypes");
    for (int k = 0; k < u->nsrc; ++k) expect(in(u, k).numel() == u->numel || in(u, k).numel() == 1, u, "numel of a source");
    if (ternary) expect(in(u, 0).dtype == DType::bool_, u, "condition");
    if (has(u->op, group::Cmp)) expect(u->dtype == DType::bool_, u, "dtype of a comparison");
    else if (u->op == Op::BITCAST) expect(itemsize(d) == itemsize(u->dtype), u, "size of an element");
    else if (u->op != Op::CAST) expect(u->dtype == d, u, "dtype");
    Value v(u->dtype, u->numel);
    for (int64_t k = 0; k < u->numel; ++k) {
      Cell s[3];
      for (int i = 0; i < u->nsrc; ++i) s[i] = element(in(u, i), k);
      v.cells[k] = apply(u->op, d, u->dtype, s);
    }
    return v;
  }
};

}  // namespace tiny::testing
