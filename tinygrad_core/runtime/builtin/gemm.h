// Products of matrices for the builtins: packed panels, a register tile for the processor at hand, threads over blocks of the result.
// Source: K. Goto, R. van de Geijn, Anatomy of High-Performance Matrix Multiplication, ACM TOMS 34 (2008).
#pragma once
#include "runtime/builtin/matrix.h"

namespace tiny {

/// c += scale * a * b, scale 1 or -1; a and b may be conjugated. Each element is summed in the same order whatever the number of threads.
void add_product(Device& device, float scale, Matrix<float> a, Matrix<float> b, Matrix<float> c);
void add_product(Device& device, double scale, Matrix<double> a, Matrix<double> b, Matrix<double> c);
void add_product(Device& device, float scale, Matrix<std::complex<float>> a, Matrix<std::complex<float>> b, Matrix<std::complex<float>> c);
void add_product(Device& device, double scale, Matrix<std::complex<double>> a, Matrix<std::complex<double>> b,
                 Matrix<std::complex<double>> c);

}  // namespace tiny
