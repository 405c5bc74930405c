#include "lower/unary.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

/// f in the computing type of the float that the argument becomes. f(x, d) also takes that float type itself.
template <class F> Tensor as_float(Args& a, F f) {
  DType d = a.common_float({0});
  if constexpr (std::is_invocable_v<F, Tensor, DType>) return f(operand(a, 0, d), d).cast(d);
  else return f(operand(a, 0, d)).cast(d);
}

Tensor nothing_holds(const Tensor& x) { return full(x.sizes(), truth(false)); }

/// Greatest finite value of a float dtype.
double greatest(DType d) {
  switch (d) {
    case DType::f8e4m3: return 448;
    case DType::f8e5m2: return 57344;
    case DType::f16: return 65504;
    case DType::bf16: return 0x1.fep127;
    case DType::f32: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}

Tensor polynomial(const Tensor& x, std::initializer_list<double> coefficients) {
  Tensor sum;
  for (double c : coefficients) sum = sum.defined() ? sum * x + c : full(x.sizes(), like(x, c));
  return sum;
}

}  // namespace

static void not_implemented(const Args& a, DType d) {
  std::string_view name = a.op;
  if (name.substr(0, 6) == "aten::") name.remove_prefix(6);
  name = name.substr(0, name.find('.'));
  fail(ErrorKind::NotImplemented, "\"" + std::string(name) + "\" not implemented for '" + scalar_type_name(d) + "'");
}
void require_float(const Args& a, DType d) {
  if (!is_float(d)) not_implemented(a, d);
}
void require_integer(const Args& a, DType d, bool or_bool) {
  if (!is_int(d) && !(or_bool && is_bool(d))) not_implemented(a, d);
}
void require_not_bool(const Args& a, DType d) {
  if (is_bool(d)) not_implemented(a, d);
}

Tensor sign_bit(const Tensor& x) {
  if (!is_float(x.dtype())) return is_signed(x.dtype()) ? lt(x, like(x, 0)) : nothing_holds(x);
  DType bits[] = {DType::i8, DType::i16, DType::i32, DType::i64};
  Tensor i = x.bitcast(bits[itemsize(x.dtype()) == 1 ? 0 : itemsize(x.dtype()) == 2 ? 1 : itemsize(x.dtype()) == 4 ? 2 : 3]);
  return lt(i, like(i, 0));
}

Tensor abs(Args& a) {
  const Tensor& x = a.tensor(0);
  return is_bool(x.dtype()) || is_unsigned(x.dtype()) ? x : x.unary(Op::ABS);
}

Tensor angle(Args& a) {
  return as_float(a, [](const Tensor& x) {
    Tensor turned = where(lt(x, like(x, 0)), like(x, M_PI), like(x, 0));
    return where(ne(x, x), x, turned);
  });
}

Tensor bitwise_not(Args& a) {
  require_integer(a, a.tensor(0).dtype(), true);
  return a.tensor(0).unary(Op::NOT);
}

/// Source: Abramowitz and Stegun, 6.3.5 (recurrence), 6.3.7 (reflection), 6.3.18 (asymptotic series).
Tensor digamma_of(const Tensor& x) {
  Tensor zero = like(x, 0), nan = like(x, NAN);
  Tensor reflected = lt(x, zero), y = where(reflected, like(x, 1) - x, x), shift = full(x.sizes(), zero);
  for (int k = 0; k < 10; ++k) {  // up to y >= 10, where the series is exact
    Tensor small = lt(y, like(x, 10));
    shift = shift - where(small, recip(y), zero);
    y = where(small, y + 1.0, y);
  }
  Tensor z = recip(y * y);
  Tensor series = z * polynomial(z, {8.33333333333333333333E-2, -2.10927960927960927961E-2, 7.57575757575757575758E-3,
                                     -4.16666666666666666667E-3, 3.96825396825396825397E-3,
                                     -8.33333333333333333333E-3, 8.33333333333333333333E-2});
  Tensor value = shift + log(y) - recip(y) * 0.5 - series;
  // The cotangent's argument is reduced first, so that it stays exact for great |x|.
  Tensor part = x - x.unary(Op::TRUNC);
  Tensor turned = value - like(x, M_PI) / (part * M_PI).unary(Op::TAN);
  Tensor result = where(reflected, where(eq(part, zero), nan, turned), value);
  Tensor pole = where(sign_bit(x), like(x, INFINITY), like(x, -INFINITY));
  result = where(eq(x, like(x, INFINITY)), x, result);
  return where(eq(x, zero), pole, result);
}
Tensor digamma(Args& a) { return as_float(a, digamma_of); }

/// -x log x, 0 at 0, -inf below.
Tensor entr(Args& a) {
  return as_float(a, [](const Tensor& x, DType d) {
    Tensor zero = like(x, 0);
    Tensor value = where(lt(zero, x), -(x * rounded(log(x), d)), where(eq(x, zero), zero, like(x, -INFINITY)));
    return where(ne(x, x), x, value);
  });
}

