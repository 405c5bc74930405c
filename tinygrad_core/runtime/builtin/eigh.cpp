// Eigenvalues and eigenvectors of symmetric and Hermitian matrices: Householder tridiagonalisation, then implicit QL steps.
// Source: G. Golub, C. Van Loan, Matrix Computations, 4th ed., sections 8.3.1 and 8.3.3; the step of A. Dubrulle, R. Martin, J. Wilkinson,
// The implicit QL algorithm, Numer. Math. 12 (1968).
#include <limits>
#include <numeric>
#include <vector>

#include "runtime/builtin/builtin.h"
#include "runtime/builtin/householder.h"
#include "runtime/builtin/loops.h"
#include "runtime/builtin/plane.h"
#include "runtime/builtin/rotations.h"

namespace tiny {
namespace {

/// a [n, n], all of it, becomes Q T Q^H: d and e are the diagonals of T, Q the product of reflections that lie below the diagonal of
/// a's rows from 1 on.
template <class T>
void tridiagonalise(Matrix<T> a, Real<T>* d, Real<T>* e, T* tau) {
  int64_t n = a.rows;
  std::vector<T> memory(static_cast<size_t>(3 * n));
  T *v = memory.data(), *w = v + n, *minus = w + n;  // w behind v: columns of one matrix
  for (int64_t k = 0; k + 1 < n; ++k) {
    int64_t m = n - k - 1;
    T* column = &a(k + 1, k);
    d[k] = real_part(a(k, k));
    tau[k] = reflection(m, column);
    e[k] = real_part(column[0]);
    if (tau[k] == T(0)) continue;
    Matrix<T> rest = a.block(k + 1, k + 1, m, m);
    v[0] = 1, std::copy(column + 1, column + m, v + 1);
    for (int64_t i = 0; i < m; ++i) minus[i] = -v[i], w[i] = 0;
    subtract_columns(m, m, rest.data, n, minus, w);
    T half = 0;
    for (int64_t i = 0; i < m; ++i) w[i] *= tau[k], half += conjugate(w[i]) * v[i];
    half *= tau[k] / Real<T>(2);
    for (int64_t i = 0; i < m; ++i) w[i] -= half * v[i];
    for (int64_t j = 0; j < m; ++j) {
      const T factors[] = {conjugate(w[j]), conjugate(v[j])};
      subtract_columns(m, 2, v, n, factors, &rest(0, j));
    }
  }
  d[n - 1] = real_part(a(n - 1, n - 1));
}

/// One QL step on the block of d[start .. start + m], seen from its end where `backwards`.
template <class R>
void step(R* diagonal, R* beside, int64_t start, int64_t m, bool backwards, Rotations<R>& columns) {
  auto d = [&](int64_t i) -> R& { return diagonal[backwards ? start + m - i : start + i]; };
  auto e = [&](int64_t i) -> R& { return beside[backwards ? start + m - 1 - i : start + i]; };
  R shift = (d(1) - d(0)) / (2 * e(0));
  R g = d(m) - d(0) + e(0) / (shift + std::copysign(std::hypot(shift, R(1)), shift));
  R s = 1, c = 1, p = 0;
  columns.sweep(backwards ? start : start + m, backwards ? 1 : -1);
  for (int64_t i = m - 1; i >= 0; --i) {
    R b = c * e(i);
    Turn<R> t = turn(g, s * e(i));
    if (i + 1 < m) e(i + 1) = t.r;
    c = t.c, s = t.s;
    g = d(i + 1) - p;
    R r = (d(i) - g) * s + 2 * c * b;
    p = s * r;
    d(i + 1) = g + p;
    g = c * r - b;
    columns.add(c, s);
  }
  d(0) -= p;
  e(0) = g;
}

/// The eigenvalues of a tridiagonal matrix, in place of d; false if they cannot be found.
template <class R>
bool diagonalise(int64_t n, R* d, R* e, Rotations<R>& columns) {
  const R eps = std::numeric_limits<R>::epsilon() / 2, least = std::numeric_limits<R>::min();
  int64_t steps_left = 30 * n, seen_start = -1, seen_end = -1;
  bool backwards = false;
  for (int64_t start = 0; start < n;) {
    int64_t end = start;
    for (; end + 1 < n; ++end)
      if (e[end] * e[end] <= eps * std::abs(d[end]) * (eps * std::abs(d[end + 1])) + least) break;
    if (end == start) {
      ++start;
      continue;
    }
    if (steps_left-- == 0) return false;
    // From the smaller end, so that small eigenvalues keep their digits; a block keeps its direction while it shrinks from there.
    bool shrunk = backwards ? start == seen_start && end < seen_end : start > seen_start && end == seen_end;
    if (!shrunk && (start != seen_start || end != seen_end)) backwards = std::abs(d[end]) < std::abs(d[start]);
    seen_start = start, seen_end = end;
    step(d, e, start, end - start, backwards, columns);
  }
  columns.run();
  return true;
}

/// The lower triangle of `from` decomposed; without vectors v.data is null. Returns whether that was possible.
template <class T>
bool decompose(Device& device, Matrix<T> from, Real<T>* values, Matrix<T> v) {
  using R = Real<T>;
  int64_t n = from.rows;
  std::vector<T> memory(static_cast<size_t>(n * n)), tau(static_cast<size_t>(n)), vectors(v.data ? static_cast<size_t>(n * n) : 0);
  std::vector<R> d(static_cast<size_t>(n)), e(static_cast<size_t>(n));
  Matrix<T> a{memory.data(), n, n, 1, n}, q{vectors.data(), n, n, 1, n};
  for (int64_t j = 0; j < n; ++j) {
    a(j, j) = real_part(from(j, j));
    for (int64_t i = j + 1; i < n; ++i) a(i, j) = from.get(i, j), a(j, i) = conjugate(a(i, j));
  }
  R scale = scale_of(a);
  if (scale == 0) return false;
  for (T& x : memory) x *= scale;
  tridiagonalise(a, d.data(), e.data(), tau.data());
  if (v.data) {
    for (int64_t i = 0; i < n; ++i) q(i, i) = 1;
    apply_reflections(device, a.block(1, 0, n - 1, n), tau.data(), n - 1, q.block(1, 1, n - 1, n - 1), false, true);
  }
  Rotations<R> columns(reinterpret_cast<R*>(q.data), v.data ? n * (1 + is_complex<T>) : 0, n * (1 + is_complex<T>));
  if (!diagonalise(n, d.data(), e.data(), columns)) return false;
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return d[i] < d[j]; });
  for (int64_t j = 0; j < n; ++j) {
    values[j] = d[order[j]] / scale;
    if (v.data) std::copy_n(&q(0, order[j]), n, &v(0, j));
  }
  return true;
}

