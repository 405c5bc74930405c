// The meaning of every elementwise operator on constants: what compiled code must agree with.
#pragma once
#include <span>

#include "uop/uop.h"

namespace tiny {

/// `v` of dtype `from` as dtype `to` holds it (CAST). f64 and integers reach a reduced float through f32, as in PyTorch.
/// A float beyond the integer's range gives its low bits of the i64 (u64) value; beyond i64 too, or NaN, the least i64.
Arg convert(Arg v, DType from, DType to);

/// Bits of `v` in memory, and back.
uint64_t storage_bits(Arg v, DType d);
Arg from_storage_bits(uint64_t bits, DType d);

/// `op` on constants: src[i] in the form of a CONST's argument. `dtype`: of the result; `source`: of src[0] (CAST, BITCAST, comparisons
/// differ from the result there). Reduced floats are computed in f32 and rounded. Elementwise operators only.
Arg eval(Op op, DType dtype, DType source, std::span<const Arg> src);

/// Threefry-2x32 with 20 rounds; words are low half first. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
uint64_t threefry(uint64_t counter, uint64_t key);

}  // namespace tiny
