// LU and Cholesky decompositions, linear systems, determinants.
#include "lower/linalg.h"

#include <fmt/format.h>

#include "lower/linalg_util.h"
#include "lower/pointwise.h"

namespace tiny::lower {
namespace {

/// The LU decomposition of a matrix or, of one that lies row by row, of its transpose: PyTorch's derivative of det expects that.
struct Decomposed {
  linalg::Lu lu;
  bool transposed;
};
Decomposed decompose(Args& a) {
  const Tensor& x = a.tensor(0);
  require_full_float(x, "lu_cpu");
  bool transposed = a.values[0].contiguous;
  return {linalg::lu(transposed ? flipped(x) : x), transposed};
}

/// a x = b or x a = b, or the same with a^T, from the factors of a; all of one batch.
Tensor solve_from_lu(const Tensor& factors, const Tensor& pivots, const Tensor& b, bool left, bool adjoint) {
  if (left) return linalg::lu_solve(factors, pivots, b, adjoint);
  return flipped(linalg::lu_solve(factors, pivots, flipped(b), !adjoint));
}

Tensor diagonal(const Tensor& x) {
  int64_t n = x.size(-1);
  Dims sizes = batch_sizes(x, 1), strides(sizes.size());
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

/// A user's pivots; those that name no row stay where they are, and raise `text` at the next read.
Tensor checked_pivots(const Tensor& pivots, int64_t rows, const char* text) {
  if (pivots.numel() == 0) return pivots;
  Tensor least = constant(DType::i32, int64_t{1}), inside = ge(pivots, least) & le(pivots, constant(DType::i32, rows));
  return maximum(check(pivots, inside, text, rows), least);
}

/// P, L and U from what getrf leaves.
Results unpacked(const Tensor& lu, const Tensor& pivots, bool data, bool permutation) {
  int64_t m = lu.size(-2), n = lu.size(-1), k = std::min(m, n);
  DType d = lu.dtype();
  Results r{no_elements(d), no_elements(d), no_elements(d)};
  if (permutation) {
    Tensor order = linalg::permutation(pivots, m);
    r[0] = eq(iota(m).reshape({m, 1}), order.unsqueeze(-2)).cast(d);
  }
  if (data) {
    Tensor l = lower_triangle(lu.slice(-1, 0, k), -1);
    r[1] = l.numel() == 0 ? l : l + unit_matrix(m, k, d);
    r[2] = upper_triangle(lu.slice(-2, 0, k));
  }
  return r;
}

void require_pivoting(Args& a) {
  require(a.integer(1, 1) != 0, ErrorKind::Runtime, "linalg.lu_factor: LU without pivoting is not implemented on the CPU");
}

}  // namespace

Results lu_factor_ex(Args& a) {
  require_full_float(a.tensor(0), "lu_cpu");
  require_pivoting(a);
  linalg::Lu r = linalg::lu(a.tensor(0));
  return {r.factors, r.pivots, r.info};
}

Results lu(Args& a) {
  require_full_float(a.tensor(0), "lu_cpu");
  require_pivoting(a);
  linalg::Lu r = linalg::lu(a.tensor(0));
  return unpacked(r.factors, r.pivots, true, true);
}

Results lu_unpack(Args& a) {
  const Tensor& x = a.tensor(0);
  bool data = a.integer(2, 1) != 0, permutation = a.integer(3, 1) != 0;
  Tensor pivots = a.tensor(1);
  if (permutation)
    pivots = checked_pivots(pivots, x.size(-2), "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
                                                "Did you properly pass the result of lu_factor?");
  return unpacked(x, pivots, data, permutation);
}

Tensor lu_solve(Args& a) {
  const Tensor &x = a.tensor(0), &b = a.tensor(2);
  require_full_float(x, "linalg.lu_solve_cpu");
  bool left = a.integer(3, 1) != 0, adjoint = a.integer(4, 0) != 0;
  Dims batch = broadcast_sizes(batch_sizes(b), batch_sizes(x));
  Tensor pivots = checked_pivots(a.tensor(1), x.size(-2), "Pivots given to lu_solve must all be smaller or equal to LU.size(-2). "
                                                          "Did you properly pass the result of lu_factor?");
  return solve_from_lu(expand_batch(x, batch), expand_batch(pivots, batch, 1), expand_batch(b, batch), left, adjoint);
}

Results solve_ex(Args& a) {
  const Tensor& x = a.tensor(0);
  Tensor b = a.tensor(1);
  Dims rows = batch_sizes(x, 1);
  bool left = a.integer(2, 1) != 0, vector = b.dim() == 1 || (x.dim() - 1 == b.dim() && b.sizes() == rows);
  if (vector) b = b.unsqueeze(-1);
  Dims batch = broadcast_sizes(batch_sizes(b), batch_sizes(x));
  require_full_float(x, "lu_cpu");
  linalg::Lu r = linalg::lu(x);
  Tensor y = solve_from_lu(expand_batch(r.factors, batch), expand_batch(r.pivots, batch, 1), expand_batch(b, batch), left, false);
  return {vector ? y.squeeze(-1) : y, r.factors, r.pivots, r.info};
}

Results inv_ex(Args& a) {
  const Tensor& x = a.tensor(0);
  auto [r, transposed] = decompose(a);
  Tensor unit = expand_batch(unit_matrix(x.size(-1), x.size(-1), x.dtype()), batch_sizes(x));
  return {solve_from_lu(r.factors, r.pivots, unit, true, transposed), r.info};
}

Results det(Args& a) {
  linalg::Lu r = decompose(a).lu;
  return {sign_of(r.pivots, r.factors.dtype()) * diagonal(r.factors).reduce(Op::MUL, kLast), r.factors, r.pivots};
}

Results slogdet(Args& a) {
  linalg::Lu r = decompose(a).lu;
  Tensor d = diagonal(r.factors);
  return {sign(d).reduce(Op::MUL, kLast) * sign_of(r.pivots, d.dtype()), log(abs(d)).sum(kLast), r.factors, r.pivots};
}

Results ldl_factor_ex(Args& a) {
  require_full_float(a.tensor(0), "ldl_factor_kernel_cpu");
  linalg::Ldl r = linalg::ldl(a.tensor(0));
  return {lower_triangle(r.factors), r.pivots, r.info};
}

Tensor ldl_solve(Args& a) {
  const Tensor &x = a.tensor(0), &b = a.tensor(2);
  require_full_float(x, "ldl_solve_kernel_cpu");
  Dims batch = broadcast_sizes(batch_sizes(b), batch_sizes(x));
  return linalg::ldl_solve(expand_batch(x, batch), expand_batch(a.tensor(1), batch, 1), expand_batch(b, batch));
}

Results cholesky_ex(Args& a) {
  require_full_float(a.tensor(0), "cholesky_cpu");
  linalg::Cholesky r = linalg::cholesky(a.tensor(0), a.integer(1, 0) != 0);
  return {r.factor, r.info};
}

Tensor cholesky_solve(Args& a) {
  const Tensor &b = a.tensor(0), &x = a.tensor(1);
  require_full_float(b, "cholesky_solve_cpu");
  bool upper = a.flag(2);
  Tensor l = upper ? flipped(x) : x;
  return linalg::solve_triangular(flipped(l), linalg::solve_triangular(l, b, {}), {.upper = true});
}

Tensor solve_triangular(Args& a) {
  constexpr const char* kName = "linalg.solve_triangular";
  const Tensor &x = a.tensor(0), &b = a.tensor(1);
  bool upper = a.flag(2), left = a.integer(3, 1) != 0, unit = a.integer(4, 0) != 0;
  require_square(x, kName, "A");
  require_matrix(b, kName, "B");
  if (left ? x.size(-2) != b.size(-2) : x.size(-1) != b.size(-1))
    fail(ErrorKind::Runtime, fmt::format("{}: Incompatible shapes of A and B for the equation {} ({}x{} and {}x{})", kName,
                                         left ? "AX = B" : "XA = B", x.size(-2), x.size(-1), b.size(-2), b.size(-1)));
  require_full_float(x, "triangular_solve_cpu");
  if (DType out = a.out_dtype(0, x.dtype()); out != x.dtype())
    fail(ErrorKind::Runtime, fmt::format("expected scalar type {} but found {}", scalar_type_name(x.dtype()), scalar_type_name(out)));
  Dims batch = broadcast_sizes(batch_sizes(b), batch_sizes(x));
  return linalg::solve_triangular(expand_batch(x, batch), expand_batch(b, batch).cast(x.dtype()), {upper, unit}, left);
}

Results triangular_solve(Args& a) {
  require_full_float(a.tensor(0), "triangular_solve_cpu");
  bool upper = a.integer(2, 1) != 0, transpose = a.integer(3, 0) != 0, unit = a.integer(4, 0) != 0;
  Dims batch = broadcast_sizes(batch_sizes(a.tensor(0)), batch_sizes(a.tensor(1)));
  Tensor b = expand_batch(a.tensor(0), batch), x = expand_batch(a.tensor(1), batch);
  return {linalg::solve_triangular(transpose ? flipped(x) : x, b, {upper != transpose, unit}), x};
}

}  // namespace tiny::lower
