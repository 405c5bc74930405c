// Identities of one or two operators. Contract of every table in this folder: the dtype is kept; the value is kept bit by bit (floats
// too: x + 0 is not x for x = -0, x*0 is not 0 for NaN); the right side has fewer nodes or is closer to the normal form
// (constants last, sums of multiples in canonical order), so rewriting ends.
#include <cmath>

#include "uop/eval.h"
#include "uop/facts.h"
#include "uop/matcher.h"

namespace tiny {

using namespace pat;

namespace {

/// Operands of a commutative operator: constants last, then as summands are ordered.
UOp* sort_operands(const Match& m) {
  UOp *a = m[x], *b = m[y];
  if (a->is(Op::CONST) || b->is(Op::CONST) || a == b) return nullptr;
  int32_t da = facts(a).depth, db = facts(b).depth;
  bool sorted = da != db ? da < db : a->refs != b->refs ? a->refs < b->refs : a->slot < b->slot;
  return sorted ? nullptr : alu(m.root->op, {b, a}).u;
}

bool first_is_not_const(const Match& m) { return !m[x]->is(Op::CONST); }

bool second_is_not_const(const Match& m) { return !m[y]->is(Op::CONST); }

bool is_unsigned_root(const Match& m) { return is_unsigned(m.root->dtype); }
bool is_not_unsigned_root(const Match& m) { return !is_unsigned(m.root->dtype); }

/// a / c = a * (1/c) where 1/c is exact and normal: c is a power of two.
UOp* divide_by_power_of_two(const Match& m) {
  int exponent;
  double c = m[c1]->arg.f, inverse = 1 / c;
  DType d = m.root->dtype;
  if (info(d).bits < 16 || std::fabs(std::frexp(c, &exponent)) != 0.5) return nullptr;
  int limit = d == DType::f64 ? 1022 : d == DType::f16 ? 14 : 126;
  if (exponent - 1 > limit || exponent - 1 < -limit) return nullptr;
  return alu(Op::MUL, {m[x], const_(d, inverse)});
}

UOp* shift_to_product(const Match& m) {
  uint64_t by = m[c1]->arg.bits;
  if (by >= info(m.root->dtype).bits) return const_(m.root->dtype, 0);
  return alu(Op::MUL, {m[x], const_(m.root->dtype, static_cast<int64_t>(uint64_t{1} << by))});
}

UOp* merge_shifts(const Match& m) {
  uint64_t a = m[c1]->arg.bits, b = m[c2]->arg.bits, bits = info(m.root->dtype).bits;
  if (a >= bits || b >= bits) return nullptr;
  if (a + b >= bits && !is_signed(m.root->dtype)) return const_(m.root->dtype, 0);
  return alu(Op::SHR, {m[x], const_(m.root->dtype, static_cast<int64_t>(std::min(a + b, bits - 1)))});
}

UOp* lane_of_scalar(const Match& m) { return m[x]->numel == 1 ? m[x] : nullptr; }
UOp* lane_of_lanes(const Match& m) { return m[x]->is(Op::LANES) ? index_const(m.root->arg.i).u : nullptr; }

constexpr Pat neg(const Pat& a) { return op(Op::NEG, a); }
constexpr Pat abs(const Pat& a) { return op(Op::ABS, a); }
constexpr Pat floor(const Pat& a) { return op(Op::FLOOR, a); }
constexpr Pat ceil(const Pat& a) { return op(Op::CEIL, a); }
constexpr Pat trunc(const Pat& a) { return op(Op::TRUNC, a); }
constexpr Pat round(const Pat& a) { return op(Op::ROUND, a); }
constexpr Pat shl(const Pat& a, const Pat& b) { return op(Op::SHL, a, b); }
constexpr Pat shr(const Pat& a, const Pat& b) { return op(Op::SHR, a, b); }

constexpr Rule kRules[] = {
  // constants last
  {c1 + x, x + c1, all_dtypes, when(first_is_not_const)},
  {c1 * x, x * c1, all_dtypes, when(first_is_not_const)},
  {max(c1, x), max(x, c1), exact, when(first_is_not_const)},
  {min(c1, x), min(x, c1), exact, when(first_is_not_const)},
  {c1 & x, x & c1, exact, when(first_is_not_const)},
  {c1 | x, x | c1, exact, when(first_is_not_const)},
  {c1 ^ x, x ^ c1, exact, when(first_is_not_const)},
  {c1 == x, x == c1, all_dtypes, when(first_is_not_const)},
  {c1 != x, x != c1, all_dtypes, when(first_is_not_const)},

  // neutral and absorbing elements
  {x + 0, x, exact},
  {x + kNegativeZero, x, floats},
  {x - 0, x},
  {x * 1, x},
  {x * 0, lit(0), exact},
  {x * -1, -x, floats},
  {x / 1, x, ints},
  {op(Op::FDIV, x, lit(1)), x, floats},
  {op(Op::FDIV, x, c1), call(divide_by_power_of_two), floats},
  {x & 0, lit(0), exact},
  {x & -1, x, exact},
  {x | 0, x, exact},
  {x | -1, lit(-1), exact},
  {x ^ 0, x, exact},
  {x ^ -1, !x, exact},
  {shl(x, lit(0)), x, ints},
  {shr(x, lit(0)), x, ints},
  {op(Op::CHECK, x, lit(1)), x},

  // the same operand twice
  {x - x, lit(0), exact},
  {max(x, x), x},
  {min(x, x), x},
  {x & x, x, exact},
  {x | x, x, exact},
  {x ^ x, lit(0), exact},
  {~(x & !x), lit(0), exact},
  {~(x | !x), lit(-1), exact},
  {~((x & y) & x), x & y, exact},
  {~((x & y) & y), x & y, exact},
  {~((x | y) | x), x | y, exact},
  {~((x | y) | y), x | y, exact},
  {~((x | y) & x), x, exact},
  {~((x | y) & y), y, exact},
  {~((x & y) | x), x, exact},
  {~((x & y) | y), y, exact},
  {max(max(x, y), y), max(x, y), exact},
  {min(min(x, y), y), min(x, y), exact},

  // twice the same operator
  {neg(neg(x)), x},
  {!!x, x, exact},
  {abs(abs(x)), abs(x)},
  {abs(x), x, ints, when(is_unsigned_root)},
  {abs(neg(x)), abs(x), all_dtypes, when(is_not_unsigned_root)},
  {floor(floor(x)), floor(x), floats},
  {ceil(ceil(x)), ceil(x), floats},
  {trunc(trunc(x)), trunc(x), floats},
  {round(round(x)), round(x), floats},
  {x + neg(y), x - y, floats},
  {x - neg(y), x + y, floats},
  {(x & c1) & c2, x & (c1 & c2), exact},
  {(x | c1) | c2, x | (c1 | c2), exact},
  {(x ^ c1) ^ c2, x ^ (c1 ^ c2), exact},
  {max(max(x, c1), c2), max(x, max(c1, c2)), exact},
  {min(min(x, c1), c2), min(x, min(c1, c2)), exact},
  {(x & c1) & y, (x & y) & c1, exact, when(second_is_not_const)},
  {x & (y & c1), (x & y) & c1, exact, when(first_is_not_const)},
  {shl(x, c1), call(shift_to_product), ints},
  {shr(shr(x, c1), c2), call(merge_shifts), ints},

  // lanes of what is one value in all of them
  {op(Op::LANE, x), call(lane_of_scalar)},
  {op(Op::LANE, x), call(lane_of_lanes), ints},

  {x * y, call(sort_operands), exact},
  {max(x, y), call(sort_operands), exact},
  {min(x, y), call(sort_operands), exact},
  {x & y, call(sort_operands), exact},
  {x | y, call(sort_operands), exact},
  {x ^ y, call(sort_operands), exact},
  {x == y, call(sort_operands), bools},
  {x != y, call(sort_operands), bools},
};

}  // namespace

RuleTable simple_rules() { return kRules; }

}  // namespace tiny
