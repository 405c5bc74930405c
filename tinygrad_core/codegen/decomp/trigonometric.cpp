// Sine, cosine, tangent and their inverses.
#include "codegen/decomp/functions.h"

namespace tiny::decomp {
namespace {

constexpr double kPi = 3.14159265358979323846, kHalfPi = kPi / 2;

// Beyond this |x| the reduction is that of Payne and Hanek.
constexpr double kCodyWaiteLimit = 4096.0;

/// 13 zeros, then the bits of 2/pi behind the point, so that the least exponent
/// (|x| = 4096) starts at bit 0. Worked out with mpmath from pi.
constexpr uint32_t kTwoOverPi[] = {0x000517CC, 0x1B727220, 0xA94FE13A, 0xBE8FA9A6, 0xEE06DB14, 0xACC9E21C, 0x820FF28B};

/// Quadrant (low two bits) and what is left of |x|, in [-pi/4, pi/4].
struct Quadrant {
  U number, rest;
};

/// |x| >= 4096 (f32): the fraction of |x| * 2/pi from the 96 bits of 2/pi that matter, in 64-bit fixed point. rest is f64.
/// Source: Payne and Hanek, "Radian reduction for trigonometric functions", SIGNUM 1983.
Quadrant payne_hanek(U bits) {
  constexpr DType u32 = DType::u32, u64 = DType::u64;
  U e = shr(bits, 23);
  U m = bits_or(bits_and(bits, 0x7FFFFF), like(bits, 0x800000));
  U offset = e - 139;  // bits to skip
  U one = ne(bits_and(offset, 32), like(bits, 0)), two = ne(bits_and(offset, 64), like(bits, 0));
  auto word = [&](int i) {
    auto w = [&](int k) { return const_(u32, static_cast<int64_t>(kTwoOverPi[i + k])); };
    return tiny::where(two, tiny::where(one, w(3), w(2)), tiny::where(one, w(1), w(0)));
  };
  U shift = bits_and(offset, 31), back = bits_xor(shift, like(shift, 31));  // 31 - shift
  auto window = [&](U high, U low) { return bits_or(shl(high, shift), shr(shr(low, 1), back)); };
  U w0 = word(0), w1 = word(1), w2 = word(2), w3 = word(3);
  U wide = cast(m, u64);
  U product = shl(cast(m * window(w0, w1), u64), 32) + wide * cast(window(w1, w2), u64) + shr(wide * cast(window(w2, w3), u64), 32);
  // two bits of quadrant, then the fraction; rounded to the nearest quadrant
  U number = cast(shr(product + (int64_t{1} << 61), 62), u32);
  U fraction = shl(product, 2);
  U high = bitcast(cast(shr(fraction, 32), u32), DType::i32), low = bitcast(shr(cast(fraction, u32), 1), DType::i32);
  U turns = fma(cast(low, DType::f64), 0x1p-63, mul(cast(high, DType::f64), 0x1p-32));
  return {number, mul(turns, kHalfPi)};
}

/// |x| < 4096 in f32: pi/2 in parts of 12 bits, whose products with the quadrant's number are exact.
Quadrant cody_waite_f32(U x) {
  U shifted = fma(x, 2 / kPi, 0x1.8p23), n = sub(shifted, 0x1.8p23);
  U r = fma(n, -0x1.fb4p-12, fma(n, -0x1.92p+0, x));  // exact
  U third = mul(n, 0x1.444p-24), high = r - third, low = (r - high) - third;
  return {bitcast(shifted, DType::u32), high + fma(n, -0x1.68c234p-39, low)};
}

Quadrant reduce_f32(U x) {
  Quadrant near = cody_waite_f32(x), far = payne_hanek(bitcast(x, DType::u32));
  U is_near = lt(x, kCodyWaiteLimit);
  return {tiny::where(is_near, near.number, far.number), tiny::where(is_near, near.rest, cast(far.rest, DType::f32))};
}

/// On [-pi/4, pi/4]: 2^-37 and 2^-41
U sin_poly_f32(U r) {
  U z = r * r;
  return fma(z * r, polynomial(z, {-0x1.555556p-3, 0x1.111108p-7, -0x1.a00ea2p-13, 0x1.6c9dd4p-19}), r);
}
U cos_poly_f32(U r) {
  U z = r * r;
  return fma(z * z, polynomial(z, {0x1.555556p-5, -0x1.6c16bap-10, 0x1.a0123cp-16, -0x1.245238p-22}), fma(z, -0.5, 1.0));
}

/// The sign that bit 1 of `number` says, as a float's sign bit.
U sign_of_bit1(U number) { return bitcast(shl(bits_and(number, 2), 30), DType::i32); }

U is_odd(U number) { return ne(bits_and(number, 1), like(number, 0)); }

U nan_unless_finite(U magnitude, U result) { return tiny::where(lt(magnitude, kInf), result, like(result, kNan)); }

}  // namespace

U sin_f32(U x) {
  U magnitude = abs(x);
  auto [number, r] = reduce_f32(magnitude);
  U v = tiny::where(is_odd(number), cos_poly_f32(r), sin_poly_f32(r));
  return nan_unless_finite(magnitude, flip_sign(v, bits_xor(sign_bit(x), sign_of_bit1(number))));
}

U cos_f32(U x) {
  U magnitude = abs(x);
  auto [number, r] = reduce_f32(magnitude);
  U v = tiny::where(is_odd(number), sin_poly_f32(r), cos_poly_f32(r));
  return nan_unless_finite(magnitude, flip_sign(v, sign_of_bit1(number + 1)));  // negative in quadrants 1 and 2
}

/// Through f64: reduction, both polynomials and one division.
U tan_f32(U x) {
  U magnitude = abs(x), wide = cast(magnitude, DType::f64);
  U shifted = fma(wide, 2 / kPi, 0x1.8p52), n = sub(shifted, 0x1.8p52);
  constexpr double high = 0x1.921fb544p0, low = 0x1.0b4611a626331p-34;  // pi/2; n * high is exact
  U near = fma(n, -low, fma(n, -high, wide));
  Quadrant far = payne_hanek(bitcast(magnitude, DType::u32));
  U is_near = lt(magnitude, kCodyWaiteLimit);
  U r = tiny::where(is_near, near, far.rest);
  U number = tiny::where(is_near, cast(bitcast(shifted, DType::u64), DType::u32), far.number);
  U z = r * r;
  // 2^-47 and 2^-53
  U s = polynomial(z, {-0.1666666666662398, 0.0083333333238990014, -0.00019841263069681305, 2.7555197416890542e-06,
                       -2.4750033148363612e-08});
  U c = polynomial(z, {0.041666666666588172, -0.0013888888876455443, 2.4801580174946156e-05, -2.7555423170290764e-07,
                       2.0638531682931739e-09});
  s = fma(z * r, s, r), c = fma(z * z, c, fma(z, -0.5, 1.0));
  U odd = is_odd(number);
  U v = cast(div(tiny::where(odd, neg(c), s), tiny::where(odd, s, c)), DType::f32);
  return nan_unless_finite(magnitude, flip_sign(v, sign_bit(x)));
}

namespace {

/// atan of a in [0, 1], f64 to 2^-40: above tan(pi/8), pi/4 + atan((a-1)/(a+1)).
U atan_unit(U a) {
  U upper = gt(a, 0.41421356237309503);
  U t = tiny::where(upper, div(sub(a, 1.0), add(a, 1.0)), a), z = t * t;
  U p = polynomial(z, {-0.33333333295978768, 0.19999994348193068, -0.14285424186137319, 0.11104009146840282, -0.089968469094484305,
                       0.069910765381573939, -0.037919070764776824});
  p = fma(z * t, p, t);
  return tiny::where(upper, add(p, kPi / 4), p);
}

/// Angle of the point (x, y) for f64 y >= 0 (signs apart), not both infinite or zero.
U angle(U y, U x) {
  U ax = abs(x), steep = tiny::lt(ax, y);
  U a = atan_unit(div(tiny::where(steep, ax, y), tiny::where(steep, y, ax)));
  a = tiny::where(steep, like(a, kHalfPi) - a, a);
  return tiny::where(lt(x, 0.0), like(a, kPi) - a, a);
}

}  // namespace

U atan_f32(U x) {
  U a = cast(abs(x), DType::f64);
  U large = gt(a, 1.0);
  U t = atan_unit(tiny::where(large, div(like(a, 1.0), a), a));
  return flip_sign(cast(tiny::where(large, like(t, kHalfPi) - t, t), DType::f32), sign_bit(x));
}

U asin_f32(U x) {
  U a = cast(abs(x), DType::f64);
  U cosine = sqrt((like(a, 1.0) - a) * add(a, 1.0));  // NaN beyond 1
  return flip_sign(cast(angle(a, cosine), DType::f32), sign_bit(x));
}

U acos_f32(U x) {
  U a = cast(x, DType::f64);
  return cast(angle(sqrt((like(a, 1.0) - a) * add(a, 1.0)), a), DType::f32);
}

U atan2_f32(U y, U x) {
  U wy = abs(cast(y, DType::f64)), wx = cast(x, DType::f64), ax = abs(wx);
  // 0/0 and inf/inf: angles of (0, 1) and (1, 1) with x's sign
  U zeros = both(eq(wy, 0.0), eq(ax, 0.0)), infinities = both(eq(wy, kInf), eq(ax, kInf));
  U one = flip_sign(like(wx, 1.0), sign_bit(wx));
  U sx = tiny::where(either(zeros, infinities), one, wx), sy = where(infinities, 1.0, wy);
  U result = angle(sy, sx);
  result = tiny::where(either(is_nan(x), is_nan(y)), like(result, kNan), result);
  return flip_sign(cast(result, DType::f32), sign_bit(y));
}

}  // namespace tiny::decomp
