// Dense linear algebra on the last two dimensions of f32 and f64, as LAPACK has it; all dimensions before them are a batch. Operands of one
// call have the same batch. Results that are matrices lie column by column: their value is a transposed VIEW, so that nothing moves where
// it is written to memory with such strides. All may be empty. Complex matrices are pairs, with a last dimension of 2.
#pragma once
#include "tensor/tensor.h"

namespace tiny::linalg {

struct Matrices {
  Tensor value;              // [.., m, n], or [.., m, n, 2]
  bool complex = false;
  Matrices() = default;
  Matrices(Tensor v, bool pairs = false) : value(std::move(v)), complex(pairs) {}
  DType dtype() const { return value.dtype(); }
  int64_t rows() const { return value.size(-2 - complex); }
  int64_t cols() const { return value.size(-1 - complex); }
  bool empty() const { return value.numel() == 0; }
  Matrices transposed() const { return {value.transpose(-2 - complex, -1 - complex), complex}; }
  /// Sizes of the batch, then `last`.
  Dims sizes(std::initializer_list<int64_t> last) const;
};

/// a [.., m, n] = P L U; pivots i32 [.., min(m, n)] from 1, info i32 [..]: number from 1 of the first pivot that is 0, or 0.
struct Lu {
  Matrices factors;
  Tensor pivots, info;
};
Lu lu(const Matrices& a);
/// a x = b, or a^H x = b, from the factors of a [.., n, n].
Matrices lu_solve(const Matrices& factors, const Tensor& pivots, const Matrices& b, bool adjoint);
/// i64 [.., rows]: which row of the matrix comes to each place.
Tensor permutation(const Tensor& pivots, int64_t rows);

struct Triangle {
  bool upper = false, unit = false;
};
/// a x = b, or x a = b. The other half of a is not read.
Matrices solve_triangular(const Matrices& a, const Matrices& b, Triangle t, bool left = true);

/// l l^H = a, of whose lower triangle alone is read; or, of upper triangles, l^H l = a. info i32 [..]: number from 1 of the first leading
/// block that is not positive definite, or 0.
struct Cholesky {
  Matrices factor;
  Tensor info;
};
Cholesky cholesky(const Matrices& a, bool upper);

/// L D L^T of the lower triangle of a, or L D L^H where `hermitian` and complex, with pivots of one or two rows: LAPACK's sytrf and hetrf.
/// The upper triangle of the result is left to chance.
struct Ldl {
  Matrices factors;
  Tensor pivots, info;
};
Ldl ldl(const Matrices& a, bool hermitian);
Matrices ldl_solve(const Matrices& factors, const Tensor& pivots, const Matrices& b, bool hermitian);

/// Householder reflections below the diagonal of `factors`, and R above: LAPACK's geqrf. tau [.., min(m, n)], of complex numbers pairs too.
struct Qr {
  Matrices factors;
  Tensor tau;
};
Qr qr(const Matrices& a);
/// The first `columns` columns of the product of the n reflections.
Matrices householder_product(const Matrices& factors, const Tensor& tau, int64_t n, int64_t columns);
/// q c, or c q, with that product or its adjoint.
Matrices householder_apply(const Matrices& factors, const Tensor& tau, int64_t n, const Matrices& c, bool left, bool adjoint);

}  // namespace tiny::linalg
