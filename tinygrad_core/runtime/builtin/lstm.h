// What the builtins lstm and lstm_backward do, with a set of loops to do it.
#pragma once
#include "runtime/builtin/vector_kernels.h"
#include "runtime/device.h"

namespace tiny {

void lstm(const LstmKernels<float>& kernels, void* const* buffers, const int64_t* ints, Device& device);
void lstm(const LstmKernels<double>& kernels, void* const* buffers, const int64_t* ints, Device& device);
void lstm_backward(const LstmKernels<float>& kernels, void* const* buffers, const int64_t* ints, Device& device);
void lstm_backward(const LstmKernels<double>& kernels, void* const* buffers, const int64_t* ints, Device& device);

}  // namespace tiny