template <class T>
void eigh(void* const* buffers, const int64_t* ints, Device& device) {
  int64_t batch = ints[0], n = ints[1];
  bool upper = ints[3], vectors = ints[4], by_rows = ints[5];
  void *values = buffers[0], *infos = buffers[1 + vectors], *from = buffers[2 + vectors];
  for_each_matrix(device, batch, (vectors ? 9.0 : 2.0) * static_cast<double>(n * n) * static_cast<double>(n), [&](int64_t i) {
    Matrix<T> a = matrix_of<T>(from, i, n, n, by_rows), v = vectors ? matrix_of<T>(buffers[1], i, n, n) : Matrix<T>{};
    Real<T>* w = static_cast<Real<T>*>(values) + i * n;
    bool good = decompose(device, upper ? a.adjoint() : a, w, v);
    static_cast<int32_t*>(infos)[i] = !good;
    if (good) return;
    std::fill_n(w, n, std::numeric_limits<Real<T>>::quiet_NaN());
    if (vectors) std::fill_n(v.data, n * n, T(std::numeric_limits<Real<T>>::quiet_NaN()));
  });
}

}  // namespace

void builtin_eigh(void* const* buffers, const uint64_t*, const int64_t* ints, Device& device) {
  with_element(ints[2], [&](auto zero) { eigh<decltype(zero)>(buffers, ints, device); });
}

}  // namespace tiny
