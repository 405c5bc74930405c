// Interpolation over the trailing 1 to 3 dimensions: each output is a weighted sum of 1 (nearest), 2 (linear) or 4 (cubic) inputs per
// dimension; the backward adds each gradient to the same inputs with the same weights. Also unfold and fold.
#pragma once
#include "lower/args.h"

namespace tiny::lower {

Tensor upsample_nearest(Args& a);               // (self [N,C,D..], output_size, scales..)
Tensor upsample_nearest_exact(Args& a);
Tensor upsample_linear(Args& a);                // (self, output_size, align_corners, scales..): linear, bilinear, trilinear
Tensor upsample_cubic(Args& a);
Tensor upsample_nearest_backward(Args& a);      // (grad, output_size, input_size, scales..)
Tensor upsample_nearest_exact_backward(Args& a);
Tensor upsample_linear_backward(Args& a);       // (grad, output_size, input_size, align_corners, scales..)
Tensor upsample_cubic_backward(Args& a);

Tensor im2col(Args& a);                         // (self [N,C,H,W] or [C,H,W], kernel, dilation, padding, stride)
Tensor col2im(Args& a);                         // (self, output_size, kernel, dilation, padding, stride)

}  // namespace tiny::lower
