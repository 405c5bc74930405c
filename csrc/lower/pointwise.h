// What all pointwise lowerings share. Reduced floats are computed in f32 and rounded at the end of the operator; where the CPU's kernel
// rounds after each of its steps, so does the lowering (rounded()).
#pragma once
#include "lower/args.h"

namespace tiny::lower {

/// Argument i in the type in which an operator of common type `d` computes. Tensors and numbers are first brought to `d`, as PyTorch does.
inline Tensor operand(const Args& a, int i, DType d) { return a.as(i, d).cast(compute_dtype(d)); }

/// The same for the second factor of a product, a divisor and a weight: a number, or a tensor of one element, is not brought to `d` first.
inline Tensor factor(const Args& a, int i, DType d) {
  const ArgValue& v = a.values[i];
  return v.kind != ArgKind::Tensor || v.tensor.numel() == 1 ? a.as(i, compute_dtype(d)) : operand(a, i, d);
}

/// Argument i, a tensor, in the type in which its own dtype computes.
inline Tensor widened(const Args& a, int i) { return a.tensor(i).cast(compute_dtype(a.tensor(i).dtype())); }

/// A value of a wider type, as an operator sees it that keeps it in `d`.
inline Tensor rounded(const Tensor& x, DType d) { return x.dtype() == d ? x : x.cast(d).cast(x.dtype()); }

/// Constants of the dtype of `x`.
inline Tensor like(const Tensor& x, double v) { return constant(x.dtype(), v); }
inline Tensor truth(bool v) { return constant(DType::bool_, int64_t{v}); }
inline Tensor operator&(const Tensor& a, const Tensor& b) { return binary(Op::AND, a, b); }
inline Tensor operator|(const Tensor& a, const Tensor& b) { return binary(Op::OR, a, b); }
inline Tensor operator!(const Tensor& a) { return a.unary(Op::NOT); }
inline Tensor exp(const Tensor& x) { return x.unary(Op::EXP); }
inline Tensor log(const Tensor& x) { return x.unary(Op::LOG); }
inline Tensor sqrt(const Tensor& x) { return x.unary(Op::SQRT); }
inline Tensor abs(const Tensor& x) { return x.unary(Op::ABS); }
inline Tensor recip(const Tensor& x) { return x.unary(Op::RECIP); }
/// 1 / (1 + exp(-x))
inline Tensor logistic(const Tensor& x) { return recip(exp(-x) + 1.0); }
/// x clipped to lo..hi; NaN stays.
inline Tensor clip(const Tensor& x, const Tensor& lo, const Tensor& hi) { return minimum(maximum(x, lo), hi); }
/// The sign bit of a float, also of zeros and NaN; x < 0 for integers.
Tensor sign_bit(const Tensor& x);
/// Throws NotImplemented, `"gelu" not implemented for 'Long'`, for a type that the operator does not take.
void require_float(const Args& a, DType d);
void require_integer(const Args& a, DType d, bool or_bool);
void require_not_bool(const Args& a, DType d);
/// The tensor without elements that stands for a result that this device does not need.
inline Tensor no_elements(DType d) { return empty_value({0}, d); }

}  // namespace tiny::lower
