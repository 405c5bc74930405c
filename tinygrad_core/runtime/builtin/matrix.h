// Matrices as the builtins see them: rows and columns of a block of memory, transposed or not, without a copy.
#pragma once
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "runtime/device.h"
#include "uop/builtins.h"

namespace tiny {

template <class T>
struct RealOf {
  using Type = T;
};
template <class T>
struct RealOf<std::complex<T>> {
  using Type = T;
};
/// The type of the parts of a complex T; T itself where it is real.
template <class T>
using Real = typename RealOf<T>::Type;
template <class T>
inline constexpr bool is_complex = !std::is_same_v<T, Real<T>>;

template <class T>
T conjugate(T x) {
  if constexpr (is_complex<T>) return std::conj(x);
  else return x;
}
template <class T>
Real<T> real_part(T x) {
  if constexpr (is_complex<T>) return x.real();
  else return x;
}
/// By which LAPACK chooses pivots: |re| + |im|.
template <class T>
Real<T> magnitude(T x) {
  if constexpr (is_complex<T>) return std::abs(x.real()) + std::abs(x.imag());
  else return std::abs(x);
}

template <class T>
struct Matrix {
  T* data = nullptr;
  int64_t rows = 0, cols = 0;
  int64_t down = 1, across = 0;  // steps in memory from row to row and from column to column
  bool conjugated = false;       // what get() reads is the conjugate of what is there

  T& operator()(int64_t i, int64_t j) const { return data[i * down + j * across]; }
  T get(int64_t i, int64_t j) const { return conjugated ? conjugate((*this)(i, j)) : (*this)(i, j); }
  Matrix block(int64_t i, int64_t j, int64_t r, int64_t c) const { return {data + i * down + j * across, r, c, down, across, conjugated}; }
  Matrix transposed() const { return {data, cols, rows, across, down, conjugated}; }
  Matrix adjoint() const { return {data, cols, rows, across, down, !conjugated}; }
  Matrix conjugate_view() const { return {data, rows, cols, down, across, !conjugated}; }
  /// Columns lie one element beside the other, so loops run down them.
  bool by_columns() const { return down == 1; }
};

/// Number `i` of a batch of matrices, each column by column or row by row.
template <class T>
Matrix<T> matrix_of(void* batch, int64_t i, int64_t rows, int64_t cols, bool by_rows = false) {
  T* data = static_cast<T*>(batch) + i * rows * cols;
  return by_rows ? Matrix<T>{data, rows, cols, cols, 1} : Matrix<T>{data, rows, cols, 1, rows};
}

/// Runs body(i, device) for the matrices of a batch, each with `work` multiplications or so, spread over the threads.
template <class Body>
void for_each_matrix(Device& device, int64_t batch, double work, Body body) {
  constexpr double kWorkPerPiece = 30000;
  int64_t grain = static_cast<int64_t>(kWorkPerPiece / (work + 100)) + 1;
  device.parallel_for(batch, grain, [](void* context, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) (*static_cast<Body*>(context))(i);
  }, &body);
}

/// body(begin, end) over 0 .. n-1, each of `work` multiplications, in pieces worth a thread's while.
template <class Body>
void spread(Device& device, int64_t n, double work, Body body) {
  constexpr double kWorkPerPiece = 200000;
  int64_t grain = static_cast<int64_t>(kWorkPerPiece / (work + 1)) + 1;
  device.parallel_for(n, grain, [](void* context, int64_t begin, int64_t end) { (*static_cast<Body*>(context))(begin, end); }, &body);
}

/// to = from, in squares that stay in the cache where one of them is transposed.
template <class T>
void copy(Device& device, Matrix<T> from, Matrix<T> to) {
  constexpr int64_t kSquare = 32;
  spread(device, (to.cols + kSquare - 1) / kSquare, static_cast<double>(to.rows * kSquare), [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < to.rows; i += kSquare)
      for (int64_t j = begin * kSquare; j < std::min(end * kSquare, to.cols); ++j)
        for (int64_t k = i; k < std::min(i + kSquare, to.rows); ++k) to(k, j) = from(k, j);
  });
}

template <class T>
void conjugate_all(Matrix<T> a) {
  if constexpr (is_complex<T>)
    for (int64_t j = 0; j < a.cols; ++j)
      for (int64_t i = 0; i < a.rows; ++i) a(i, j) = std::conj(a(i, j));
}

/// The sum of x[i] * y[i] for elements `x_step` and `y_step` apart, in four interleaved sums.
template <class T>
T dot(int64_t n, const T* x, int64_t x_step, const T* y, int64_t y_step) {
  T sum[4] = {};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int k = 0; k < 4; ++k) sum[k] += x[(i + k) * x_step] * y[(i + k) * y_step];
  for (; i < n; ++i) sum[0] += x[i * x_step] * y[i * y_step];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/// The power of 2 that brings the greatest part of an element to about 1; 0 if there is one that is not finite.
template <class T>
Real<T> scale_of(Matrix<T> a) {
  using R = Real<T>;
  R most = 0;
  bool finite = true;
  for (int64_t j = 0; j < a.cols; ++j)
    for (int64_t i = 0; i < a.rows; ++i) {
      R x = magnitude(a(i, j));
      finite &= x <= std::numeric_limits<R>::max();
      most = std::max(most, x);
    }
  if (!finite) return 0;
  return most == 0 ? R(1) : std::ldexp(R(1), std::min(-std::ilogb(most), std::numeric_limits<R>::max_exponent - 2));
}

/// Calls f with a value of the type of elements that a builtin's matrices have.
template <class F>
void with_element(int64_t element, F&& f) {
  bool wide = static_cast<DType>(element & 255) == DType::f64;
  if (element & kComplexElement) wide ? f(std::complex<double>{}) : f(std::complex<float>{});
  else wide ? f(double{}) : f(float{});
}

/// The same where elements are real.
template <class F>
void with_real_element(int64_t element, F&& f) {
  static_cast<DType>(element) == DType::f64 ? f(double{}) : f(float{});
}

}  // namespace tiny
