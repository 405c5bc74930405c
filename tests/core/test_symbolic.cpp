// The symbolic engine: normal forms of indices, bounds, gates.
#include <gtest/gtest.h>

#include "test_uop_helpers.h"
#include "uop/matcher.h"

namespace tiny {
namespace {

using testing::Evaluator;
using testing::Leaves;
using testing::Random;

struct Symbolic : ::testing::Test {
  Arena arena;
  IrScope scope{arena};
  U i = range(6, 0, Axis::Global), j = range(5, 1, Axis::Global), k = range(4, 2, Axis::Loop);
  U flat = (i * 5 + j) * 4 + k;
  U lanes = node(Op::LANES, kIndex, {}, {}, 8);

  U variable(int64_t number = 0, DType d = DType::i64) { return node(Op::VAR, d, {}, Arg(number)); }
};

#define EXPECT_SAME(a, b) EXPECT_EQ((a).u, (b).u) << print((a).u) << "is not\n" << print((b).u)

TEST_F(Symbolic, DigitsOfAFlatIndex) {
  EXPECT_SAME(flat / 20, i);
  EXPECT_SAME(flat % 20 / 4, j);
  EXPECT_SAME(flat / 4 % 5, j);
  EXPECT_SAME(flat % 4, k);
  EXPECT_SAME(flat / 4, i * 5 + j);
  EXPECT_SAME(flat % 20, j * 4 + k);
  EXPECT_SAME(flat % 120, flat);
  EXPECT_SAME(flat / 120, index_const(0));
}

TEST_F(Symbolic, DigitsJoinAgain) {
  U g = range(1000, 3, Axis::Global);
  EXPECT_SAME((g / 4) * 4 + g % 4, g);
  EXPECT_SAME(g / 12 * 12 + g / 4 % 3 * 4 + g % 4, g);
  EXPECT_SAME(g / 4 % 3 * 4 + g % 4, g % 12);
  EXPECT_SAME(flat / 8 * 8 + flat % 8, flat);
  EXPECT_SAME((g / 4) * 40 + g % 4 * 10 + k, g * 10 + k);
}

TEST_F(Symbolic, Division) {
  U b = variable() % 4 + 3;  // in 0..6
  EXPECT_SAME((i * 12 + j) / 4, i * 3 + j / 4);
  EXPECT_SAME((i * 12 + j) % 4, j % 4);
  EXPECT_SAME((i * 6 + j * 3 + k % 3) / 3, i * 2 + j);
  EXPECT_SAME((i * 6 + k % 2) / 4, i * 3 / 2);
  EXPECT_SAME((i * 6 + k % 2) % 4, (i * 3) % 2 * 2 + k % 2);
  EXPECT_SAME((i * 8 + 11) / 4, i * 2 + 2);
  EXPECT_SAME((flat * 8 + lanes) / 8, flat);
  EXPECT_SAME((flat * 8 + lanes) % 8, lanes);
  EXPECT_SAME(flat / 3 / 7, flat / 21);
  EXPECT_SAME(flat % 42 % 7, flat % 7);
  U big = range(1000, 3, Axis::Loop);
  EXPECT_SAME(big % 24 / 6, big / 6 % 4);
  EXPECT_SAME((b * 10 - b * 7) % 3, index_const(0));
  EXPECT_SAME((index_const(11) - i * 2) % 2, index_const(1));
  EXPECT_TRUE(bounds((variable() * 6 + 3) / 3).lo < 0) << "a wrapping product is not cancelled";
}

TEST_F(Symbolic, SumsAreCanonical) {
  U x = variable(1), y = variable(2);
  EXPECT_SAME(x + y, y + x);
  EXPECT_SAME((x + 3) + (y + 4), (y + 7) + x);
  EXPECT_SAME((x + y) * 3, x * 3 + y * 3);
  EXPECT_SAME(x * 2 + x * 3, x * 5);
  EXPECT_SAME(x - y + y, x);
  EXPECT_SAME(x - x, index_const(0));
  EXPECT_SAME((x * 4) * y, (y * x) * 4);
  EXPECT_SAME(alu(Op::SHL, {x, index_const(3)}), x * 8);
  EXPECT_SAME(lanes + i * 20 + 7, i * 20 + 7 + lanes);
  U sum = k + i * 20 + lanes * 2 + 7 + j * 4;  // outer loops first, then the vector, then the constant
  EXPECT_TRUE(sum->src[1]->is_const(7));
  EXPECT_SAME(U(sum->src[0]->src[1]), lanes * 2);
  EXPECT_SAME(U(sum->src[0]->src[0]), i * 20 + j * 4 + k);
  EXPECT_EQ(sum->src[0]->src[0]->numel, 1);
}

TEST_F(Symbolic, Comparisons) {
  EXPECT_SAME(lt(flat, index_const(20)), lt(i, index_const(1)));
  EXPECT_SAME(lt(flat, index_const(120)), const_(DType::bool_, 1));
  EXPECT_SAME(lt(flat, index_const(0)), const_(DType::bool_, 0));
  EXPECT_SAME(lt(i * 4 + k, index_const(16)), lt(i, index_const(4)));
  EXPECT_SAME(lt(i * 4 + k, index_const(18)), lt(i * 4 + k, index_const(18)));
  EXPECT_SAME(lt(i + 3, j + 3), lt(i, j));
  EXPECT_SAME(U(alu(Op::CMPLE, {i * 2, j * 2})), lt(i, j + 1));
  EXPECT_SAME(U(alu(Op::CMPEQ, {i * 2, j * 2 + 1})), const_(DType::bool_, 0));
  EXPECT_SAME(U(alu(Op::NOT, {lt(i, index_const(3))})), lt(index_const(2), i));
  EXPECT_SAME(lt(index_const(-1), i), const_(DType::bool_, 1));
  EXPECT_SAME(lt(i - 2, index_const(1)) & lt(i, index_const(5)), lt(i, index_const(3)));
  U x = variable(1), y = variable(2);
  EXPECT_SAME(lt(x + 1, x), lt(x + 1, x));
  EXPECT_EQ(lt(x + 1, x)->op, Op::CMPLT) << "x + 1 may wrap";
  EXPECT_EQ(lt(x, y)->op, Op::CMPLT);
}

TEST_F(Symbolic, FloatsKeepTheirBits) {
  U f = variable(0, DType::f32);
  auto c = [](double v) { return const_(DType::f32, v); };
  EXPECT_SAME(f + c(-0.0), f);
  EXPECT_NE((f + c(0.0)).u, f.u);
  EXPECT_NE((f * c(0.0))->op, Op::CONST);
  EXPECT_SAME(f * c(1), f);
  EXPECT_NE(((f + c(1)) - c(1)).u, f.u);
  EXPECT_EQ(U(alu(Op::CMPEQ, {f, f}))->op, Op::CMPEQ);
  U rounded = cast(cast(f, DType::bf16), DType::f32);
  EXPECT_EQ(rounded->op, Op::CAST);
  EXPECT_EQ(rounded->src[0]->op, Op::CAST) << "rounding to bf16 stays";
  U narrow = variable(1, DType::bf16);
  EXPECT_SAME(cast(cast(narrow, DType::f32), DType::bf16), narrow);
  EXPECT_SAME(cast(cast(narrow, DType::f32), DType::f64), cast(narrow, DType::f64));
  EXPECT_EQ(cast(cast(variable(2, DType::f64), DType::f32), DType::bf16)->src[0]->op, Op::CAST);
}

TEST_F(Symbolic, IntegerCasts) {
  U x = variable(0, DType::i32);
  EXPECT_SAME(cast(cast(x, DType::i64), DType::i32), x);
  EXPECT_SAME(cast(cast(x, DType::i16), DType::i8), cast(x, DType::i8));
  EXPECT_EQ(cast(cast(x, DType::i8), DType::i32)->src[0]->op, Op::CAST);
  EXPECT_SAME(cast(cast(flat, DType::u8), DType::i64), flat);
  EXPECT_SAME(cast(cast(flat, DType::f32), DType::i64), flat);
  U wide = lt(cast(x, DType::i64), const_(DType::i64, 5));
  EXPECT_EQ(wide->src[0], x.u);
}

TEST_F(Symbolic, BoundsOfChecks) {
  U index = variable();
  U inside = lt(index_const(-1), index) & lt(index, index_const(10));
  U checked = node(Op::CHECK, kIndex, {index, inside}, Arg(intern(Record{0, {}, {}, {}, 10, "index"})));
  EXPECT_EQ(bounds(checked).lo, 0);
  EXPECT_EQ(bounds(checked).hi, 9);
}

TEST_F(Symbolic, Factors) {
  EXPECT_EQ(known_factor(i * 12 + j * 8), 4);
  EXPECT_EQ(known_factor(i * 12 + 3), 3);
  EXPECT_EQ(known_factor(variable()), 1);
  EXPECT_EQ(known_factor(variable() * 6), 2) << "a wrapping product keeps only the power of two";
  EXPECT_EQ(known_factor(index_const(0)) % 64, 0);
}

TEST_F(Symbolic, GatesTightenIndices) {
  U gate = lt(index_const(0), i) & lt(i, index_const(5));
  U index = (i + j * 4 - 1) / 4;
  EXPECT_SAME(U(simplify_given(index, gate)), j);
  U buffer = node(Op::PARAM, DType::f32, {index_const(100)}, Arg(int64_t{0}), 1);
  U zero = const_(DType::f32, 0), at = node(Op::INDEX, DType::f32, {buffer, index});
  U load = simplify_node(node(Op::LOAD, DType::f32, {at, gate, zero}));
  EXPECT_EQ(load->src[0]->src[1], j.u);
  U yes = const_(DType::bool_, 1), no = const_(DType::bool_, 0);
  EXPECT_EQ(simplify_node(node(Op::LOAD, DType::f32, {at, yes, zero}))->nsrc, 1);
  EXPECT_EQ(simplify_node(node(Op::LOAD, DType::f32, {at, no, zero})), zero.u);
  EXPECT_EQ(simplify_node(node(Op::STORE, DType::void_, {at, zero, yes}))->nsrc, 2);
  EXPECT_SAME(where(gate, load, zero), load);
  U store = simplify_node(node(Op::STORE, DType::void_, {at, zero, gate}));
  EXPECT_EQ(store->src[0]->src[1], j.u);
  U sum = i + j;  // of two ranges: one of them is written with the sum
  U both = lt(index_const(1), sum) & lt(sum, index_const(6));
  EXPECT_SAME(U(simplify_given((sum - 2 + k * 4) / 4, both)), k);
  // Loops have large numbers once codegen has moved them. One with as many turns as the gate leaves values is still another loop.
  for (int64_t number : {int64_t{1} << 14, int64_t{1} << 30, (int64_t{1} << 30) + 1}) {
    U tile = range(4, number, Axis::Loop);
    EXPECT_SAME(U(simplify_given((i * 4 + tile - 4) / 4, gate)), i - 1) << number;
    EXPECT_SAME(U(simplify_given(((i * 4 + tile - 4) / 4) * 8 + tile, gate)), i * 8 + tile - 8) << number;
  }
}

TEST_F(Symbolic, GatesDoNotMakeOtherLoops) {
  // A loop whose extent depends on what the gate bounds: the access is inside that very loop.
  U rest = alu(Op::MIN, {index_const(22) - i * 16, index_const(16)});
  U inner = node(Op::RANGE, kIndex, {rest / 8}, range_arg(7, Axis::Loop));
  U index = (i * 16 + inner * 8 + j - 5) / 9 + (i * 16 + j) % 16, gate = lt(i, index_const(1)) & lt(index_const(0), j);
  UOp* given = simplify_given(index, gate);
  EXPECT_NE(given, index.u);
  for (UOp* u : toposort({&given, 1}))
    EXPECT_TRUE(!u->is(Op::RANGE) || range_number(u) != 7 || u == inner.u) << print(given);
}

/// A random expression built twice: as written, and through alu().
struct Pair {
  UOp *raw, *simple;
};

class Grower {
 public:
  Grower(Random& random, DType d) : random_(random), d_(d) {
    int64_t first = random.chance(50) ? 0 : int64_t{1} << 30;  // as in ASTs, and as codegen numbers the innermost loops
    for (int64_t n = 0; n < 3; ++n) ranges_.push_back(range(random.between(1, 5), first + n, Axis::Loop));
    vector_ = node(Op::LANES, kIndex, {}, {}, 4);
  }

