// Sampling an image at the places of a grid.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

/// (input [N, C, D.., ], grid [N, O.., n], interpolation_mode, padding_mode, align_corners), two or three dimensions
Tensor grid_sampler(Args& a);
/// (grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask) -> grad_input, grad_grid
Results grid_sampler_backward(Args& a);

}  // namespace tiny::lower
