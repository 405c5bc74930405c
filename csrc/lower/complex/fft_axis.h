// A discrete Fourier transform along one dimension, of any size. Sizes without a prime factor above 13 are a DFT node; other small ones a
// product with the matrix of the transform; the rest a convolution.
#pragma once
#include "lower/args.h"

namespace tiny::lower::complex {

struct FftAxis {
  int64_t dim;
  bool inverse;       // exp(+ 2 pi i j k / n)
  double scale = 1;   // of the results
  bool pairs = false; // the parts of the result lie in memory in pairs: it is an operator's result
};

/// Of x, which may be real (no imaginary part).
Complex fft_axis(Args& a, const Complex& x, const FftAxis& axis);
/// Results 0 .. n/2 for a real x: the others are their conjugates.
Complex fft_axis_half(Args& a, const Tensor& x, const FftAxis& axis);
/// The real result for n numbers of which x has the first n/2 + 1, and the others are their conjugates. The imaginary parts of number 0,
/// and of number n/2 of an even n, do not matter.
Tensor fft_axis_real(Args& a, const Complex& x, int64_t n, const FftAxis& axis);

}  // namespace tiny::lower::complex
