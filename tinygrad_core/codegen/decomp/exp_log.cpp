// Exponentials and logarithms. Method: range reduction by powers of two, as in Muller, "Elementary Functions", chapters 4 and 11.
#include "codegen/decomp/functions.h"

namespace tiny::decomp {
namespace {

constexpr double kLog2e = 1.4426950408889634;
constexpr double kLn2 = 0.6931471805599453, kLn2Rest = 2.3190468138462996e-17;  // their sum is ln 2 to 2^-107
// ln 2 in two parts; n * the first is exact for |n| < 2^10
constexpr double kLn2HighF32 = 0x1.63p-1, kLn2LowF32 = -0x1.bd0105c610ca8p-13;
// the same for f64, n below 2^11
constexpr double kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33;
// Adding these rounds a float to the nearest integer and leaves it in the low bits.
constexpr double kRoundF32 = 0x1.8p23, kRoundF64 = 0x1.8p52;

struct Rounded {
  U number;   // the nearest integer, as a float
  U integer;  // the same as an integer
};
Rounded round_f32(U t) {
  U shifted = add(t, kRoundF32);
  return {sub(shifted, kRoundF32), bitcast(shifted, DType::i32) - 0x4B400000};
}

/// p * 2^n for n between -150 and 129: two factors, so that denormals and overflow come out right.
U scale_f32(U p, U n) {
  U half = shr(n, 1);
  U first = bitcast(shl(half + 127, 23), DType::f32), second = bitcast(shl(n - half + 127, 23), DType::f32);
  return p * first * second;
}

/// (e^r - 1 - r) / r^2 on [-ln2/2, ln2/2]: 2^-28.2 of e^r
U exp_tail_f32(U r) { return polynomial(r, {0x1.fffffcp-2, 0x1.55548ap-3, 0x1.555914p-5, 0x1.123fc8p-7, 0x1.6a1c14p-10}); }

/// x = n ln2 + r
struct Reduced {
  Rounded n;
  U r;
};
Reduced reduce_exp_f32(U x) {
  Rounded n = round_f32(mul(x, kLog2e));
  return {n, fma(n.number, -kLn2LowF32, fma(n.number, -kLn2HighF32, x))};
}

}  // namespace

U exp_f32(U x) {
  x = at_most(at_least(x, -104.0), 89.0);
  auto [n, r] = reduce_exp_f32(x);
  U p = add(fma(r * r, exp_tail_f32(r), r), 1.0);
  return scale_f32(p, n.integer);
}

U exp2_f32(U x) {
  x = at_most(at_least(x, -151.0), 129.0);
  Rounded n = round_f32(x);
  U r = x - n.number;
  // (2^r - 1) / r on [-1/2, 1/2]: 2^-28.4 of 2^r
  U p = fma(r, polynomial(r, {0x1.62e432p-1, 0x1.ebfbe2p-3, 0x1.c6ae5cp-5, 0x1.3b26eap-7, 0x1.5f7cb8p-10, 0x1.471eb4p-13}), 1.0);
  return scale_f32(p, n.integer);
}

U expm1_f32(U x) {
  U limited = at_most(at_least(x, -18.0), 89.0);  // below, the result is -1
  auto [n, r] = reduce_exp_f32(limited);
  U p = fma(r * r, exp_tail_f32(r), r);           // e^r - 1
  // 2^(n-1) (p + 1) - 1/2, doubled last so that n = 128 does not overflow too early
  U scale = bitcast(shl(n.integer + 126, 23), DType::f32);
  U result = mul(fma(p, scale, sub(scale, 0.5)), 2.0);
  return where(lt(abs(x), 0x1p-26), x, result);   // keeps denormals and the sign of zero
}

namespace {

/// x = 2^e * m with m in [sqrt(1/2), sqrt(2)); x positive and finite, denormals included.
struct Split {
  U exponent, mantissa;
};
Split split_f32(U x) {
  U tiny = lt(x, 0x1p-126);
  x = tiny::where(tiny, mul(x, 0x1p23), x);
  constexpr int64_t sqrt_half = 0x3F3504F3;
  U i = bitcast(x, DType::i32) - sqrt_half;
  U e = cast(shr(i, 23), DType::f32);
  return {tiny::where(tiny, sub(e, 23.0), e), bitcast(bits_and(i, 0x7FFFFF) + sqrt_half, DType::f32)};
}

/// log(1+f) - f on [sqrt(1/2)-1, sqrt(2)-1]: 2^-29.3 of log(1+f)
U log_tail_f32(U f) {
  U p = polynomial(f, {0x1.555548p-2, -0x1.ffffeap-3, 0x1.99a512p-3, -0x1.55641ap-3, 0x1.232aa4p-3, -0x1.fafb5cp-4, 0x1.e6f718p-4,
                       -0x1.e53e06p-4, 0x1.1c26cap-4});
  U square = f * f;
  return fma(square, -0.5, square * f * p);
}

/// What a logarithm is where x is not positive and finite: -inf at 0, NaN below, infinity and NaN themselves.
U log_special(U x, U result, double zero = 0) {
  U special = tiny::where(eq(x, zero), like(x, -kInf), where(lt(x, zero), kNan, x));
  return tiny::where(both(gt(x, zero), lt(x, kInf)), result, special);
}

/// log(1+f) * (high + low) + exponent * (unit_high + unit_low)
U scaled_log_f32(U e, U f, double high, double low, double unit_high, double unit_low) {
  U small = fma(e, unit_low, fma(log_tail_f32(f), high + low, mul(f, low)));
  return fma(e, unit_high, fma(f, high, small));
}

}  // namespace

U log_f32(U x) {
  auto [e, m] = split_f32(x);
  U f = sub(m, 1.0);
  U tail = fma(e, kLn2LowF32, log_tail_f32(f));
  return log_special(x, fma(e, kLn2HighF32, f + tail));
}

U log2_f32(U x) {
  auto [e, m] = split_f32(x);
  constexpr double high = 0x1.715p0;  // few bits: its product with f is exact without a fused multiply-add, but for f's last bits
  return log_special(x, scaled_log_f32(e, sub(m, 1.0), high, kLog2e - high, 1.0, 0.0));
}

U log10_f32(U x) {
  auto [e, m] = split_f32(x);
  constexpr double high = 0x1.bc8p-2, log10e = 0.43429448190325182765, unit = 0x1.344p-2, log10_2 = 0.30102999566398119521;
  return log_special(x, scaled_log_f32(e, sub(m, 1.0), high, log10e - high, unit, log10_2 - unit));
}

U log1p_f32(U x) {
  U u = add(x, 1.0);
  U part = sub(u, 1.0), lost = (x - part) + add(neg(u - part), 1.0);  // u + lost = 1 + x exactly (Knuth's TwoSum)
  auto [e, m] = split_f32(u);
  // lost is nothing beyond 2^24, where 2^-e would leave the range
  U down = bitcast(shl(cast(neg(at_most(e, 100.0)), DType::i32) + 127, 23), DType::f32);
  U f = fma(lost, down, sub(m, 1.0));
  U result = fma(e, kLn2HighF32, f + fma(e, kLn2LowF32, log_tail_f32(f)));
  return tiny::where(lt(abs(x), 0x1p-26), x, log_special(x, result, -1.0));
}

// ---- f64

/// (e^r - 1 - r) / r^2 on [-ln2/2, ln2/2]: 2^-64 of e^r
U exp_tail_f64(U r) {
  return polynomial(r, {0.5, 0.16666666666666682, 0.041666666666666088, 0.0083333333333169158, 0.0013888888889117181,
                        0.00019841269896684447, 2.4801586924671548e-05, 2.7557234554887607e-06, 2.7557582776332951e-07,
                        2.5112145926247545e-08, 2.0826536484767671e-09});
}

U power_of_two_f64(U n) { return bitcast(shl(bitcast(add(n, kRoundF64 + 1023.0), DType::i64), 52), DType::f64); }

ReducedWide reduce_exp_f64(U x) {
  U n = sub(add(mul(x, kLog2e), kRoundF64), kRoundF64);
  return {n, fma(n, -kLn2Low, fma(n, -kLn2High, x))};
}

namespace {

struct ScaledWide {
  U n, p;
};
ScaledWide exp_parts_f64(U x) {
  auto [n, r] = reduce_exp_f64(x);
  return {n, add(fma(r * r, exp_tail_f64(r), r), 1.0)};
}

/// p * 2^n, in two steps: denormals and overflow come out right.
U scale_f64(U p, U n) {
  U half = sub(add(mul(n, 0.5), kRoundF64), kRoundF64);
  return p * power_of_two_f64(half) * power_of_two_f64(n - half);
}

}  // namespace

U exp_wide(U x) {
  auto [n, p] = exp_parts_f64(at_most(at_least(x, -700.0), 700.0));
  return p * power_of_two_f64(n);
}

U exp_f64(U x) {
  auto [n, p] = exp_parts_f64(at_most(at_least(x, -746.0), 710.0));
  return scale_f64(p, n);
}

U half_exp_f64(U x) {
  auto [n, p] = exp_parts_f64(at_most(at_least(x, -746.0), 711.0));
  return scale_f64(p, sub(n, 1.0));
}

U exp2_times(U factor, Sum x) {
  U n = sub(add(x.high, kRoundF64), kRoundF64);
  const Sum r = sum_of(x.high - n, x.low);
  U t = mul(r.high, kLn2), low = fma(r.high, kLn2Rest, fma(r.high, like(n, kLn2), fma(r.low, kLn2, neg(t))));
  const Sum p = sum_of(like(n, 1.0), t + fma(t * t, exp_tail_f64(t), low));
  return scale_f64(fma(factor, p.high, factor * p.low), n);
}

U exp2_sum(Sum x) { return exp2_times(like(x.high, 1.0), x); }

U exp2_f64(U x) { return exp2_sum({at_most(at_least(x, -1076.0), 1025.0), like(x, 0.0)}); }

Sum sum_of(U a, U b) {
  U high = a + b;
  return {high, (a - high) + b};
}

U quotient(Sum a, Sum b) {
  U q = div(a.high, b.high);
  return q + div(fma(neg(q), b.high, a.high) + fma(neg(q), b.low, a.low), b.high);
}

/// 2^n (e^r - 1) + 2^n - 1 by halves, doubled last so that n = 1024 does not overflow too early. The greater part is exact (Knuth's
/// TwoSum).
Sum expm1_sum(U x) {
  U n = reduce_exp_f64(x).n, first = fma(n, -kLn2High, x), r = fma(n, -kLn2Low, first);
  U scale = power_of_two_f64(sub(n, 1.0)), small = fma(r * r, exp_tail_f64(r), fma(n, -kLn2Low, first - r)) * scale;
  U a = r * scale, b = sub(scale, 0.5), s = a + b, back = s - a, error = (a - (s - back)) + (b - back);
  U none = eq(n, 0.0);
  Sum half = sum_of(tiny::where(none, a, s), tiny::where(none, small, error + small));
  return {mul(half.high, 2.0), mul(half.low, 2.0)};
}

U expm1_f64(U x) {
  U result = expm1_sum(at_most(at_least(x, -40.0), 710.0)).high;  // below, the result is -1
  return where(lt(abs(x), 0x1p-55), x, result);                   // keeps denormals and the sign of zero
}

namespace {

/// x = 2^exponent m with m in [sqrt(1/2), sqrt(2)), log(m) = f - half_square + rest, where rest is the least and rounded.
struct LogParts {
  U exponent, f, half_square, rest;
};
LogParts log_parts_f64(U x) {
  constexpr int64_t sqrt_half = 0x3FE6A09E667F3BCD;
  U i = bitcast(x, DType::i64) - sqrt_half;
  // the exponent as a float without a 64-bit conversion, which few processors have: its bits under those of 2^52
  U biased = shr(bitcast(i + (int64_t{1024} << 52), DType::u64), 52);
  U e = sub(bitcast(bits_or(biased, const_(DType::u64, int64_t{0x4330000000000000})), DType::f64), 0x1p52 + 1024.0);
  U m = bitcast(bits_and(i, 0xFFFFFFFFFFFFF) + sqrt_half, DType::f64);
  U f = sub(m, 1.0), s = div(f, add(f, 2.0)), z = s * s, half_square = mul(f * f, 0.5);
  // (log((1+s)/(1-s))/s - 2) / s^2: 2^-59.5 of the whole
  U tail = z * polynomial(z, {0.66666666666667351, 0.39999999999407532, 0.28571428744139399, 0.22222198378066291, 0.18183575212059067,
                              0.15313754057819853, 0.14799087171205128});
  return {e, f, half_square, s * (half_square + tail)};
}

/// Of x positive and finite, denormals included: what log_parts_f64 says of it.
LogParts log_parts_of_any(U x) {
  U tiny = lt(x, 0x1p-1022);
  LogParts p = log_parts_f64(tiny::where(tiny, mul(x, 0x1p54), x));
  p.exponent = tiny::where(tiny, sub(p.exponent, 54.0), p.exponent);
  return p;
}

U log_of_parts(const LogParts& p) {
  U low = fma(p.exponent, kLn2Low, p.rest);
  return fma(p.exponent, kLn2High, p.f - (p.half_square - low));
}

/// log(m) * (unit + rest) + exponent * (of_two + of_two_rest), exponent * of_two being exact.
U scaled_log_f64(const LogParts& p, double unit, double rest, double of_two, double of_two_rest) {
  U high = p.f - p.half_square, low = ((p.f - high) - p.half_square) + p.rest;  // exact but for p.rest
  U product = mul(high, unit), error = fma(high, unit, neg(product));
  U small = error + fma(high, rest, fma(low, unit, mul(p.exponent, of_two_rest)));
  U whole = mul(p.exponent, of_two), sum = whole + product;                    // whole is 0 or greater than product
  return sum + (((whole - sum) + product) + small);
}

}  // namespace

U log_normal_f64(U x) { return log_of_parts(log_parts_f64(x)); }

namespace {
Sum product(const Sum& a, const Sum& b) {
  U high = a.high * b.high;
  return {high, fma(a.high, b.high, neg(high)) + fma(a.high, b.low, a.low * b.high)};
}
}  // namespace

/// 2 s + 2/3 s^3 + s^5 R(s^2) with s = f / (2 + f), the first two terms as sums of two numbers.
Sum log2_sum(U x) {
  const LogParts p = log_parts_of_any(x);
  U d = add(p.f, 2.0), rest_of_d = (like(x, 2.0) - d) + p.f, high = div(p.f, d);
  const Sum s{high, div(fma(neg(high), d, p.f) - high * rest_of_d, d)}, z = product(s, s);
  // (2 atanh(s)/s - 2 - 2/3 z) / z^2: 2^-53.8
  U r = z.high * polynomial(z.high, {0.40000000000000002, 0.28571428571429369, 0.22222222221654733, 0.1818181833565416, 0.15384594934597917,
                                     0.13334806212100603, 0.11706195689881364, 0.11723603622905411});
  Sum inner = sum_of(like(x, 0.6666666666666666), r);
  inner.low = add(inner.low, 3.700743415417188e-17);
  const Sum third = product(product(s, z), inner);
  Sum log = sum_of(mul(s.high, 2.0), third.high);
  log.low = log.low + fma(s.low, 2.0, third.low);
  const Sum of_m = product(log, {like(x, kLog2e), like(x, 2.0355273740931033e-17)});
  Sum all = sum_of(p.exponent, of_m.high);  // a whole number is 0 or the greater
  all.low = all.low + of_m.low;
  return sum_of(all.high, all.low);
}

U log2_f64(U x) {
  return log_special(x, scaled_log_f64(log_parts_of_any(x), kLog2e, 2.0355273740931033e-17, 1.0, 0.0));
}

U log10_f64(U x) {
  constexpr double log10e = 0.4342944819032518, log10e_rest = 1.098319650216765e-17, of_two = 0x1.34413509f6p-2;
  constexpr double of_two_rest = 0x1.9fef311f12b36p-42;  // log10(2) less the number above
  return log_special(x, scaled_log_f64(log_parts_of_any(x), log10e, log10e_rest, of_two, of_two_rest));
}

U log1p_f64(U x) {
  U u = add(x, 1.0);
  U part = sub(u, 1.0), lost = (x - part) + add(neg(u - part), 1.0);  // u + lost = 1 + x exactly (Knuth's TwoSum)
  LogParts p = log_parts_f64(u);
  p.rest = p.rest + div(lost, u);
  U result = log_of_parts(p);
  return tiny::where(lt(abs(x), 0x1p-54), x, log_special(x, result, -1.0));
}

U log_f64(U x) {
  U tiny = lt(x, 0x1p-1022);
  U log = log_normal_f64(tiny::where(tiny, mul(x, 0x1p54), x));
  return log_special(x, tiny::where(tiny, sub(log, 54 * kLn2), log));
}

}  // namespace tiny::decomp
