#include <cmath>

#include "lower/complex/complex.h"

namespace tiny::lower::complex {
namespace {

/// f in the computing type of argument 0's parts.
template <class F> Complex of_argument(Args& a, F f) {
  DType d = parts_dtype(a, {0});
  return cast(f(complex_operand(a, 0, d)), d);
}

/// The same with a real result.
template <class F> Complex real_of_argument(Args& a, F f) {
  DType d = parts_dtype(a, {0});
  return {f(complex_operand(a, 0, d)).cast(d), {}};
}

}  // namespace

Complex abs(Args& a) { return real_of_argument(a, [](const Complex& x) { return lower::abs(x); }); }
Complex angle(Args& a) { return real_of_argument(a, [](const Complex& x) { return lower::angle(x); }); }

Complex conj_physical(Args& a) {
  if (!a.is_complex(0)) return {a.tensor(0), {}};
  return conj(a.complex(0));
}

Complex exp2(Args& a) { return of_argument(a, [](const Complex& x) { return exp(x * M_LN2); }); }
Complex log2(Args& a) { return of_argument(a, [](const Complex& x) { return log(x) * M_LOG2E; }); }
Complex log10(Args& a) { return of_argument(a, [](const Complex& x) { return log(x) * M_LOG10E; }); }
Complex rsqrt(Args& a) { return of_argument(a, [](const Complex& x) { return recip(sqrt(x)); }); }
Complex silu(Args& a) { return of_argument(a, [](const Complex& x) { return x / (exp(-x) + like(x, 1)); }); }
Complex neg(Args& a) { return -a.complex(0); }

Complex sinc(Args& a) {
  return of_argument(a, [](const Complex& x) {
    Complex t = x * M_PI;
    return where(nonzero(x), sin(t) / t, like(x, 1));
  });
}

Complex isinf(Args& a) {
  Complex x = a.complex(0);
  Tensor top = like(x.re, INFINITY);
  return {eq(lower::abs(x.re), top) | eq(lower::abs(x.im), top), {}};
}

Complex isnan(Args& a) {
  Complex x = a.complex(0);
  return {ne(x.re, x.re) | ne(x.im, x.im), {}};
}

Complex logical_not(Args& a) { return {!nonzero(a.complex(0)), {}}; }

/// The derivative of a function that is differentiable as a complex one, times the gradient: conjugated.
Complex sigmoid_backward(Args& a) {
  DType d = parts_dtype(a, {0, 1});
  Complex g = complex_operand(a, 0, d), y = complex_operand(a, 1, d);
  return cast(g * conj((like(y, 1) - y) * y), d);
}

Complex tanh_backward(Args& a) {
  DType d = parts_dtype(a, {0, 1});
  Complex g = complex_operand(a, 0, d), y = complex_operand(a, 1, d);
  return cast(g * conj(like(y, 1) - y * y), d);
}

Complex silu_backward(Args& a) {
  DType d = parts_dtype(a, {0, 1});
  Complex g = complex_operand(a, 0, d), x = complex_operand(a, 1, d), s = logistic(x);
  return cast(g * conj(s * (x * (like(x, 1) - s) + like(x, 1))), d);
}

}  // namespace tiny::lower::complex
