// What NVIDIA GPUs can do, as codegen asks for it.
#pragma once
#include <cstdint>

#include "renderer/caps.h"

namespace tiny::cuda {

/// Read off the driver, or those of an H200.
struct Limits {
  int architecture = 90;  // 90: compute capability 9.0
  int multiprocessors = 132, lanes = 1024;
  int64_t shared_bytes = 48 << 10, most_shared_bytes = 227 << 10, l2_bytes = 60 << 20;  // of a workgroup, at most, of the GPU
};

Caps caps_of(const Limits& limits);

}  // namespace tiny::cuda
