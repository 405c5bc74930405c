// Errors of the core. Two kinds of fault, two words: TINY_ASSERT for a bug of ours, Error for a fault of the user or the machine.
#pragma once
#include <stdexcept>
#include <string>

namespace tiny {

enum class ErrorKind { Value, Type, Index, Runtime, Argument, OutOfMemory, NotImplemented, Compile };

/// A fault that the caller can act on. csrc turns it into the torch exception of the same kind, in one place.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string message) : std::runtime_error(std::move(message)), kind(kind) {}
  const ErrorKind kind;
};

[[noreturn]] void assert_failed(const char* condition, const char* file, int line, const std::string& detail);

}  // namespace tiny

/// TINY_ASSERT(condition, detail): detail is a std::string expression, evaluated only on failure.
#define TINY_ASSERT(condition, detail) \
  (static_cast<bool>(condition) ? void(0) : ::tiny::assert_failed(#condition, __FILE__, __LINE__, detail))
