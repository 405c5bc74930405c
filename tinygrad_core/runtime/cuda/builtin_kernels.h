// Builtins that are kernels on NVIDIA GPUs.
#pragma once
#include <optional>

#include "runtime/device.h"

namespace tiny::cuda {

std::optional<BuiltinKernel> builtin_kernel(BuiltinName name, const int64_t* ints, const Caps& caps);

}  // namespace tiny::cuda
