// Operators without a lowering run on PyTorch's CPU. Never silent: every run is counted, and TINY_FALLBACK says what else happens.
#pragma once
#include <map>
#include <string>

#include "tensor.h"

namespace tiny::glue {

/// Runs the operator on CPU copies of the stack's tiny tensors; what it writes, resizes or returns goes back to the device. `reason` is for
/// the user: why there was no kernel.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack, const char* reason);

/// TINY_FALLBACK: "allow", "warn", "error", or "" where it is not set. Throws for any other word.
const std::string& fallback_policy();

/// Runs so far by operator name, and their sum.
std::map<std::string, int64_t> fallback_counts();
int64_t fallback_count();
void reset_fallback_counts();

}  // namespace tiny::glue
