// Names of the builtins; builtins.def says what each does.
#pragma once
#include <cstdint>

namespace tiny {

enum class BuiltinName : uint8_t {
#define BUILTIN(name, meaning) name,
#include "uop/builtins.def"
  count
};

inline constexpr const char* kBuiltinNames[] = {
#define BUILTIN(name, meaning) #name,
#include "uop/builtins.def"
};

}  // namespace tiny
