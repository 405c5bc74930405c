// Products of matrices in blocks (codegen/block.h): layouts, then whole kernels by the interpreter.
#include <set>

#include "base/error.h"
#include "codegen/block.h"
#include "schedule_run.h"
#include "tensor/tensor.h"

namespace tiny::testing {
namespace {

constexpr DType f32 = DType::f32, bf16 = DType::bf16, f16 = DType::f16;

Caps with_tensor_cores(int generation) {
  Caps c = gpu();
  c.block_bytes = 227 << 10, c.tensor_cores = generation, c.async_copies = true, c.threads = 4;
  return c;
}

Block unpacked(const Program& p) {
  for (UOp* u : p.linear)
    if (u->is(Op::BLOCK)) return Block::unpack(u->arg);
  return {};
}

TEST(Blocks, ArgumentsSurvivePacking) {
  Block b{Engine::WarpGroups, {128, 256}, 64, {2, 1}, 4, {false, true}};
  Block c = Block::unpack(b.pack());
  EXPECT_TRUE(c.engine == b.engine && c.rows[0] == 128 && c.rows[1] == 256 && c.depth == 64 && c.teams[0] == 2 && c.teams[1] == 1);
  EXPECT_TRUE(c.slots == 4 && !c.k_inner[0] && c.k_inner[1]);
}

TEST(Blocks, EveryElementHasOnePlaceAndEverySumOneLane) {
  for (Block b : {Block{Engine::Lanes, {128, 128}, 16, {4, 2}}, Block{Engine::Lanes, {32, 32}, 16, {2, 1}},
                  Block{Engine::Warps, {128, 128}, 64, {2, 4}}, Block{Engine::WarpGroups, {128, 256}, 64, {2, 1}},
                  Block{Engine::WarpGroups, {128, 64}, 64, {1, 1}}})
    for (bool k_inner : {true, false}) {
      b.k_inner[0] = b.k_inner[1] = k_inner;
      for (int side : {0, 1}) {
        std::set<int64_t> places;
        for (int64_t row = 0; row < b.rows[side]; ++row)
          for (int64_t k = 0; k < b.depth; ++k) places.insert(b.offset<int64_t>(side, row, k));
        EXPECT_EQ(static_cast<int64_t>(places.size()), b.rows[side] * b.depth);
        EXPECT_GE(*places.begin(), 0);
        EXPECT_LT(*places.rbegin(), b.tile(side));
      }
      std::set<std::pair<int64_t, int64_t>> sums;
      for (int64_t lane = 0; lane < b.lanes(); ++lane)
        for (int64_t i = 0; i < b.sums(); ++i) {
          auto at = b.position<int64_t>(lane, i);
          EXPECT_TRUE(at.row >= 0 && at.row < b.rows[0] && at.column >= 0 && at.column < b.rows[1]);
          sums.insert({at.row, at.column});
        }
      EXPECT_EQ(static_cast<int64_t>(sums.size()), b.rows[0] * b.rows[1]);
    }
}

struct Product {
  int64_t m, n, k, batches = 1;
  DType in = f32, out = f32;
  bool a_transposed = false, b_transposed = false, activation = false;
};

/// relu(a @ b + bias) or a @ b.
void build(AstBuilder& t, const Product& p) {
  U a = t.random_param(p.in, p.batches * p.m * p.k), b = t.random_param(p.in, p.batches * p.n * p.k), bias = t.random_param(p.out, p.n);
  U out = t.param(p.out, p.batches * p.m * p.n);
  U z = p.batches > 1 ? range(p.batches, 0, Axis::Global) : index_const(0);
  U i = range(p.m, 1, Axis::Global), j = range(p.n, 2, Axis::Global), r = range(p.k, 100, Axis::Reduce);
  U x = t.load(a, z * (p.m * p.k) + (p.a_transposed ? r * p.m + i : i * p.k + r));
  U y = t.load(b, z * (p.n * p.k) + (p.b_transposed ? j * p.k + r : r * p.n + j));
  U sum = t.fold(Op::ADD, cast(x, f32) * cast(y, f32), {r});
  if (p.activation) sum = alu(Op::MAX, {sum + cast(t.load(bias, j), f32), const_(f32, 0.0)});
  t.sink({t.store(out, (z * p.m + i) * p.n + j, cast(sum, p.out))});
}

void expect_product(const Product& p, const Caps& caps, Engine engine) {
  AstBuilder t;
  build(t, p);
  ASSERT_EQ(verify_kernel(t.sink()), "");
  Lowered l = lower_and_run(t, caps);
  ASSERT_EQ(verify_program(l.program.linear), "");
  ASSERT_EQ(count(l.program, Op::BLOCK), 1);
  EXPECT_EQ(unpacked(l.program).engine, engine);
  const std::vector<KernelBuffer>& in = t.buffers;
  double allowed = p.out == f32 ? 1e-5 : p.out == bf16 ? 8e-3 : 1e-3;
  for (int64_t z = 0; z < p.batches; ++z)
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        double want = 0;
        for (int64_t r = 0; r < p.k; ++r)
          want += in[0].get(z * p.m * p.k + (p.a_transposed ? r * p.m + i : i * p.k + r)).f *
                  in[1].get(z * p.n * p.k + (p.b_transposed ? j * p.k + r : r * p.n + j)).f;
        if (p.activation) want = std::max(0.0, want + in[2].get(j).f);
        double got = l.buffers[3].get((z * p.m + i) * p.n + j).f;
        ASSERT_NEAR(got, want, allowed * std::max(4.0, std::fabs(want)))
            << "engine " << static_cast<int>(engine) << " batch " << z << " row " << i << " column " << j;
      }
}

TEST(Blocks, EveryEngineInEveryLayout) {
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "transposed: " << ta << tb);
      expect_product({64, 64, 128, 1, bf16, bf16, ta, tb}, with_tensor_cores(90), Engine::WarpGroups);
      expect_product({64, 64, 128, 1, f16, f32, ta, tb}, with_tensor_cores(80), Engine::Warps);
      expect_product({32, 32, 48, 1, f32, f32, ta, tb}, with_tensor_cores(80), Engine::Lanes);
    }
}

