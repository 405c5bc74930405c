// ProgramInfo, check texts and binary of a kernel as one string, for the disk cache.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "renderer/renderer.h"

namespace tiny {

struct StoredProgram {
  ProgramInfo info;
  std::vector<std::pair<int64_t, std::string>> checks;  // number and text of every CHECK
  Binary binary;
};

std::string to_bytes(const StoredProgram& program);
/// Nothing if the bytes are of another format or cut short.
std::optional<StoredProgram> from_bytes(const std::string& bytes);

}  // namespace tiny
