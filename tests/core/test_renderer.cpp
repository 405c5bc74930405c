// Both CPU renderers on linear programs written by hand, against values worked out here or by the interpreter's arithmetic.
#include <cmath>
#include <fstream>
#include <numeric>
#include <random>
#include <thread>

#include "base/env.h"
#include "base/error.h"
#include "kernel_builder.h"
#include "uop/eval.h"

namespace tiny {
namespace {

constexpr DType f32 = DType::f32, i64 = DType::i64, i32 = DType::i32, bool_ = DType::bool_;

class Renderer : public testing::TestWithParam<const CpuRenderer*> {
 protected:
  void SetUp() override {
    if (GetParam() == &kLlvm && !make_llvm_compiler(host_caps())) GTEST_SKIP() << "built without LLVM";
  }
  LoadedKernel make(const KernelBuilder& k) const { return build(*GetParam(), k.program, host_caps()); }
};

template <class T> std::vector<T> iota(size_t n, T start = 0) {
  std::vector<T> v(n);
  std::iota(v.begin(), v.end(), start);
  return v;
}

TEST_P(Renderer, GlobalRangesAreDigitsOfTheGroup) {
  KernelBuilder k("digits");
  U out = k.param(0, i64, 3 * 5 * 7);
  U a = k.global(3, 0), b = k.global(5, 1), c = k.global(7, 2);
  k.store(out, (a * 5 + b) * 7 + c, k.add(a * 100 + b * 10 + c));
  LoadedKernel kernel = make(k);
  std::vector<int64_t> v(105, -1), want(105, -1);
  for (int64_t g = 20; g < 90; ++g) want[g] = g / 35 * 100 + g / 7 % 5 * 10 + g % 7;
  void* buffers[] = {v.data()};
  kernel.code->entry(buffers, nullptr, 20, 90, nullptr);
  EXPECT_EQ(v, want);
  kernel.code->entry(buffers, nullptr, 90, 90, nullptr);  // no groups
  EXPECT_EQ(v, want);
}

/// x*(x+1)/2 of vectors of i64 whose values are known to be small: LLVM 22.1.8 drops the division if it is left to it.
TEST_P(Renderer, HalvesOfProductsOfNeighbours) {
  constexpr int64_t n = 16;
  KernelBuilder k("halves");
  U out = k.param(0, i64, n), in = k.param(1, i64, n);
  U i = k.global(n / 4, 0), at = k.add(i * 4);
  auto number = [](int64_t v) { return const_(i64, v); };
  U x = k.add(alu(Op::MIN, {alu(Op::MAX, {k.load(in, at, 4), number(-1)}), number(4)}));
  U product = k.add(node(Op::MUL, i64, {k.add(node(Op::ADD, i64, {x, number(1)})), x}));
  k.store(out, at, k.add(node(Op::IDIV, i64, {product, number(2)})), 4);
  std::vector<int64_t> from = iota<int64_t>(n, -6), got(n), want;
  for (int64_t v : from) {
    int64_t c = std::clamp<int64_t>(v, -1, 4);
    want.push_back(c * (c + 1) / 2);
  }
  make(k).run({got.data(), from.data()});
  EXPECT_EQ(got, want);
}

TEST_P(Renderer, SumOfRowsWithVectorsAndTail) {
  constexpr int64_t rows = 4, columns = 21;
  KernelBuilder k("rows");
  U out = k.param(0, f32, rows), in = k.param(1, f32, rows * columns);
  U row = k.global(rows, 0), zero = const_(f32, 0.0), base = k.add(row * columns);
  U chunk = range(2, 1, Axis::Reduce), rest = range(5, 2, Axis::Reduce);
  U wide = k.acc(0, zero, chunk, 8);
  k.add(chunk);
  k.update(wide, k.add(alu(Op::ADD, {wide, k.load(in, base + chunk * 8, 8)})));
  k.end(chunk);
  U sum = k.add(node(Op::FOLDLANES, f32, {k.after(wide, chunk)}, Arg(static_cast<int64_t>(Op::ADD))));
  U narrow = k.acc(1, sum, rest);
  k.add(rest);
  k.update(narrow, k.add(alu(Op::ADD, {narrow, k.load(in, base + rest + int64_t{16})})));
  k.end(rest);
  k.store(out, row, k.add(node(Op::AFTER, f32, {narrow, rest})));
  std::vector<float> x = iota<float>(rows * columns), y(rows), want(rows);
  for (int64_t r = 0; r < rows; ++r) want[r] = std::accumulate(x.begin() + r * columns, x.begin() + (r + 1) * columns, 0.f);
  make(k).run({y.data(), x.data()});
  EXPECT_EQ(y, want);
}

TEST_P(Renderer, LanesFoldInHalves) {
  for (int64_t n : {2, 4, 8, 16}) {
    KernelBuilder k("halves");
    U out = k.param(0, f32, 1), x = k.load(k.param(1, f32, n), index_const(0), n);
    k.store(out, index_const(0), k.add(node(Op::FOLDLANES, f32, {x}, Arg(static_cast<int64_t>(Op::ADD)))));
    std::vector<float> in;
    for (int64_t i = 0; i < n; ++i) in.push_back(static_cast<float>(i % 3 == 0 ? 1e8 : 1.37 * static_cast<double>(i)));  // order shows
    std::vector<float> lanes = in;
    for (size_t half = lanes.size() / 2; half; half /= 2)
      for (size_t i = 0; i < half; ++i) lanes[i] += lanes[half + i];
    float got = 0;
    make(k).run({&got, in.data()});
    EXPECT_EQ(got, lanes[0]) << n << " lanes";
  }
}

TEST_P(Renderer, RunningSumAndComputedExtents) {
  KernelBuilder k("prefix");
  U out = k.param(0, i64, 36), n = k.add(node(Op::VAR, i64, std::initializer_list<UOp*>{}, Arg(int64_t{0}), 1));
  U outer = k.add(node(Op::RANGE, i64, {n}, range_arg(0, Axis::Loop)));
  U inner = node(Op::RANGE, i64, {outer}, range_arg(1, Axis::Loop));  // 0, 1, 2, ... turns
  U acc = k.acc(0, index_const(0), inner);
  k.add(inner);
  k.update(acc, k.add(alu(Op::ADD, {acc, inner})));
  k.store(out, outer * 6 + inner, k.add(node(Op::AFTER, i64, {acc, node(Op::UPDATE, i64, {acc, alu(Op::ADD, {acc, inner})})})));
  k.end(inner), k.end(outer);
  std::vector<int64_t> v(36, -1), want(36, -1);
  for (int64_t i = 0; i < 6; ++i)
    for (int64_t j = 0, s = 0; j < i; ++j) want[i * 6 + j] = s += j;
  LoadedKernel kernel = make(k);
  kernel.run({v.data()}, {0});
  EXPECT_EQ(v, std::vector<int64_t>(36, -1));
  kernel.run({v.data()}, {6});
  EXPECT_EQ(v, want);
}

TEST_P(Renderer, GatesDoNotTouchMemory) {
  KernelBuilder k("gates");
  U out = k.param(0, f32, 64), in = k.param(1, f32, 64);
  U scalar = k.global(2, 0);
  U lanes = k.lanes(8), minus = const_(f32, -1.0);
  U even = k.add(alu(Op::CMPEQ, {alu(Op::AND, {lanes, index_const(1)}), index_const(0)}));
  U first = k.add(alu(Op::CMPEQ, {scalar, index_const(0)}));
  // scalar gate on a vector; the second group would read far outside
  k.store(out, scalar * 32, k.load_gated(in, scalar * (int64_t{1} << 40), first, minus, 8), 8);
  // gate by lane, consecutive and gathered from the far end
  k.store(out, scalar * 32 + int64_t{8}, k.load_gated(in, scalar * 8, even, minus, 8), 8);
  U far = where(even, U(alu(Op::MUL, {lanes, index_const(2)})), index_const(int64_t{1} << 40));
  k.store(out, scalar * 32 + int64_t{16}, k.load_gated(in, k.add(far), even, minus, 8), 8);
  // stores: by lane and by scalar
  k.store_gated(out, scalar * 32 + int64_t{24}, const_(f32, 7.0), even, 8);
  k.store_gated(out, scalar * (int64_t{1} << 40) + int64_t{25}, const_(f32, 9.0), first);
  std::vector<float> x = iota<float>(64), y(64, 0.f), want(64, 0.f);
  for (int g = 0; g < 2; ++g) {
    for (int l = 0; l < 8; ++l) {
      want[g * 32 + l] = g == 0 ? static_cast<float>(l) : -1.f;
      want[g * 32 + 8 + l] = l % 2 == 0 ? static_cast<float>(g * 8 + l) : -1.f;
      want[g * 32 + 16 + l] = l % 2 == 0 ? static_cast<float>(2 * l) : -1.f;
      if (l % 2 == 0) want[g * 32 + 24 + l] = 7.f;
    }
  }
  want[25] = 9.f;
  make(k).run({y.data(), x.data()});
  EXPECT_EQ(y, want);
}

TEST_P(Renderer, GatherAndScatterInLaneOrder) {
  KernelBuilder k("scatter");
  U out = k.param(0, i32, 16), in = k.param(1, i32, 32), where_to = k.param(2, i64, 8);
  U strided = k.load(in, k.add(U(k.lanes(8)) * 3 + int64_t{1}));
  k.store(out, k.load(where_to, index_const(0), 8), strided);
  std::vector<int32_t> x = iota<int32_t>(32), y(16, -1), want(16, -1);
  std::vector<int64_t> to = {3, 5, 3, 0, 15, 0, 1, 3};
  for (int l = 0; l < 8; ++l) want[to[l]] = x[l * 3 + 1];
  make(k).run({y.data(), x.data(), to.data()});
  EXPECT_EQ(y, want);
}

TEST_P(Renderer, BoolsAreBytes) {
  KernelBuilder k("bools");
  U out = k.param(0, bool_, 64), a = k.param(1, bool_, 64), b = k.param(2, f32, 64);
  U g = k.global(4, 0);
  U x = k.load(a, g * 16, 16), y = k.add(alu(Op::CMPLT, {k.load(b, g * 16, 16), const_(f32, 0.0)}));
  k.store(out, g * 16, k.add(alu(Op::XOR, {x, alu(Op::NOT, {y})})), 16);
  std::vector<uint8_t> in(64), out_bytes(64, 7), want(64);
  std::vector<float> f(64);
  for (int i = 0; i < 64; ++i) in[i] = i % 3 == 0, f[i] = i % 2 ? 1.f : -1.f, want[i] = in[i] ^ !(f[i] < 0);
  make(k).run({out_bytes.data(), in.data(), f.data()});
  EXPECT_EQ(out_bytes, want);
}

TEST_P(Renderer, ScratchArraysAndLanes) {
  KernelBuilder k("scratch");
  U out = k.param(0, f32, 16), in = k.param(1, f32, 8);
  U small = k.add(node(Op::LOCAL, DType::u8, {index_const(3)}, Arg(int64_t{0}), 1));
  U tile = k.add(node(Op::LOCAL, f32, {index_const(8)}, Arg(int64_t{1}), 1));
  k.store(small, index_const(2), const_(DType::u8, 200));
  U i = k.loop(8, 0, Axis::Loop);
  k.store(tile, index_const(7) - i, k.load(in, i));
  k.end(i);
  U v = k.load(k.after(tile, i), index_const(0), 8);
  U byte = k.add(cast(k.load(k.after(small, i), index_const(2)), f32));
  U pair = k.add(node(Op::STACK, f32, {k.add(node(Op::LANE, f32, {v}, Arg(int64_t{6}))), byte}, {}, 2));
  k.store(out, index_const(0), v, 8);
  k.store(out, index_const(8), pair, 2);
  k.store(out, index_const(10), k.add(node(Op::FOLDLANES, f32, {v}, Arg(static_cast<int64_t>(Op::MAX)))));
  std::vector<float> x = iota<float>(8), y(16, 0.f), want = {7, 6, 5, 4, 3, 2, 1, 0, 1, 200, 7, 0, 0, 0, 0, 0};
  make(k).run({y.data(), x.data()});
  EXPECT_EQ(y, want);
}

TEST_P(Renderer, SquaresOfLanesAreTransposed) {
  for (DType d : {DType::u8, DType::i16, f32, i64}) {
    for (int64_t n : {2, 4, 8, 16}) {
      KernelBuilder k("square");
      U out = k.param(0, d, n * n), in = k.param(1, d, n * n);
      std::vector<U> rows;
      for (int64_t i = 0; i < n; ++i) rows.push_back(k.load(in, index_const(i * n), n));
      for (int64_t j = 0; j < n; ++j) {
        std::vector<UOp*> lanes;
        for (U r : rows) lanes.push_back(node(Op::LANE, d, {r}, Arg(j)));
        k.store(out, index_const(j * n), k.add(node(Op::STACK, d, lanes, {}, n)), n);
      }
      std::vector<char> x(n * n * itemsize(d)), y(x.size()), want(x.size());
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) {
          int64_t v = i * 16 + j;
          std::memcpy(x.data() + (i * n + j) * itemsize(d), &v, itemsize(d));
          std::memcpy(want.data() + (j * n + i) * itemsize(d), &v, itemsize(d));
        }
      make(k).run({y.data(), x.data()});
      EXPECT_EQ(y, want) << info(d).name << " " << n;
    }
  }
}

TEST_P(Renderer, ScalarsAndLibraryCalls) {
  KernelBuilder k("calls");
  U out = k.param(0, DType::f64, 8), in = k.param(1, DType::f64, 4);
  U scale = k.add(node(Op::VAR, DType::f64, std::initializer_list<UOp*>{}, Arg(int64_t{1}), 1));
  U x = k.load(in, index_const(0), 4);
  k.store(out, index_const(0), k.add(alu(Op::MUL, {node(Op::ERF, DType::f64, {x}), scale})), 4);
  k.store(out, index_const(4), k.add(node(Op::POW, DType::f64, {x, scale})), 4);
  std::vector<double> a = {0.1, 0.7, 1.3, 2.9}, y(8), want(8);
  for (int i = 0; i < 4; ++i) want[i] = std::erf(a[i]) * 2.5, want[i + 4] = std::pow(a[i], 2.5);
  make(k).run({y.data(), a.data()}, {99, std::bit_cast<uint64_t>(2.5)});
  EXPECT_EQ(y, want);
}

TEST_P(Renderer, InPlaceAndManyBuffers) {
  KernelBuilder k("many");
  constexpr int count = 40;
  U g = k.global(8, 0);
  std::vector<U> arrays;
  for (int i = 0; i < count; ++i) arrays.push_back(k.param(i, f32, 64));
  for (int i = 0; i < count; ++i)
    k.store(arrays[i], g * 8, k.add(alu(Op::ADD, {k.load(arrays[i], g * 8, 8), const_(f32, static_cast<double>(i))})), 8);
  std::vector<std::vector<float>> data(count, iota<float>(64));
  std::vector<void*> buffers;
  for (auto& v : data) buffers.push_back(v.data());
  make(k).run(buffers);
  for (int i = 0; i < count; ++i)
    for (int j = 0; j < 64; ++j) ASSERT_EQ(data[i][j], static_cast<float>(i + j));
}

// ---- every elementwise operator that reaches a renderer, scalar and in vectors, against eval()

/// One kernel for one source type: out_k[i] = row_k(a[i], b[i], c[i]).
struct OpRow {
  Op op;
  DType out;
};
void check_ops(const CpuRenderer& renderer, DType d, const std::vector<OpRow>& rows, int64_t lanes, const std::vector<uint64_t>& values) {
  int64_t n = static_cast<int64_t>(values.size());
  KernelBuilder k("ops");
  U g = k.global(n / lanes, 0), i = k.add(g * lanes);
  std::vector<UOp*> src;
  for (int s = 0; s < 3; ++s) src.push_back(k.load(k.param(s, d, n), i, lanes));
  U gate = k.load(k.param(3, bool_, n), i, lanes);
  for (size_t r = 0; r < rows.size(); ++r) {
    std::vector<UOp*> s(src.begin(), src.begin() + info(rows[r].op).nsrc);
    if (rows[r].op == Op::WHERE) s = {gate, src[0], src[1]};
    k.store(k.param(static_cast<int>(r) + 4, rows[r].out, n), i, k.add(node(rows[r].op, rows[r].out, s)), lanes);
  }
  LoadedKernel kernel = build(renderer, k.program, host_caps());
  std::vector<std::vector<char>> data;
  std::mt19937 random(4);
  for (int s = 0; s < 4; ++s) {
    DType type = s == 3 ? bool_ : d;
    data.emplace_back(n * itemsize(type));
    for (int64_t j = 0; j < n; ++j) {
      uint64_t v = s == 3 ? random() & 1 : s == 0 ? values[j] : values[random() % n];
      std::memcpy(data[s].data() + j * itemsize(type), &v, itemsize(type));
    }
  }
  for (const OpRow& r : rows) data.emplace_back(n * itemsize(r.out));
  std::vector<void*> buffers;
  for (auto& v : data) buffers.push_back(v.data());
  kernel.run(buffers);
  auto at = [&](size_t buffer, DType type, int64_t j) {
    uint64_t v = 0;
    std::memcpy(&v, data[buffer].data() + j * itemsize(type), itemsize(type));
    return v;
  };
  for (size_t r = 0; r < rows.size(); ++r) {
    auto [op, out] = rows[r];
    for (int64_t j = 0; j < n; ++j) {
      Arg args[3];
      for (int s = 0; s < 3; ++s) args[s] = from_storage_bits(at(s, d, j), d);
      if (op == Op::WHERE) args[2] = args[1], args[1] = args[0], args[0] = Arg(static_cast<int64_t>(at(3, bool_, j)));
      if (op == Op::MULACC && is_float(d) && !host_caps().has_fma) continue;
      Arg want = eval(op, out, op == Op::WHERE ? bool_ : d, {args, static_cast<size_t>(info(op).nsrc)});
      uint64_t got = at(r + 4, out, j), bits = storage_bits(want, out);
      bool both_nan = is_float(out) && std::isnan(want.f) && std::isnan(from_storage_bits(got, out).f);
      ASSERT_TRUE(got == bits || both_nan) << renderer.name << " " << info(op).name << "." << info(d).name << "->" << info(out).name << "["
                                           << lanes << "] of " << std::hex << at(0, d, j) << ", " << at(1, d, j) << " gave " << got
                                           << ", not " << bits;
    }
  }
}

std::vector<uint64_t> sample_values(DType d, bool convertible) {
  std::mt19937_64 random(8);
  std::vector<uint64_t> out;
  const double floats[] = {0., -0., 1., -1., 0.5, -0.5, 1.5, 2.5, -2.5, 1e-45, -1e-40, 3e38, INFINITY, -INFINITY, NAN, 100.25,
                           -100.75, 126.9, -128.};
  const double tame[] = {0., -0., 1., -1., 0.5, -0.5, 1.5, 2.5, -2.5, 1e-40, 100.25, 126.9, 3., 77.7, -77.7};
  while (out.size() < 256) {
    if (is_bool(d)) out.push_back(random() & 1);
    else if (is_float(d) && convertible) out.push_back(storage_bits(Arg::from_double(tame[random() % std::size(tame)]), d));
    else if (is_float(d) && random() % 2) out.push_back(storage_bits(Arg::from_double(floats[random() % std::size(floats)]), d));
    else if (is_float(d)) out.push_back(storage_bits(Arg::from_double(static_cast<double>(static_cast<int64_t>(random())) * 0x1p-60), d));
    else out.push_back((random() % 3 ? random() : random() % 5 - 2) & (~0ull >> (64 - info(d).bits)));
  }
  return out;
}

TEST_P(Renderer, ElementwiseOperators) {
  using enum Op;
  const Op compare[] = {CMPLT, CMPLE, CMPEQ, CMPNE};
  for (DType d : {bool_, DType::u8, DType::i8, DType::u16, DType::i16, i32, DType::u32, i64, DType::u64, f32, DType::f64}) {
    std::vector<OpRow> rows;
    for (Op op : compare) rows.push_back({op, bool_});
    for (Op op : {ADD, SUB, MUL, MAX, MIN, WHERE}) rows.push_back({op, d});
    if (is_float(d))
      for (Op op : {NEG, ABS, FLOOR, CEIL, TRUNC, ROUND, SQRT, RECIP, FDIV, MOD, MULACC}) rows.push_back({op, d});
    if (is_int(d))
      for (Op op : {NEG, NOT, ABS, AND, OR, XOR, MULACC}) rows.push_back({op, d});
    if (is_bool(d))
      for (Op op : {NOT, AND, OR, XOR}) rows.push_back({op, d});
    for (int64_t lanes : {1, 8}) check_ops(*GetParam(), d, rows, lanes, sample_values(d, false));
  }
}

TEST_P(Renderer, Conversions) {
  std::vector<DType> types = {bool_,      DType::u8, DType::i8,  DType::u16,  DType::i16, i32,
                              DType::u32, i64,       DType::u64, DType::bf16, f32,        DType::f64};
  if (host_caps().has_f16) types.push_back(DType::f16);
  for (DType from : types) {
    std::vector<OpRow> rows;
    for (DType to : types)
      if (from != to) rows.push_back({Op::CAST, to});
    for (int64_t lanes : {1, 8}) check_ops(*GetParam(), from, rows, lanes, sample_values(from, true));
  }
}

TEST_P(Renderer, Bitcasts) {
  const std::pair<DType, DType> rows[] = {{f32, i32}, {i32, f32}, {DType::f64, i64}, {DType::bf16, DType::u16}, {DType::u16, DType::f16}};
  for (auto [from, to] : rows)
    for (int64_t lanes : {1, 4}) check_ops(*GetParam(), from, {{Op::BITCAST, to}}, lanes, sample_values(from, false));
}

TEST_P(Renderer, CompilesInParallel) {
  std::vector<std::thread> threads;
  auto compiler = GetParam()->make(host_caps());
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      KernelBuilder k("parallel" + std::to_string(t));
      U out = k.param(0, i64, 4), g = k.global(4, 0);
      k.store(out, g, k.add(g * (t + 2)));
      auto code = GetParam()->load(compiler->compile(k.program), k.program.info.name);
      std::vector<int64_t> v(4);
      void* buffers[] = {v.data()};
      code->entry(buffers, nullptr, 0, 4, nullptr);
      right += v[3] == 3 * (t + 2);
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(right, 4);
}

TEST_P(Renderer, DamagedBinariesAreRefused) {
  EXPECT_THROW(GetParam()->load("no object at all", "kernel"), Error);
  KernelBuilder k("right_name");
  k.store(k.param(0, i64, 1), index_const(0), index_const(1));
  Binary b = GetParam()->make(host_caps())->compile(k.program);
  EXPECT_THROW(GetParam()->load(b, "wrong_name"), Error);
  EXPECT_NO_THROW(GetParam()->load(b, "right_name"));
}

TEST_P(Renderer, KernelsOfOneNameAreDifferentKernels) {
  std::vector<LoadedKernel> kernels;
  for (int64_t i = 0; i < 3; ++i) {
    KernelBuilder k(i < 2 ? "same" : "other");
    k.store(k.param(0, i64, 1), index_const(0), index_const(10 + i));
    kernels.push_back(make(k));
  }
  for (int64_t i = 0; i < 3; ++i) {
    int64_t out = 0;
    kernels[static_cast<size_t>(i)].run({&out});
    EXPECT_EQ(out, 10 + i);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Renderer, testing::Values(&kLlvm, &kC), [](const auto& p) { return std::string(p.param->name); });

TEST(CRenderer, FailingCompilerNamesKernelAndLeavesSource) {
  KernelBuilder k("not a name");  // no identifier: any compiler refuses it
  k.store(k.param(0, i64, 1), index_const(0), index_const(1));
  try {
    make_c_compiler(host_caps())->compile(k.program);
    FAIL() << "compiled";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::Compile);
    std::string what = e.what();
    EXPECT_NE(what.find("not a name"), std::string::npos);
    size_t at = what.find("/"), end = what.find('\n');
    std::string path = what.substr(at, end - at);
    EXPECT_TRUE(std::ifstream(path).good()) << path;
    std::remove(path.c_str());
  }
}

TEST(CRenderer, MissingCompilerIsSaid) {
  EnvScope scope(Env::TINY_CC, "no-such-compiler");
  EXPECT_THROW(make_c_compiler(host_caps()), Error);
}

TEST(HostCaps, TargetsRoundTrip) {
  Caps c = host_caps();
  CpuTarget t = parse_cpu_target(c.target);
  EXPECT_FALSE(t.arch.empty());
  EXPECT_EQ(cpu_caps(c.target).vector_bytes, c.vector_bytes);
  EXPECT_GE(c.threads, 1);
  EXPECT_GE(c.l1_bytes, 8192);
  EXPECT_EQ(cpu_caps("x86-64::sse4.2").vector_bytes, 16);
  EXPECT_EQ(cpu_caps("x86-64::avx2,fma,f16c").vector_bytes, 32);
  EXPECT_TRUE(cpu_caps("x86-64::avx2,fma").has_fma);
  EXPECT_EQ(cpu_caps("aarch64::").registers, 32);
  EXPECT_EQ(feature_flag("avx2"), "-mavx2");
}

TEST(TextRenderer, ListsInOrder) {
  KernelBuilder k("text");
  U g = k.global(4, 0);
  k.store(k.param(0, i64, 4), g, k.add(g * 3));
  std::string text = make_text_compiler()->compile(k.program);
  EXPECT_LT(text.find("RANGE"), text.find("STORE"));
}

}  // namespace
}  // namespace tiny
