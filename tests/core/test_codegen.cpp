// Handwritten kernels through the code generator, executed by the interpreter and compared with the meaning of their ASTs.
#include <chrono>

#include "codegen_kernels.h"

namespace tiny::testing {
namespace {

constexpr DType f32 = DType::f32;

AstBuilder& elementwise(AstBuilder& k, int64_t n) {
  U a = k.random_param(f32, n), b = k.random_param(f32, n), out = k.param(f32, n), i = range(n, 0, Axis::Global);
  k.sink({k.store(out, i, k.load(a, i) * k.load(b, i) + k.load(a, i))});
  return k;
}

AstBuilder& matmul(AstBuilder& k, int64_t m, int64_t n, int64_t depth, DType d = f32) {
  U a = k.random_param(d, m * depth), b = k.random_param(d, depth * n), out = k.param(f32, m * n);
  U i = range(m, 0, Axis::Global), j = range(n, 1, Axis::Global), r = range(depth, 100, Axis::Reduce);
  U x = cast(k.load(a, i * depth + r), f32), y = cast(k.load(b, r * n + j), f32);
  k.sink({k.store(out, i * n + j, k.fold(Op::ADD, x * y, {r}))});
  return k;
}

AstBuilder& softmax(AstBuilder& k, int64_t rows, int64_t cols) {
  U x = k.random_param(f32, rows * cols), out = k.param(f32, rows * cols), row = range(rows, 0, Axis::Global);
  U c0 = range(cols, 100, Axis::Reduce), c1 = range(cols, 200, Axis::Reduce), c2 = range(cols, 300, Axis::Loop);
  U most = k.fold(Op::MAX, k.load(x, row * cols + c0), {c0});
  U sum = k.fold(Op::ADD, alu(Op::EXP, {k.load(x, row * cols + c1) - most}), {c1});
  k.sink({k.store(out, row * cols + c2, alu(Op::FDIV, {alu(Op::EXP, {k.load(x, row * cols + c2) - most}), sum}))});
  return k;
}

TEST(Codegen, ElementwiseOfAnySize) {
  for (int64_t n : {1, 2, 3, 7, 8, 31, 1003, 4096, 70001, 131072}) {
    AstBuilder k;
    check_kernel(elementwise(k, n));
  }
}

TEST(Codegen, ElementwiseUsesVectors) {
  AstBuilder k;
  Program p = check_kernel(elementwise(k, 1003));
  EXPECT_EQ(p.info.groups, 1);
  EXPECT_GT(count(p, Op::STORE, 8), 0);
  EXPECT_GT(count(p, Op::LOAD, 8), 0);
  AstBuilder big;
  EXPECT_GE(lower_kernel(elementwise(big, 1 << 22).sink(), avx2(), "k").info.groups, 8);
}

TEST(Codegen, Transpose) {
  for (auto [m, n] : {std::pair{5, 3}, {64, 48}, {33, 257}, {300, 301}}) {
    AstBuilder k;
    U a = k.random_param(f32, m * n), out = k.param(f32, m * n), i = range(m, 0, Axis::Global), j = range(n, 1, Axis::Global);
    k.sink({k.store(out, i * n + j, k.load(a, j * m + i))});
    check_kernel(k);
  }
}

TEST(Codegen, MatmulOfAnySize) {
  int64_t sizes[][3] = {{64, 48, 33}, {1, 1, 1},    {6, 16, 8},   {7, 17, 5},   {2, 100, 9},
                        {100, 3, 9},  {37, 53, 19}, {13, 64, 64}, {128, 40, 7}, {256, 256, 4}};
  for (auto& s : sizes) {
    AstBuilder k;
    check_kernel(matmul(k, s[0], s[1], s[2]), 1e-4);
  }
}

TEST(Codegen, MatmulHasATileOfAccumulators) {
  AstBuilder k;
  Program p = check_kernel(matmul(k, 60, 64, 32), 1e-4);
  EXPECT_GE(count(p, Op::ACC, 8), 8);
  EXPECT_GT(count(p, Op::MULACC, 8), 0);
  EXPECT_EQ(count(p, Op::FOLDLANES), 0);
}

TEST(Codegen, MatmulOfReducedFloats) {
  AstBuilder k;
  check_kernel(matmul(k, 19, 35, 21, DType::bf16), 1e-4);
}

TEST(Codegen, MatmulWithBothOperandsContiguousInDepth) {
  for (auto [m, n, depth] : {std::tuple{13, 27, 50}, {4, 12, 64}, {1, 9, 100}, {33, 1, 41}}) {
    AstBuilder k;
    U a = k.random_param(f32, m * depth), b = k.random_param(f32, n * depth), out = k.param(f32, m * n);
    U i = range(m, 0, Axis::Global), j = range(n, 1, Axis::Global), r = range(depth, 100, Axis::Reduce);
    k.sink({k.store(out, i * n + j, k.fold(Op::ADD, k.load(a, i * depth + r) * k.load(b, j * depth + r), {r}))});
    check_kernel(k, 1e-4);
  }
}

TEST(Codegen, BatchedMatmulWithEpilogue) {
  int64_t B = 3, M = 10, N = 20, K = 17;
  AstBuilder k;
  U a = k.random_param(f32, B * M * K), b = k.random_param(f32, B * K * N), bias = k.random_param(f32, N), out = k.param(f32, B * M * N);
  U z = range(B, 0, Axis::Global), i = range(M, 1, Axis::Global), j = range(N, 2, Axis::Global), r = range(K, 100, Axis::Reduce);
  U sum = k.fold(Op::ADD, k.load(a, (z * M + i) * K + r) * k.load(b, (z * K + r) * N + j), {r}) + k.load(bias, j);
  k.sink({k.store(out, (z * M + i) * N + j, alu(Op::MAX, {sum, const_(f32, 0)}))});
  check_kernel(k, 1e-4);
}

TEST(Codegen, Convolution) {
  int64_t N = 2, C = 3, H = 9, W = 11, F = 10, S = 3, OH = H - S + 1, OW = W - S + 1;
  AstBuilder k;
  U x = k.random_param(f32, N * C * H * W), w = k.random_param(f32, C * S * S * F), out = k.param(f32, N * F * OH * OW);
  U n = range(N, 0, Axis::Global), f = range(F, 1, Axis::Global), oh = range(OH, 2, Axis::Global), ow = range(OW, 3, Axis::Global);
  U c = range(C, 100, Axis::Reduce), kh = range(S, 101, Axis::Reduce), kw = range(S, 102, Axis::Reduce);
  U p = k.load(x, ((n * C + c) * H + oh + kh) * W + ow + kw) * k.load(w, ((c * S + kh) * S + kw) * F + f);
  k.sink({k.store(out, ((n * F + f) * OH + oh) * OW + ow, k.fold(Op::ADD, p, {c, kh, kw}))});
  check_kernel(k, 1e-4);
}

TEST(Codegen, SoftmaxRows) {
  for (auto [rows, cols] : {std::pair{5, 100}, {3, 1003}, {64, 10}, {1, 8}, {200, 33}}) {
    AstBuilder k;
    check_kernel(softmax(k, rows, cols), 1e-5);
  }
}

TEST(Codegen, LayerNormThroughLocalMemory) {
  int64_t rows = 7, cols = 45;
  AstBuilder k;
  U x = k.random_param(f32, rows * cols), w = k.random_param(f32, cols), out = k.param(f32, rows * cols),
    row = range(rows, 0, Axis::Global);
  U c0 = range(cols, 100, Axis::Reduce), c1 = range(cols, 200, Axis::Reduce), c2 = range(cols, 300, Axis::Loop);
  U stash = k.local(f32, cols), value = alu(Op::EXP, {k.load(x, row * cols + c0)});
  U kept = k.after(stash, k.store(stash, c0, value));
  U scale = const_(f32, 1.0 / static_cast<double>(cols)), mean = k.fold(Op::ADD, value, {c0}) * scale;
  U d1 = k.load(kept, c1) - mean, variance = k.fold(Op::ADD, d1 * d1, {c1}) * scale;
  U y = alu(Op::FDIV, {k.load(kept, c2) - mean, alu(Op::SQRT, {variance + const_(f32, 1e-5)})});
  k.sink({k.store(out, row * cols + c2, y * k.load(w, c2))});
  Program p = check_kernel(k, 1e-4);
  EXPECT_EQ(p.info.scratch_bytes, 192);
}

TEST(Codegen, RowReadsBackWhatAnEarlierLoopStored) {
  int64_t rows = 6, cols = 37;
  AstBuilder k;
  U x = k.random_param(f32, rows * cols), first = k.param(f32, rows * cols), second = k.param(f32, rows * cols),
    row = range(rows, 0, Axis::Global);
  U c0 = range(cols, 100, Axis::Reduce), c1 = range(cols, 200, Axis::Loop), value = alu(Op::EXP, {k.load(x, row * cols + c0)});
  U stored = k.store(first, row * cols + c0, value), sum = k.fold(Op::ADD, value, {c0});
  k.sink({stored, k.store(second, row * cols + c1, alu(Op::FDIV, {k.load(k.after(first, stored), row * cols + c1), sum}))});
  check_kernel(k, 1e-5);
}

TEST(Codegen, ColumnSums) {
  for (auto [rows, cols] : {std::pair{100, 3}, {50, 64}, {33, 1003}, {9, 257}}) {
    AstBuilder k;
    U x = k.random_param(f32, rows * cols), out = k.param(f32, cols), c = range(cols, 0, Axis::Global), r = range(rows, 100, Axis::Reduce);
    k.sink({k.store(out, c, k.fold(Op::ADD, k.load(x, r * cols + c), {r}))});
    Program p = check_kernel(k, 1e-5);
    if (cols >= 64) {
      EXPECT_GT(count(p, Op::ACC, 8), 1);
    }
  }
}

/// A running mean: the sum of a row is added to what is overwritten. No lane may read what another has written.
TEST(Codegen, RowResultsInPlace) {
  for (auto [rows, cols] : {std::pair{3, 1000}, {1, 8192}, {40, 96}}) {
    AstBuilder k;
    U mean = k.random_param(f32, rows), x = k.random_param(f32, rows * cols), row = range(rows, 0, Axis::Global);
    U col = range(cols, 100, Axis::Reduce), sum = k.fold(Op::ADD, k.load(x, row * cols + col), {col});
    k.sink({k.store(mean, row, k.load(mean, row) * const_(f32, 0.5) + sum)});
    check_kernel(k, 1e-3);
  }
}

/// Sums over two loops, the inner one contiguous, as statistics of channels are.
TEST(Codegen, SumsOverNestedLoops) {
  for (auto [outer, channels, inner] : {std::tuple{16, 3, 256}, {5, 7, 33}, {64, 2, 20}}) {
    AstBuilder k;
    U x = k.random_param(f32, outer * channels * inner), out = k.param(f32, channels), c = range(channels, 0, Axis::Global);
    U n = range(outer, 100, Axis::Reduce), i = range(inner, 101, Axis::Reduce);
    k.sink({k.store(out, c, k.fold(Op::ADD, k.load(x, (n * channels + c) * inner + i), {n, i}))});
    check_kernel(k, 1e-3);
  }
}

/// Windows of an adaptive pooling: of one or two elements, which begin at a quotient.
TEST(Codegen, WindowsOfUnequalSizes) {
  for (auto [in, out, count] : {std::tuple{4, 5, 2}, {3, 5, 2}, {8, 5, 3}, {9, 7, 3}}) {
    AstBuilder k;
    U x = k.random_param(f32, 8 * in * 3), y = k.param(f32, 8 * out * 3);
    U b = range(8, 0, Axis::Global), o = range(out, 1, Axis::Global), c = range(3, 2, Axis::Global), i = range(count, 100, Axis::Reduce);
    U at = o * in / out + i, end = (o * in + (in - 1)) / out + 1;
    U value = k.load(x, b * (3 * in) + c + alu(Op::MIN, {at, index_const(in - 1)}) * 3);
    k.sink({k.store(y, b * (3 * out) + o * 3 + c, k.fold(Op::ADD, where(lt(at, end), value, const_(f32, 0.0)), {i}))});
    check_kernel(k);
  }
}

TEST(Codegen, SumOfEverything) {
  for (int64_t n : {1, 5, 1003, 4096}) {
    AstBuilder k;
    U x = k.random_param(f32, n), out = k.param(f32, 2), r = range(n, 100, Axis::Reduce);
    U v = k.load(x, r);
    k.sink({k.store(out, index_const(0), k.fold(Op::ADD, v, {r})), k.store(out, index_const(1), k.fold(Op::MAX, v, {r}))});
    check_kernel(k, 1e-5);
  }
}

/// Positive terms, whose chain of roundings would show.
TEST(Codegen, LongSumsAreMadeOfParts) {
  for (auto [rows, cols] : {std::pair{5000, 3}, {2048, 17}, {4097, 1}}) {
    AstBuilder k;
    U x = k.random_param(f32, rows * cols, 0, 1), out = k.param(f32, 2 * cols), c = range(cols, 0, Axis::Global);
    U r = range(rows, 100, Axis::Reduce), v = k.load(x, r * cols + c);
    k.sink({k.store(out, c, k.fold(Op::ADD, v, {r})), k.store(out, c + int64_t{cols}, k.fold(Op::MAX, v, {r}))});
    check_kernel(k, 1e-5);  // its judge adds one after the other
    for (const Caps& caps : {avx2(), scalar_target(), gpu()}) {
      std::vector<KernelBuffer> got = lower_and_run(k, caps).buffers;
      for (int64_t column = 0; column < cols; ++column) {
        double exact = 0;
        for (int64_t row = 0; row < rows; ++row) exact += got[0].get(row * cols + column).f;
        EXPECT_NEAR(got[1].get(column).f, exact, 4e-7 * exact) << rows << " x " << cols;
      }
    }
  }
  AstBuilder k;  // two loops, the long one outside
  U x = k.random_param(f32, 3000 * 5 * 7, 0, 1), out = k.param(f32, 7), c = range(7, 0, Axis::Global);
  U a = range(3000, 100, Axis::Reduce), b = range(5, 101, Axis::Reduce);
  k.sink({k.store(out, c, k.fold(Op::ADD, k.load(x, (a * 5 + b) * 7 + c), {a, b}))});
  check_kernel(k, 1e-5);
}

TEST(Codegen, IntegersReduceExactly) {
  int64_t rows = 9, cols = 130;
  for (DType d : {DType::i32, DType::i64, DType::u8, DType::i16})
    for (Op op : {Op::ADD, Op::MUL, Op::MAX, Op::MIN, Op::XOR}) {
      if (op == Op::XOR) continue;
      AstBuilder k;
      U x = k.random_param(d, rows * cols), out = k.param(d, rows), row = range(rows, 0, Axis::Global), c = range(cols, 100, Axis::Reduce);
      k.sink({k.store(out, row, k.fold(op, k.load(x, row * cols + c), {c}))});
      check_kernel(k);
    }
}

TEST(Codegen, CumulativeSums) {
  for (auto [rows, cols, inner] : {std::tuple{5, 70, 1}, {3, 20, 33}, {1, 1003, 1}}) {
    AstBuilder k;
    int64_t n = rows * cols * inner;
    U x = k.random_param(f32, n), out = k.param(f32, n), row = range(rows, 0, Axis::Global), d = range(inner, 1, Axis::Global);
    U c = range(cols, 100, Axis::Loop);
    U i = (row * cols + c) * inner + d;
    k.sink({k.store(out, i, node(Op::PREFIX, f32, {k.load(x, i), c}, Arg(static_cast<int64_t>(Op::ADD))))});
    check_kernel(k, 1e-4);
  }
}

TEST(Codegen, ScatterRunsInOrder) {
  for (Op op : {Op::NOOP, Op::ADD, Op::MAX})
    for (auto [b, u, d] : {std::tuple{1, 40, 1}, {2, 25, 19}, {1, 30, 64}}) {
      AstBuilder k;
      int64_t slots = 6;
      U out = k.random_param(DType::i32, b * slots * d), index = k.param(DType::i64, b * u * d), x = k.random_param(DType::i32, b * u * d);
      for (int64_t i = 0; i < b * u * d; ++i) {
        int64_t batch = i / (u * d), slot = static_cast<int64_t>(k.random() % static_cast<uint32_t>(slots + 1)) - 1;
        k.buffers[1].set(i, {0, slot < 0 ? -1 : (batch * slots + slot) * d + i % d});
      }
      U rb = range(b, 0, Axis::Global), rd = range(d, 1, Axis::Global), ru = range(u, 100, Axis::Loop), i = (rb * u + ru) * d + rd;
      U at = k.load(index, i);
      U s = node(Op::STORE, DType::void_, {node(Op::INDEX, DType::i32, {out, at}), k.load(x, i), lt(index_const(-1), at)});
      k.sink({node(Op::ORDERED, DType::void_, {s, ru}, Arg(static_cast<int64_t>(op)))});
      check_kernel(k);
    }
}

TEST(Codegen, GatherWithMask) {
  int64_t rows = 11, cols = 21, table = 13;
  AstBuilder k;
  U w = k.random_param(f32, table * cols), index = k.param(DType::i64, rows), out = k.param(f32, rows * cols);
  for (int64_t i = 0; i < rows; ++i) k.buffers[1].set(i, {0, static_cast<int64_t>(k.random() % 13)});
  U r = range(rows, 0, Axis::Global), c = range(cols, 1, Axis::Global);
  U inside = lt(r, c + 3) & lt(c, index_const(18));
  k.sink({k.store(out, r * cols + c, k.load(w, k.load(index, r) * cols + c, inside))});
  check_kernel(k);
}

TEST(Codegen, PaddingAndFlips) {
  int64_t n = 100;
  AstBuilder k;
  U x = k.random_param(f32, n), out = k.param(f32, n + 10), i = range(n + 10, 0, Axis::Global);
  U inside = lt(index_const(4), i) & lt(i, index_const(n + 5));
  k.sink({k.store(out, i, k.load(x, index_const(n - 1 + 5) - i, inside) + cast(i, f32))});
  check_kernel(k);
}

TEST(Codegen, StoresOfDifferentSizesInOneKernel) {
  AstBuilder k;
  std::vector<UOp*> stores;
  for (int64_t n : {1000, 70000, 1, 33, 20001}) {
    U p = k.random_param(f32, n), g = k.random_param(f32, n);
    U i = n == 1 ? index_const(0) : range(n, static_cast<int64_t>(stores.size()), Axis::Global);
    stores.push_back(k.store(p, i, k.load(p, i) - k.load(g, i) * const_(f32, 0.5)));
  }
  k.sink(stores);
  check_kernel(k);
}

TEST(Codegen, StoresThatShareSomeOfTheirRanges) {
  int64_t rows = 40, cols = 600;
  AstBuilder k;
  U x = k.random_param(f32, rows * cols), a = k.param(f32, rows * cols), b = k.param(f32, rows), count = k.random_param(f32, 1);
  U r = range(rows, 0, Axis::Global), c = range(cols, 1, Axis::Global), r2 = range(cols, 100, Axis::Reduce);
  k.sink({k.store(a, r * cols + c, k.load(x, r * cols + c) * const_(f32, 2.0)),
          k.store(b, r, k.fold(Op::ADD, k.load(x, r * cols + r2), {r2})),
          k.store(count, index_const(0), k.load(count, index_const(0)) + const_(f32, 1.0))});
  check_kernel(k, 1e-4);
}

TEST(Codegen, ReduceWithTwoDigits) {
  int64_t n = 4, c = 6, h = 5, w = 7;
  AstBuilder k;
  U x = k.random_param(f32, n * c * h * w), out = k.param(f32, c), rc = range(c, 0, Axis::Global), rn = range(n, 100, Axis::Reduce);
  U hw = range(h * w, 101, Axis::Reduce);
  k.sink({k.store(out, rc, k.fold(Op::ADD, k.load(x, (rn * c + rc) * (h * w) + hw), {rn, hw}))});
  check_kernel(k, 1e-5);
}

TEST(Codegen, CheckRecordsTheFault) {
  int64_t rows = 40, cols = 16;
  AstBuilder k;
  U w = k.random_param(f32, 10 * cols), index = k.param(DType::i64, rows), out = k.param(f32, rows * cols);
  for (int64_t i = 0; i < rows; ++i) k.buffers[1].set(i, {0, i % 10});
  k.buffers[1].set(17, {0, 99});
  Record record;
  record.text = "index out of range", record.n = 10;
  U r = range(rows, 0, Axis::Global), c = range(cols, 1, Axis::Global), at = k.load(index, r);
  U ok = lt(index_const(-1), at) & lt(at, index_const(10));
  U checked = node(Op::CHECK, kIndex, {at, ok}, Arg(intern(record)));
  k.sink({k.store(out, r * cols + c, k.load(w, checked * cols + c))});
  k.param(DType::i64, 4);
  for (const Caps& caps : {avx2(), gpu(), scalar_target()}) {
    Lowered l = lower_and_run(k, caps);
    EXPECT_GT(l.buffers[3].get(0).i >> 32, 0);
    EXPECT_EQ(l.buffers[3].get(0).i & 0xffffffff, 99);
    EXPECT_EQ(l.buffers[3].get(1).i, 99);
    EXPECT_EQ(l.buffers[2].get(17 * cols).f, k.buffers[0].get(0).f);
  }
}

TEST(Codegen, SameKernelSameOrder) {
  AstBuilder k;
  matmul(k, 37, 53, 19);
  Program a = lower_kernel(k.sink(), avx2(), "k"), b = lower_kernel(k.sink(), avx2(), "k");
  EXPECT_EQ(print(a.linear), print(b.linear));
}

TEST(Codegen, Names) {
  AstBuilder a, b, c;
  EXPECT_EQ(kernel_name(elementwise(a, 1003).sink()), "e_1003");
  EXPECT_EQ(kernel_name(matmul(b, 4, 5, 6).sink()), "c_4_5_6");
  EXPECT_EQ(kernel_name(softmax(c, 3, 9).sink()), "r_3_9_9_9");
}

TEST(Codegen, Estimates) {
  AstBuilder k;
  Program p = lower_kernel(matmul(k, 64, 48, 32).sink(), avx2(), "k");
  EXPECT_EQ(p.info.flops, 2.0 * 64 * 48 * 32);
  EXPECT_EQ(p.info.bytes, 4.0 * (64 * 32 + 32 * 48 + 64 * 48));
}

}  // namespace
}  // namespace tiny::testing
