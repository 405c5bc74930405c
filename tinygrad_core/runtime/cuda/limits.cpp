#include "runtime/cuda/limits.h"

#include <fmt/format.h>

namespace tiny::cuda {
namespace {
constexpr const char* kPtxVersion = "ptx83";  // CUDA 12.3: the least driver
}

Caps caps_of(const Limits& limits) {
  Caps c;
  c.tensor_cores = limits.architecture == 90 ? 90 : limits.architecture >= 80 ? 80 : 0;
  c.async_copies = limits.architecture >= 80;
  c.target = fmt::format("sm_{}{}:{}", limits.architecture, limits.architecture == 90 ? "a" : "", kPtxVersion);  // a: with wgmma
  c.vector_bytes = 16;
  c.registers = 64;
  c.threads = limits.multiprocessors;
  c.has_local = true;
  c.max_local = limits.lanes;
  c.local_bytes = limits.shared_bytes;
  c.block_bytes = limits.most_shared_bytes;
  c.l2_bytes = limits.l2_bytes;
  c.has_fma = c.has_f16 = c.has_exp = true;
  return c;
}

}  // namespace tiny::cuda