/// An initial guess within 2e-3, then Halley's method on erf, cubic in convergence.
/// Source of the guess sqrt(sqrt(b^2 - c) - b): S. Winitzki, "A handy approximation for the error function and its inverse", 2008.
Tensor erfinv(Args& a) {
  DType d = a.common_float({0});
  // f64 inside: a step divides a difference of erf by its slope, which cancels near |x| = 1.
  Tensor x = operand(a, 0, d), y = x.cast(DType::f64);
  const double k = 0.147;
  Tensor l = log((like(y, 1) - y) * (y + 1.0));
  Tensor b = l * 0.5 + 2 / (M_PI * k);
  Tensor guess = sqrt(sqrt(b * b - l * (1 / k)) - b);
  guess = where(lt(y, like(y, 0)), -guess, guess);
  Tensor complement = like(y, 1) - abs(y);
  for (int step = 0; step < 3; ++step) {
    Tensor g = abs(guess);
    // erf(g) - |y| = (1 - |y|) - erfc(g): exact in the tail.
    Tensor error = complement - g.unary(Op::ERFC), slope = exp(-(g * g)) * (2 / std::sqrt(M_PI));
    Tensor newton = error / slope;
    g = g - newton / (g * newton + 1.0);  // Halley's correction
    guess = where(lt(y, like(y, 0)), -g, g);
  }
  Tensor value = guess.cast(x.dtype()), one = like(x, 1), size = abs(x);
  value = where(eq(x, like(x, 0)), x, value);
  value = where(eq(size, one), x * like(x, INFINITY), value);
  return where(lt(one, size), like(x, NAN), value).cast(d);
}

Tensor frac(Args& a) {
  require_float(a, a.tensor(0).dtype());
  Tensor x = widened(a, 0);
  return (x - x.unary(Op::TRUNC)).cast(a.tensor(0).dtype());
}

Tensor isinf(Args& a) {
  const Tensor& x = a.tensor(0);
  return is_float(x.dtype()) ? eq(x.unary(Op::ABS), like(x, INFINITY)) : nothing_holds(x);
}
Tensor isnan(Args& a) {
  const Tensor& x = a.tensor(0);
  return is_float(x.dtype()) ? ne(x, x) : nothing_holds(x);
}
Tensor isneginf(Args& a) {
  const Tensor& x = a.tensor(0);
  return is_float(x.dtype()) ? eq(x, like(x, -INFINITY)) : nothing_holds(x);
}
Tensor isposinf(Args& a) {
  const Tensor& x = a.tensor(0);
  return is_float(x.dtype()) ? eq(x, like(x, INFINITY)) : nothing_holds(x);
}

Tensor logical_not(Args& a) { return !a.tensor(0).cast(DType::bool_); }

namespace {

/// The numbers eps and 1 - eps of type d.
struct Inside {
  Tensor lo, hi;
};
Inside inside(double eps, DType d) {
  Tensor lo = scalar(d, eps).cast(compute_dtype(d));
  return {lo, rounded(like(lo, 1) - lo, d)};
}

}  // namespace

// Both round after every step, as the CPU does.
Tensor logit(Args& a) {
  return as_float(a, [&](Tensor x, DType d) {
    if (a.has(1)) {
      Inside in = inside(a.number(1), d);
      x = clip(x, in.lo, in.hi);
    }
    return log(rounded(x / rounded(like(x, 1) - x, d), d));
  });
}

Tensor logit_backward(Args& a) {
  DType d = a.common({0, 1});
  Tensor g = operand(a, 0, d), x = operand(a, 1, d), zero = like(x, 0), one = like(x, 1);
  Tensor slope = g / rounded(x * rounded(one - x, d), d);
  if (!a.has(2)) return where(ge(x, zero) & le(x, one), slope, like(x, NAN)).cast(d);
  Inside in = inside(a.number(2), d);
  return where(lt(x, in.lo) | lt(in.hi, x), zero, slope).cast(d);
}

Tensor nan_to_num(Args& a) {
  const Tensor& x = a.tensor(0);
  DType d = x.dtype();
  if (!is_float(d)) return x;
  Tensor nan = a.has(1) ? a.as(1, d) : like(x, 0), most = a.has(2) ? a.as(2, d) : like(x, greatest(d));
  Tensor least = a.has(3) ? a.as(3, d) : like(x, -greatest(d));
  Tensor finite = where(eq(x, like(x, INFINITY)), most, where(eq(x, like(x, -INFINITY)), least, x));
  return where(ne(x, x), nan, finite);
}

Tensor neg(Args& a) {
  if (is_bool(a.tensor(0).dtype()))
    fail(ErrorKind::Runtime, "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a "
                             "mask, use the `~` "
                             "or `logical_not()` operator instead.");
  return -a.tensor(0);
}

Tensor round_decimals(Args& a) {
  const Tensor& x = a.tensor(0);
  int64_t decimals = a.integer(1);
  if (decimals == 0 && is_int(x.dtype())) return x;
  require_float(a, x.dtype());
  Tensor v = widened(a, 0), ten = like(v, std::pow(10.0, std::abs(static_cast<double>(decimals))));
  Tensor r = decimals < 0 ? (v / ten).unary(Op::ROUND) * ten : (v * ten).unary(Op::ROUND) / ten;
  return r.cast(x.dtype());
}

Tensor rsqrt(Args& a) {
  return as_float(a, [](const Tensor& x) { return recip(sqrt(x)); });
}
Tensor sigmoid(Args& a) { return as_float(a, logistic); }

Tensor sign(Args& a) {
  const Tensor& x = a.tensor(0);
  if (is_bool(x.dtype())) return x;
  Tensor zero = like(x, 0);
  return lt(zero, x).cast(x.dtype()) - lt(x, zero).cast(x.dtype());
}

Tensor signbit(Args& a) { return sign_bit(a.tensor(0)); }

Tensor sinc(Args& a) {
  return as_float(a, [](const Tensor& x) {
    Tensor t = x * M_PI;
    return where(eq(x, like(x, 0)), like(x, 1), t.unary(Op::SIN) / t);
  });
}

}  // namespace tiny::lower
