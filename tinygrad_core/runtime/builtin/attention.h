// What the builtins attention and attention_backward do, with a set of loops to do it.
#pragma once
#include "runtime/builtin/vector_kernels.h"
#include "runtime/device.h"

namespace tiny {

void attention(const AttentionKernels<float>& kernels, void* const* buffers, const int64_t* ints, Device& device);
void attention(const AttentionKernels<double>& kernels, void* const* buffers, const int64_t* ints, Device& device);
void attention_backward(const AttentionKernels<float>& kernels, void* const* buffers, const int64_t* ints, Device& device);
void attention_backward(const AttentionKernels<double>& kernels, void* const* buffers, const int64_t* ints, Device& device);

}  // namespace tiny
