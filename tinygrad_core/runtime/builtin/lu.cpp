// LU decomposition with partial pivoting, and what is done with its result. Columns are halved, down to panels of kPanel columns; what is
// left is triangular systems and products.
// Source: S. Toledo, Locality of reference in LU decomposition with partial pivoting, SIAM J. Matrix Anal. Appl. 18 (1997).
#include <limits>
#include <numeric>
#include <utility>

#include "runtime/builtin/builtin.h"
#include "runtime/builtin/gemm.h"
#include "runtime/builtin/loops.h"
#include "runtime/builtin/triangular.h"

namespace tiny {
namespace {

constexpr int64_t kPanel = 8;

/// Rows 0, 1, ... of `a` trade places with those that `pivots` names (from 1, as LAPACK counts), in order or backwards.
template <class T>
void swap_rows(Device& device, Matrix<T> a, const int32_t* pivots, int64_t n, bool backwards = false) {
  spread(device, a.cols, static_cast<double>(4 * n), [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j)
      for (int64_t k = 0; k < n; ++k) {
        int64_t i = backwards ? n - 1 - k : k;
        std::swap(a(i, j), a(pivots[i] - 1, j));
      }
  });
}

/// A panel, column after column. Returns the number, from 1, of the first column whose pivot is 0; 0: none.
template <class T>
int64_t factor_panel(Matrix<T> a, int32_t* pivots) {
  int64_t info = 0;
  for (int64_t j = 0; j < a.cols; ++j) {
    T* column = &a(0, j);
    int64_t done = std::min(j, a.rows);
    for (int64_t k = 0; k < done; ++k) {
      std::swap(column[k], column[pivots[k] - 1]);
      for (int64_t p = 0; p < k; ++p) column[k] -= a(k, p) * column[p];
    }
    if (j >= a.rows) continue;
    subtract_columns(a.rows - j, j, &a(j, 0), a.across, column, column + j);
    int64_t pivot = j + greatest(a.rows - j, column + j);
    pivots[j] = static_cast<int32_t>(pivot + 1);
    T x = column[pivot];
    if (x == T(0)) {
      info = info ? info : j + 1;
      continue;
    }
    for (int64_t p = 0; p <= j && pivot != j; ++p) std::swap(a(j, p), a(pivot, p));
    if (magnitude(x) >= std::numeric_limits<Real<T>>::min()) {
      T reciprocal = T(1) / x;
      for (int64_t i = j + 1; i < a.rows; ++i) column[i] *= reciprocal;
    } else {
      for (int64_t i = j + 1; i < a.rows; ++i) column[i] /= x;
    }
  }
  return info;
}

template <class T>
int64_t factor(Device& device, Matrix<T> a, int32_t* pivots) {
  if (a.cols <= kPanel) return factor_panel(a, pivots);
  int64_t least = std::min(a.rows, a.cols), n = std::min(least, std::max(kPanel, least / 2 / kPanel * kPanel));
  Matrix<T> left = a.block(0, 0, a.rows, n), right = a.block(0, n, a.rows, a.cols - n);
  int64_t info = factor(device, left, pivots);
  swap_rows(device, right, pivots, n);
  Matrix<T> above = right.block(0, 0, n, right.cols), below = right.block(n, 0, a.rows - n, right.cols);
  solve_triangular(device, left.block(0, 0, n, n), false, true, above);
  if (below.rows == 0) return info;
  add_product(device, Real<T>(-1), left.block(n, 0, below.rows, n), above, below);
  int64_t rest = factor(device, below, pivots + n), more = std::min(below.rows, below.cols);
  swap_rows(device, left.block(n, 0, below.rows, n), pivots + n, more);
  for (int64_t i = n; i < n + more; ++i) pivots[i] += static_cast<int32_t>(n);
  return info || !rest ? info : rest + n;
}

template <class T>
void lu(void* const* buffers, const int64_t* ints, Device& device) {
  int64_t batch = ints[0], rows = ints[1], cols = ints[2], least = std::min(rows, cols);
  bool by_rows = ints[4];
  auto *pivots = static_cast<int32_t*>(buffers[1]), *info = static_cast<int32_t*>(buffers[2]);
  for_each_matrix(device, batch, static_cast<double>(rows * cols) * static_cast<double>(least), [&](int64_t i) {
    Matrix<T> a = matrix_of<T>(buffers[0], i, rows, cols);
    copy(device, matrix_of<T>(buffers[3], i, rows, cols, by_rows), a);
    info[i] = static_cast<int32_t>(factor(device, a, pivots + i * least));
  });
}

template <class T>
void lu_solve(void* const* buffers, const int64_t* ints, Device& device) {
  int64_t batch = ints[0], n = ints[1], cols = ints[2];
  bool adjoint = ints[4], lu_by_rows = ints[5], b_by_rows = ints[6];
  for_each_matrix(device, batch, 2.0 * static_cast<double>(n * n) * static_cast<double>(cols), [&](int64_t i) {
    Matrix<T> a = matrix_of<T>(buffers[1], i, n, n, lu_by_rows), x = matrix_of<T>(buffers[0], i, n, cols);
    const int32_t* pivots = static_cast<const int32_t*>(buffers[2]) + i * n;
    copy(device, matrix_of<T>(buffers[3], i, n, cols, b_by_rows), x);
    if (adjoint) {
      solve_triangular(device, a.adjoint(), false, false, x);
      solve_triangular(device, a.adjoint(), true, true, x);
      swap_rows(device, x, pivots, n, true);
    } else {
      swap_rows(device, x, pivots, n);
      solve_triangular(device, a, false, true, x);
      solve_triangular(device, a, true, false, x);
    }
  });
}

}  // namespace

void builtin_lu(void* const* buffers, const uint64_t*, const int64_t* ints, Device& device) {
  with_element(ints[3], [&](auto zero) { lu<decltype(zero)>(buffers, ints, device); });
}

void builtin_lu_solve(void* const* buffers, const uint64_t*, const int64_t* ints, Device& device) {
  with_element(ints[3], [&](auto zero) { lu_solve<decltype(zero)>(buffers, ints, device); });
}

void builtin_permutation(void* const* buffers, const uint64_t*, const int64_t* ints, Device& device) {
  int64_t batch = ints[0], rows = ints[1], n = ints[2];
  for_each_matrix(device, batch, static_cast<double>(rows), [&](int64_t i) {
    int64_t* order = static_cast<int64_t*>(buffers[0]) + i * rows;
    const int32_t* pivots = static_cast<const int32_t*>(buffers[1]) + i * n;
    std::iota(order, order + rows, 0);
    for (int64_t k = 0; k < n; ++k) std::swap(order[k], order[pivots[k] - 1]);
  });
}

}  // namespace tiny
