#pragma once
#include "boxed.h"

namespace tiny::glue {

/// Replaces the masks among a call's index tensors by positions (waits for their number), and moves index tensors to the device.
/// `arguments[0]` is the indexed tensor.
void prepare_indices(const Plan& plan, c10::IValue* arguments, size_t count);

/// index_put with one mask and one value is masked_fill: no positions, no waiting. True if it was done so, on `self` in place.
bool put_by_mask(at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices, const at::Tensor& values, bool accumulate);

}  // namespace tiny::glue
