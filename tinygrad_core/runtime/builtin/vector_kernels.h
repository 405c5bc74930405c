// The innermost loops of linear algebra, one set for each kind of vector instructions.
#pragma once
#include <cstdint>

namespace tiny {

template <class T>
struct VectorKernels {
  /// c[tile_rows x tile_cols] += scale * a * b over `depth`: a packed by columns, b by rows; `across`: step between the columns of c.
  int tile_rows, tile_cols;
  void (*tile)(int64_t depth, const T* a, const T* b, T scale, T* c, int64_t across);

  /// `strip` systems of one triangular matrix: x[n][strip] in place of its right-hand sides, by forward substitution. l: its rows of n
  /// elements, of which those up to the diagonal are read.
  int strip;
  void (*substitute)(int64_t n, const T* l, bool unit, T* x);

  /// x[0..n) -= the sum of columns a[.., p] * u[p], p < cols.
  void (*subtract_columns)(int64_t n, int64_t cols, const T* a, int64_t across, const T* u, T* x);

  /// Position of the first element that is greatest by magnitude; NaN only if it is the first.
  int64_t (*greatest)(int64_t n, const T* x);
};

struct VectorKernelSet {
  VectorKernels<float> f32;
  VectorKernels<double> f64;
};

extern const VectorKernelSet kKernelsAny;
#ifdef __x86_64__
extern const VectorKernelSet kKernelsAvx2, kKernelsAvx512;
#endif

/// The best set for this processor.
template <class T>
const VectorKernels<T>& vector_kernels();

}  // namespace tiny
