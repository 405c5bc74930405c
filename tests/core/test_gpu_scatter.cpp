// Scatters on GPUs: places are shared among workgroups, and where two updates meet they still come in order.
#include <random>

#include "schedule_run.h"

namespace tiny::testing {
namespace {

constexpr DType f32 = DType::f32;

Caps many_lanes() {
  Caps c = gpu();
  c.threads = 132;
  return c;
}

Tensor random_leaf(GraphEval& e, DType d, Dims sizes, double lo, double hi) {
  static std::mt19937 random(5);
  std::uniform_real_distribution<double> number(lo, hi);
  std::vector<double> v(static_cast<size_t>(product(sizes)));
  for (double& x : v) x = is_float(d) ? number(random) : std::floor(number(random));
  return e.leaf(value_of(d, v), sizes);
}

/// Bits; returns the lanes of the kernel with the updates' loop, the last.
int64_t check(GraphEval& e, const Tensor& t) {
  int64_t lanes = 0;
  const Value have = run_schedule(t, many_lanes(), [&lanes](const Program& p) { lanes = p.info.groups * p.info.lanes; });
  const Value& want = e.run(t);
  for (int64_t i = 0; i < want.numel(); ++i) {
    EXPECT_EQ(have.number(i), want.number(i)) << "element " << i;
    if (::testing::Test::HasFailure()) break;
  }
  return lanes;
}

TEST(GpuScatter, RowsOfManyUpdates) {
  for (Op op : {Op::ADD, Op::MAX, Op::NOOP}) {
    GraphLock lock;
    GraphEval e;
    const Tensor x = random_leaf(e, f32, {37, 12}, -1, 1), index = random_leaf(e, DType::i64, {700}, -2, 37);
    const Tensor rows = random_leaf(e, f32, {700, 12}, -2, 2);
    EXPECT_GE(check(e, scatter_rows(x, index, rows, op)), 32 * 12) << "700 updates of few elements are shared";
  }
}

TEST(GpuScatter, ElementsOfEachPlane) {
  GraphLock lock;
  GraphEval e;
  const Tensor x = random_leaf(e, f32, {5 * 90}, -1, 1), plane = e.leaf(value_of(DType::i64, {0, 90, 180, 270, 360}), {5, 1, 1});
  const Tensor index = random_leaf(e, DType::i64, {5, 80, 1}, 0, 90) + plane.expand({5, 80, 1});
  EXPECT_GE(check(e, scatter_flat(x, index, random_leaf(e, f32, {5, 80, 1}, -1, 1), Op::ADD)), 4 * 5);
}

}  // namespace
}  // namespace tiny::testing
