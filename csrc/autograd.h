// What autograd keeps of a tensor, asked by operators that choose among forms by it.
#pragma once
#include <ATen/core/Tensor.h>

namespace tiny::glue {

/// A dual number of forward-mode differentiation: an operator without a forward derivative must leave it to others.
inline bool has_tangent(const at::Tensor& t) { return t._fw_grad(/*level=*/0).defined(); }

}  // namespace tiny::glue