TEST(Blocks, AnySize) {
  for (auto [m, n, k] : {std::tuple{70, 40, 65}, {17, 33, 16}, {64, 72, 200}, {130, 24, 33}})
    for (bool transposed : {false, true}) {
      SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k << " " << transposed);
      expect_product({m, n, k, 1, bf16, f32, transposed, transposed, true}, with_tensor_cores(90), Engine::WarpGroups);
      expect_product({m, n, k, 1, f16, f16, transposed, !transposed, true}, with_tensor_cores(80), Engine::Warps);
      expect_product({m, n, k, 1, f32, f32, !transposed, transposed, true}, with_tensor_cores(80), Engine::Lanes);
    }
}

TEST(Blocks, LargeBlocksOfAnySize) {
  Caps caps = with_tensor_cores(90);
  caps.threads = 1;
  expect_product({132, 260, 132, 1, bf16, bf16}, caps, Engine::WarpGroups);
  expect_product({132, 260, 40, 1, f32, f32, true, true}, caps, Engine::Lanes);
  caps.tensor_cores = 80;
  expect_product({132, 260, 132, 1, bf16, bf16, true, false}, caps, Engine::Warps);
}

TEST(Blocks, Batches) {
  expect_product({48, 24, 40, 3, bf16, bf16, false, true, true}, with_tensor_cores(90), Engine::WarpGroups);
  expect_product({48, 24, 40, 3, f32, bf16, false, false, true}, with_tensor_cores(90), Engine::Lanes);
}

TEST(Blocks, CopiesRunAhead) {
  AstBuilder t;
  build(t, {256, 256, 512, 1, bf16, bf16});
  Caps caps = with_tensor_cores(90);
  Program p = lower_kernel(t.sink(), caps, "kernel");
  Block b = unpacked(p);
  EXPECT_EQ(count(p, Op::COPY, 8), 2 * (b.rows[0] + b.rows[1]) * b.depth / 8 / b.lanes()) << "16 bytes a copy, before the loop and in it";
  EXPECT_EQ(count(p, Op::STORE, 8), 1) << "the results";
  EXPECT_EQ(count(p, Op::WAIT), 1);
  caps.async_copies = false;
  EXPECT_EQ(count(lower_kernel(t.sink(), caps, "kernel"), Op::COPY), 0);
}

TEST(Blocks, ABarrierStandsBetweenProductsAndWhatTakesTheirPlace) {
  for (int64_t depth : {64, 128})
    for (int generation : {80, 90}) {
      AstBuilder t;
      build(t, {64, 64, depth, 1, bf16, f32});
      Program p = lower_kernel(t.sink(), with_tensor_cores(generation), "kernel");
      bool block = false, barrier = false;
      for (UOp* u : p.linear) {
        if (u->is(Op::BLOCK)) block = true;
        if (block && u->is(Op::BARRIER)) barrier = true;
        UOp* array = u->is(Op::STORE) ? u->src[0]->src[0] : nullptr;
        while (array && array->is(Op::AFTER)) array = array->src[0];
        if (block && array && array->is(Op::LOCAL)) EXPECT_TRUE(barrier) << "sums take the place of tiles, " << depth << " terms";
      }
      EXPECT_TRUE(block);
    }
}

/// sum over y, x, c of in[y + oy, x + ox, c] * weight[o, y, x, c], as a convolution has it.
TEST(Blocks, SeveralRangesOnEachSide) {
  constexpr int64_t size = 6, channels = 16, out_channels = 20;
  AstBuilder t;
  U in = t.random_param(bf16, (size + 2) * (size + 2) * channels), weight = t.random_param(bf16, out_channels * 9 * channels);
  U out = t.param(f32, size * size * out_channels);
  U oy = range(size, 0, Axis::Global), ox = range(size, 1, Axis::Global), o = range(out_channels, 2, Axis::Global);
  U y = range(3, 100, Axis::Reduce), x = range(3, 101, Axis::Reduce), c = range(channels, 102, Axis::Reduce);
  U a = t.load(in, ((oy + y) * (size + 2) + ox + x) * channels + c), b = t.load(weight, ((o * 3 + y) * 3 + x) * channels + c);
  t.sink({t.store(out, (oy * size + ox) * out_channels + o, t.fold(Op::ADD, cast(a, f32) * cast(b, f32), {y, x, c}))});
  std::vector<KernelBuffer> want = t.buffers;
  KernelEval(t.sink(), want).run();
  for (int generation : {80, 90}) {
    Lowered l = lower_and_run(t, with_tensor_cores(generation));
    EXPECT_EQ(count(l.program, Op::BLOCK), 1);
    EXPECT_GT(count(l.program, Op::COPY, 8), 0) << "channels are consecutive on both sides";
    expect_same(l.buffers, want, 1e-4, "convolution");
  }
}

