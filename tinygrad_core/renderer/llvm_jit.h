// Object code made by the LLVM renderer, loaded into this process.
#pragma once
#include <memory>
#include <string>

#include "renderer/cpu_code.h"
#include "renderer/renderer.h"

namespace tiny {

using JitModule = CpuCode;

/// Links an object (from any thread) and finds `symbol`, the kernel's name. Calls of libm go to this process's.
/// Throws Error(Runtime) if the object is damaged or lacks the symbol, or if the core was built without LLVM.
std::unique_ptr<JitModule> llvm_load(const Binary& object, const std::string& symbol);

/// The processor's name as LLVM spells it ("znver3"); empty without LLVM.
std::string llvm_host_cpu();

}  // namespace tiny
