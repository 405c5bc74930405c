// Interpolation of bytes as the CPU does it: weights become 16-bit integers with as many fraction bits as the greatest of them allows, sums
// are integers, and each dimension's result is a byte again. Source of the scheme: Pillow's Resample.c (github.com/python-pillow/Pillow).
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

/// Fraction bits for weights of which `greatest` is the greatest.
int fraction_bits(double greatest);
/// Weights (f64) as integers (i32), halves away from zero.
Tensor fixed_weights(const Tensor& weights, int bits);
/// A sum of bytes times fixed weights, rounded, as a byte (still i32).
Tensor byte_of(const Tensor& sum, int bits);

/// One dimension of a plane of bytes, interpolated without antialiasing.
struct ByteAxis {
  int64_t in, out;
  double ratio;        // input elements per output element
  bool align_corners, cubic;
};
/// x [rows, in, columns], i32 that hold bytes, with `in` interpolated to `out`.
Tensor interpolated_bytes(const Tensor& x, const ByteAxis& axis);

}  // namespace tiny::lower
