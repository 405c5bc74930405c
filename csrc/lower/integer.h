// Functions of integers and of the bits of floats; positions in triangles.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

Tensor gcd(Args& a);           // (self, other)
Tensor lcm(Args& a);
Tensor hash_tensor(Args& a);    // (self, dim, *, keepdim, mode) -> u64
Results frexp(Args& a);        // (self) -> mantissa, exponent i32
Tensor tril_indices(Args& a);  // (row, col, offset, *, dtype?)
Tensor triu_indices(Args& a);

}  // namespace tiny::lower
