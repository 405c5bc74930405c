// Sine, cosine, tangent and their inverses in f64, for targets without a C library. Coefficients: Chebyshev interpolation, worked out with
// mpmath; so are the parts of pi/2 and the bits of 2/pi.
#include "codegen/decomp/functions.h"

namespace tiny::decomp {
namespace {

// pi/2 in three parts
constexpr double kHalfPi = 0x1.921fb54442d18p+0, kHalfPiLow = 0x1.1a62633145c07p-54, kHalfPiLast = -0x1.f1976b7ed8fbcp-110;
constexpr double kTwoOverPi = 0.63661977236758134308, kRound = 0x1.8p52;

/// Up to here numbers of quadrants are exact in f64, and so is the first step of the reduction.
constexpr double kCodyWaiteLimit = 0x1p45;

/// 64 zeros, then the bits of 2/pi behind the point.
constexpr uint64_t kBits[] = {
  0, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0, 0x06492EEA09D1921C,
  0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F,
  0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08,
  0x56033046FC7B6BAB, 0xF0CFBC209AF4361D};
constexpr int kFirstWords = 17;  // of four that a reduction may need

/// Quadrant (low two bits of a u64) and what is left, high + low in [-pi/4, pi/4].
struct Quadrant {
  U number, high, low;
};

/// The second step is a difference of two numbers of any sizes, with its rounding error (Knuth's TwoSum).
Quadrant cody_waite(U x) {
  U shifted = add(mul(x, kTwoOverPi), kRound), n = sub(shifted, kRound), first = fma(n, -kHalfPi, x);
  U p = mul(n, kHalfPiLow), lost = fma(n, kHalfPiLow, neg(p)), high = first - p, back = high - first;
  U error = (first - (high - back)) - (p + back);
  return {bitcast(shifted, DType::u64), high, fma(n, -kHalfPiLast, error - lost)};
}

U word(uint64_t v) { return const_(DType::u64, static_cast<int64_t>(v)); }

/// The upper 64 bits of a product of a number below 2^53 and one of 64 bits.
U upper_product(U m, U w) {
  U ml = bits_and(m, 0xFFFFFFFF), mh = shr(m, 32), wl = bits_and(w, 0xFFFFFFFF), wh = shr(w, 32);
  U a = mh * wl + shr(ml * wl, 32), b = ml * wh + bits_and(a, 0xFFFFFFFF);
  return mh * wh + shr(a, 32) + shr(b, 32);
}

/// |x| * 2/pi from the 192 bits of 2/pi that matter. Source: Payne and Hanek, "Radian reduction for trigonometric functions", SIGNUM 1983.
Quadrant payne_hanek(U x) {
  U bits = bitcast(x, DType::u64), at = shr(bits, 52) - (1075 - 62);  // the bit of weight 2 in the product
  at = tiny::where(lt(x, kCodyWaiteLimit), like(at, 62), at);
  U index = shr(at, 6), shift = bits_and(at, 63), back = bits_xor(shift, like(shift, 63));
  U words[4];
  for (int j = 0; j < 4; ++j) {
    words[j] = word(kBits[j]);
    for (int i = 1; i < kFirstWords; ++i) words[j] = tiny::where(eq(index, like(index, i)), word(kBits[i + j]), words[j]);
  }
  auto window = [&](int j) { return bits_or(shl(words[j], shift), shr(shr(words[j + 1], 1), back)); };
  U m = bits_or(bits_and(bits, 0xFFFFFFFFFFFFF), like(bits, int64_t{1} << 52)), w1 = window(1);
  U below = upper_product(m, window(2)), middle = below + m * w1;
  U carry = cast(alu(Op::CMPLT, {middle, below}), DType::u64), top = upper_product(m, w1) + m * window(0) + carry;
  U number = shr(top + (int64_t{1} << 61), 62);
  U fraction = bitcast(bits_or(shl(top, 2), shr(middle, 62)), DType::i64), rest = mul(cast(shl(middle, 2), DType::f64), 0x1p-64);
  constexpr int64_t exact = int64_t{1} << 52;
  U fits = both(alu(Op::CMPLT, {fraction, like(fraction, exact)}), alu(Op::CMPLT, {like(fraction, -exact), fraction}));
  U high = mul(cast(tiny::where(fits, fraction, bits_and(fraction, ~int64_t{0x7FF})), DType::f64), 0x1p-64);
  U low = mul(cast(tiny::where(fits, like(fraction, 0), bits_and(fraction, 0x7FF)), DType::f64) + rest, 0x1p-64);
  U r = mul(high, kHalfPi);
  return {number, r, fma(high, like(high, kHalfPi), neg(r)) + fma(high, kHalfPiLow, mul(low, kHalfPi))};
}

Quadrant reduce(U x) {
  Quadrant near = cody_waite(x), far = payne_hanek(x);
  U is_near = lt(x, kCodyWaiteLimit);
  auto pick = [&](U a, U b) { return tiny::where(is_near, a, b); };
  return {pick(near.number, far.number), pick(near.high, far.high), pick(near.low, far.low)};
}

Sum sin_poly(U r, U low) {
  U z = r * r;
  U p = polynomial(z, {-0.16666666666666666, 0.0083333333333333332, -0.00019841269841269841, 2.7557319223985888e-06,
                       -2.5052108385438375e-08, 1.6059043835286852e-10, -7.6471633177969134e-13});
  return sum_of(r, fma(z * r, p, fma(low * z, -0.5, low)));
}
Sum cos_poly(U r, U low) {
  U z = r * r, half = mul(z, 0.5), w = like(r, 1.0) - half;
  U p = polynomial(z, {0.041666666666666664, -0.0013888888888887241, 2.480158729853226e-05, -2.7557317151858866e-07, 2.0876121534608454e-09,
                       -1.1380868171449914e-11});
  return sum_of(w, ((like(r, 1.0) - w) - half) + fma(z * z, p, neg(r * low)));
}

U is_odd(U number) { return ne(bits_and(number, 1), like(number, 0)); }
U sign_of_bit1(U number) { return bitcast(shl(bits_and(number, 2), 62), DType::i64); }
U nan_unless_finite(U magnitude, U result) { return tiny::where(lt(magnitude, kInf), result, like(result, kNan)); }

}  // namespace

U sin_pi_f64(U x) {
  U far = gt(x, 0.25), t = tiny::where(far, like(x, 0.5) - x, x), r = mul(t, 2 * kHalfPi), low = fma(t, like(t, 2 * kHalfPi), neg(r));
  low = fma(t, 2 * kHalfPiLow, low);
  return tiny::where(far, cos_poly(r, low).high, sin_poly(r, low).high);
}

U sin_f64(U x) {
  U magnitude = abs(x);
  auto [number, r, low] = reduce(magnitude);
  U v = tiny::where(is_odd(number), cos_poly(r, low).high, sin_poly(r, low).high);
  return nan_unless_finite(magnitude, flip_sign(v, bits_xor(sign_bit(x), sign_of_bit1(number))));
}

U cos_f64(U x) {
  U magnitude = abs(x);
  auto [number, r, low] = reduce(magnitude);
  U v = tiny::where(is_odd(number), sin_poly(r, low).high, cos_poly(r, low).high);
  return nan_unless_finite(magnitude, flip_sign(v, sign_of_bit1(number + 1)));  // negative in quadrants 1 and 2
}

U tan_f64(U x) {
  U magnitude = abs(x);
  auto [number, r, low] = reduce(magnitude);
  U odd = is_odd(number);
  const Sum s = sin_poly(r, low), c = cos_poly(r, low);
  auto pick = [&](const Sum& a, const Sum& b) { return Sum{tiny::where(odd, a.high, b.high), tiny::where(odd, a.low, b.low)}; };
  U v = quotient(pick({neg(c.high), neg(c.low)}, s), pick(s, c));
  v = tiny::where(lt(magnitude, 0x1p-28), magnitude, v);
  return nan_unless_finite(magnitude, flip_sign(v, sign_bit(x)));
}

namespace {

/// (asin(x)/x - 1) of z = x^2 on [0, 1/4]
U asin_tail(U z) {
  return z * polynomial(z, {0.16666666666666666, 0.074999999999999914, 0.04464285714288356, 0.030381944441346388, 0.02237215928067093,
                            0.017352757444179825, 0.013965010669331847, 0.011549075679439491, 0.0097928639883010354, 0.008135014193193648,
                            0.0087991404519149833, 0.00036649409232747312, 0.022586112401573499, -0.024063914377949608,
                            0.030744526924322196});
}

/// asin of the root of (1 - a)/2, a in [1/2, 1]: half the angle whose cosine is a. high is the root, low all else.
struct HalfAngle {
  U high, low;
};
HalfAngle half_angle(U a) {
  U z = mul(like(a, 1.0) - a, 0.5), s = sqrt(z);
  U error = tiny::where(gt(s, 0.0), div(fma(neg(s), s, z), s + s), like(s, 0.0));
  return {s, fma(s, asin_tail(z), error)};
}

/// Angle of the point (x, y) for y >= 0, not both infinite or zero: a multiple of pi/4 and the arc tangent of what is small.
U angle(U y, U x) {
  U ax = abs(x), steep = tiny::lt(ax, y), n = tiny::where(steep, ax, y), d = tiny::where(steep, y, ax);
  n = where(eq(d, kInf), 0.0, n), d = where(eq(d, kInf), 1.0, d);
  // far from where sums overflow and products of rounding errors vanish
  U scale = where(gt(d, 0x1p1000), 0.25, where(lt(d, 0x1p-900), 0x1p100, like(d, 1.0)));
  n = n * scale, d = d * scale;
  U t = n, upper = alu(Op::CMPLT, {mul(d, 0.41421356237309503), n});
  const Sum less = sum_of(neg(d), n), more = sum_of(d, n);  // atan(n/d) = pi/4 + atan((n - d)/(n + d))
  auto pick = [&](U a, U b) { return tiny::where(upper, a, b); };
  U z = quotient({pick(less.high, n), pick(less.low, like(n, 0.0))}, {pick(more.high, d), pick(more.low, like(d, 0.0))}), u = z * z;
  U p = polynomial(u, {-0.33333333333333331, 0.19999999999999993, -0.14285714285711507, 0.11111111110753377, -0.090909090669292161,
                       0.076923067331645875, -0.066666419571505958, 0.058819243371907512, -0.052580326790031669, 0.047193383620360123,
                       -0.041042072944434328, 0.030630399494587394, -0.013912862083935091});
  U tail = u * z * p, eighths = tiny::where(upper, like(t, 1.0), like(t, 0.0)), sign = like(t, 1.0);
  auto reflect = [&](U where_to, double about) {
    eighths = tiny::where(where_to, like(t, about) - eighths, eighths);
    sign = tiny::where(where_to, neg(sign), sign);
  };
  reflect(steep, 2.0);
  reflect(lt(x, 0.0), 4.0);
  U high = mul(eighths, kHalfPi / 2), low = fma(eighths, like(t, kHalfPi / 2), neg(high)) + mul(eighths, kHalfPiLow / 2);
  return high + (sign * z + fma(sign, tail, low));
}

}  // namespace

U atan_f64(U x) { return flip_sign(angle(abs(x), like(x, 1.0)), sign_bit(x)); }

U asin_f64(U x) {
  U a = abs(x);
  HalfAngle h = half_angle(a);
  U large = like(x, kHalfPi) - mul(h.high, 2.0), lost = (like(x, kHalfPi) - large) - mul(h.high, 2.0);
  large = large + (add(lost, kHalfPiLow) - mul(h.low, 2.0));
  return flip_sign(tiny::where(gt(a, 0.5), large, fma(a, asin_tail(a * a), a)), tiny::where(is_nan(x), const_(DType::i64, 0), sign_bit(x)));
}

U acos_f64(U x) {
  U a = abs(x), t = x * x;
  HalfAngle h = half_angle(a);
  U angle = mul(h.high + h.low, 2.0), opposite = like(x, 2 * kHalfPi) - sub(angle, 2 * kHalfPiLow);
  U middle = like(x, kHalfPi) - (x - fma(neg(x), asin_tail(t), like(x, kHalfPiLow)));
  return tiny::where(gt(a, 0.5), tiny::where(lt(x, 0.0), opposite, angle), tiny::where(is_nan(x), x, middle));
}

U atan2_f64(U y, U x) {
  U ay = abs(y), ax = abs(x);
  // 0/0 and inf/inf: angles of (0, 1) and (1, 1) with x's sign
  U zeros = both(eq(ay, 0.0), eq(ax, 0.0)), infinities = both(eq(ay, kInf), eq(ax, kInf));
  U one = flip_sign(like(x, 1.0), sign_bit(x));
  U result = angle(where(infinities, 1.0, ay), tiny::where(either(zeros, infinities), one, x));
  result = tiny::where(either(is_nan(x), is_nan(y)), like(result, kNan), result);
  return flip_sign(result, sign_bit(y));
}

}  // namespace tiny::decomp
