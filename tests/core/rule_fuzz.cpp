// Every rule of every table against eval(): random operands, both sides, equal values. A rule that never fires fails.
#include <gtest/gtest.h>

#include <cstdlib>

#include "test_uop_helpers.h"
#include "uop/matcher.h"

namespace tiny {
namespace {

using pat::Kind;
using pat::PatNode;
using testing::Evaluator;
using testing::Leaves;
using testing::Random;
using testing::random_leaves;
using testing::same_value;

int tries_per_rule() {
  const char* n = std::getenv("TINY_FUZZ");
  return n ? std::atoi(n) : 1000;
}

constexpr int64_t kLanes = 4;

/// Draws expressions that fit a pattern.
class Drawer {
 public:
  explicit Drawer(Random& random) : random_(random) {}

  /// An instance of the rule's left side; null when the drawn types do not meet.
  UOp* instance(const Rule& rule) {
    std::fill(std::begin(slots_), std::end(slots_), nullptr);
    const PatNode& root = rule.lhs.n[0];
    DType operand = random_.dtype(rule.dtypes & pat::ints, rule.dtypes & pat::bools, rule.dtypes & pat::floats);
    int at = 0;
    if (root.op == Op::CHECK) operand = DType::bool_;
    return build(rule, at, has(root.op, group::Cmp) ? DType::bool_ : operand, operand);
  }

  UOp* leaf(DType d, int depth = 2) {
    if (random_.chance(10)) return constant(d);
    if (d == kIndex && random_.chance(10)) return node(Op::LANES, d, {}, {}, kLanes);
    if (is_float(d) || is_bool(d) || random_.chance(30)) return node(Op::VAR, d, {}, Arg(random_.below(3) + 10 * static_cast<int64_t>(d)));
    UOp* r = cast(range(random_.between(1, 12), random_.below(4), Axis::Loop), d);
    if (depth == 0 || random_.chance(40)) return r;
    U c = constant(d), small = const_(d, random_.between(1, 9));
    switch (random_.below(7)) {
      case 0: return alu(Op::ADD, {r, c});
      case 1: return alu(Op::MUL, {r, small});
      case 2: return alu(Op::ADD, {alu(Op::MUL, {r, small}), leaf(d, depth - 1)});
      case 3: return alu(Op::IDIV, {leaf(d, depth - 1), small});
      case 4: return alu(Op::MOD, {leaf(d, depth - 1), small});
      case 5: return alu(Op::SUB, {leaf(d, depth - 1), r});
      default: return alu(Op::NEG, {r});
    }
  }

 private:
  UOp* constant(DType d) { return current_arena().make(Op::CONST, d, 1, random_.value(d), {}); }

  UOp* slot(const PatNode& n, DType d) {
    UOp*& bound = slots_[n.slot];
    if (!bound) bound = n.kind == Kind::Const ? constant(d) : leaf(d);
    return bound->dtype == d ? bound : nullptr;
  }

  /// `dtype`: of the result; `operand`: of the operands of the root.
  UOp* build(const Rule& rule, int& at, DType dtype, DType operand) {
    const PatNode n = rule.lhs.n[at++];
    if (n.kind == Kind::Literal) return n.negative_zero ? const_(dtype, -0.0) : const_(dtype, int64_t{n.value});
    if (n.kind != Kind::Node) return slot(n, dtype);
    bool root = at == 1;
    DType source = root ? operand : dtype;
    if (n.op == Op::CAST || n.op == Op::BITCAST) {
      if (root) dtype = random_.dtype(true, true, true);
      else source = inner_source(rule, at, dtype);
      if (n.op == Op::BITCAST && info(source).bits != info(dtype).bits) return nullptr;
      // A CONST does not keep the payload of a NaN, so eval() loses bits on the way through a float type that registers keep.
      if (n.op == Op::BITCAST && rule.lhs.n[at].op == Op::BITCAST && is_float(source)) return nullptr;
      if (n.op == Op::BITCAST && (is_bool(source) || is_bool(dtype))) return nullptr;
    } else if (has(n.op, group::Cmp) && !root) {
      if (!is_bool(dtype)) return nullptr;
      source = inner_source(rule, at, random_.dtype(true, true, true));
    }
    UOp* src[3] = {};
    for (int i = 0; i < n.nsrc; ++i) {
      bool condition = n.op == Op::WHERE && i == 0, checked = n.op == Op::CHECK && i == 0;
      src[i] = build(rule, at, condition ? DType::bool_ : checked ? dtype : source, source);
      if (!src[i]) return nullptr;
    }
    return node(n.op, dtype, std::span<UOp* const>(src, n.nsrc), n.op == Op::LANE ? Arg(random_.below(kLanes)) : Arg());
  }

