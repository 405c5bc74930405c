// Sums, means and maxima of rows of a table, bag by bag; rows renormalised in place.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

/// (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights?, include_last_offset, padding_idx)
/// -> output, offset2bag, bag_size, max_indices
Results embedding_bag(Args& a);
/// (grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights?, padding_idx)
Tensor embedding_bag_dense_backward(Args& a);
/// (grad, weight, indices, offsets, offset2bag, mode, padding_idx)
Tensor embedding_bag_weights_backward(Args& a);
Tensor embedding_renorm(Args& a);  // (self, indices, max_norm, norm_type)

}  // namespace tiny::lower
