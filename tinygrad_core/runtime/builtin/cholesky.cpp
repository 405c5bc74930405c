// Cholesky decomposition: halves, down to blocks of kBlock columns; what is left is triangular systems and products.
#include "runtime/builtin/builtin.h"
#include "runtime/builtin/gemm.h"
#include "runtime/builtin/loops.h"
#include "runtime/builtin/triangular.h"

namespace tiny {
namespace {

constexpr int64_t kBlock = 32, kProduct = 128;

/// The lower triangle of a block. Returns the number, from 1, of the first column whose pivot is not positive; 0: none.
template <class T>
int64_t factor_block(Matrix<T> a) {
  int64_t n = a.rows, info = 0;
  T memory[kBlock * kBlock], row[kBlock];
  Matrix<T> l{memory, n, n, 1, n};
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = j; i < n; ++i) l(i, j) = a(i, j);
  for (int64_t j = 0; j < n && !info; ++j) {
    for (int64_t p = 0; p < j; ++p) row[p] = conjugate(l(j, p));
    subtract_columns(n - j, j, &l(j, 0), n, row, &l(j, j));
    Real<T> pivot = real_part(l(j, j));
    if (!(pivot > 0)) {
      info = j + 1;
      break;
    }
    Real<T> root = std::sqrt(pivot);
    l(j, j) = root;
    for (int64_t i = j + 1; i < n; ++i) l(i, j) /= root;
  }
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = j; i < n; ++i) a(i, j) = l(i, j);
  return info;
}

/// The lower triangle of c -= a a^H; what is above it may become anything.
template <class T>
void subtract_square(Device& device, Matrix<T> a, Matrix<T> c) {
  if (c.rows <= kProduct) return add_product(device, Real<T>(-1), a, a.adjoint(), c);
  int64_t half = c.rows / 2 / kBlock * kBlock, rest = c.rows - half;
  Matrix<T> above = a.block(0, 0, half, a.cols), below = a.block(half, 0, rest, a.cols);
  subtract_square(device, above, c.block(0, 0, half, half));
  add_product(device, Real<T>(-1), below, above.adjoint(), c.block(half, 0, rest, half));
  subtract_square(device, below, c.block(half, half, rest, rest));
}

template <class T>
int64_t factor(Device& device, Matrix<T> a) {
  if (a.rows <= kBlock) return factor_block(a);
  int64_t half = (a.rows / 2 + kBlock - 1) / kBlock * kBlock, rest = a.rows - half;
  Matrix<T> first = a.block(0, 0, half, half), below = a.block(half, 0, rest, half), second = a.block(half, half, rest, rest);
  if (int64_t info = factor(device, first)) return info;
  solve_triangular(device, first.conjugate_view(), false, false, below.transposed());
  subtract_square(device, below, second);
  int64_t info = factor(device, second);
  return info ? info + half : 0;
}

template <class T>
void cholesky(void* const* buffers, const int64_t* ints, Device& device) {
  int64_t batch = ints[0], n = ints[1];
  bool upper = ints[3], by_rows = ints[4];
  for_each_matrix(device, batch, static_cast<double>(n * n) * static_cast<double>(n) / 3, [&](int64_t i) {
    Matrix<T> a = matrix_of<T>(buffers[0], i, n, n), from = matrix_of<T>(buffers[2], i, n, n, by_rows);
    copy(device, from, a);
    if (upper) a = a.transposed(), conjugate_all(a);  // of a^H the lower triangle
    static_cast<int32_t*>(buffers[1])[i] = static_cast<int32_t>(factor(device, a));
    for (int64_t c = 1; c < n; ++c)
      for (int64_t r = 0; r < c; ++r) a(r, c) = 0;
    if (upper) conjugate_all(a);
  });
}

}  // namespace

void builtin_cholesky(void* const* buffers, const uint64_t*, const int64_t* ints, Device& device) {
  with_element(ints[2], [&](auto zero) { cholesky<decltype(zero)>(buffers, ints, device); });
}

}  // namespace tiny
