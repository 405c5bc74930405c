// A CPU kernel in this process's memory.
#pragma once
#include <cstdint>

namespace tiny {

/// The ABI of a CPU kernel; see renderer.h.
using CpuKernel = void (*)(void* const* buffers, const uint64_t* scalars, int64_t begin, int64_t end, char* scratch);

/// Code in memory; freed on destruction.
class CpuCode {
 public:
  virtual ~CpuCode() = default;
  CpuKernel entry = nullptr;
};

}  // namespace tiny
