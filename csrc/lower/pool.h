// Pooling over the trailing 2 or 3 dimensions. Maximum: NaN wins, then the first of equal elements; indices are flat in the spatial
// dimensions, as PyTorch's. Averages accumulate in f32 for reduced floats.
#pragma once
#include "lower/args.h"

namespace tiny::lower {

Results max_pool2d(Args& a);                  // (self, kernel, stride, padding, dilation, ceil_mode) -> values, indices
Results max_pool3d(Args& a);
Tensor max_pool2d_backward(Args& a);          // (grad, self, ..., indices): adds each gradient at its index
Tensor max_pool3d_backward(Args& a);
Tensor avg_pool2d(Args& a);                   // (self, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
Tensor avg_pool3d(Args& a);
Tensor avg_pool2d_backward(Args& a);          // (grad, self, kernel, ...)
Tensor avg_pool3d_backward(Args& a);
Tensor adaptive_avg_pool2d(Args& a);          // (self, output_size): window o covers floor(o*I/O) .. ceil((o+1)*I/O)-1
Tensor adaptive_avg_pool3d(Args& a);
Tensor adaptive_avg_pool2d_backward(Args& a); // (grad, self)
Tensor adaptive_avg_pool3d_backward(Args& a);
Results adaptive_max_pool2d(Args& a);
Results adaptive_max_pool3d(Args& a);
Tensor adaptive_max_pool2d_backward(Args& a); // (grad, self, indices)
Tensor adaptive_max_pool3d_backward(Args& a);

Results fractional_max_pool2d(Args& a);         // (self, kernel_size, output_size, random_samples) -> values, indices
Results fractional_max_pool3d(Args& a);
Tensor fractional_max_pool2d_backward(Args& a);  // (grad_output, self, kernel_size, output_size, indices)
Tensor fractional_max_pool3d_backward(Args& a);
Tensor max_unpool2d(Args& a);                    // (self, indices, output_size)
Tensor max_unpool3d(Args& a);                    // (self, indices, output_size, stride, padding)

}  // namespace tiny::lower
