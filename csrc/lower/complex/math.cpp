#include "lower/complex/math.h"

#include <cmath>

#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

Tensor is(const Tensor& x, double v) { return eq(x, like(x, v)); }
Tensor is_infinite(const Tensor& x) { return is(abs(x), INFINITY); }
/// Neither infinite nor NaN.
Tensor is_finite(const Tensor& x) { return lt(abs(x), like(x, INFINITY)); }
Tensor with_sign(const Tensor& size, const Tensor& sign) { return where(sign_bit(sign), -size, size); }

/// a * b, where b = 0 makes it 0 although a may be infinite or NaN.
Tensor times_or_zero(const Tensor& a, const Tensor& b) { return where(is(b, 0), where(lt(a, like(a, 0)), -b, b), a * b); }

Tensor sin(const Tensor& x) { return x.unary(Op::SIN); }
Tensor cos(const Tensor& x) { return x.unary(Op::COS); }
Tensor log1p(const Tensor& x) { return x.unary(Op::LOG1P); }
Tensor atan2(const Tensor& y, const Tensor& x) { return binary(Op::ATAN2, y, x); }

/// What arcsine and arccosine are made of, for x >= 0 and y >= 0.
struct Arc {
  Tensor cosine;  // of the arcsine's real part, times a
  Tensor height;  // |imaginary part|
};

/// Source: Hull, Fairgrieve and Tang, "Implementing the complex arcsine and arccosine functions using exception handling", ACM TOMS 23,
/// 1997: the foci -1 and 1 of the ellipse through the point, and differences that neither cancel nor underflow.
Arc arc(const Tensor& x, const Tensor& y) {
  const double top = x.dtype() == DType::f64 ? 1e150 : 1e15;  // squares are finite below, and 1 is nothing beside it
  Tensor one = like(x, 1), far = lt(like(x, top), maximum(x, y)), right = lt(one, x);
  Tensor r = hypotenuse(x + one, y), s = hypotenuse(x - one, y), a = (r + s) * 0.5;
  Tensor low = r + (x + one), rise = s + abs(x - one), flat = is(y, 0);
  Tensor past = y * (y / low), near = where(flat, y, y * (y / rise));  // r - (x + 1) and s - |x - 1|
  Tensor above = (past + where(right, rise, near)) * 0.5;               // a - 1
  Tensor thin = (recip(low) + recip(rise)) * 0.5;                       // (past + near) / 2 = thin * y^2
  auto times_y = [&](const Tensor& t) { return where(flat, y, y * sqrt(thin * t)); };
  Tensor root = where(right, sqrt(above * (a + one)), times_y(a + one));
  Tensor height = where(lt(a, like(x, 1.5)), log1p(above + root), log(a + sqrt(a * a - one)));
  height = where(far, log(hypotenuse(x * 0.25, y * 0.25)) + 3 * M_LN2, height);
  Tensor cosine = where(right, times_y(a + x), sqrt((a + x) * (past + rise) * 0.5));
  return {where(far, y, cosine), height};
}

}  // namespace

/// Source: Smith, "Algorithm 116: complex division", CACM 5, 1962. A divisor of 0 gives infinities and NaN.
Complex operator/(const Complex& a, const Complex& b) {
  Tensor swap = lt(abs(b.re), abs(b.im));
  Tensor large = where(swap, b.im, b.re), small = where(swap, b.re, b.im);
  Tensor x = where(swap, a.im, a.re), y = where(swap, a.re, a.im);
  Tensor ratio = small / large, scale = recip(large + small * ratio);
  Tensor re = (x + y * ratio) * scale, im = (y - x * ratio) * scale;
  Tensor none = is(large, 0) & is(small, 0), zero = abs(large);
  return {where(none, a.re / zero, re), where(none, a.im / zero, where(swap, -im, im))};
}

Tensor eq(const Complex& a, const Complex& b) { return eq(a.re, b.re) & eq(a.im, b.im); }
Tensor nonzero(const Complex& x) { return ne(x.re, like(x.re, 0)) | ne(x.im, like(x.re, 0)); }

Tensor hypotenuse(const Tensor& x, const Tensor& y) {
  Tensor infinite = is_infinite(x) | is_infinite(y), top = like(x, INFINITY);
  if (x.dtype() == DType::f32) {  // squares of f32 neither overflow nor lose bits in f64
    Tensor p = x.cast(DType::f64), q = y.cast(DType::f64);
    return where(infinite, top, sqrt(p * p + q * q).cast(DType::f32));
  }
  Tensor p = abs(x), q = abs(y), most = maximum(p, q), ratio = minimum(p, q) / most;
  return where(infinite, top, where(is(most, 0), most, most * sqrt(ratio * ratio + 1.0)));
}

