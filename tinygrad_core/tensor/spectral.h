// Eigenvalues and singular values of matrices (linalg.h).
#pragma once
#include "tensor/linalg.h"

namespace tiny::linalg {

/// a v = v w of the lower or the upper triangle of Hermitian matrices: values [.., n], rising; vectors only if wanted. info i32 [..]: 1 for
/// a matrix that is not finite, whose values are NaN.
struct Eigh {
  Tensor values;
  Matrices vectors;
  Tensor info;
};
Eigh eigh(const Matrices& a, bool upper, bool vectors);

/// a [.., m, n] = u s v^H; values [.., k], falling, k = min(m, n). u [.., m, k] and vh [.., k, n], or square if `full`, only if wanted.
struct Svd {
  Tensor values;
  Matrices u, vh;
  Tensor info;
};
Svd svd(const Matrices& a, bool full, bool vectors);

}  // namespace tiny::linalg
