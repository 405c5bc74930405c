// What the special functions share: f64 inside, polynomials, and functions that others are made of.
#pragma once
#include <span>

#include "lower/pointwise.h"

namespace tiny::lower::special {

/// f, computed in f64, of the float that the argument becomes; rounded once.
template <class F> Tensor in_double(Args& a, F f) {
  DType d = a.common_float({0});
  return f(a.as(0, d).cast(DType::f64)).cast(d);
}
/// f of two arguments in f64.
template <class F> Tensor in_double2(Args& a, F f) {
  DType d = a.common_float({0, 1});
  return f(a.as(0, d).cast(DType::f64), a.as(1, d).cast(DType::f64)).cast(d);
}

inline Tensor number(double v) { return constant(DType::f64, v); }
/// Horner's scheme, highest power first.
Tensor polynomial(const Tensor& x, std::span<const double> coefficients);
/// Half the sum of Chebyshev polynomials of x / 2, highest first, as Cephes arranges them (Clenshaw's recurrence).
Tensor chebyshev(const Tensor& x, std::span<const double> coefficients);

/// Hurwitz's zeta function of q > 0 and s > 1.
Tensor hurwitz(const Tensor& s, const Tensor& q);

}  // namespace tiny::lower::special
