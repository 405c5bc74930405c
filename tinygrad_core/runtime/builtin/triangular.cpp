// Triangular systems: halves, down to blocks that are solved for a strip of right-hand sides at once; the rest is products.
#include "runtime/builtin/triangular.h"

#include "runtime/builtin/builtin.h"
#include "runtime/builtin/gemm.h"
#include "runtime/builtin/vector_kernels.h"

namespace tiny {
namespace {

constexpr int64_t kBlock = 32, kMostStrip = 64;

/// f(row, column), in the order in which the elements lie.
template <class F>
void each(int64_t rows, int64_t cols, bool by_columns, F f) {
  for (int64_t p = 0; p < (by_columns ? cols : rows); ++p)
    for (int64_t q = 0; q < (by_columns ? rows : cols); ++q) by_columns ? f(q, p) : f(p, q);
}

/// A block of at most kBlock rows with few right-hand sides.
template <class T>
void solve_few(Matrix<T> a, bool upper, bool unit, Matrix<T> b) {
  int64_t n = a.rows;
  for (int64_t j = 0; j < b.cols; ++j)
    for (int64_t k = 0; k < n; ++k) {
      int64_t i = upper ? n - 1 - k : k;
      if (!unit) b(i, j) /= a.get(i, i);
      T x = b(i, j);
      for (int64_t r = upper ? 0 : i + 1; r < (upper ? i : n); ++r) b(r, j) -= a.get(r, i) * x;
    }
}

/// A block of at most kBlock rows. An upper triangle is a lower one seen from its end.
template <class T>
void solve_strips(Device& device, Matrix<T> a, bool upper, bool unit, Matrix<T> b) {
  const VectorKernels<T>& kernels = vector_kernels<T>();
  int64_t n = a.rows, strip = kernels.strip;
  auto seen = [&](int64_t i) { return upper ? n - 1 - i : i; };
  T l[kBlock * kBlock];
  for (int64_t i = 0; i < n; ++i)
    for (int64_t p = 0; p <= i; ++p) l[i * n + p] = a(seen(i), seen(p));
  spread(device, (b.cols + strip - 1) / strip, static_cast<double>(n * n * strip), [&](int64_t begin, int64_t end) {
    alignas(64) T x[kBlock * kMostStrip];
    for (int64_t j = begin * strip; j < std::min(end * strip, b.cols); j += strip) {
      int64_t width = std::min(strip, b.cols - j);
      Matrix<T> packed{x, n, width, strip, 1};
      if (width < strip) std::fill(x, x + n * strip, T{});
      each(n, width, b.by_columns(), [&](int64_t i, int64_t c) { packed(i, c) = b(seen(i), j + c); });
      kernels.substitute(n, l, unit, x);
      each(n, width, b.by_columns(), [&](int64_t i, int64_t c) { b(seen(i), j + c) = packed(i, c); });
    }
  });
}

template <class T>
void solve_block(Device& device, Matrix<T> a, bool upper, bool unit, Matrix<T> b) {
  if constexpr (is_complex<T>) {
    spread(device, b.cols, static_cast<double>(2 * a.rows * a.rows), [&](int64_t begin, int64_t end) {
      solve_few(a, upper, unit, b.block(0, begin, b.rows, end - begin));
    });
  } else {
    b.cols < 4 ? solve_few(a, upper, unit, b) : solve_strips(device, a, upper, unit, b);
  }
}

template <class T>
void solve(Device& device, Matrix<T> a, bool upper, bool unit, Matrix<T> b) {
  int64_t n = a.rows;
  if (n == 0 || b.cols == 0) return;
  if (n <= kBlock) return solve_block(device, a, upper, unit, b);
  int64_t half = (n / 2 + kBlock - 1) / kBlock * kBlock, rest = n - half;
  Matrix<T> first = b.block(0, 0, half, b.cols), second = b.block(half, 0, rest, b.cols);
  Matrix<T> above = a.block(0, 0, half, half), below = a.block(half, half, rest, rest);
  if (upper) {
    solve(device, below, upper, unit, second);
    add_product(device, Real<T>(-1), a.block(0, half, half, rest), second, first);
    solve(device, above, upper, unit, first);
  } else {
    solve(device, above, upper, unit, first);
    add_product(device, Real<T>(-1), a.block(half, 0, rest, half), first, second);
    solve(device, below, upper, unit, second);
  }
}

template <class T>
void triangular_solve(void* const* buffers, const int64_t* ints, Device& device) {
  int64_t batch = ints[0], n = ints[1], rows = ints[2], cols = ints[3];
  bool left = ints[5], upper = ints[6], unit = ints[7], a_by_rows = ints[8], b_by_rows = ints[9];
  for_each_matrix(device, batch, static_cast<double>(n) * static_cast<double>(rows * cols), [&](int64_t i) {
    Matrix<T> a = matrix_of<T>(buffers[1], i, n, n, a_by_rows), x = matrix_of<T>(buffers[0], i, rows, cols);
    copy(device, matrix_of<T>(buffers[2], i, rows, cols, b_by_rows), x);
    left ? solve(device, a, upper, unit, x) : solve(device, a.transposed(), !upper, unit, x.transposed());
  });
}

}  // namespace

void solve_triangular(Device& device, Matrix<float> a, bool upper, bool unit, Matrix<float> b) { solve(device, a, upper, unit, b); }
void solve_triangular(Device& device, Matrix<double> a, bool upper, bool unit, Matrix<double> b) { solve(device, a, upper, unit, b); }
void solve_triangular(Device& device, Matrix<std::complex<float>> a, bool upper, bool unit, Matrix<std::complex<float>> b) {
  solve(device, a, upper, unit, b);
}
void solve_triangular(Device& device, Matrix<std::complex<double>> a, bool upper, bool unit, Matrix<std::complex<double>> b) {
  solve(device, a, upper, unit, b);
}

void builtin_triangular_solve(void* const* buffers, const uint64_t*, const int64_t* ints, Device& device) {
  with_element(ints[4], [&](auto zero) { triangular_solve<decltype(zero)>(buffers, ints, device); });
}

}  // namespace tiny
