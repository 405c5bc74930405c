// Pointwise functions of one tensor.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

/// `op` as torch's unary float functions: integers and bool become the default float.
template <Op op> Tensor float_unary(Args& a) {
  DType d = a.common_float({0});
  return operand(a, 0, d).unary(op).cast(d);
}
/// Rounding to an integer value: integers stay.
template <Op op> Tensor round_unary(Args& a) {
  const Tensor& x = a.tensor(0);
  require_not_bool(a, x.dtype());
  return is_float(x.dtype()) ? widened(a, 0).unary(op).cast(x.dtype()) : x;
}

Tensor abs(Args& a);
Tensor angle(Args& a);
Tensor bitwise_not(Args& a);
Tensor digamma(Args& a);
Tensor digamma_of(const Tensor& x);  // x of a type that operators compute in
Tensor entr(Args& a);
Tensor erfinv(Args& a);
Tensor frac(Args& a);
Tensor isinf(Args& a);
Tensor isnan(Args& a);
Tensor isneginf(Args& a);
Tensor isposinf(Args& a);
Tensor logical_not(Args& a);
Tensor logit(Args& a);           // (self, eps?)
Tensor logit_backward(Args& a);  // (grad_output, self, eps?)
Tensor nan_to_num(Args& a);      // (self, nan?, posinf?, neginf?)
Tensor neg(Args& a);
Tensor round_decimals(Args& a);  // (self, *, decimals)
Tensor rsqrt(Args& a);
Tensor sigmoid(Args& a);
Tensor sign(Args& a);
Tensor signbit(Args& a);
Tensor sinc(Args& a);

}  // namespace tiny::lower
