// Quotients and remainders of integers by constants. IDIV rounds towards zero, so most rules need a dividend that is not negative.
// Contract: see simple.cpp.
#include "uop/linear.h"
#include "uop/matcher.h"

namespace tiny {

using namespace pat;

namespace {

int64_t value(UOp* c) { return c->arg.i; }

/// A constant divisor that means what it says: u64 constants beyond i64 look negative.
bool positive(UOp* c) { return value(c) > 0; }

UOp* small_remainder(const Match& m) {  // x % c = x for |x| < c
  int64_t c = value(m[c1]);
  Bounds b = bounds(m[x]);
  if (m.root->dtype == DType::u64 && b.lo < 0) return nullptr;
  return c > 0 && b.hi < c && b.lo > -c ? m[x] : nullptr;
}

UOp* negative_divisor(const Match& m) {  // x / -c = -(x / c)
  int64_t c = value(m[c1]);
  if (!is_signed(m.root->dtype) || c >= 0 || c == dtype_bounds(m.root->dtype).lo) return nullptr;
  return alu(Op::NEG, {alu(Op::IDIV, {m[x], const_(m.root->dtype, -c)})});
}

UOp* remainder_of_negative(const Match& m) {  // the sign of the divisor does not matter
  int64_t c = value(m[c1]);
  if (!is_signed(m.root->dtype) || c >= 0 || c == dtype_bounds(m.root->dtype).lo) return nullptr;
  return alu(Op::MOD, {m[x], const_(m.root->dtype, -c)});
}

UOp* quotient_of_quotient(const Match& m) {  // (x / c1) / c2 = x / (c1*c2)
  int64_t a = value(m[c1]), b = value(m[c2]), greatest = m.root->dtype == DType::u64 ? INT64_MAX : dtype_bounds(m.root->dtype).hi;
  if (a <= 0 || b <= 0) return nullptr;
  if (a > greatest / b) return m.root->dtype == DType::u64 || bounds(m[x]).lo < -greatest ? nullptr : const_(m.root->dtype, 0).u;
  return alu(Op::IDIV, {m[x], const_(m.root->dtype, a * b)});
}

UOp* quotient_of_remainder(const Match& m) {  // (x % (a*b)) / b = (x / b) % a
  int64_t c = value(m[c1]), b = value(m[c2]);
  if (c <= 0 || b <= 0 || c % b != 0 || bounds(m[x]).lo < 0) return nullptr;
  return alu(Op::MOD, {alu(Op::IDIV, {m[x], m[c2]}), const_(m.root->dtype, c / b)});
}

UOp* remainder_of_remainder(const Match& m) {  // (x % (a*b)) % b = x % b
  int64_t c = value(m[c1]), b = value(m[c2]);
  return c > 0 && b > 0 && c % b == 0 ? alu(Op::MOD, {m[x], m[c2]}).u : nullptr;
}

UOp* sum_quotient(const Match& m) { return value(m[c1]) > 1 ? divide_linear(m[x], value(m[c1])) : nullptr; }
UOp* sum_remainder(const Match& m) { return value(m[c1]) > 1 ? remainder_linear(m[x], value(m[c1])) : nullptr; }

/// (-x) / c = -(x / c) and (-x) % c = -(x % c): rounding towards zero is odd. -x must not wrap.
UOp* quotient_of_negative(const Match& m) {
  if (!is_signed(m.root->dtype) || bounds(m[x]).lo < 0 || !positive(m[c1])) return nullptr;
  return alu(Op::NEG, {alu(m.root->op, {m[x], m[c1]})});
}

constexpr Rule kRules[] = {
  {x / 0, lit(0), ints},
  {x % 0, lit(0), ints},
  {x % 1, lit(0), ints},
  {x / c1, call(negative_divisor), ints},
  {x % c1, call(remainder_of_negative), ints},
  {x % c1, call(small_remainder), ints},
  {(x / c1) / c2, call(quotient_of_quotient), ints},
  {(x % c1) / c2, call(quotient_of_remainder), ints},
  {(x % c1) % c2, call(remainder_of_remainder), ints},
  {(-x) / c1, call(quotient_of_negative), ints},
  {(-x) % c1, call(quotient_of_negative), ints},
  {x / c1, call(sum_quotient), ints},
  {x % c1, call(sum_remainder), ints},
};

}  // namespace

RuleTable divmod_rules() { return kRules; }

}  // namespace tiny
