// Complex numbers in memory: pairs of parts, the real one first.
#pragma once
#include "lower/args.h"

namespace tiny::lower {

/// Sizes and a last dimension of 2: real part, imaginary part.
Tensor join_pairs(const Complex& x);

}  // namespace tiny::lower
