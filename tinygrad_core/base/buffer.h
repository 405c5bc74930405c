// Buffer: a block of device memory. Below the graph, whose leaves own buffers; the device that made it takes it back (runtime/device.h).
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tiny {

class Device;

/// One block of device memory; only Device::alloc makes them. Reference counted (atomically: the queue's thread drops references too).
/// The last owner may let go while queued work still uses the block: work runs in order, so work queued later may have the memory.
struct Buffer {
  Device* device;
  void* ptr;                   // device address
  size_t nbytes;               // as asked for; the block may be larger
  std::atomic<int64_t> refs{1};
  std::atomic<uint64_t> last_use{0};  // ticket of the last submission that names it; submit() sets it for Submission::owned
  bool pinned = false;         // its address was given away: other storages copy what it holds. Needs the graph lock
  uint64_t suspect = 0;        // flush that wrote it, if a CHECK that nobody has looked at may have failed there (engine/faults.h)
  uint64_t walk = 0;           // scratch of the engine's walk over a graph: epoch and leaf number
  void retain() { refs.fetch_add(1, std::memory_order_relaxed); }
  void release();              // the last owner returns the block to the device's cache
};

}  // namespace tiny
