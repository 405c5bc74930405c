// The arithmetic that programs call most, without the boxed adapter's stack.
#pragma once
#include <torch/library.h>

#include "boxed.h"

namespace tiny::glue {

/// Registers a faster kernel for `op` if there is one (add, sub, mul, div of two tensors, functional and in place). Calls that need
/// promotion, a check or a fallback go on to run_boxed() with `plan`. False: nothing was registered.
bool register_arithmetic(torch::Library& library, const c10::OperatorHandle& op, const Plan& plan);

}  // namespace tiny::glue
