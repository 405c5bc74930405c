#include "base/error.h"

#include <fmt/format.h>

namespace tiny {

void assert_failed(const char* condition, const char* file, int line, const std::string& detail) {
  throw Error(ErrorKind::Runtime, fmt::format("internal error, please report it: {} is false at {}:{}: {}", condition, file, line, detail));
}

}  // namespace tiny
