// Activations and their gradients.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

Tensor elu(Args& a);                   // (self, alpha, scale, input_scale)
Tensor elu_backward(Args& a);          // (grad_output, alpha, scale, input_scale, is_result, self_or_result)
Tensor gelu(Args& a);                  // (self, *, approximate)
Tensor gelu_backward(Args& a);         // (grad_output, self, *, approximate)
Tensor glu(Args& a);                   // (self, dim)
Tensor glu_backward(Args& a);          // (grad_output, self, dim)
Tensor hardshrink(Args& a);            // (self, lambd)
Tensor hardshrink_backward(Args& a);   // (grad, self, lambd); softshrink's too
Tensor hardsigmoid(Args& a);
Tensor hardsigmoid_backward(Args& a);
Tensor hardswish(Args& a);
Tensor hardswish_backward(Args& a);
Tensor hardtanh(Args& a);              // (self, min_val, max_val)
Tensor hardtanh_backward(Args& a);     // (grad_output, self, min_val, max_val)
Tensor leaky_relu(Args& a);            // (self, negative_slope)
Tensor leaky_relu_backward(Args& a);   // (grad_output, self, negative_slope, self_is_result)
Results log_sigmoid(Args& a);          // -> output, buffer (without elements: the gradient needs self only)
Tensor log_sigmoid_backward(Args& a);  // (grad_output, self, buffer)
Tensor mish(Args& a);
Tensor mish_backward(Args& a);
Tensor prelu(Args& a);                 // (self, weight), weight broadcasts
Results prelu_backward(Args& a);       // (grad_output, self, weight) -> grads of both, weight's not yet summed
Tensor relu(Args& a);
Tensor sigmoid_backward(Args& a);      // (grad_output, output)
Tensor silu(Args& a);
Tensor silu_backward(Args& a);
Tensor softplus(Args& a);              // (self, beta, threshold)
Tensor softplus_backward(Args& a);     // (grad_output, self, beta, threshold)
Tensor softshrink(Args& a);            // (self, lambd)
Tensor tanh_backward(Args& a);         // (grad_output, output)
Tensor threshold(Args& a);             // (self, threshold, value)
Tensor threshold_backward(Args& a);    // (grad_output, self, threshold)

}  // namespace tiny::lower
