// Shared objects made by the C renderer, loaded into this process.
#pragma once
#include <memory>
#include <string>

#include "renderer/cpu_code.h"
#include "renderer/renderer.h"

namespace tiny {

/// Loads the bytes of a shared object through a memory file and finds `symbol`, the kernel's name.
/// Throws Error(Runtime) with the loader's words.
std::unique_ptr<CpuCode> c_load(const Binary& object, const std::string& symbol);

}  // namespace tiny
