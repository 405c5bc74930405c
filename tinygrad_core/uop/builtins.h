// Names of the builtins; builtins.def says what each does.
#pragma once
#include <cstdint>

namespace tiny {

enum class BuiltinName : uint8_t {
#define BUILTIN(name, meaning) name,
#include "uop/builtins.def"
  count
};

/// Beside the dtype of a builtin's elements: they are pairs of it, complex numbers.
inline constexpr int64_t kComplexElement = 256;

inline constexpr const char* kBuiltinNames[] = {
#define BUILTIN(name, meaning) #name,
#include "uop/builtins.def"
};

}  // namespace tiny
