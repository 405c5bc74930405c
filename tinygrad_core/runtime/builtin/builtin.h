// The functions behind the names in uop/builtins.def, in which their buffers and integers are written down.
#pragma once
#include "runtime/device.h"
#include "uop/builtins.h"

namespace tiny {

#define BUILTIN(name, meaning) void builtin_##name(void* const* buffers, const uint64_t* scalars, const int64_t* ints, Device& device);
#define DEVICE_BUILTIN(name, meaning)
#include "uop/builtins.def"

/// Null for a DEVICE_BUILTIN.
Builtin builtin_function(BuiltinName name);

}  // namespace tiny
