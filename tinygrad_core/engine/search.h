// Search for a faster kernel by timing (TINY_BEAM).
#pragma once
#include <memory>
#include <string>

#include "runtime/device.h"

namespace tiny {

/// The fastest of the first `ways` ways to split the axes of the kernel `sink`, timed on the device over buffers of its own; `first` is the
/// heuristics' own way, compiled. What was found is kept in the cache on disk, so that each kernel is searched once. After some seconds no
/// more ways are tried; where the device has no memory for the arguments, `first` it is.
/// `key`: of the kernel in the cache on disk. Nothing else should run on the device meanwhile.
std::shared_ptr<Executable> search_kernel(Device& device, const Hash128& key, UOp* sink, const std::string& name,
                                          std::shared_ptr<Executable> first, int64_t ways, size_t threads);

}  // namespace tiny
