// Trace: a recorded graph built again on other values is the graph that the same calls would have built.
#include <gtest/gtest.h>

#include "graph_eval.h"
#include "tensor/trace.h"

namespace tiny {
namespace {

using testing::GraphEval;
using testing::value_of;
using Numbers = std::vector<double>;

/// Two results of two inputs and a number that changes from call to call.
std::vector<Tensor> program(const Tensor& x, const Tensor& y, const Tensor& number) {
  Tensor sum = x.expand({2, 3}) + y * number.cast(DType::f32);
  return {sum.sum(), where(lt(sum, y), sum.transpose(0, 1).reshape({2, 3}), y)};
}

Ref number_node(int64_t v) { return make_node(Op::SCALAR, DType::i64, 1, Arg(v), {}); }

TEST(Trace, ReplaysOnOtherValues) {
  GraphLock lock;
  GraphEval e;
  Tensor x = e.leaf(value_of(DType::f32, {1, 2, 3}), {3}), y = e.leaf(value_of(DType::f32, {4, 5, 6, 7, 8, 9}), {2, 3});
  Ref inputs[] = {x.ref(), y.ref()}, numbers[] = {number_node(2)};
  std::vector<Ref> results;
  for (const Tensor& t : program(x, y, Tensor(numbers[0], {}))) results.push_back(t.ref());
  const Trace trace(inputs, numbers, results);

  Tensor a = e.leaf(value_of(DType::f32, {-1, 0, 8}), {3}), b = e.leaf(value_of(DType::f32, {1, -5, 2, 0, -3, 9}), {2, 3});
  UOp* values[] = {a.node(), b.node()};
  const uint64_t given[] = {3};
  const std::vector<Ref> again = trace.replay(values, given);
  const std::vector<Tensor> direct = program(a, b, Tensor(number_node(3), {}));
  ASSERT_EQ(again.size(), direct.size());
  for (size_t k = 0; k < again.size(); ++k)
    EXPECT_EQ(e.run(Tensor(again[k], direct[k].sizes())).numbers(), e.run(direct[k]).numbers());
}

TEST(Trace, ComputesOnceWhatIsComputedTwice) {
  GraphLock lock;
  GraphEval e;
  Tensor x = e.leaf(value_of(DType::f32, {1, 2, 3}), {3});
  Tensor twice = (x + 1.5).unary(Op::EXP) * (x + 1.5).unary(Op::EXP);
  Ref inputs[] = {x.ref()}, results[] = {twice.ref()};
  const Trace trace(inputs, {}, results);
  UOp* values[] = {x.node()};
  const std::vector<Ref> again = trace.replay(values, {});
  EXPECT_EQ(again[0]->src[0], again[0]->src[1]);
  EXPECT_EQ(e.run(Tensor(again[0], {3})).numbers(), e.run(twice).numbers());
}

TEST(Trace, MemoryToWriteIntoIsNotShared) {
  GraphLock lock;
  Tensor a = empty_value({4}, DType::f32), b = empty_value({4}, DType::f32), one = full({2}, constant(DType::f32, 1.0));
  Tensor c = assign_view(a, {1}, 0, one), d = assign_view(b, {1}, 2, one);
  Ref results[] = {c.ref(), d.ref()};
  const std::vector<Ref> again = Trace({}, {}, results).replay({}, {});
  EXPECT_NE(again[0]->src[0], again[1]->src[0]);
}

TEST(Trace, NodesGoWithTheirReaders) {
  GraphLock lock;
  const int64_t before = live_nodes();
  {
    GraphEval e;
    Tensor x = e.leaf(value_of(DType::f32, {1, 2, 3}), {3});
    Ref inputs[] = {x.ref()}, results[] = {(x * x + 2.5).sum().ref(), x.ref()};
    const Trace trace(inputs, {}, results);
    UOp* values[] = {x.node()};
    for (int k = 0; k < 10; ++k) EXPECT_EQ(trace.replay(values, {})[1].get(), x.node());
  }
  EXPECT_EQ(live_nodes(), before);
}

}  // namespace
}  // namespace tiny