Tensor abs(const Complex& x) { return hypotenuse(x.re, x.im); }
Tensor squared_abs(const Complex& x) { return x.re * x.re + x.im * x.im; }
Tensor angle(const Complex& x) { return atan2(x.im, x.re); }

Complex sgn(const Complex& x) {
  Tensor size = abs(x), none = is(size, 0);
  return both(x, [&](const Tensor& part) { return where(none, like(part, 0), part / size); });
}

Complex exp(const Complex& x) {
  // e^20 of a great size is a factor of its own: the size may overflow where the parts do not.
  const double most = x.re.dtype() == DType::f64 ? 700 : 80, shift = 20;
  Tensor zero = like(x.re, 0), great = lt(like(x.re, most), x.re), rest = where(great, like(x.re, std::exp(shift)), like(x.re, 1));
  Tensor size = exp(where(great, x.re - shift, x.re)), turned = is_finite(x.im), gone = is(x.re, -INFINITY) & !turned;
  Tensor re = size * cos(x.im) * rest, im = size * sin(x.im) * rest;
  re = where(is(x.re, INFINITY) & !turned, x.re, where(gone, zero, re));
  return {re, where(is(x.im, 0), x.im, where(gone, with_sign(zero, x.im), im))};
}

/// exp(x) cos y - 1 = expm1(x) cos y - 2 sin(y/2)^2
Complex expm1(const Complex& x) {
  Tensor half = sin(x.im * 0.5);
  return {x.re.unary(Op::EXPM1) * cos(x.im) - half * half * 2.0, times_or_zero(exp(x.re), sin(x.im))};
}

namespace {

/// |x|^2 - 1; of f32 without cancellation.
Tensor over_unit(const Complex& x) {
  Tensor p = abs(x.re), q = abs(x.im);
  if (x.re.dtype() == DType::f32) p = p.cast(DType::f64), q = q.cast(DType::f64);
  Tensor most = maximum(p, q), least = minimum(p, q);
  return ((most - 1.0) * (most + 1.0) + least * least).cast(x.re.dtype());
}

}  // namespace

Complex log(const Complex& x) {
  Tensor over = over_unit(x), near = lt(abs(over), like(over, 0.5));
  return {where(near, log1p(over) * 0.5, log(abs(x))), angle(x)};
}

/// log |1 + z| = log1p(x (2 + x) + y^2) / 2 near 0, where the argument does not overflow.
Complex log1p(const Complex& x) {
  Tensor inside = x.re * (x.re + 2.0) + x.im * x.im, right = x.re + 1.0;
  Tensor near = where(is(inside, 0), x.re, log1p(inside) * 0.5);
  return {where(lt(abs(x), like(x.re, 0.5)), near, log(hypotenuse(right, x.im))), atan2(x.im, right)};
}

/// The root of the size's and the real part's mean has no cancellation; the other part follows from the product of both.
Complex sqrt(const Complex& x) {
  const bool wide = x.re.dtype() == DType::f64;
  // Powers of 4 keep sums of f64 finite; f32 does without.
  Tensor scale = like(x.re, 1), back = scale;
  if (wide) {
    Tensor high = lt(like(x.re, 1e300), maximum(abs(x.re), abs(x.im)));
    scale = where(high, like(x.re, 0.0625), scale), back = where(high, like(x.re, 4), back);
  }
  Tensor re = abs(x.re * scale), im = abs(x.im * scale), size = hypotenuse(re, im);
  Tensor mean = wide ? (re + size) * 0.5 : re * 0.5 + size * 0.5;
  Tensor long_part = sqrt(mean), short_part = where(is(long_part, 0), im, im / (long_part * 2.0));
  Tensor left = sign_bit(x.re), infinite = is_infinite(x.im);
  Tensor out_re = where(infinite, abs(x.im), where(left, short_part, long_part) * back);
  Tensor out_im = where(infinite, abs(x.im), where(left, long_part, short_part) * back);
  return {out_re, with_sign(out_im, x.im)};
}

Complex recip(const Complex& x) { return like(x, 1) / x; }

Complex sin(const Complex& x) { return over_i(sinh(times_i(x))); }
Complex cos(const Complex& x) { return cosh(times_i(x)); }
Complex tan(const Complex& x) { return over_i(tanh(times_i(x))); }

Complex sinh(const Complex& x) {
  Tensor s = x.re.unary(Op::SINH), c = x.re.unary(Op::COSH), lost = is_infinite(x.re) & !is_finite(x.im);
  return {where(lost, c, times_or_zero(cos(x.im), s)), times_or_zero(c, sin(x.im))};
}

Complex cosh(const Complex& x) {
  Tensor s = x.re.unary(Op::SINH), c = x.re.unary(Op::COSH), turned = is_finite(x.im), lost = is_infinite(x.re) & !turned;
  Tensor im = where(is(x.re, 0) & !turned, like(x.re, 0), s * sin(x.im));
  return {where(lost, c, c * cos(x.im)), where(is(x.im, 0), where(sign_bit(x.re), -x.im, x.im), im)};
}

