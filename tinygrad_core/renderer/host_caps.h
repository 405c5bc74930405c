// What the processor of this machine can do, and the targets that the CPU renderers know.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "renderer/caps.h"

namespace tiny {

/// A CPU target in three parts: "x86-64:znver3:avx2,fma,f16c" is the architecture, the processor to tune for (may be empty) and
/// the features that code may use (LLVM's names).
struct CpuTarget {
  std::string arch, cpu;
  std::vector<std::string> features;
  bool has(std::string_view feature) const;
};
CpuTarget parse_cpu_target(std::string_view text);

/// The compiler flag that turns a feature on ("-mavx2"); empty for a name that is not in the table.
std::string_view feature_flag(std::string_view feature);

/// Caps of a CPU target: vectors, registers, fused multiply-add and conversions follow from its features. Caches and threads keep defaults.
Caps cpu_caps(std::string_view target);

/// Caps of this machine: its target, caches and threads (TINY_THREADS, else as many as the process may use).
Caps host_caps();

}  // namespace tiny
