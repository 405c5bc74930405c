// Integer operators with the cases that machines leave undefined, Threefry, and MAX and MIN of floats.
#include "codegen/decomp/functions.h"

namespace tiny::decomp {

/// Threefry-2x32 with 20 rounds; word 0 is the low half. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
U threefry_u64(U counter, U key) {
  constexpr DType u32 = DType::u32;
  constexpr int rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  U k[3] = {cast(key, u32), cast(shr(key, 32), u32), {}};
  k[2] = bits_xor(bits_xor(k[0], k[1]), const_(u32, int64_t{0x1BD11BDA}));
  U x = cast(counter, u32) + k[0], y = cast(shr(counter, 32), u32) + k[1];
  for (int i = 0; i < 20; ++i) {
    x = x + y;
    y = bits_xor(bits_or(shl(y, rotations[i % 8]), shr(y, 32 - rotations[i % 8])), x);
    if (i % 4 == 3) x = x + k[(i / 4 + 1) % 3], y = y + k[(i / 4 + 2) % 3] + int64_t{i / 4 + 1};
  }
  return bits_or(shl(cast(y, DType::u64), 32), cast(x, DType::u64));
}

namespace {

struct Divisor {
  U safe, zero, minus_one;  // the last two are null where the bounds exclude them
};
Divisor check_divisor(U a, U b) {
  Divisor d{b, {}, {}};
  Bounds by = bounds(b);
  bool may_overflow = is_signed(b->dtype) && by.lo <= -1 && by.hi >= -1 && (a->dtype != kIndex || bounds(a).lo == INT64_MIN);
  if (by.lo <= 0 && by.hi >= 0) d.zero = eq(b, like(b, 0));
  if (may_overflow) d.minus_one = eq(b, like(b, -1));
  if (d.zero) d.safe = tiny::where(d.zero, like(b, 1), d.safe);
  if (d.minus_one) d.safe = tiny::where(d.minus_one, like(b, 1), d.safe);
  return d;
}

}  // namespace

/// a / b towards zero; 0 for b = 0, -a for b = -1 (wraps).
U integer_divide(U a, U b) {
  auto [safe, zero, minus_one] = check_divisor(a, b);
  U q = node(Op::IDIV, a->dtype, {a, safe});
  if (minus_one) q = tiny::where(minus_one, neg(a), q);
  return zero ? tiny::where(zero, like(a, 0), q) : q;
}

/// Remainder with the sign of a; 0 for b = 0 and b = -1, since a mod 1 is 0.
U integer_modulo(U a, U b) { return node(Op::MOD, a->dtype, {a, check_divisor(a, b).safe}); }

U shift(Op op, U a, U b) {
  int64_t bits = info(a->dtype).bits;
  Bounds by = bounds(b);
  if (by.lo >= 0 && by.hi < bits) return node(op, a->dtype, {a, b});
  // a negative count is, as an unsigned one, beyond the width
  U in_range = tiny::lt(b, like(b, bits));
  if (is_signed(b->dtype)) in_range = both(in_range, le(like(b, 0), b));
  bool fills_sign = op == Op::SHR && is_signed(a->dtype);
  U count = tiny::where(in_range, b, like(b, fills_sign ? bits - 1 : int64_t{0}));
  U shifted = node(op, a->dtype, {a, count});
  return fills_sign ? shifted : tiny::where(in_range, shifted, like(a, 0));
}

/// x86's maxps and minps take the second operand when either is NaN or both are equal: one of them on (b, a), and a select where b may be
/// NaN. In a reduction b is the new element, so that the select is off the chain through the accumulator.
U float_extreme(Op op, U a, U b) {
  U pick = tiny::where(op == Op::MAX ? tiny::lt(a, b) : tiny::lt(b, a), b, a);
  bool never_nan = b->is(Op::CONST) && b->arg.f == b->arg.f;
  return never_nan ? pick : tiny::where(is_nan(b), b, pick);
}

}  // namespace tiny::decomp
