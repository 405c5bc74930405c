// Reading by index. Every user's index is checked; a wrong one raises at the next read of a result.
#pragma once
#include "lower/args.h"

namespace tiny::lower {

/// index.Tensor(self, indices): indices are integer tensors or undefined; masks became indices before this.
Tensor index_tensor(Args& a);
Tensor index_select(Args& a);     // (self, dim, index 1-d or 0-d)
Tensor gather(Args& a);           // (self, dim, index, sparse_grad)
Tensor nonzero_static(Args& a);   // (self, *, size, fill_value)
Tensor take(Args& a);             // (self, index): self as 1-d
Tensor embedding(Args& a);        // (weight [V, D], indices, ...)
Tensor embedding_dense_backward(Args& a);  // (grad, indices, num_weights, padding_idx, scale_grad_by_freq)

/// Where advanced indexing puts its dimensions, and the flat position of each element of the indexed part.
struct Indexed {
  Tensor position;   // i64, of sizes `broadcast`: flat positions without the kept dimensions, or rows (see `leading`)
  Dims broadcast;    // the index tensors' common sizes
  Dims kept;         // dimensions of self without an index, in order
  size_t lead = 0;   // so many kept dimensions come before the broadcast ones in the result
  bool leading = false;  // the indexed dimensions are the first of self: together they number rows of the kept ones
};
/// Throws what PyTorch does: IndexError for too many indices, wrong dtypes or shapes that do not broadcast.
Indexed resolve_indices(const Dims& self, const std::vector<Tensor>& indices, std::string_view op);

/// The indexed elements as [position.., kept..] in a flat value: [numel(broadcast), product(kept)], i64.
Tensor flat_positions(const Indexed& r, const Dims& self);

/// Flat positions (of a value of sizes `self`) that `index` picks along dimension d, the other coordinates being the index's own.
Tensor positions_along(const Dims& self, int64_t d, const Tensor& index);

}  // namespace tiny::lower
