// What the lowerings of linear algebra share.
#pragma once
#include "lower/complex/math.h"
#include "lower/nn_util.h"

namespace tiny::lower {

using linalg::Matrices;

/// Argument i, real or complex.
Matrices matrices(const Args& a, int i);
/// Results as the glue takes them.
Complex parts(const Matrices& m);
Complex parts(const Tensor& pairs, bool complex);
inline Complex real_result(const Tensor& t) { return {t, {}}; }

/// Throws NotImplemented, `"lu_cpu" not implemented for 'Half'`, unless the elements are f32 or f64 or pairs of them.
void require_full_float(const Matrices& x, const char* kernel);
/// Throws unless `x` has at least two dimensions, or is square too.
void require_matrix(const Tensor& x, const char* function, const char* name);
void require_square(const Tensor& x, const char* function, const char* name);

/// Sizes without the last `n`.
inline Dims without_last(const Dims& sizes, int64_t n) { return Dims(sizes.begin(), sizes.end() - n); }
/// x with other dimensions before its last `n`, to which its own broadcast.
Tensor expand_batch(const Tensor& x, const Dims& batch, int64_t n);
inline Matrices expand_batch(const Matrices& x, const Dims& batch) { return {expand_batch(x.value, batch, 2 + x.complex), x.complex}; }
/// x conjugated and transposed.
Matrices adjoint(const Matrices& x);

/// Elements on or above (below) diagonal `d`; the others 0.
Matrices upper_triangle(const Matrices& x, int64_t d = 0);
Matrices lower_triangle(const Matrices& x, int64_t d = 0);
/// The first n columns or rows.
inline Matrices first_columns(const Matrices& x, int64_t n) { return {x.value.slice(-1 - x.complex, 0, n), x.complex}; }
inline Matrices first_rows(const Matrices& x, int64_t n) { return {x.value.slice(-2 - x.complex, 0, n), x.complex}; }
/// Ones on the diagonal of [m, n], of the type of `like`.
Matrices unit_matrix(int64_t m, int64_t n, const Matrices& like);

}  // namespace tiny::lower
