// The one place where faults of the core become torch exceptions.
#pragma once
#include "base/error.h"
#include "pch.h"

namespace tiny::glue {

/// Throws the torch exception that Python users see: Value -> RuntimeError (what PyTorch's own kernels raise for wrong shapes), Type ->
/// TypeError, Index -> IndexError, OutOfMemory -> torch.OutOfMemoryError, NotImplemented -> NotImplementedError, else RuntimeError.
[[noreturn]] void raise_as_torch(const Error& error);

/// Runs `f`; a core Error leaves as the torch exception of its kind.
template <class F>
decltype(auto) guarded(F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    raise_as_torch(error);
  }
}

}  // namespace tiny::glue
