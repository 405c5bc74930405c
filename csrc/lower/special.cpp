// Special functions around the gamma and the error function.
#include "lower/special.h"

#include <cmath>

#include "lower/nn_util.h"
#include "lower/special_tables.h"
#include "lower/special_util.h"
#include "lower/unary.h"

namespace tiny::lower {
namespace special {

/// Nine terms of the sum, then Euler and Maclaurin's formula. Source: DLMF 25.11.5; B_2k / (2k)! for k = 1..12.
Tensor hurwitz(const Tensor& s, const Tensor& q) {
  const double bernoulli[] = {8.333333333333333e-2,   -1.3888888888888889e-3, 3.306878306878307e-5,    -8.267195767195768e-7,
                              2.08767569878681e-8,    -5.284190138687493e-10, 1.3382536530684679e-11,  -3.3896802963225827e-13,
                              8.586062056277845e-15,  -2.174868698558062e-16, 5.5090028283602295e-18,  -1.3954464685812522e-19};
  Tensor sum = number(0), minus_s = -s;
  for (int k = 0; k < 9; ++k) sum = sum + binary(Op::POW, q + k, minus_s);
  Tensor w = q + 9.0, power = binary(Op::POW, w, minus_s), over = recip(w), square = over * over;
  sum = sum + power * w / (s - 1.0) + power * 0.5;
  Tensor term = s * power * over;
  for (int k = 0; k < 12; ++k) {
    sum = sum + term * bernoulli[k];
    term = term * (s + (2 * k + 1)) * (s + (2 * k + 2)) * square;
  }
  return sum;
}

}  // namespace special

namespace {
using namespace special;

Tensor is_integer(const Tensor& x) { return eq(x, x.unary(Op::FLOOR)); }

/// exp(x^2) with x^2 in two parts: the first is the exact square of x rounded to f32.
Tensor exp_square(const Tensor& x) {
  Tensor h = x.cast(DType::f32).cast(DType::f64);
  return exp(h * h) * exp((x - h) * (x + h));
}

/// exp(x^2) erfc(x). From 10 on the asymptotic series, 13 terms. Source: DLMF 7.12.1.
Tensor scaled_erfc(const Tensor& x) {
  double series[13];
  series[12] = 1;
  for (int n = 1; n < 13; ++n) series[12 - n] = -series[13 - n] * (2 * n - 1);
  Tensor near = exp_square(x) * x.unary(Op::ERFC), z = recip(x);
  Tensor far = z * polynomial(z * z * 0.5, series) * (1 / std::sqrt(M_PI));
  return where(lt(x, number(-26.7)), number(INFINITY), where(lt(x, number(10)), near, far));
}

/// Source: Cephes, ndtri.c, by rational functions of p - 1/2 and of sqrt(-2 log p).
Tensor inverse_normal(const Tensor& p) {
  constexpr double kTail = 0.13533528323661269189;  // exp(-2)
  Tensor upper = lt(number(1 - kTail), p), y = where(upper, number(1) - p, p);
  Tensor c = y - 0.5, cc = c * c, middle = (c + c * (cc * (polynomial(cc, kNdtriP0) / polynomial(cc, kNdtriQ0)))) * std::sqrt(2 * M_PI);
  Tensor x = sqrt(log(y) * -2.0), z = recip(x), near = polynomial(z, kNdtriP1) / polynomial(z, kNdtriQ1);
  Tensor far = polynomial(z, kNdtriP2) / polynomial(z, kNdtriQ2);
  Tensor tail = x - log(x) / x - z * where(lt(x, number(8)), near, far);
  Tensor r = where(lt(number(kTail), y), middle, where(upper, tail, -tail));
  Tensor inside = le(number(0), p) & le(p, number(1));
  r = where(eq(p, number(0)), number(-INFINITY), where(eq(p, number(1)), number(INFINITY), r));
  return where(inside, r, number(NAN));
}

// ---- incomplete gamma functions: P is the lower one, Q = 1 - P

struct Gamma {
  Tensor p, q;
};

/// The uniform expansion, for great a and x within 30 % of it. Source: DLMF 8.12.3, 8.12.4.
Gamma uniform_expansion(const Tensor& a, const Tensor& x) {
  Tensor sigma = (x - a) / a, half = sigma - sigma.unary(Op::LOG1P), size = sqrt(maximum(half, number(0)) * 2.0);
  Tensor eta = where(lt(x, a), -size, size), rest = polynomial(eta, kTemme[5]);
  for (int k = 4; k >= 0; --k) rest = rest / a + polynomial(eta, kTemme[k]);
  rest = rest * exp(-(a * half)) / sqrt(a * (2 * M_PI));
  Tensor t = eta * sqrt(a * 0.5);
  return {(-t).unary(Op::ERFC) * 0.5 - rest, t.unary(Op::ERFC) * 0.5 + rest};
}

/// x < a + 1: the power series. Source: DLMF 8.11.4.
Gamma by_series(const Tensor& a, const Tensor& x, const Tensor& factor) {
  Tensor term = number(1), sum = number(1);
  for (int n = 1; n <= 120; ++n) {
    term = term * (x / (a + n));
    sum = sum + term;
  }
  Tensor p = sum * factor / a;
  return {p, number(1) - p};
}

/// Otherwise: the continued fraction, from its tail up. Source: DLMF 8.9.2, contracted.
Gamma by_fraction(const Tensor& a, const Tensor& x, const Tensor& factor) {
  Tensor base = x - a + 1.0, f = base + 240.0;
  for (int n = 119; n >= 0; --n) f = (base + 2.0 * n) - (number(n + 1) - a) * (n + 1) / f;
  Tensor q = factor / f;
  return {number(1) - q, q};
}

/// P, or Q where `upper`. The cases at the borders are decided in PyTorch's order, which says what a NaN next to them gives.
Tensor incomplete_gamma(const Tensor& shape, const Tensor& given, bool upper) {
  Tensor a = shape.contiguous(), x = given.contiguous();  // the three ways are kernels of their own: each is long enough
  Tensor factor = exp(a * log(x) - x - a.unary(Op::LGAMMA));
  Gamma series = by_series(a, x, factor), fraction = by_fraction(a, x, factor), uniform = uniform_expansion(a, x);
  auto part = [&](const Gamma& g) { return (upper ? g.q : g.p).contiguous(); };
  Tensor low = lt(x, a + 1.0), great = gt(a, number(200)) & lt(abs(x - a), a * 0.3);
  Tensor r = where(great, part(uniform), where(low, part(series), part(fraction)));
  Tensor zero = number(0), inf = number(INFINITY), nan = number(NAN), all = number(upper ? 0 : 1), none = number(upper ? 1 : 0);
  r = where(eq(x, inf), all, r);
  r = where(eq(a, inf), where(eq(x, inf), nan, none), r);
  r = where(eq(x, zero), none, r);
  r = where(eq(a, zero), where(gt(x, zero), all, nan), r);
  return where(lt(a, zero) | lt(x, zero), nan, r);
}

// ---- polygamma

/// x < 1/2 is reflected. The sine is taken in the input's own precision: at a pole PyTorch's value is what it rounds to.
Tensor trigamma(const Tensor& own) {
  Tensor x = own.cast(DType::f64), sine = (own * M_PI).unary(Op::SIN).cast(DType::f64), low = lt(x, number(0.5));
  Tensor sum = hurwitz(number(2), where(low, number(1) - x, x)), turned = number(M_PI * M_PI) / (sine * sine) - sum;
  return where(low, turned, sum);
}

/// Hurwitz's zeta of any q: below 0 the terms up to 0 are a difference of two zetas of positive arguments.
Tensor full_zeta(const Tensor& s, const Tensor& q) {
  Tensor zero = number(0), below = lt(q, zero), steps = (-q).unary(Op::CEIL), first = q + steps;
  Tensor positive = where(below, where(is_integer(q), number(1), first), q);
  Tensor odd = ne(binary(Op::MOD, s, number(2)), zero);
  Tensor others = hurwitz(s, number(1) - positive) - hurwitz(s, where(below, number(1) - q, number(1)));
  Tensor r = hurwitz(s, positive);
  r = where(below, r + where(odd, -others, others), r);
  Tensor pole = le(q, zero) & is_integer(q);
  r = where(pole, number(INFINITY), where(le(q, zero) & !is_integer(s), number(NAN), r));
  return where(eq(s, number(1)), number(INFINITY), where(lt(s, number(1)), number(NAN), r));
}

}  // namespace

Tensor erfcx(Args& a) { return in_double(a, scaled_erfc); }

Tensor log_ndtr(Args& a) {
  return in_double(a, [](const Tensor& x) {
    Tensor t = x * M_SQRT1_2;
    Tensor low = log(scaled_erfc(-t) * 0.5) - t * t, high = (t.unary(Op::ERFC) * -0.5).unary(Op::LOG1P);
    return where(lt(x, number(-1)), low, high);
  });
}

Tensor ndtri(Args& a) { return in_double(a, inverse_normal); }

Tensor igamma(Args& a) {
  require_float(a, a.common({0, 1}));
  return in_double2(a, [](const Tensor& s, const Tensor& x) { return incomplete_gamma(s, x, false); });
}
Tensor igammac(Args& a) {
  require_float(a, a.common({0, 1}));
  return in_double2(a, [](const Tensor& s, const Tensor& x) { return incomplete_gamma(s, x, true); });
}

Tensor zeta(Args& a) { return in_double2(a, full_zeta); }

Tensor polygamma(Args& a) {
  int64_t n = a.integer(0);
  if (n < 0) fail(ErrorKind::Runtime, "polygamma(n, x) does not support negative n.");
  Args rest;
  rest.op = a.op;
  rest.values.push_back(a.values[1]);
  if (n == 0) return digamma(rest);
  DType d = a.common_float({1});
  if (n == 1) return trigamma(operand(a, 1, d)).cast(d);
  double factor = std::exp(std::lgamma(static_cast<double>(n) + 1)) * (n % 2 ? 1 : -1);
  DType kept = is_reduced_float(d) ? d : DType::f64;
  return in_double(rest, [&](const Tensor& x) { return rounded(full_zeta(number(static_cast<double>(n + 1)), x), kept) * factor; });
}

}  // namespace tiny::lower
