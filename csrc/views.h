#pragma once
#include <ATen/MemoryOverlap.h>

#include "tensor.h"

namespace tiny::glue {

/// Sets sizes and strides (contiguous without them); the storage grows if it must.
void set_geometry(const at::Tensor& self, c10::IntArrayRef sizes, c10::OptionalIntArrayRef strides);

/// How the elements of two tensors lie in memory. As at::get_overlap_status(), which asks for addresses and so would pin the memory.
at::MemOverlapStatus overlap_of(const at::Tensor& a, const at::Tensor& b);
/// Throws, in PyTorch's words, if an operator cannot write `target` while it reads `source`.
void refuse_partial_overlap(const at::Tensor& target, const at::Tensor& source);
void refuse_overlap(const at::Tensor& target, const at::Tensor& source);

}  // namespace tiny::glue
