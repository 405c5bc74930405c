#pragma once
#include "boxed.h"

namespace tiny::glue {

/// Replaces the masks among a call's index tensors by positions (waits for their number), and moves index tensors to the device.
/// `arguments[0]` is the indexed tensor.
void prepare_indices(const Plan& plan, c10::IValue* arguments, size_t count);

/// index_put with one mask and one value is masked_fill: no positions, no waiting. True if it was done so, on `self` in place.
bool put_by_mask(at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices, const at::Tensor& values, bool accumulate);

/// masked_fill_, index_fill_ and index_put_ of one value on an expanded tensor, which PyTorch still allows: several elements then change at
/// once. `name` is "aten::..."; false if the call is another, which PyTorch's words for such tensors refuse.
bool fill_shared(std::string_view name, c10::ArrayRef<c10::IValue> arguments);

}  // namespace tiny::glue