TEST(Blocks, OperandsAndResultsAreExpressions) {
  constexpr int64_t m = 40, n = 24, k = 56;
  AstBuilder t;
  U a = t.random_param(f32, m * k), b = t.random_param(f32, k * n), rows = t.random_param(f32, m * n);
  U out = t.param(f32, m * n), two = t.param(f32, m * n);
  U i = range(m, 0, Axis::Global), j = range(n, 1, Axis::Global), r = range(k, 100, Axis::Reduce);
  U x = alu(Op::EXP, {t.load(a, i * k + r)}), y = t.load(b, r * n + j, lt(r, index_const(50)));
  U sum = t.fold(Op::ADD, x * y, {r});
  t.sink({t.store(out, i * n + j, sum + t.load(rows, i * n + j)), t.store(two, j * m + i, sum * sum)});
  std::vector<KernelBuffer> want = t.buffers;
  KernelEval(t.sink(), want).run();
  Lowered l = lower_and_run(t, with_tensor_cores(90));
  EXPECT_EQ(count(l.program, Op::BLOCK), 1);
  expect_same(l.buffers, want, 1e-4, "product of expressions");
}

/// Kernels of matmul(x, w), in f32 as lowerings write it.
TEST(Blocks, HalvesAreNotWidenedInMemory) {
  GraphLock lock;
  GraphEval e;
  Tensor x = e.leaf(Value(bf16, 64 * 96), {64, 96}), w = e.leaf(Value(bf16, 128 * 96), {128, 96});
  int64_t order[] = {1, 0};
  Tensor y = matmul(x, w.permute(order), f32).cast(bf16), z = matmul(y + y * x.slice(1, 0, 1), w, f32).cast(bf16);
  std::vector<UOp*> nodes = nodes_below(z.node());
  std::vector<int> roots{static_cast<int>(nodes.size()) - 1};
  auto s = make_schedule(nodes, roots, {64 * 96 * 2, 128 * 96 * 2}, {false, false}, with_tensor_cores(90));
  EXPECT_EQ(s->items.size(), 2u) << "two products, the first with what follows it";
  for (const ScheduledBuffer& b : s->buffers) EXPECT_LE(b.nbytes, 64 * 128 * 2) << "no operand is stored in f32, or for each product";
  IrScope scope(s->arena);
  int64_t blocks = 0;
  for (const ScheduledItem& i : s->items) {
    Program p = lower_kernel(i.sink, with_tensor_cores(90), i.name);
    if (!count(p, Op::BLOCK)) continue;
    EXPECT_EQ(unpacked(p).engine, Engine::WarpGroups);
    ++blocks;
  }
  EXPECT_EQ(blocks, 2);
}

TEST(Blocks, ACopyIsNotThereBeforeItsWait) {
  AstBuilder t;
  build(t, {64, 64, 256, 1, bf16, f32});
  Lowered l{lower_kernel(t.sink(), with_tensor_cores(80), "kernel"), t.buffers};
  std::erase_if(l.program.linear, [](UOp* u) { return u->is(Op::WAIT); });
  std::vector<void*> pointers;
  for (KernelBuffer& b : l.buffers) pointers.push_back(b.bytes.data());
  Interpreter(l.program.info, l.program.linear).run(pointers.data(), nullptr);
  EXPECT_TRUE(std::isnan(l.buffers[3].get(0).f));
}

TEST(Blocks, TilesAreNotReadAcrossAMissingBarrier) {
  AstBuilder t;
  build(t, {64, 64, 256, 1, bf16, f32});
  Lowered l{lower_kernel(t.sink(), with_tensor_cores(80), "kernel"), t.buffers};
  auto barrier = std::find_if(l.program.linear.begin(), l.program.linear.end(), [](UOp* u) { return u->is(Op::BARRIER); });
  ASSERT_NE(barrier, l.program.linear.end());
  UOp* array = nullptr;
  for (UOp* u : l.program.linear)
    if (u->is(Op::BLOCK)) array = u->src[0]->src[0];
  EXPECT_EQ(array->src[1], *barrier) << "the first barrier is the one that the tiles wait for";
  l.program.linear.erase(barrier);
  std::vector<void*> pointers;
  for (KernelBuffer& b : l.buffers) pointers.push_back(b.bytes.data());
  EXPECT_THROW(Interpreter(l.program.info, l.program.linear).run(pointers.data(), nullptr), Error);
}

}  // namespace
}  // namespace tiny::testing
