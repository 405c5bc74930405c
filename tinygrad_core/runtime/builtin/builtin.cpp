#include "runtime/builtin/builtin.h"

namespace tiny {

Builtin builtin_function(BuiltinName name) {
  static constexpr Builtin kFunctions[] = {
#define BUILTIN(name, meaning) builtin_##name,
#define DEVICE_BUILTIN(name, meaning) nullptr,
#include "uop/builtins.def"
  };
  return kFunctions[static_cast<int>(name)];
}

}  // namespace tiny
