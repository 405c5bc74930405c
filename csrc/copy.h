#pragma once
#include "tensor.h"

namespace tiny::glue {

/// The elements of a tiny tensor as a CPU tensor of the same dtype, sizes and conjugate and negative bits. Flushes and waits.
at::Tensor to_cpu(const at::Tensor& src);
/// Bytes of the storage of t, from `offset` on. Flushes and waits without the GIL.
void read_bytes(const at::Tensor& t, int64_t offset, void* dst, size_t nbytes);
/// Overwrites dst (tiny) with src (CPU) of the same sizes.
void copy_from_cpu(const at::Tensor& dst, const at::Tensor& src);
/// dst[...] = src[...], any devices, dtypes and strides; src broadcasts.
void copy_tensor(const at::Tensor& dst, const at::Tensor& src);

}  // namespace tiny::glue
