#include "renderer/failure.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace tiny {

void fail_compile(const std::string& kernel, const std::string& extension, const std::string& source, const std::string& why) {
  std::error_code ignored;
  std::string name = fmt::format("tiny_{}_{}.{}", kernel.substr(0, 80), getpid(), extension);
  std::string path = (std::filesystem::temp_directory_path(ignored) / name).string();
  std::ofstream(path) << source;
  throw Error(ErrorKind::Compile, fmt::format("kernel {} does not compile; its source is in {}\n{}", kernel, path, why));
}

}  // namespace tiny