/// With e = exp(-2|x|): (1 - e^2) / d and 4 e sin y cos y / d, d = (1 - e)^2 + 4 e cos(y)^2. Nothing overflows, and only poles make d 0.
Complex tanh(const Complex& x) {
  Tensor down = abs(x.re) * -2.0, e = exp(down), m = -down.unary(Op::EXPM1), c = cos(x.im), e4 = e * 4.0;
  Tensor d = m * m + e4 * (c * c), infinite = is_infinite(x.re), upright = is(x.re, 0), level = is(x.im, 0);
  Tensor re = where(infinite, like(x.re, 1), where(upright, like(x.re, 0), m * (e + 1.0) / d)), im = e4 * (sin(x.im) * c) / d;
  im = where(infinite & !is_finite(x.im), with_sign(like(x.re, 0), x.im), im);
  return {with_sign(re, x.re), where(level, x.im, im)};
}

Complex asin(const Complex& x) {
  Arc a = arc(abs(x.re), abs(x.im));
  return {where(is(x.re, 0), x.re, atan2(x.re, a.cosine)), with_sign(a.height, x.im)};
}

namespace {

/// The arccosine's real part.
Tensor turn_of(const Complex& x, const Arc& a) { return where(is(x.re, 0), like(x.re, M_PI_2), atan2(a.cosine, x.re)); }

}  // namespace

Complex acos(const Complex& x) {
  Arc a = arc(abs(x.re), abs(x.im));
  return {turn_of(x, a), where(sign_bit(x.im), a.height, -a.height)};
}

Complex asinh(const Complex& x) { return over_i(asin(times_i(x))); }

Complex acosh(const Complex& x) {
  Arc a = arc(abs(x.re), abs(x.im));
  return {a.height, with_sign(turn_of(x, a), x.im)};
}

Complex atan(const Complex& x) { return over_i(atanh(times_i(x))); }

/// log1p(4x / ((1-x)^2 + y^2)) / 4 and atan2(2y, (1-x)(1+x) - y^2) / 2. Source: Kahan, "Branch cuts for complex elementary functions", 1987
Complex atanh(const Complex& x) {
  const bool wide = x.re.dtype() == DType::f64;
  Tensor size = abs(x.re), height = abs(x.im), one = like(x.re, 1), apart = one - size, square = x.im * x.im;
  Tensor infinite = is_infinite(x.re) | is_infinite(x.im), far = lt(like(x.re, wide ? 1e150 : 1e15), maximum(size, height));
  Tensor pole = is(apart, 0) & lt(height, like(x.re, wide ? 1e-100 : 1e-12)), distance = hypotenuse(x.re, x.im);
  Tensor re = where(pole, log(like(x.re, 2) / height) * 0.5, log1p(size * 4.0 / (apart * apart + square)) * 0.25);
  re = where(infinite, like(x.re, 0), where(far, size / distance / distance, re));
  Tensor quarter = where(ne(x.im, x.im), x.im, with_sign(like(x.re, M_PI_2), x.im));
  Tensor im = where(infinite | far, quarter, atan2(x.im * 2.0, apart * (size + 1.0) - square) * 0.5);
  return {where(is(x.re, 0), x.re, with_sign(re, x.re)), im};
}

Complex logistic(const Complex& x) { return recip(exp(-x) + like(x, 1)); }

Complex pow(const Complex& x, const Complex& y) {
  Complex r = exp(y * log(x));
  Tensor base_none = !nonzero(x), exponent_none = !nonzero(y), one = like(x.re, 1), zero = like(x.re, 0);
  Tensor vanishes = base_none & lt(zero, y.re);
  return {where(exponent_none, one, where(vanishes, zero, r.re)), where(exponent_none | vanishes, zero, r.im)};
}

/// Counted from the one with the greater real part, to which nothing is added where the other is e^-inf.
Complex log_add_exp(const Complex& x, const Complex& y) {
  Tensor swap = lt(x.re, y.re);
  Complex top = where(swap, y, x), low = where(swap, x, y);
  return where(is(low.re, -INFINITY), top, top + log1p(exp(low - top)));
}

std::string complex_type_name(DType d) { return std::string("Complex") + scalar_type_name(d); }

DType parts_dtype(const Args& a, std::initializer_list<int> positions) {
  DType d = a.common_float(positions);
  return d == DType::bf16 ? DType::f32 : d;
}

Complex complex_operand(const Args& a, int i, DType d) {
  DType c = compute_dtype(d);
  const ArgValue& v = a.values[i];
  if (c == d || v.kind != ArgKind::Tensor || v.category == Category::Number) return a.complex_as(i, c);
  return cast(a.complex_as(i, d), c);
}

}  // namespace tiny::lower
