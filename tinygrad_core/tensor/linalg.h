// Dense linear algebra on the last two dimensions of f32 and f64, as LAPACK has it; all dimensions before them are a batch. Operands of one
// call have the same batch. Results that are matrices lie column by column: their value is a transposed VIEW, so that nothing moves where
// it is written to memory with such strides. All may be empty.
#pragma once
#include "tensor/tensor.h"

namespace tiny::linalg {

/// a [.., m, n] = P L U; pivots i32 [.., min(m, n)] from 1, info i32 [..]: number from 1 of the first pivot that is 0, or 0.
struct Lu {
  Tensor factors, pivots, info;
};
Lu lu(const Tensor& a);
/// a x = b, or a^T x = b, from the factors of a [.., n, n].
Tensor lu_solve(const Tensor& factors, const Tensor& pivots, const Tensor& b, bool adjoint);
/// i64 [.., rows]: which row of the matrix comes to each place.
Tensor permutation(const Tensor& pivots, int64_t rows);

struct Triangle {
  bool upper = false, unit = false;
};
/// a x = b, or x a = b. The other half of a is not read.
Tensor solve_triangular(const Tensor& a, const Tensor& b, Triangle t, bool left = true);

/// l l^T = a, of whose lower triangle alone is read; or, of upper triangles, l^T l = a. info i32 [..]: number from 1 of the first leading
/// block that is not positive definite, or 0.
struct Cholesky {
  Tensor factor, info;
};
Cholesky cholesky(const Tensor& a, bool upper);

/// L D L^T of the lower triangle of a, with pivots of one or two rows: LAPACK's sytrf. The upper triangle of the result is left to chance.
struct Ldl {
  Tensor factors, pivots, info;
};
Ldl ldl(const Tensor& a);
Tensor ldl_solve(const Tensor& factors, const Tensor& pivots, const Tensor& b);

/// Householder reflections below the diagonal of `factors`, and R above: LAPACK's geqrf.
struct Qr {
  Tensor factors, tau;
};
Qr qr(const Tensor& a);
/// The first `columns` columns of the product of the reflections.
Tensor householder_product(const Tensor& factors, const Tensor& tau, int64_t columns);
/// q c, or c q, with that product or its transpose.
Tensor householder_apply(const Tensor& factors, const Tensor& tau, const Tensor& c, bool left, bool transpose);

}  // namespace tiny::linalg
