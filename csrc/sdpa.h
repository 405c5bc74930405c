#pragma once
#include <optional>

#include <ATen/core/Tensor.h>

namespace tiny::glue {

/// Whether scaled_dot_product_attention of these is the builtin that stores no scores.
bool can_stream_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>& mask,
                          double dropout);

}  // namespace tiny::glue
