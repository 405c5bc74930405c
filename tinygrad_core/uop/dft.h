// DFT, a node of the tensor graph: what its Record says, and the constants that its kernels read.
//
// n = r0 * r1 * .. is transformed in passes, one for each radix: Stockham's FFT, which needs no reordering. Source: C. Van Loan,
// Computational Frameworks for the Fast Fourier Transform, 1992, 1.7. Before pass i the values are an array
//   [batch, remaining(i), done(i), inner],  remaining(i) = r_i * r_i+1 * ..,  done(i) = r_0 * .. * r_i-1;
// the pass transforms the elements k * remaining(i+1) + p of each p, multiplies result j by exp(-+ 2 pi i j p / remaining(i)), and makes it
// element [p, j * done(i) + s].
#pragma once
#include "uop/uop.h"

namespace tiny {

/// Planar: all real parts, then all imaginary parts. Pairs: each real part before its imaginary part. Real: real parts alone.
enum class DftResult : uint8_t { Planar, Pairs, Real };

struct Dft {
  int64_t batch = 1, n = 1, inner = 1;  // along the middle dimension of [batch, n, inner]
  Dims radices;                         // their product is n
  bool inverse = false;                 // exp(+ 2 pi i j k / n)
  DftResult result = DftResult::Planar;
  double scale = 1;                     // of the results
  size_t first = 0, last = 0;           // the passes that are done; the scheduler may part them

  static Dft of(const Record& r);
  const Record* record() const;

  int64_t elements() const { return batch * n * inner; }
  int64_t numel() const { return elements() * (result == DftResult::Real ? 1 : 2); }
  int64_t remaining(size_t pass) const;
  int64_t done(size_t pass) const { return n / remaining(pass); }
  /// Constants of all passes: of each that multiplies (remaining(i+1) > 1), first the real parts of exp(- 2 pi i j p / remaining(i)) for
  /// j = 1 .. r-1 and all p, then the imaginary ones.
  int64_t roots() const { return roots_before(radices.size()); }
  int64_t roots_before(size_t pass) const;
  void fill_roots(double* out) const;
};

/// n as a product of radices for few and cheap passes; empty if n has a prime factor above 13.
Dims dft_radices(int64_t n);

/// cos and sin of 2 pi k / n, within an ulp or so of the exact values.
struct UnitRoot {
  double cos, sin;
};
UnitRoot unit_root(int64_t k, int64_t n);

}  // namespace tiny
