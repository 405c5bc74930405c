// Convolutions and their gradients as GPUs with tensor cores run them: the kernels of the schedule by the interpreter, against the graph's
// meaning, and how their operands reach local memory.
#include <random>

#include "codegen/block.h"
#include "schedule_run.h"

namespace tiny::testing {
namespace {

constexpr DType f32 = DType::f32, bf16 = DType::bf16;

Caps hopper(int threads) {
  Caps c = gpu();
  c.block_bytes = 227 << 10, c.tensor_cores = 90, c.async_copies = true, c.threads = threads;
  return c;
}

/// What a graph became: its blocks, the vectors of 8 elements copied to their tiles, all other copies, kernels.
struct Counts {
  int64_t blocks = 0, vectors = 0, others = 0, kernels = 0;
};

/// Runs the schedule of `t` and compares.
Counts check(GraphEval& e, const Tensor& t, const Caps& caps, double tolerance) {
  Counts n;
  const Value have = run_schedule(t, caps, [&n](const Program& p) {
    ++n.kernels;
    const bool block = std::any_of(p.linear.begin(), p.linear.end(), [](UOp* u) { return u->is(Op::BLOCK); });
    n.blocks += block;
    for (UOp* u : p.linear)
      if (block && u->is(Op::COPY)) ++(u->numel == 8 ? n.vectors : n.others);
  });
  const Value& want = e.run(t);
  double most = 1;
  for (int64_t i = 0; i < want.numel(); ++i) most = std::max(most, std::fabs(want.number(i)));
  for (int64_t i = 0; i < want.numel(); ++i) {
    EXPECT_NEAR(have.number(i), want.number(i), tolerance * most) << "element " << i;
    if (::testing::Test::HasFailure()) break;
  }
  return n;
}

Tensor random_leaf(GraphEval& e, Dims sizes) {
  static std::mt19937 random(3);
  std::normal_distribution<double> normal;
  std::vector<double> v(static_cast<size_t>(product(sizes)));
  for (double& x : v) x = normal(random);
  return e.leaf(value_of(bf16, v), sizes);
}

struct Sizes {
  int64_t images, in, out, size, window, stride = 1;
  int64_t results() const { return (size + 2 * (window / 2) - window) / stride + 1; }
};

Tensor padded(const Tensor& x, int64_t by) {
  int64_t pad[] = {0, 0, by, by};
  return by ? x.pad(pad, pad) : x;
}

Tensor summed(const Tensor& a, const Tensor& b, int columns) {
  Dims axes;
  for (int64_t d = a.dim() - columns; d < a.dim(); ++d) axes.push_back(d);
  return (a.cast(f32) * b.cast(f32)).sum(axes);
}

/// As csrc/lower/conv.cpp writes them.
Tensor forward(const Tensor& x, const Tensor& w, const Sizes& s) {
  const Tensor p = padded(x, s.window / 2);
  const int64_t r = s.results(), k = s.window, h = p.size(3);
  const Dims sizes{s.images, s.out, r, r, s.in, k, k};
  const Tensor windows = p.view(sizes, {s.in * h * h, 0, s.stride * h, s.stride, h * h, h, 1}, 0);
  return summed(windows, w.view(sizes, {0, s.in * k * k, 0, 0, k * k, k, 1}, 0), 3).cast(bf16);
}
Tensor gradient_of_input(const Tensor& g, const Tensor& w, const Sizes& s) {
  const int64_t k = s.window;
  const Tensor p = padded(g, k - 1 - k / 2);
  const int64_t h = p.size(3);
  const Dims sizes{s.images, s.in, s.size, s.size, s.out, k, k};
  const Tensor windows = p.view(sizes, {s.out * h * h, 0, h, 1, h * h, h, 1}, 0);
  return summed(windows, w.view(sizes, {0, k * k, 0, 0, s.in * k * k, -k, -1}, k * k - 1), 3).cast(bf16);
}
Tensor gradient_of_weight(const Tensor& g, const Tensor& x, const Sizes& s) {
  const Tensor p = padded(x, s.window / 2);
  const int64_t r = s.results(), k = s.window, h = p.size(3);
  const Dims sizes{s.out, s.in, k, k, s.images, r, r};
  return summed(g.view(sizes, {r * r, 0, 0, 0, s.out * r * r, r, 1}, 0),
                p.view(sizes, {0, h * h, h, 1, s.in * h * h, s.stride * h, s.stride}, 0), 3)
      .cast(bf16);
}

TEST(GpuConvolutions, ChannelsAreLaidLast) {
  for (Sizes s : {Sizes{2, 16, 24, 7, 3}, {6, 128, 16, 4, 3}, {4, 32, 40, 9, 3, 2}, {2, 128, 72, 7, 1}}) {
    SCOPED_TRACE(::testing::Message() << s.images << " x " << s.in << " x " << s.size << " to " << s.out << ", window " << s.window);
    GraphLock lock;
    GraphEval e;
    const Tensor x = random_leaf(e, {s.images, s.in, s.size, s.size}), w = random_leaf(e, {s.out, s.in, s.window, s.window});
    const Tensor g = random_leaf(e, {s.images, s.out, s.results(), s.results()});
    const Caps caps = hopper(4);
    std::vector<Counts> all{check(e, forward(x, w, s), caps, 1e-2), check(e, gradient_of_weight(g, x, s), caps, 1e-2)};
    if (s.stride == 1) all.push_back(check(e, gradient_of_input(g, w, s), caps, 1e-2));
    for (const Counts& n : all) {
      EXPECT_EQ(n.blocks, 1);
      EXPECT_GT(n.vectors, 0);
      EXPECT_EQ(n.others, 0) << "every operand is copied 16 bytes at a time";
    }
  }
}

TEST(GpuConvolutions, MatricesInVectorsStayWhereTheyAre) {
  GraphLock lock;
  GraphEval e;
  const Tensor a = random_leaf(e, {64, 128}), b = random_leaf(e, {128, 64});
  const Tensor odd = random_leaf(e, {72, 77}), other = random_leaf(e, {77, 40});
  Counts n = check(e, matmul(a, b, f32).cast(bf16), hopper(1), 1e-2);
  EXPECT_TRUE(n.kernels == 1 && n.others == 0);
  n = check(e, matmul(odd, other, f32).cast(bf16), hopper(1), 1e-2);
  EXPECT_EQ(n.others, 0) << "rows of 77 elements are copied with their columns side by side";
}

}  // namespace
}  // namespace tiny::testing
