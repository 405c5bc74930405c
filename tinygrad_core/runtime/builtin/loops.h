// The loops of vector_kernels.h for any element: the processor's best set, for complex ones as real ones twice as long.
#pragma once
#include "runtime/builtin/matrix.h"
#include "runtime/builtin/vector_kernels.h"

namespace tiny {

/// x[0..n) -= the sum of columns a[.., p] * u[p], p < cols. Of complex columns the real parts of u and the imaginary ones are factors of
/// their own, for columns of twice as many real numbers; what the imaginary ones give is turned by a right angle at the end.
template <class T>
void subtract_columns(int64_t n, int64_t cols, const T* a, int64_t across, const T* u, T* x) {
  if constexpr (is_complex<T>) {
    using R = Real<T>;
    constexpr int64_t kRows = 128, kCols = 32;
    R real[kCols], imaginary[kCols], turned[2 * kRows];
    for (int64_t p = 0; p < cols; p += kCols) {
      int64_t some = std::min(kCols, cols - p);
      for (int64_t q = 0; q < some; ++q) real[q] = u[p + q].real(), imaginary[q] = u[p + q].imag();
      for (int64_t i = 0; i < n; i += kRows) {
        int64_t m = 2 * std::min(kRows, n - i);
        const R* from = reinterpret_cast<const R*>(a + p * across + i);
        R* to = reinterpret_cast<R*>(x + i);
        std::fill_n(turned, m, R{});
        vector_kernels<R>().subtract_columns(m, some, from, 2 * across, real, to);
        vector_kernels<R>().subtract_columns(m, some, from, 2 * across, imaginary, turned);
        for (int64_t k = 0; k < m; k += 2) to[k] -= turned[k + 1], to[k + 1] += turned[k];
      }
    }
  } else {
    vector_kernels<T>().subtract_columns(n, cols, a, across, u, x);
  }
}

/// u[p] = the sum of a[.., p] * conj(x[0..n)), p < cols.
template <class T>
void inner_products(int64_t n, int64_t cols, const T* a, int64_t across, const T* x, T* u) {
  if constexpr (is_complex<T>) {
    using R = Real<T>;
    constexpr int64_t kRows = 128, kCols = 32;
    R real[kCols], imaginary[kCols], turned[2 * kRows];
    std::fill_n(u, cols, T{});
    for (int64_t i = 0; i < n; i += kRows) {
      int64_t m = std::min(kRows, n - i);
      for (int64_t k = 0; k < m; ++k) turned[2 * k] = -x[i + k].imag(), turned[2 * k + 1] = x[i + k].real();
      for (int64_t p = 0; p < cols; p += kCols) {
        int64_t some = std::min(kCols, cols - p);
        const R* from = reinterpret_cast<const R*>(a + p * across + i);
        vector_kernels<R>().inner_products(2 * m, some, from, 2 * across, reinterpret_cast<const R*>(x + i), real);
        vector_kernels<R>().inner_products(2 * m, some, from, 2 * across, turned, imaginary);
        for (int64_t q = 0; q < some; ++q) u[p + q] += T(real[q], imaginary[q]);
      }
    }
  } else {
    vector_kernels<T>().inner_products(n, cols, a, across, x, u);
  }
}

/// Position of the first element of the greatest magnitude; NaN only if it is the first.
template <class T>
int64_t greatest(int64_t n, const T* x) {
  if constexpr (is_complex<T>) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; ++i)
      if (magnitude(x[i]) > magnitude(x[best])) best = i;
    return best;
  } else {
    return vector_kernels<T>().greatest(n, x);
  }
}

}  // namespace tiny
