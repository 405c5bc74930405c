// Dense linear algebra: checks and shapes as PyTorch has them, around the calls of tensor/linalg.h.
#pragma once
#include "lower/args.h"

namespace tiny::lower {

/// The lowerings below are for real and for complex arguments: where these are real, so are all results.
template <ComplexResults (*F)(Args&)> Results real_all(Args& a) {
  Results r;
  for (Complex& x : F(a)) r.push_back(std::move(x.re));
  return r;
}
template <Complex (*F)(Args&)> Tensor real_one(Args& a) { return F(a).re; }

Complex cholesky_solve(Args& a);       // _cholesky_solve_helper(self, A, upper)
Complex householder_product(Args& a);  // (input, tau)
Complex ldl_solve(Args& a);            // linalg_ldl_solve.out(LD, pivots, B, hermitian)
Complex lu_solve(Args& a);             // linalg_lu_solve.out(LU, pivots, B, left, adjoint)
Complex ormqr(Args& a);                // (self, input2, input3, left, transpose)
Complex solve_triangular(Args& a);     // linalg_solve_triangular(self, B, upper, left, unitriangular)
ComplexResults cholesky_ex(Args& a);   // linalg_cholesky_ex.L(self, upper, check_errors)
ComplexResults det(Args& a);           // _linalg_det.result(A)
ComplexResults eigh(Args& a);          // _linalg_eigh.eigenvalues(A, UPLO, compute_v)
ComplexResults geqrf(Args& a);         // (self)
ComplexResults inv_ex(Args& a);        // linalg_inv_ex.inverse(A, check_errors)
ComplexResults ldl_factor_ex(Args& a);  // linalg_ldl_factor_ex.out(self, hermitian, check_errors)
ComplexResults lu(Args& a);            // linalg_lu.out(A, pivot)
ComplexResults lu_factor_ex(Args& a);  // linalg_lu_factor_ex.out(A, pivot, check_errors)
ComplexResults lu_unpack(Args& a);     // lu_unpack.out(LU_data, LU_pivots, unpack_data, unpack_pivots)
ComplexResults qr(Args& a);            // linalg_qr.out(A, mode)
ComplexResults slogdet(Args& a);       // _linalg_slogdet.sign(A)
ComplexResults solve_ex(Args& a);      // _linalg_solve_ex.result(A, B, left, check_errors)
ComplexResults svd(Args& a);           // _linalg_svd.U(A, full_matrices, compute_uv, driver)
ComplexResults triangular_solve(Args& a);  // triangular_solve.X(self, A, upper, transpose, unitriangular)

}  // namespace tiny::lower
