// From the values on PyTorch's stack to what lowerings see.
#pragma once
#include "boxed.h"

namespace tiny::glue {

/// What the arguments of a call are like, before any of them is read.
struct Survey {
  c10::DeviceIndex index = 0;         // the device of the call
  const char* unsupported = nullptr;  // why no lowering can take them
  bool complex = false;               // some are complex tensors, numbers or dtypes
  bool host_scalars = false;          // some tensors are 0-d CPU tensors
  bool indices = false;               // a list of indices holds masks or CPU tensors
};
/// Throws if tensors lie on several devices. 0-d CPU tensors may stand beside tiny ones.
Survey survey_arguments(const Plan& plan, c10::ArrayRef<c10::IValue> arguments);

/// Values of the 0-d CPU tensors among the arguments, in order: read before the graph lock is taken.
using HostScalars = c10::SmallVector<at::Scalar, 2>;
HostScalars host_scalars(c10::ArrayRef<c10::IValue> arguments);

/// Needs the graph lock.
void fill_arguments(const Plan& plan, c10::ArrayRef<c10::IValue> arguments, const HostScalars& scalars, c10::DeviceIndex index,
                    lower::Args* out);

}  // namespace tiny::glue
