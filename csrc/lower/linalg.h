// Dense linear algebra: checks and shapes as PyTorch has them, around the calls of tensor/linalg.h.
#pragma once
#include "lower/args.h"

namespace tiny::lower {

Tensor cholesky_solve(Args& a);      // _cholesky_solve_helper(self, A, upper)
Tensor householder_product(Args& a); // (input, tau)
Tensor ldl_solve(Args& a);           // linalg_ldl_solve.out(LD, pivots, B, hermitian)
Tensor lu_solve(Args& a);            // linalg_lu_solve.out(LU, pivots, B, left, adjoint)
Tensor ormqr(Args& a);               // (self, input2, input3, left, transpose)
Tensor solve_triangular(Args& a);    // linalg_solve_triangular(self, B, upper, left, unitriangular)
Results cholesky_ex(Args& a);        // linalg_cholesky_ex.L(self, upper, check_errors)
Results det(Args& a);                // _linalg_det.result(A)
Results geqrf(Args& a);              // (self)
Results inv_ex(Args& a);             // linalg_inv_ex.inverse(A, check_errors)
Results ldl_factor_ex(Args& a);      // linalg_ldl_factor_ex.out(self, hermitian, check_errors)
Results lu(Args& a);                 // linalg_lu.out(A, pivot)
Results lu_factor_ex(Args& a);       // linalg_lu_factor_ex.out(A, pivot, check_errors)
Results lu_unpack(Args& a);          // lu_unpack.out(LU_data, LU_pivots, unpack_data, unpack_pivots)
Results qr(Args& a);                 // linalg_qr.out(A, mode)
Results slogdet(Args& a);            // _linalg_slogdet.sign(A)
Results solve_ex(Args& a);           // _linalg_solve_ex.result(A, B, left, check_errors)
Results triangular_solve(Args& a);   // triangular_solve.X(self, A, upper, transpose, unitriangular)

}  // namespace tiny::lower
