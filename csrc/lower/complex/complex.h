// Lowerings for complex arguments: the second column of aten_complex.def. Arguments are those of the real lowerings of the same operators.
#pragma once
#include "lower/complex/math.h"

namespace tiny::lower::complex {

// ---- made of parts
Complex make(Args& a);              // complex(real, imag)
Complex polar(Args& a);             // (abs, angle)
Complex linspace(Args& a);          // (start, end, steps)
Complex logspace(Args& a);          // (start, end, steps, base)

// ---- unary
template <Complex (*F)(const Complex&)> Complex unary(Args& a) {
  DType d = parts_dtype(a, {0});
  return cast(F(complex_operand(a, 0, d)), d);
}
Complex abs(Args& a);               // a real result, as the next
Complex angle(Args& a);
Complex conj_physical(Args& a);     // also of real arguments
Complex exp2(Args& a);
Complex isinf(Args& a);
Complex isnan(Args& a);
Complex log10(Args& a);
Complex log2(Args& a);
Complex logical_not(Args& a);
Complex neg(Args& a);
Complex rsqrt(Args& a);
Complex sigmoid_backward(Args& a);  // (grad_output, output)
Complex silu(Args& a);
Complex silu_backward(Args& a);     // (grad_output, self)
Complex sinc(Args& a);
Complex tanh_backward(Args& a);     // (grad_output, output)

// ---- binary
Complex add(Args& a);
Complex addcdiv(Args& a);
Complex addcmul(Args& a);
Complex compare_eq(Args& a);
Complex compare_ne(Args& a);
Complex div(Args& a);
Complex div_mode(Args& a);          // (self, other, *, rounding_mode)
Complex lerp(Args& a);
Complex logaddexp(Args& a);
template <Op op> Complex logical(Args& a);
Complex mul(Args& a);
Complex pow(Args& a);
Complex rsub(Args& a);
Complex sub(Args& a);
Complex xlogy(Args& a);

/// Argument 0, where it is complex, as whether it is not 0.
void replace_by_nonzero(Args& a);

// ---- reductions and scans
Complex all(Args& a);
Complex any(Args& a);
Complex count_nonzero(Args& a);
Complex cumprod(Args& a);
Complex logcumsumexp(Args& a);
Complex logsumexp(Args& a);
Complex norm(Args& a);
Complex prod(Args& a);
Complex prod_dim(Args& a);
Complex product_of_rows(Complex x);  // along the last dimension
Complex renorm(Args& a);
Complex std_correction(Args& a);
ComplexResults std_mean_correction(Args& a);
Complex var_correction(Args& a);
ComplexResults var_mean_correction(Args& a);
Complex vector_norm(Args& a);

// ---- products
Complex addbmm(Args& a);
Complex addmm(Args& a);             // and baddbmm
Complex addmv(Args& a);
Complex addr(Args& a);
Complex cross(Args& a);
Complex dot(Args& a);
Complex mm(Args& a);                // and bmm
Complex vdot(Args& a);

// ---- random numbers
Complex normal(Args& a);            // normal_(self, mean, std, *, generator)
Complex normal_of(Args& a);         // normal.*(mean, std, *, generator)
Complex uniform(Args& a);           // uniform_(self, from, to, *, generator)

// ---- indices
Complex index_add(Args& a);         // (self, dim, index, source, *, alpha)
Complex nonzero_static(Args& a);    // (self, *, size, fill_value)
Complex scatter_reduce(Args& a);    // scatter.reduce, scatter.value_reduce(self, dim, index, src, *, reduce)
Complex scatter_reduce_two(Args& a);  // scatter_reduce.two(self, dim, index, src, reduce, *, include_self)

}  // namespace tiny::lower::complex
