// What a compiler leaves behind when it refuses a kernel.
#pragma once
#include <string>

namespace tiny {

/// Writes `source` to a file in the system's temporary folder and throws Error(Compile) with the kernel's name, the file's path and `why`.
[[noreturn]] void fail_compile(const std::string& kernel, const std::string& extension, const std::string& source, const std::string& why);

}  // namespace tiny
