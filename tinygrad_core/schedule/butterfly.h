// Short discrete Fourier transforms of values in registers.
#pragma once
#include <vector>

#include "uop/ir.h"

namespace tiny::sched {

/// A complex value; a null part is 0.
struct Complex {
  U re, im;
};

/// a * (cos + i sin), of constants.
Complex rotated(const Complex& a, double cos, double sin);
/// Elements j = 0 .. n-1 of the transform: sum over k of x[k] exp(-+ 2 pi i j k / n), + if `inverse`.
std::vector<Complex> butterfly(std::vector<Complex> x, bool inverse);

}  // namespace tiny::sched
