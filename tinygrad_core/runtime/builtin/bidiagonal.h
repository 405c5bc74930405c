// The singular values of an upper bidiagonal matrix.
#pragma once
#include "runtime/builtin/rotations.h"

namespace tiny {

/// d [n], the diagonal, becomes the singular values, in no order and of either sign; e [n - 1] is above it. The rotations that do it are
/// noted for the columns of the left and of the right vectors. False if they cannot be found.
bool diagonalise(int64_t n, float* d, float* e, Rotations<float>& left, Rotations<float>& right);
bool diagonalise(int64_t n, double* d, double* e, Rotations<double>& left, Rotations<double>& right);

}  // namespace tiny
