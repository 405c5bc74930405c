// Layer, group, batch and RMS normalisation, with gradients. Statistics of reduced floats are f32.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

/// native_layer_norm(input, normalized_shape, weight?, bias?, eps) -> output, mean, rstd (input's leading sizes, then ones).
Results layer_norm(Args& a);
/// native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight?, bias?, output_mask[3])
Results layer_norm_backward(Args& a);
/// native_group_norm(input, weight?, bias?, N, C, HxW, group, eps) -> output, mean [N, G], rstd [N, G]
Results group_norm(Args& a);
/// native_group_norm_backward(grad_out, input, mean, rstd, weight?, N, C, HxW, group, output_mask[3])
Results group_norm_backward(Args& a);
/// native_batch_norm(input [N, C, ...], weight?, bias?, running_mean?, running_var?, training, momentum, eps) -> output, save_mean [C],
/// save_invstd [C] (without elements when not training), then the new running statistics.
Results batch_norm(Args& a);
/// _native_batch_norm_legit.no_stats(input, weight?, bias?, training, momentum, eps)
Results batch_norm_no_stats(Args& a);
/// _batch_norm_with_update(input, weight?, bias?, running_mean, running_var, momentum, eps) -> output, save_mean, save_invstd, reserve
/// (without elements), then the new running statistics.
Results batch_norm_with_update(Args& a);
/// native_batch_norm_backward(grad_out, input, weight?, running_mean?, running_var?, save_mean?, save_invstd?, train, eps, output_mask[3]),
/// and batch_norm_backward, which has `reserve` besides.
Results batch_norm_backward(Args& a);
/// batch_norm_stats(input, eps) -> mean, invstd
Results batch_norm_stats(Args& a);
/// batch_norm_elemt(input, weight?, bias?, mean, invstd, eps)
Tensor batch_norm_elemt(Args& a);
/// batch_norm_update_stats(input, running_mean?, running_var?, momentum) -> mean, var, then the new running statistics
Results batch_norm_update_stats(Args& a);

Results weight_norm(Args& a);           // _weight_norm_interface(v, g, dim) -> w, norms
Results weight_norm_backward(Args& a);  // (grad_w, saved_v, saved_g, saved_norms, dim) -> grad_v, grad_g

}  // namespace tiny::lower
