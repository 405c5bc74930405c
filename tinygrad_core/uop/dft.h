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

/// Numbers: complex ones. ToHalf: src0 and src1 are elements 0, 2, .. and 1, 3, .. of 2n real numbers, and the result is numbers 0 .. n of
/// their transform: the others are conjugates of these. FromHalf: back; the imaginary parts of numbers 0 and n do not matter. Source of the
/// formulas: W. Press et al., Numerical Recipes, 12.3. Both take one pass more than there are radices, after them or before them.
enum class DftKind : uint8_t { Numbers, ToHalf, FromHalf };

/// Planar: all real parts, then all imaginary parts. Pairs: each real part before its imaginary part. Real: real parts alone.
enum class DftResult : uint8_t { Planar, Pairs, Real };

struct Dft {
  int64_t batch = 1, n = 1, inner = 1;  // along the middle dimension of [batch, n, inner]
  Dims radices;                         // their product is n
  DftKind kind = DftKind::Numbers;
  bool inverse = false;                 // exp(+ 2 pi i j k / n); FromHalf always, ToHalf never
  DftResult result = DftResult::Planar;
  double scale = 1;                     // of the results
  size_t first = 0, last = 0;           // the passes that are done; the scheduler may part them

  static Dft of(const Record& r);
  const Record* record() const;

  size_t passes() const { return radices.size() + (kind != DftKind::Numbers); }
  /// Which radix pass i has, counted from 0; passes that have none are before the first and after the last.
  bool is_split(size_t pass) const { return kind == DftKind::FromHalf && pass == 0; }
  bool is_join(size_t pass) const { return kind == DftKind::ToHalf && pass == radices.size(); }
  size_t radix_of(size_t pass) const { return pass - (kind == DftKind::FromHalf && pass > 0); }

  int64_t elements_in() const { return batch * inner * (kind == DftKind::FromHalf ? n + 1 : n); }
  int64_t elements_between() const { return batch * inner * n; }
  int64_t elements_out() const { return batch * inner * (kind == DftKind::ToHalf ? n + 1 : n); }
  int64_t numel() const { return elements_out() * (result == DftResult::Real ? 1 : 2); }
  int64_t remaining(size_t radix) const;
  int64_t done(size_t radix) const { return n / remaining(radix); }
  /// Constants: of each radix that multiplies (remaining(i+1) > 1), first the real parts of exp(- 2 pi i j p / remaining(i)) for
  /// j = 1 .. r-1 and all p, then the imaginary ones. For a half, then exp(- pi i k / n), k = 0 .. n/2, in the same way.
  int64_t roots() const { return roots_before(radices.size()) + (kind == DftKind::Numbers ? 0 : 2 * (n / 2 + 1)); }
  int64_t roots_before(size_t radix) const;
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
