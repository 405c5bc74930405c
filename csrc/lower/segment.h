// Reductions of runs of a dimension.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

Tensor segment_reduce(Args& a);           // (data, reduce, *, lengths?, indices?, offsets?, axis, unsafe, initial?)
Tensor segment_reduce_backward(Args& a);  // (grad, output, data, reduce, *, lengths?, offsets?, axis, initial?)

}  // namespace tiny::lower
