// Constants of Fourier transforms: first all real parts, then all imaginary parts.
#pragma once
#include "lower/args.h"

namespace tiny::lower::complex {

/// The roots that a DFT node reads.
Table dft_table(const Dft& shape);
/// exp(-2 pi i k / n), k = 0 .. n/2.
Table circle_table(int64_t n);
/// exp(-2 pi i j k / n), j and k = 0 .. n-1.
Table matrix_table(int64_t n);
/// exp(-pi i k^2 / n), k = 0 .. n-1.
Table chirp_table(int64_t n);
/// A period in which the chirp's convolution of n numbers does not meet itself: at least 2n - 1, and quickly transformed.
int64_t chirp_period(int64_t n);
/// The transform of the conjugate chirp, k = -(n-1) .. n-1 in that period, over its length.
Table chirp_spectrum_table(int64_t n);

/// Both parts as tensors of type d and these sizes.
Complex table_parts(Args& a, const Table& t, DType d, const Dims& sizes);

}  // namespace tiny::lower::complex
