// Convolutions in 1 to 3 (or more) spatial dimensions as contractions of views; no im2col memory is named here.
#pragma once
#include "lower/args.h"

namespace tiny::lower {

/// convolution_overrideable(input [N,C,D..], weight, bias?, stride, padding, dilation, transposed, output_padding, groups).
/// weight: [Co, C/groups, K..], or [C, Co/groups, K..] if transposed.
Tensor convolution(Args& a);
/// convolution_backward_overrideable(grad_output, input, weight, stride, padding, dilation, transposed, output_padding, groups,
/// output_mask[3]) -> gradients of input, weight, bias; one that the mask leaves out is undefined.
Results convolution_backward(Args& a);

}  // namespace tiny::lower
