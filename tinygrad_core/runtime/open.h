// The functions of device.def. A device lives until the process ends. `ordinal` tells devices of one kind apart: TINY_DEVICE=CUDA:1.
#pragma once
#include <optional>
#include <shared_mutex>

#include "runtime/device.h"

namespace tiny {

Device* make_cpu_device(int index, int ordinal);
Device* make_ref_device(int index, int ordinal);
Device* make_null_device(int index, int ordinal);
Device* make_cuda_device(int index, int ordinal);

/// Name of a kernel's entry in the disk cache.
Hash128 compile_cache_key(Device& device, const Hash128& kernel);

/// A short text about a kernel in the disk cache, such as what a search found; nothing if there is none.
std::optional<std::string> cached_text(Device& device, const Hash128& key);
void cache_text(Device& device, const Hash128& key, const std::string& text);

/// While kernels compile on other threads there is no fork: the child would inherit their locks. Take it after the graph lock, which is
/// not taken meanwhile.
std::shared_mutex& compiling();

/// Around fork: 0 before, 1 in the parent, 2 in the child.
void compile_cache_at_fork(int stage);

/// Texts of CHECKs made known to check_text() while `body` runs on this thread; restored from the disk cache by add_check_text.
std::vector<std::pair<int64_t, std::string>> collect_checks(const std::function<void()>& body);
void add_check_text(int64_t number, std::string text);

}  // namespace tiny
