// tiny::Tensor: each function against its definition, by the interpreter of graphs.
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "graph_eval.h"

namespace tiny {
namespace {

using testing::GraphEval;
using testing::Value;
using testing::value_of;
using Numbers = std::vector<double>;

std::string out_of_bounds(const char* op) {
  return std::string("IndexError: ") + op + ": index {} is out of bounds for dimension with size {}";
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Tensor counting(GraphEval& e, Dims sizes, DType d = DType::f32) {
  Numbers n(product(sizes));
  for (size_t k = 0; k < n.size(); ++k) n[k] = static_cast<double>(k);
  return e.leaf(value_of(d, n), std::move(sizes));
}

TEST(ScalarEval, FormatsRoundTrip) {
  for (DType d : {DType::f8e4m3, DType::f8e5m2, DType::bf16, DType::f16})
    for (uint64_t b = 0; b < 1ull << info(d).bits; ++b) {
      double v = testing::bits_float(d, b);
      if (std::isnan(v)) continue;
      ASSERT_EQ(testing::float_bits(d, v), b) << info(d).name;
      ASSERT_EQ(testing::round_to(d, v), v) << info(d).name;
    }
  EXPECT_EQ(testing::round_to(DType::bf16, 1 + 0x1p-8), 1);  // a tie goes to even
  EXPECT_EQ(testing::round_to(DType::bf16, 1 + 3 * 0x1p-8), 1 + 0x1p-6);
  EXPECT_EQ(testing::round_to(DType::f16, 65519), 65504);
  EXPECT_TRUE(std::isinf(testing::round_to(DType::f16, 65520)));
}

// Source: known answers of the authors' Random123 library, kat_vectors, threefry 2x32, 20 rounds.
TEST(ScalarEval, ThreefryKnownAnswers) {
  EXPECT_EQ(testing::threefry(0, 0), 0x99ba4efe6b200159ull);
  EXPECT_EQ(testing::threefry(~0ull, ~0ull), 0xbb002be71cb996fcull);
  EXPECT_EQ(testing::threefry(0x85a308d3243f6a88ull, 0x0370734413198a2eull), 0x483df7a0c4923a9cull);
}

TEST(Movement, ChainsOfAffineViewsAreOneView) {
  GraphEval e;
  Tensor x = counting(e, {2, 3, 4});
  int64_t order[] = {2, 0, 1}, back[] = {1, 2, 0};
  Tensor y = x.permute(order);
  EXPECT_EQ(y.permute(back).node(), x.node());
  EXPECT_EQ(x.reshape({6, 4}).reshape({24}).node(), x.node());
  EXPECT_EQ(x.slice(0, 0, 2).expand({2, 3, 4}).node(), x.node());
  Tensor chain = y.reshape({8, 3}).slice(1, 1, 3).transpose(0, 1).unsqueeze(0).expand({5, 2, 8}).select(0, 2);
  ASSERT_TRUE(chain.node()->is(Op::VIEW));
  EXPECT_EQ(chain.node()->src[0], x.node());
  EXPECT_EQ(e.run(chain).numbers(), (Numbers{4, 16, 5, 17, 6, 18, 7, 19, 8, 20, 9, 21, 10, 22, 11, 23}));
}

TEST(Movement, ViewsThatCarryNest) {
  GraphEval e;
  Tensor x = counting(e, {2, 3}).transpose(0, 1).reshape({6}).slice(0, 1, 6);  // 0 3 1 4 2 5 without the first
  EXPECT_EQ(e.run(x).numbers(), (Numbers{3, 1, 4, 2, 5}));
  EXPECT_TRUE(x.node()->src[0]->is(Op::VIEW));
}

// Random chains of movements against the same chain on indices, element by element.
TEST(Movement, RandomChains) {
  std::mt19937 random(1);
  auto draw = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  int composed = 0;
  for (int round = 0; round < 400; ++round) {
    GraphEval composing, nesting;
    Dims sizes;
    for (int64_t k = draw(4) + 1; k > 0; --k) sizes.push_back(draw(4) + 1);
    Tensor x = counting(composing, sizes), y = x;  // y: a cut after each step keeps its views apart
    for (int step = 0; step < 6; ++step) {
      auto both = [&](auto f) { x = f(x), y = f(y).contiguous(); };
      int64_t d = x.dim() ? draw(x.dim()) : 0;
      switch (x.dim() ? draw(6) : 4) {
        case 0: {
          Dims order;
          for (int64_t k = 0; k < x.dim(); ++k) order.push_back(k);
          std::shuffle(order.begin(), order.end(), random);
          both([&](const Tensor& t) { return t.permute(order); });
          break;
        }
        case 1: {
          int64_t start = draw(x.size(d)), end = start + 1 + draw(x.size(d) - start), stride = 1 + draw(3);
          both([&](const Tensor& t) { return t.slice(d, start, end, stride); });
          break;
        }
        case 2: {
          int64_t dims[] = {d};
          both([&](const Tensor& t) { return t.flip(dims); });
          break;
        }
        case 3: {
          int64_t i = draw(x.size(d));
          both([&](const Tensor& t) { return t.select(d, i); });
          break;
        }
        case 4: {
          Dims wide{draw(3) + 1};
          wide.append(x.sizes().begin(), x.sizes().end());
          both([&](const Tensor& t) { return t.expand(wide); });
          break;
        }
        default: {
          Dims flat;
          int64_t rest = x.numel();
          for (int64_t f : {2, 3, 2})
            if (rest % f == 0 && draw(2)) flat.push_back(f), rest /= f;
          flat.insert(static_cast<size_t>(draw(static_cast<int64_t>(flat.size()) + 1)), rest);
          both([&](const Tensor& t) { return t.reshape(flat); });
        }
      }
    }
    ASSERT_EQ(x.sizes(), y.sizes());
    ASSERT_EQ(composing.run(x).numbers(), nesting.run(y).numbers());
    composed += !x.node()->is(Op::VIEW) || !x.node()->src[0]->is(Op::VIEW);
  }
  EXPECT_GT(composed, 300);  // most chains are affine
}

TEST(Movement, PadAndCrop) {
  GraphEval e;
  Tensor x = counting(e, {2, 2}) + 1.0;
  int64_t lo[] = {1, 0}, hi[] = {0, 1}, crop[] = {-1, 0}, none[] = {0, 0};
  EXPECT_EQ(e.run(x.pad(lo, hi)).numbers(), (Numbers{0, 0, 0, 1, 2, 0, 3, 4, 0}));
  EXPECT_EQ(e.run(x.pad(lo, hi, constant(DType::f32, 7.0))).numbers(), (Numbers{7, 7, 7, 1, 2, 7, 3, 4, 7}));
  EXPECT_EQ(e.run(x.pad(crop, none)).numbers(), (Numbers{3, 4}));
  EXPECT_EQ(e.run(zeros({0, 2}, DType::f32).pad(lo, none)).numbers(), (Numbers{0, 0}));
}

TEST(Elementwise, BroadcastsAndKeepsScalarsSingle) {
  GraphEval e;
  Tensor a = counting(e, {2, 1}), b = counting(e, {3});
  Tensor c = a * constant(DType::f32, 10.0) + b;
  EXPECT_EQ(c.sizes(), (Dims{2, 3}));
  EXPECT_EQ(e.run(c).numbers(), (Numbers{0, 1, 2, 10, 11, 12}));
  Tensor half = full({4}, constant(DType::f32, 0.5)) + full({4}, scalar(DType::f32, 3.25));
  EXPECT_EQ(half.node()->src[0]->numel, 1);
  EXPECT_EQ(e.run(half).numbers(), (Numbers{3.75, 3.75, 3.75, 3.75}));
  EXPECT_EQ((zeros({0, 3}, DType::f32) + b).sizes(), (Dims{0, 3}));
  EXPECT_THROW(counting(e, {2}) + b, Error);
}

TEST(Elementwise, ScalarsThatChangeAreLeaves) {
  EXPECT_TRUE(scalar(DType::f32, 1.0).node()->is(Op::CONST));
  EXPECT_TRUE(scalar(DType::f32, INFINITY).node()->is(Op::CONST));
  Tensor s = scalar(DType::bf16, 0.1);
  EXPECT_TRUE(s.node()->is(Op::CAST) && s.node()->src[0]->is(Op::SCALAR));
  EXPECT_EQ(scalar(DType::i32, int64_t{7}).node()->src[0]->dtype, DType::i64);
}

TEST(Reduce, AnyAxesAndEmpty) {
  GraphEval e;
  Tensor x = counting(e, {2, 3, 2});
  int64_t outer[] = {0, 2}, middle[] = {1};
  EXPECT_EQ(e.run(x.sum(outer)).numbers(), (Numbers{0 + 1 + 6 + 7, 2 + 3 + 8 + 9, 4 + 5 + 10 + 11}));
  EXPECT_EQ(x.sum(middle, true).sizes(), (Dims{2, 1, 2}));
  EXPECT_EQ(e.run(x.amax(middle)).numbers(), (Numbers{4, 5, 10, 11}));
  EXPECT_EQ(e.run(x.sum()).numbers(), (Numbers{66}));
  EXPECT_EQ(e.run(zeros({2, 0}, DType::f32).sum(middle)).numbers(), (Numbers{0, 0}));
  EXPECT_EQ(e.run(zeros({0}, DType::f32).reduce(Op::MUL, {})).numbers(), (Numbers{1}));
  EXPECT_THROW(zeros({0}, DType::f32).amax(), Error);
}

TEST(Reduce, ArgTakesTheFirstAndNan) {
  GraphEval e;
  Tensor x = e.leaf(value_of(DType::f32, {1, 3, 3, 2, kNan, kNan, -0.0, 0, -0.0}), {3, 3});
  EXPECT_EQ(e.run(x.argmax(1)).numbers(), (Numbers{1, 1, 0}));
  EXPECT_EQ(e.run(x.argmin(1)).numbers(), (Numbers{0, 1, 0}));
  EXPECT_EQ(e.run(x.argmax(0)).numbers(), (Numbers{1, 1, 1}));
}

TEST(Reduce, ScanAndSort) {
  GraphEval e;
  Tensor x = e.leaf(value_of(DType::f32, {3, 1, kNan, 1, 2, 3}), {2, 3});
  EXPECT_EQ(e.run(x.argsort(false)).numbers(), (Numbers{1, 0, 2, 0, 1, 2}));
  EXPECT_EQ(e.run(x.argsort(true)).numbers(), (Numbers{2, 0, 1, 2, 1, 0}));
  EXPECT_EQ(e.run(counting(e, {2, 3}).scan(Op::ADD, 0)).numbers(), (Numbers{0, 1, 2, 3, 5, 7}));
}

TEST(Index, CatByChoiceAndByWrites) {
  for (int parts : {1, 2, 4, 5, 7}) {
    GraphEval e;
    std::vector<Tensor> p;
    Numbers want(2 * 2 * parts);
    for (int k = 0; k < parts; ++k) {
      p.push_back(counting(e, {2, 2}) + double(10 * k));
      for (int r = 0; r < 4; ++r) want[(r / 2) * 2 * parts + 2 * k + r % 2] = r + 10 * k;
    }
    p.push_back(zeros({2, 0}, DType::f32));
    EXPECT_EQ(e.run(cat(p, 1)).numbers(), want);
  }
}

TEST(Index, InterleavedValuesAreReadAsTheyWere) {
  GraphEval e;
  Tensor a = counting(e, {3, 4}), b = a * 10.0, pairs = interleave(a, b);
  EXPECT_EQ(pairs.sizes(), (Dims{3, 4, 2}));
  EXPECT_EQ(e.run(pairs.select(0, 1)).numbers(), (Numbers{4, 40, 5, 50, 6, 60, 7, 70}));
  EXPECT_EQ(pairs.select(-1, 0).node(), a.node());
  EXPECT_EQ(pairs.reshape({-1}).view({12}, {2}, 1).node(), b.node());
  EXPECT_EQ(e.run(pairs.select(-1, 1).transpose(0, 1)).numbers(), e.run(b.transpose(0, 1)).numbers());
  EXPECT_EQ(e.run(pairs.reshape({24}).view({3}, {-8}, 23)).numbers(), (Numbers{110, 70, 30}));
  EXPECT_EQ(e.run(pairs.reshape({24}).view({3}, {3}, 2)).numbers(), (Numbers{1, 20, 4}));  // of both
  Tensor half = interleave(a, full({3, 4}, constant(DType::f32, 7.0)));
  EXPECT_EQ(e.run(half.select(-1, 1).select(0, 2)).numbers(), (Numbers{7, 7, 7, 7}));
  EXPECT_EQ(e.run(half.select(0, 0)).numbers(), (Numbers{0, 7, 1, 7, 2, 7, 3, 7}));
}

TEST(Index, ChecksTheUsersIndex) {
  GraphEval e;
  Tensor x = counting(e, {5}), i = e.leaf(value_of(DType::i32, {-1, 0, 4}), {3});
  EXPECT_EQ(e.run(gather_flat(x, checked_index(i, 5, out_of_bounds("take")))).numbers(), (Numbers{4, 0, 4}));
  EXPECT_TRUE(e.faults.empty());
  Tensor bad = e.leaf(value_of(DType::i64, {2, -6}), {2});
  EXPECT_EQ(e.run(gather_flat(x, checked_index(bad, 5, out_of_bounds("take")))).numbers(), (Numbers{2, 0}));
  ASSERT_EQ(e.faults.size(), 1u);
  EXPECT_EQ(e.faults[0].text, "IndexError: take: index {} is out of bounds for dimension with size {}");
  EXPECT_EQ(e.faults[0].value, -6);
  EXPECT_EQ(e.faults[0].limit, 5);
  e.run(checked_index(i, 5, out_of_bounds("take"), false));
  EXPECT_EQ(e.faults.back().value, -1);
  e.run(gather_flat(zeros({0}, DType::f32), checked_index(i, 0, out_of_bounds("take"))));
  EXPECT_EQ(e.faults.size(), 5u);
}

TEST(Index, RowsAndWrites) {
  GraphEval e;
  Tensor x = counting(e, {3, 2}), i = e.leaf(value_of(DType::i64, {2, 0, 2, -1}), {4}), src = counting(e, {4, 2}) + 10.0;
  EXPECT_EQ(e.run(take_rows(x, i.slice(0, 0, 3))).numbers(), (Numbers{4, 5, 0, 1, 4, 5}));
  EXPECT_EQ(e.run(scatter_rows(x, i, src, Op::ADD)).numbers(), (Numbers{12, 14, 2, 3, 28, 31}));
  EXPECT_EQ(e.run(scatter_rows(x, i, src, Op::NOOP)).numbers(), (Numbers{12, 13, 2, 3, 14, 15}));
  EXPECT_EQ(e.run(assign_view(x, {2}, 1, counting(e, {3}))).numbers(), (Numbers{0, 0, 2, 1, 4, 2}));
}

TEST(Contract, MatmulBroadcastsBatches) {
  GraphEval e;
  Tensor a = counting(e, {2, 1, 2, 3}, DType::bf16), b = counting(e, {3, 2}, DType::bf16);
  Tensor c = matmul(a, b, DType::f32);
  EXPECT_EQ(c.sizes(), (Dims{2, 1, 2, 2}));
  EXPECT_EQ(c.dtype(), DType::f32);
  EXPECT_EQ(e.run(c).numbers(), (Numbers{10, 13, 28, 40, 46, 67, 64, 94}));
  EXPECT_EQ(e.run(matmul(zeros({1, 0}, DType::f32), zeros({0, 1}, DType::f32), DType::f32)).numbers(), (Numbers{0}));
}

TEST(Random, BitsDependOnSeedAndCounter) {
  GraphEval e;
  Tensor seed = constant(DType::u64, int64_t{5}), offset = constant(DType::u64, int64_t{3});
  const Value& v = e.run(random_bits({2, 2}, seed, offset));
  for (int k = 0; k < 4; ++k) EXPECT_EQ(static_cast<uint64_t>(v.cells[k].i), testing::threefry(3 + k, 5));
}

TEST(Graph, AChainOfAMillionNodesNeedsNoStack) {
  int64_t before = live_nodes();
  {
    Tensor x = iota(1);
    for (int k = 0; k < 1000000; ++k) x = x + x;
  }
  EXPECT_EQ(live_nodes(), before);
}

}  // namespace
}  // namespace tiny
