// Padding by reflection and by repetition of the border, over the last dimensions; windows laid over a dimension.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

Tensor reflection_pad(Args& a);            // (self, padding): two numbers for each padded dimension, the last dimension first
Tensor reflection_pad_backward(Args& a);   // (grad_output, self, padding)
Tensor replication_pad(Args& a);
Tensor replication_pad_backward(Args& a);
Tensor unfold_backward(Args& a);           // (grad_in [.., windows, .., size], input_sizes, dim, size, step)

}  // namespace tiny::lower
