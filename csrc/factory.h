#pragma once
#include "tensor.h"

namespace tiny::glue {

/// A Python number as a 0-d run-time argument of `type` (a native dtype). Throws what torch throws when it does not fit. Needs the
/// graph lock.
tiny::Tensor scalar_tensor(const at::Scalar& value, c10::ScalarType type);

}  // namespace tiny::glue
