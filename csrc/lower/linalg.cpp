// LU, LDL and Cholesky decompositions, linear systems, determinants.
#include "lower/linalg.h"

#include <fmt/format.h>

#include "lower/complex/complex.h"
#include "lower/linalg_util.h"

namespace tiny::lower {
namespace {

/// The LU decomposition of a matrix or, of a real one that lies row by row, of its transpose: PyTorch's derivative of det expects that.
struct Decomposed {
  linalg::Lu lu;
  bool transposed;
};
Decomposed decompose(Args& a) {
  const Matrices x = matrices(a, 0);
  require_full_float(x, "lu_cpu");
  bool transposed = a.values[0].contiguous && !x.complex;
  return {linalg::lu(transposed ? x.transposed() : x), transposed};
}

/// a x = b or x a = b, or the same with the adjoint of a, from the factors of a; all of one batch.
Matrices solve_from_lu(const Matrices& factors, const Tensor& pivots, const Matrices& b, bool left, bool with_adjoint) {
  if (left) return linalg::lu_solve(factors, pivots, b, with_adjoint);
  return adjoint(linalg::lu_solve(factors, pivots, adjoint(b), !with_adjoint));
}

/// Diagonals of the matrices of a part.
Tensor diagonal(const Tensor& x) {
  int64_t n = x.size(-1);
  Dims sizes = without_last(x.sizes(), 1), strides(sizes.size());
  if (x.numel() == 0) return zeros(sizes, x.dtype());
  strides.back() = n + 1;
  for (int64_t d = static_cast<int64_t>(sizes.size()) - 2, step = n * n; d >= 0; step *= sizes[d--]) strides[d] = step;
  return x.view(sizes, strides, 0);
}

constexpr int64_t kLast[] = {-1};

/// The determinant of the permutation: -1 for each row that traded places.
Tensor sign_of(const Tensor& pivots, DType d) {
  Tensor order = (iota(pivots.size(-1)) + index_constant(1)).cast(DType::i32);
  Tensor odd = ne(pivots, order).cast(d).sum(kLast);
  return constant(d, 1.0) - binary(Op::MOD, odd, constant(d, 2.0)) * 2.0;
}

Tensor sign(const Tensor& x) {
  Tensor zero = like(x, 0);
  return where(lt(zero, x), like(x, 1), where(lt(x, zero), like(x, -1), zero));
}

Complex product_of_last(const Complex& x) {
  return x.is_complex() ? complex::product_of_rows(x) : real_result(x.re.reduce(Op::MUL, kLast));
}

/// Factors on the diagonal of the upper triangle.
Complex pivots_of(const Matrices& factors) {
  Complex p = parts(factors);
  return {diagonal(p.re), p.is_complex() ? diagonal(p.im) : Tensor()};
}

Complex times(const Complex& x, const Tensor& real) { return {x.re * real, x.is_complex() ? x.im * real : Tensor()}; }

/// A user's pivots; those that name no row stay where they are, and raise `text` at the next read.
Tensor checked_pivots(const Tensor& pivots, int64_t rows, const char* text) {
  if (pivots.numel() == 0) return pivots;
  Tensor least = constant(DType::i32, int64_t{1}), inside = ge(pivots, least) & le(pivots, constant(DType::i32, rows));
  return maximum(check(pivots, inside, text, rows), least);
}

/// P, L and U from what getrf leaves, of any dtype.
ComplexResults unpacked(const Matrices& lu, const Tensor& pivots, bool data, bool permutation) {
  int64_t m = lu.rows(), n = lu.cols(), k = std::min(m, n);
  DType d = lu.dtype();
  const Complex none{no_elements(d), lu.complex ? no_elements(d) : Tensor()};
  ComplexResults r{none, none, none};
  if (permutation) {
    Tensor p = eq(iota(m).reshape({m, 1}), linalg::permutation(pivots, m).unsqueeze(-2)).cast(d);
    r[0] = {p, lu.complex ? zeros(p.sizes(), d) : Tensor()};
  }
  if (data) {
    Matrices l = lower_triangle(first_columns(lu, k), -1);
    r[1] = parts(l.empty() ? l : Matrices(l.value + unit_matrix(m, k, lu).value, lu.complex));
    r[2] = parts(upper_triangle(first_rows(lu, k)));
  }
  return r;
}

void require_pivoting(Args& a) {
  require(a.integer(1, 1) != 0, ErrorKind::Runtime, "linalg.lu_factor: LU without pivoting is not implemented on the CPU");
}

}  // namespace

ComplexResults lu_factor_ex(Args& a) {
  const Matrices x = matrices(a, 0);
  require_full_float(x, "lu_cpu");
  require_pivoting(a);
  linalg::Lu r = linalg::lu(x);
  return {parts(r.factors), real_result(r.pivots), real_result(r.info)};
}

ComplexResults lu(Args& a) {
  const Matrices x = matrices(a, 0);
  require_full_float(x, "lu_cpu");
  require_pivoting(a);
  linalg::Lu r = linalg::lu(x);
  return unpacked(r.factors, r.pivots, true, true);
}

ComplexResults lu_unpack(Args& a) {
  const Matrices x = matrices(a, 0);
  bool data = a.integer(2, 1) != 0, permutation = a.integer(3, 1) != 0;
  Tensor pivots = a.tensor(1);
  if (permutation)
    pivots = checked_pivots(pivots, x.rows(), "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
                                              "Did you properly pass the result of lu_factor?");
  return unpacked(x, pivots, data, permutation);
}

Complex lu_solve(Args& a) {
  const Matrices x = matrices(a, 0), b = matrices(a, 2);
  require_full_float(x, "linalg.lu_solve_cpu");
  bool left = a.integer(3, 1) != 0, with_adjoint = a.integer(4, 0) != 0;
  Dims batch = broadcast_sizes(b.sizes({}), x.sizes({}));
  Tensor pivots = checked_pivots(a.tensor(1), x.rows(), "Pivots given to lu_solve must all be smaller or equal to LU.size(-2). "
                                                        "Did you properly pass the result of lu_factor?");
  return parts(solve_from_lu(expand_batch(x, batch), expand_batch(pivots, batch, 1), expand_batch(b, batch), left, with_adjoint));
}

ComplexResults solve_ex(Args& a) {
  const Tensor &shape = a.tensor(0), &right = a.tensor(1);
  bool left = a.integer(2, 1) != 0;
  bool vector = right.dim() == 1 || (shape.dim() - 1 == right.dim() && right.sizes() == without_last(shape.sizes(), 1));
  const Matrices x = matrices(a, 0);
  Matrices b = matrices(a, 1);
  if (vector) b.value = b.value.unsqueeze(-1 - b.complex);
  Dims batch = broadcast_sizes(b.sizes({}), x.sizes({}));
  require_full_float(x, "lu_cpu");
  linalg::Lu r = linalg::lu(x);
  Complex y = parts(solve_from_lu(expand_batch(r.factors, batch), expand_batch(r.pivots, batch, 1), expand_batch(b, batch), left, false));
  if (vector) y = {y.re.squeeze(-1), y.is_complex() ? y.im.squeeze(-1) : Tensor()};
  return {y, parts(r.factors), real_result(r.pivots), real_result(r.info)};
}

ComplexResults inv_ex(Args& a) {
  auto [r, transposed] = decompose(a);
  int64_t n = r.factors.rows();
  Matrices unit = expand_batch(unit_matrix(n, n, r.factors), r.factors.sizes({}));
  return {parts(solve_from_lu(r.factors, r.pivots, unit, true, transposed)), real_result(r.info)};
}

ComplexResults det(Args& a) {
  linalg::Lu r = decompose(a).lu;
  return {times(product_of_last(pivots_of(r.factors)), sign_of(r.pivots, r.factors.dtype())), parts(r.factors), real_result(r.pivots)};
}

ComplexResults slogdet(Args& a) {
  linalg::Lu r = decompose(a).lu;
  Complex d = pivots_of(r.factors), signs = d.is_complex() ? sgn(d) : real_result(sign(d.re));
  Tensor size = d.is_complex() ? abs(d) : abs(d.re);
  return {times(product_of_last(signs), sign_of(r.pivots, d.re.dtype())), real_result(log(size).sum(kLast)), parts(r.factors),
          real_result(r.pivots)};
}

ComplexResults ldl_factor_ex(Args& a) {
  const Matrices x = matrices(a, 0);
  require_full_float(x, "ldl_factor_kernel_cpu");
  linalg::Ldl r = linalg::ldl(x, a.integer(1, 0) != 0);
  return {parts(lower_triangle(r.factors)), real_result(r.pivots), real_result(r.info)};
}

Complex ldl_solve(Args& a) {
  const Matrices x = matrices(a, 0), b = matrices(a, 2);
  require_full_float(x, "ldl_solve_kernel_cpu");
  Dims batch = broadcast_sizes(b.sizes({}), x.sizes({}));
  return parts(linalg::ldl_solve(expand_batch(x, batch), expand_batch(a.tensor(1), batch, 1), expand_batch(b, batch),
                                 a.integer(3, 0) != 0));
}

ComplexResults cholesky_ex(Args& a) {
  const Matrices x = matrices(a, 0);
  require_full_float(x, "cholesky_cpu");
  linalg::Cholesky r = linalg::cholesky(x, a.integer(1, 0) != 0);
  return {parts(r.factor), real_result(r.info)};
}

Complex cholesky_solve(Args& a) {
  const Matrices b = matrices(a, 0), x = matrices(a, 1);
  require_full_float(b, "cholesky_solve_cpu");
  bool upper = a.flag(2);
  const Matrices l = upper ? adjoint(x) : x, u = upper ? x : adjoint(x);
  return parts(linalg::solve_triangular(u, linalg::solve_triangular(l, b, {}), {.upper = true}));
}

Complex solve_triangular(Args& a) {
  constexpr const char* kName = "linalg.solve_triangular";
  bool upper = a.flag(2), left = a.integer(3, 1) != 0, unit = a.integer(4, 0) != 0;
  require_square(a.tensor(0), kName, "A");
  require_matrix(a.tensor(1), kName, "B");
  const Matrices x = matrices(a, 0);
  Matrices b = matrices(a, 1);
  if (left ? x.rows() != b.rows() : x.cols() != b.cols())
    fail(ErrorKind::Runtime, fmt::format("{}: Incompatible shapes of A and B for the equation {} ({}x{} and {}x{})", kName,
                                         left ? "AX = B" : "XA = B", x.rows(), x.cols(), b.rows(), b.cols()));
  require_full_float(x, "triangular_solve_cpu");
  if (DType out = a.out_dtype(0, x.dtype()); out != x.dtype() && !x.complex)
    fail(ErrorKind::Runtime, fmt::format("expected scalar type {} but found {}", scalar_type_name(x.dtype()), scalar_type_name(out)));
  Dims batch = broadcast_sizes(b.sizes({}), x.sizes({}));
  b.value = b.value.cast(x.dtype());
  return parts(linalg::solve_triangular(expand_batch(x, batch), expand_batch(b, batch), {upper, unit}, left));
}

ComplexResults triangular_solve(Args& a) {
  Matrices b = matrices(a, 0), x = matrices(a, 1);
  require_full_float(b, "triangular_solve_cpu");
  bool upper = a.integer(2, 1) != 0, transpose = a.integer(3, 0) != 0, unit = a.integer(4, 0) != 0;
  Dims batch = broadcast_sizes(b.sizes({}), x.sizes({}));
  b = expand_batch(b, batch), x = expand_batch(x, batch);
  return {parts(linalg::solve_triangular(transpose ? x.transposed() : x, b, {upper != transpose, unit})), parts(x)};
}

}  // namespace tiny::lower
