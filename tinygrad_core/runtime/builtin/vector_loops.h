// The loops of vector_kernels.h. Each file that includes this one chooses its vector instructions first; nothing here may leave such a file
// under a name that another could take for its own, so all is in an anonymous namespace, and the standard library stays outside.
#pragma once
#include "runtime/builtin/vector_kernels.h"

namespace tiny {
namespace {

template <class T, int Bytes>
struct Vector {
  typedef T Aligned __attribute__((vector_size(Bytes)));
  typedef T Any __attribute__((vector_size(Bytes), aligned(sizeof(T)), may_alias));
  static constexpr int lanes = Bytes / static_cast<int>(sizeof(T));
};
template <class T, int Bytes>
inline typename Vector<T, Bytes>::Any& at(T* p) { return *reinterpret_cast<typename Vector<T, Bytes>::Any*>(p); }
template <class T, int Bytes>
inline const typename Vector<T, Bytes>::Any& at(const T* p) { return *reinterpret_cast<const typename Vector<T, Bytes>::Any*>(p); }

template <class T, int Bytes, int Vectors, int Cols>
void tile(int64_t depth, const T* a, const T* b, T scale, T* c, int64_t across) {
  constexpr int kLanes = Vector<T, Bytes>::lanes;
  typename Vector<T, Bytes>::Aligned sum[Cols][Vectors];
  for (int j = 0; j < Cols; ++j)
    for (int v = 0; v < Vectors; ++v) sum[j][v] = typename Vector<T, Bytes>::Aligned{};
  for (int64_t p = 0; p < depth; ++p, a += Vectors * kLanes, b += Cols) {
    typename Vector<T, Bytes>::Aligned x[Vectors];
    for (int v = 0; v < Vectors; ++v) x[v] = at<T, Bytes>(a + v * kLanes);
    for (int j = 0; j < Cols; ++j)
      for (int v = 0; v < Vectors; ++v) sum[j][v] += x[v] * b[j];
  }
  for (int j = 0; j < Cols; ++j, c += across)
    for (int v = 0; v < Vectors; ++v) at<T, Bytes>(c + v * kLanes) += sum[j][v] * scale;
}

template <class T, int Bytes, int Vectors>
void substitute(int64_t n, const T* l, bool unit, T* x) {
  constexpr int kLanes = Vector<T, Bytes>::lanes, kStrip = Vectors * kLanes;
  for (int64_t i = 0; i < n; ++i, l += n) {
    typename Vector<T, Bytes>::Aligned sum[Vectors];
    for (int v = 0; v < Vectors; ++v) sum[v] = at<T, Bytes>(x + i * kStrip + v * kLanes);
    for (int64_t p = 0; p < i; ++p)
      for (int v = 0; v < Vectors; ++v) sum[v] -= at<T, Bytes>(x + p * kStrip + v * kLanes) * l[p];
    for (int v = 0; v < Vectors; ++v) at<T, Bytes>(x + i * kStrip + v * kLanes) = unit ? sum[v] : sum[v] / l[i];
  }
}

template <class T, int Bytes, int Cols>
void subtract_some(int64_t n, const T* a, int64_t across, const T* u, T* x) {
  constexpr int kLanes = Vector<T, Bytes>::lanes;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    typename Vector<T, Bytes>::Aligned sum = at<T, Bytes>(x + i);
    for (int p = 0; p < Cols; ++p) sum -= at<T, Bytes>(a + p * across + i) * u[p];
    at<T, Bytes>(x + i) = sum;
  }
  for (; i < n; ++i) {
    T sum = x[i];
    for (int p = 0; p < Cols; ++p) sum -= a[p * across + i] * u[p];
    x[i] = sum;
  }
}

template <class T, int Bytes>
void subtract_columns(int64_t n, int64_t cols, const T* a, int64_t across, const T* u, T* x) {
  for (; cols >= 4; cols -= 4, a += 4 * across, u += 4) subtract_some<T, Bytes, 4>(n, a, across, u, x);
  if (cols == 3) subtract_some<T, Bytes, 3>(n, a, across, u, x);
  if (cols == 2) subtract_some<T, Bytes, 2>(n, a, across, u, x);
  if (cols == 1) subtract_some<T, Bytes, 1>(n, a, across, u, x);
}

template <class T, int Bytes, int Cols>
void some_products(int64_t n, const T* a, int64_t across, const T* x, T* u) {
  constexpr int kLanes = Vector<T, Bytes>::lanes;
  typename Vector<T, Bytes>::Aligned sum[Cols];
  for (int p = 0; p < Cols; ++p) sum[p] = typename Vector<T, Bytes>::Aligned{}, u[p] = 0;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int p = 0; p < Cols; ++p) sum[p] += at<T, Bytes>(a + p * across + i) * at<T, Bytes>(x + i);
  for (; i < n; ++i)
    for (int p = 0; p < Cols; ++p) u[p] += a[p * across + i] * x[i];
  for (int p = 0; p < Cols; ++p) {
    T total = 0;
    for (int k = 0; k < kLanes; ++k) total += sum[p][k];
    u[p] += total;
  }
}

