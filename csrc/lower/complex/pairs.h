// Complex numbers in memory: pairs of parts, the real one first.
#pragma once
#include <optional>

#include "lower/args.h"

namespace tiny::lower {

/// Sizes and a last dimension of 2: real part, imaginary part.
Tensor join_pairs(const Complex& x);
/// The parts, flat, of a flat value that join_pairs() made: what was joined a moment ago is not taken apart again, but read as it was.
std::optional<Complex> split_pairs(const Tensor& pairs);

}  // namespace tiny::lower
