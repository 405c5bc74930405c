// Scans along one dimension.
#pragma once
#include "lower/args.h"

namespace tiny::lower {

Tensor cumsum(Args& a);        // (self, dim, dtype)
Tensor cumprod(Args& a);
Results cummax(Args& a);       // (self, dim) -> values, index of the last element that equals the running value
Results cummin(Args& a);
Tensor logcumsumexp(Args& a);  // (self, dim)

}  // namespace tiny::lower