  Pair grow(int depth) {
    if (depth == 0 || random_.chance(10)) return leaf();
    Pair a = grow(depth - 1);
    U c = const_(d_, random_.between(1, 9));
    switch (random_.below(10)) {
      case 0: case 1: return both(Op::ADD, a, grow(depth - 1));
      case 2: return both(Op::SUB, a, grow(depth - 1));
      case 3: return both(Op::MUL, a, {c, c});
      case 4: case 5: return both(Op::IDIV, a, {c, c});
      case 6: case 7: return both(Op::MOD, a, {c, c});
      case 8: return both(random_.chance(50) ? Op::MAX : Op::MIN, a, grow(depth - 1));
      default: {
        static constexpr Op compares[] = {Op::CMPLT, Op::CMPLE, Op::CMPEQ, Op::CMPNE};
        Pair b = grow(depth - 1);
        Op op = compares[random_.below(4)];
        Pair test = {node(op, DType::bool_, {a.raw, b.raw}), alu(op, {a.simple, b.simple})};
        Pair t = grow(depth - 1);
        return {node(Op::WHERE, d_, {test.raw, t.raw, a.raw}), where(test.simple, t.simple, a.simple)};
      }
    }
  }

  std::vector<UOp*> ranges_;

 private:
  Pair both(Op op, Pair a, Pair b) { return {node(op, d_, {a.raw, b.raw}), alu(op, {a.simple, b.simple})}; }
  Pair leaf() {
    if (random_.chance(20)) {
      U c = const_(d_, random_.between(-4, 20));
      return {c, c};
    }
    U r = random_.chance(15) ? vector_ : U(ranges_[static_cast<size_t>(random_.below(3))]);
    return {cast(r, d_), cast(r, d_)};
  }
  Random& random_;
  DType d_;
  U vector_;
};

/// All combinations of the ranges' values and the lanes.
template <class Visit>
void for_all_values(const std::vector<UOp*>& ranges, Visit visit) {
  int64_t n = 1;
  for (UOp* r : ranges) n *= r->src[0]->arg.i;
  for (int64_t v = 0; v < n; ++v) {
    Leaves leaves;
    int64_t rest = v;
    for (UOp* r : ranges) leaves[r] = Arg(rest % r->src[0]->arg.i), rest /= r->src[0]->arg.i;
    visit(leaves, v % 4);
  }
}

TEST(SymbolicRandom, SimplifiedEqualsOriginalForAllValues) {
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    Arena arena;
    IrScope scope(arena);
    Random random(seed);
    static constexpr DType kTypes[] = {DType::i64, DType::i64, DType::i64, DType::i32, DType::u8, DType::i8};
    DType d = kTypes[random.below(6)];
    Grower grower(random, d);
    Pair p = grower.grow(static_cast<int>(random.between(2, 5)));
    for_all_values(grower.ranges_, [&](const Leaves& leaves, int64_t lane) {
      Arg want = Evaluator(leaves, lane)(p.raw), got = Evaluator(leaves, lane)(p.simple);
      ASSERT_EQ(want.i, got.i) << "seed " << seed << "\n" << print(p.raw) << "became\n" << print(p.simple);
      for (UOp* u : {p.raw, p.simple}) {
        ASSERT_LE(bounds(u).lo, want.i) << "seed " << seed << "\n" << print(u);
        ASSERT_GE(bounds(u).hi, want.i) << "seed " << seed << "\n" << print(u);
        ASSERT_EQ(want.i % known_factor(u), 0) << "seed " << seed << "\n" << print(u);
      }
    });
    if (HasFatalFailure()) return;
    ASSERT_EQ(simplify(p.simple), p.simple) << "seed " << seed << "\n" << print(p.simple) << print(simplify(p.simple));
  }
}

TEST(SymbolicRandom, DivisionOfEverySmallSum) {
  // Two terms and a constant by a divisor that shares factors with them: one factor tried, then the other.
  for (int64_t divisor : {6, 8, 12, 24})
    for (int64_t a = 1; a <= 12; ++a)
      for (int64_t b = 1; b <= 12; ++b) {
        Arena arena;
        IrScope scope(arena);
        U x = range(2, 0, Axis::Loop), y = range(4, 1, Axis::Loop);
        for (int64_t k = 0; k < 13; ++k) {
          U sum = x * a + y * b + k, quotient = sum / divisor, rest = sum % divisor;
          for_all_values({x, y}, [&](const Leaves& leaves, int64_t) {
            int64_t value = leaves.at(x).i * a + leaves.at(y).i * b + k;
            ASSERT_EQ(Evaluator(leaves)(quotient).i, value / divisor) << print(sum) << "/ " << divisor << " became\n" << print(quotient);
            ASSERT_EQ(Evaluator(leaves)(rest).i, value % divisor) << print(sum) << "% " << divisor << " became\n" << print(rest);
          });
          if (HasFatalFailure()) return;
        }
      }
}

TEST(SymbolicRandom, GivenAGateTheIndexIsTheSameWhereItHolds) {
  int changed = 0;
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    Arena arena;
    IrScope scope(arena);
    Random random(seed);
    Grower grower(random, kIndex);
    UOp *index = grower.grow(4).simple, *a = grower.grow(2).simple, *b = grower.grow(1).simple;
    UOp* gate = lt(a, index_const(random.between(0, 9))) & lt(index_const(random.between(-2, 4)), b);
    UOp* given = simplify_given(index, gate);
    changed += given != index;
    for_all_values(grower.ranges_, [&](const Leaves& leaves, int64_t lane) {
      if (!Evaluator(leaves, lane)(gate).i) return;
      ASSERT_EQ(Evaluator(leaves, lane)(index).i, Evaluator(leaves, lane)(given).i)
          << "seed " << seed << "\n" << print(index) << "given\n" << print(gate) << "became\n" << print(given);
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(changed, 20);
}

TEST(SymbolicRandom, IntegersThatWrap) {
  Random random(3);
  for (int t = 0; t < 20000; ++t) {
    Arena arena;
    IrScope scope(arena);
    DType d = random.dtype(true, false, false);
    static constexpr Op ops[] = {Op::ADD, Op::SUB, Op::MUL, Op::IDIV, Op::MOD, Op::AND,
                                 Op::OR,  Op::XOR, Op::SHL, Op::SHR,  Op::MAX, Op::MIN};
    UOp* raw[3] = {node(Op::VAR, d, {}, Arg(int64_t{0})), node(Op::VAR, d, {}, Arg(int64_t{1})), nullptr};
    UOp *x = raw[0], *simple = raw[0];
    for (int step = 0; step < 5; ++step) {
      UOp* other = random.chance(60) ? current_arena().make(Op::CONST, d, 1, random.value(d), {}) : raw[1];
      Op op = ops[random.below(std::size(ops))];
      x = node(op, d, {x, other});
      simple = alu(op, {simple, other});
    }
    UOp* both[2] = {x, simple};
    for (int i = 0; i < 5; ++i) {
      Leaves leaves = testing::random_leaves(both, random);
      ASSERT_EQ(Evaluator(leaves)(x).i, Evaluator(leaves)(simple).i) << print(x) << "became\n" << print(simple);
      if (d == DType::u64) continue;
      ASSERT_LE(bounds(x).lo, Evaluator(leaves)(x).i) << print(x);
      ASSERT_GE(bounds(x).hi, Evaluator(leaves)(x).i) << print(x);
    }
  }
}

TEST(SymbolicDeep, LongChainsNeedNoStack) {
  Arena arena;
  IrScope scope(arena);
  constexpr int n = 20000;
  U sum = index_const(0), product = const_(DType::f32, 1);
  U nested = range(1 << 30, 0, Axis::Loop), gate = const_(DType::bool_, 1);
  for (int64_t v = 0; v < n; ++v) {
    U x = node(Op::VAR, kIndex, {}, Arg(v)), f = node(Op::VAR, DType::f32, {}, Arg(n + v));
    sum = sum + x * (v % 7 + 1);
    product = f * product + f;
    nested = (nested / (v % 3 + 1) + x) % (1 << 29);
    gate = gate & lt(x, index_const(v));
  }
  UOp* roots[] = {sum, product, nested, gate};
  EXPECT_GT(toposort(roots).size(), 8u * n);
  EXPECT_EQ(simplify(product), product.u);
  EXPECT_NE(simplify(nested), nullptr);
}

}  // namespace
}  // namespace tiny
