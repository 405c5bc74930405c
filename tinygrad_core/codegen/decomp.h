// Decompositions: operators that a target lacks, in terms of those that it has. Each runs on the whole kernel before linearisation.
#pragma once
#include "renderer/caps.h"
#include "uop/ir.h"

namespace tiny {

/// `sink` with THREEFRY, transcendentals in f32 (and f64 where a polynomial is at hand), arithmetic on reduced floats (computed in f32,
/// rounded by an explicit CAST after every operator), float MAX/MIN (with NaN), fp8 casts and the like written in plain arithmetic that
/// vectorises. What stays as it is becomes a call of libm in the renderer. Exact to 2 ulp.
UOp* decompose(UOp* sink, const Caps& caps);

}  // namespace tiny
