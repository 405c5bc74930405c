// Matrices as the builtins see them: rows and columns of a block of memory, transposed or not, without a copy.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "runtime/device.h"

namespace tiny {

template <class T>
struct Matrix {
  T* data = nullptr;
  int64_t rows = 0, cols = 0;
  int64_t down = 1, across = 0;  // steps in memory from row to row and from column to column

  T& operator()(int64_t i, int64_t j) const { return data[i * down + j * across]; }
  Matrix block(int64_t i, int64_t j, int64_t r, int64_t c) const { return {data + i * down + j * across, r, c, down, across}; }
  Matrix transposed() const { return {data, cols, rows, across, down}; }
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

/// Calls f<T>() for the type of elements of a builtin's matrices.
template <class F>
void with_element(int64_t dtype, F&& f) {
  static_cast<DType>(dtype) == DType::f64 ? f(double{}) : f(float{});
}

}  // namespace tiny
