// Reductions. Reduced floats accumulate in f32, integers in i64; `dim` arguments may be missing, empty (all) or negative.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

/// The axes that argument i names, an int, a list or nothing: all. Throws for an axis out of range or named twice.
Dims reduced_axes(const Args& a, int i, int64_t ndim);
/// Number of elements that a reduction of `x` over `axes` takes for each result.
int64_t reduced_count(const Tensor& x, const Dims& axes);
/// `x` computed in its accumulator type.
inline Tensor accumulated(const Tensor& x) { return x.cast(compute_dtype(x.dtype())); }
/// The same where PyTorch has twice the precision of f32: in f64.
inline Tensor accumulated_twice(const Tensor& x) { return x.cast(x.dtype() == DType::f32 ? DType::f64 : compute_dtype(x.dtype())); }
/// Mean over axes, dimensions kept.
Tensor mean_of(const Tensor& x, const Dims& axes);

Tensor all(Args& a);               // (self, dim?, keepdim)
Tensor amax(Args& a);              // (self, dim, keepdim)
Tensor amin(Args& a);
Results aminmax(Args& a);          // (self, *, dim?, keepdim) -> min, max
Results aminmax_all(Args& a);      // _aminmax(self)
Results aminmax_dim(Args& a);      // _aminmax.dim(self, dim, keepdim)
Tensor any(Args& a);
Tensor argmax(Args& a);            // (self, dim?, keepdim)
Tensor argmin(Args& a);
Tensor count_nonzero(Args& a);     // (self, dim)
Tensor logsumexp(Args& a);         // (self, dim, keepdim)
Results max_dim(Args& a);          // (self, dim, keepdim) -> values, indices
Results min_dim(Args& a);
Tensor mean(Args& a);              // (self, dim?, keepdim, *, dtype?)
Tensor nansum(Args& a);
Tensor norm(Args& a);              // (self, p?, dim, keepdim, *, dtype?)
Tensor prod(Args& a);              // (self, *, dtype?)
Tensor prod_dim(Args& a);          // (self, dim, keepdim, *, dtype?)
Tensor renorm(Args& a);            // (self, p, dim, maxnorm)
Tensor std_correction(Args& a);    // (self, dim?, *, correction?, keepdim)
Results std_mean_correction(Args& a);
Tensor sum(Args& a);               // (self, dim?, keepdim, *, dtype?)
Tensor trace(Args& a);
Tensor var_correction(Args& a);
Results var_mean_correction(Args& a);
Tensor vector_norm(Args& a);       // (self, ord, dim?, keepdim, *, dtype?)

/// The greatest or least of all elements.
template <Op op> Tensor extreme_of_all(Args& a);

}  // namespace tiny::lower
