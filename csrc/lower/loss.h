// Losses and their gradients. `reduction`: 0 none, 1 mean, 2 sum.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

Tensor binary_cross_entropy(Args& a);           // (self, target, weight?, reduction)
Tensor binary_cross_entropy_backward(Args& a);  // (grad_output, self, target, weight?, reduction)
Tensor huber_loss(Args& a);                     // (self, target, reduction, delta)
Tensor huber_loss_backward(Args& a);            // (grad_output, self, target, reduction, delta)
Tensor mse_loss(Args& a);                       // (self, target, reduction)
Tensor mse_loss_backward(Args& a);              // (grad_output, self, target, reduction)
/// (self [N, C] or [C], target [N] or 0-d, weight?, reduction, ignore_index) -> output, total_weight
Results nll_loss(Args& a);
Tensor nll_loss_backward(Args& a);              // (grad_output, self, target, weight?, reduction, ignore_index, total_weight)
/// The same for self [N, C, H, W] and target [N, H, W].
Results nll_loss2d(Args& a);
Tensor nll_loss2d_backward(Args& a);
Tensor smooth_l1_loss(Args& a);                 // (self, target, reduction, beta)
Tensor smooth_l1_loss_backward(Args& a);        // (grad_output, self, target, reduction, beta)

}  // namespace tiny::lower
