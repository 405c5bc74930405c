// Discrete Fourier transforms along some dimensions: torch.fft's three operators. normalization: 0 none, 1 by sqrt(n), 2 by n.
#pragma once
#include "lower/args.h"

namespace tiny::lower::complex {

Complex fft_c2c(Args& a);  // (self, dim, normalization, forward)
Complex fft_r2c(Args& a);  // (self, dim, normalization, onesided)
Complex fft_c2r(Args& a);  // (self, dim, normalization, last_dim_size)

}  // namespace tiny::lower::complex
