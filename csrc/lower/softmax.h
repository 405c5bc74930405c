// Softmax and its logarithm along one dimension, with gradients.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

Tensor softmax(Args& a);                // _softmax(self, dim, half_to_float)
Tensor log_softmax(Args& a);
Tensor softmax_backward(Args& a);       // (grad_output, output, dim, input_dtype)
Tensor log_softmax_backward(Args& a);
Tensor masked_softmax(Args& a);         // _masked_softmax(self, mask (true: out), dim?, mask_type?)
Tensor masked_softmax_backward(Args& a);// (grad_output, output, mask, dim?)

}  // namespace tiny::lower
