// What the lowerings of linear algebra share.
#pragma once
#include "lower/nn_util.h"

namespace tiny::lower {

/// Throws NotImplemented, `"lu_cpu" not implemented for 'Half'`, unless `x` is f32 or f64.
void require_full_float(const Tensor& x, const char* kernel);
/// Throws unless `x` has at least two dimensions, or is square too.
void require_matrix(const Tensor& x, const char* function, const char* name);
void require_square(const Tensor& x, const char* function, const char* name);

/// The sizes of all but the last `n` dimensions.
inline Dims batch_sizes(const Tensor& x, int64_t n = 2) { return Dims(x.sizes().begin(), x.sizes().end() - n); }
/// x with other dimensions before its last `n`, to which its own broadcast.
Tensor expand_batch(const Tensor& x, const Dims& batch, int64_t n = 2);
/// The transpose of the matrices in the last two dimensions.
inline Tensor flipped(const Tensor& x) { return x.transpose(-2, -1); }

/// Elements on or above (below) diagonal `d`; the others 0.
Tensor upper_triangle(const Tensor& x, int64_t d = 0);
Tensor lower_triangle(const Tensor& x, int64_t d = 0);
/// n ones on the diagonal of [m, n].
Tensor unit_matrix(int64_t m, int64_t n, DType d);

}  // namespace tiny::lower