template <class T, int Bytes>
void inner_products(int64_t n, int64_t cols, const T* a, int64_t across, const T* x, T* u) {
  for (; cols >= 4; cols -= 4, a += 4 * across, u += 4) some_products<T, Bytes, 4>(n, a, across, x, u);
  for (; cols > 0; --cols, a += across, ++u) some_products<T, Bytes, 1>(n, a, across, x, u);
}

template <class T, int Bytes, int Vectors>
void rotate(int64_t count, const T* turns, int64_t step, T* x) {
  constexpr int kLanes = Vector<T, Bytes>::lanes;
  typename Vector<T, Bytes>::Aligned y[Vectors];
  for (int v = 0; v < Vectors; ++v) y[v] = at<T, Bytes>(x + v * kLanes);
  for (int64_t i = 0; i < count; ++i, x += step) {
    const T c = turns[2 * i], s = turns[2 * i + 1];
    for (int v = 0; v < Vectors; ++v) {
      typename Vector<T, Bytes>::Aligned z = at<T, Bytes>(x + step + v * kLanes);
      at<T, Bytes>(x + v * kLanes) = z * s + y[v] * c;
      y[v] = z * c - y[v] * s;
    }
  }
  for (int v = 0; v < Vectors; ++v) at<T, Bytes>(x + v * kLanes) = y[v];
}

template <class T, int Bytes>
int64_t greatest(int64_t n, const T* x) {
  constexpr int kLanes = Vector<T, Bytes>::lanes;
  int64_t best_at = 0, i = 1;
  T best = x[0] < 0 ? -x[0] : x[0];
  if (best != best) return 0;
  if (n >= 4 * kLanes) {  // the greatest value by vectors, then where it is
    typename Vector<T, Bytes>::Aligned most{};
    for (i = 0; i + kLanes <= n; i += kLanes) {
      typename Vector<T, Bytes>::Aligned v = at<T, Bytes>(x + i);
      v = v < 0 ? -v : v;
      most = v > most ? v : most;
    }
    for (int k = 0; k < kLanes; ++k) best = most[k] > best ? most[k] : best;
    while (best_at < i && x[best_at] != best && x[best_at] != -best) ++best_at;
  }
  for (; i < n; ++i) {
    T v = x[i] < 0 ? -x[i] : x[i];
    if (v > best) best = v, best_at = i;
  }
  return best_at;
}

template <class T, int Bytes, int Vectors, int Cols>
constexpr VectorKernels<T> kernels_of() {
  constexpr int kLanes = Vector<T, Bytes>::lanes;
  return {Vectors * kLanes, Cols, tile<T, Bytes, Vectors, Cols>, 4 * kLanes, substitute<T, Bytes, 4>, subtract_columns<T, Bytes>,
          inner_products<T, Bytes>, rotate<T, Bytes, 4>, greatest<T, Bytes>};
}

}  // namespace
}  // namespace tiny
