#pragma once
#include "runtime/builtin/matrix.h"

namespace tiny {

/// x with a x = b, in place of b. `a` is triangular and may be conjugated; the other half of it is not read, nor its diagonal if that is
/// `unit`.
void solve_triangular(Device& device, Matrix<float> a, bool upper, bool unit, Matrix<float> b);
void solve_triangular(Device& device, Matrix<double> a, bool upper, bool unit, Matrix<double> b);
void solve_triangular(Device& device, Matrix<std::complex<float>> a, bool upper, bool unit, Matrix<std::complex<float>> b);
void solve_triangular(Device& device, Matrix<std::complex<double>> a, bool upper, bool unit, Matrix<std::complex<double>> b);

}  // namespace tiny
