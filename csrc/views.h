#pragma once
#include "tensor.h"

namespace tiny::glue {

/// Sets sizes and strides (contiguous without them); the storage grows if it must.
void set_geometry(const at::Tensor& self, c10::IntArrayRef sizes, c10::OptionalIntArrayRef strides);

}  // namespace tiny::glue
