// Interpolation with antialiasing: shrinking widens the filter.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

Tensor upsample_linear_aa(Args& a);            // (self, output_size, align_corners, scales_h?, scales_w?)
Tensor upsample_cubic_aa(Args& a);
Tensor upsample_lanczos_aa(Args& a);
Tensor upsample_linear_aa_backward(Args& a);   // (grad_output, output_size, input_size, align_corners, scales_h?, scales_w?)
Tensor upsample_cubic_aa_backward(Args& a);
Tensor upsample_lanczos_aa_backward(Args& a);

}  // namespace tiny::lower