  /// The type of a bound operand where there is one, else any.
  DType inner_source(const Rule& rule, int at, DType otherwise) {
    const PatNode& n = rule.lhs.n[at];
    if (n.kind <= Kind::Const && slots_[n.slot]) return slots_[n.slot]->dtype;
    return random_.chance(70) ? random_.dtype(true, true, true) : otherwise;
  }

  Random& random_;
  UOp* slots_[pat::kSlots] = {};
};

/// The rules on memory accesses have no value to compare here; test_symbolic_valid.cpp has them.
bool has_memory(const Rule& r) {
  for (int i = 0; i < r.lhs.size; ++i)
    if (Op o = r.lhs.n[i].op; r.lhs.n[i].kind == Kind::Node && (o == Op::LOAD || o == Op::STORE)) return true;
  return false;
}

void expect_equal(UOp* before, UOp* after, Random& random, const std::string& what) {
  ASSERT_EQ(before->dtype, after->dtype) << what << "\n" << print(before) << "became\n" << print(after);
  UOp* both[2] = {before, after};
  for (int i = 0; i < 6; ++i) {
    Leaves leaves = random_leaves(both, random);
    int64_t lane = random.below(kLanes);
    Arg a = Evaluator(leaves, lane)(before), b = Evaluator(leaves, lane)(after);
    ASSERT_TRUE(same_value(before->dtype, a, b)) << what << "\n" << print(before) << "became\n"
                                                 << print(after) << a.i << " and " << b.i << " " << a.f << " and " << b.f;
  }
}

TEST(RuleFuzz, EveryRuleKeepsTheValue) {
  int tries = tries_per_rule();
  for (RuleTable table : rule_tables()) {
    for (const Rule& rule : table) {
      if (has_memory(rule)) continue;
      Random random(static_cast<uint64_t>(rule.line));
      int fired = 0;
      for (int t = 0; t < tries * 10 && (t < tries || fired == 0); ++t) {
        Arena arena;
        IrScope scope(arena);
        UOp* before = Drawer(random).instance(rule);
        UOp* after = before ? apply_rule(rule, before) : nullptr;
        if (!after) continue;
        ++fired;
        expect_equal(before, after, random, print(rule));
        if (HasFatalFailure()) return;
      }
      EXPECT_GT(fired, 0) << print(rule) << " never fires";
    }
  }
}

TEST(RuleFuzz, AllRulesTogether) {
  Random random(7);
  for (int t = 0; t < tries_per_rule() * 10; ++t) {
    Arena arena;
    IrScope scope(arena);
    RuleTable table = rule_tables()[static_cast<size_t>(random.below(static_cast<int64_t>(rule_tables().size())))];
    const Rule& rule = table[static_cast<size_t>(random.below(static_cast<int64_t>(table.size())))];
    if (has_memory(rule)) continue;
    UOp* before = Drawer(random).instance(rule);
    if (!before) continue;
    UOp* after = simplify(before);
    expect_equal(before, after, random, "simplify");
    if (HasFatalFailure()) return;
    ASSERT_EQ(simplify(after), after) << "not at a fixed point:\n" << print(before) << "became\n" << print(after);
  }
}

}  // namespace
}  // namespace tiny
