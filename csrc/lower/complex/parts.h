// Operators that treat both parts of a complex number alike, as movement, selection and sums do: the lowering for real numbers, twice.
#pragma once
#include "lower/args.h"

namespace tiny::lower {

/// The results of a real lowering (one or many) on the real parts of the arguments at `positions` and on their imaginary parts, which are 0
/// for real arguments among them.
ComplexResults on_parts(Args& a, Lowering1 one, LoweringN many, std::span<const int> positions);

/// A real lowering that is linear in its arguments x and y each, for complex ones.
Complex bilinear(Args& a, Lowering1 f, int x, int y);

}  // namespace tiny::lower
