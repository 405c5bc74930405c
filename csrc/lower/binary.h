// Pointwise functions of two or three tensors, with broadcasting and type promotion.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

/// A float function of (self, other): integers become the default float.
template <Op op> Tensor float_binary(Args& a) {
  DType d = a.common_float({0, 1});
  return binary(op, operand(a, 0, d), operand(a, 1, d)).cast(d);
}
/// A function of (self, other) that picks one of them or combines bits: exact in the common type.
template <Op op> Tensor exact_binary(Args& a) {
  DType d = a.common({0, 1});
  return binary(op, a.as(0, d), a.as(1, d));
}
/// A function of bits: integers and bool.
template <Op op> Tensor bitwise(Args& a) {
  require_integer(a, a.common({0, 1}), true);
  return exact_binary<op>(a);
}
/// Comparison in the common type. greater: with the operands exchanged.
template <Op op, bool exchanged> Tensor compare(Args& a) {
  DType d = a.common({0, 1});
  Tensor x = a.as(0, d), y = a.as(1, d);
  return exchanged ? binary(op, y, x) : binary(op, x, y);
}
inline constexpr auto compare_eq = compare<Op::CMPEQ, false>;
inline constexpr auto compare_ne = compare<Op::CMPNE, false>;
inline constexpr auto compare_lt = compare<Op::CMPLT, false>;
inline constexpr auto compare_le = compare<Op::CMPLE, false>;
inline constexpr auto compare_gt = compare<Op::CMPLT, true>;
inline constexpr auto compare_ge = compare<Op::CMPLE, true>;
/// Logical operators: each operand is a truth value first.
template <Op op> Tensor logical(Args& a) { return binary(op, a.as(0, DType::bool_), a.as(1, DType::bool_)); }

Tensor add(Args& a);             // (self, other, *, alpha)
Tensor addcdiv(Args& a);         // (self, tensor1, tensor2, *, value)
Tensor addcmul(Args& a);
Tensor clamp(Args& a);           // (self, min?, max?), numbers or tensors
Tensor clamp_max(Args& a);
Tensor clamp_min(Args& a);
Tensor copysign(Args& a);
Tensor div(Args& a);
Tensor div_mode(Args& a);        // (self, other, *, rounding_mode?)
Tensor floor_divide(Args& a);
Tensor fmax(Args& a);
Tensor fmin(Args& a);
Tensor fmod(Args& a);
Tensor heaviside(Args& a);
Tensor hypot(Args& a);
Tensor isin(Args& a);            // (elements, test_elements, *, assume_unique, invert)
Tensor lerp(Args& a);            // (self, end, weight)
Tensor logaddexp(Args& a);
Tensor logaddexp2(Args& a);
Tensor masked_fill(Args& a);     // (self, mask, value)
Tensor mul(Args& a);
Tensor nextafter(Args& a);
Tensor pow(Args& a);             // (self, exponent), tensors or numbers
Tensor remainder(Args& a);
Tensor rsub(Args& a);            // (self, other, *, alpha)
Tensor shift_left(Args& a);
Tensor shift_right(Args& a);
Tensor sub(Args& a);
Tensor where(Args& a);           // (condition, self, other)
Tensor xlog1py(Args& a);
Tensor xlogy(Args& a);

}  // namespace tiny::lower
