#include "host_allocator.h"

#include <cstdlib>
#include <map>
#include <mutex>

#include "allocator.h"

namespace tiny::glue {
namespace {

constexpr size_t kAlignment = 4096;

struct Blocks {
  std::mutex mutex;
  std::map<uintptr_t, size_t> live;  // begin -> size
  int64_t bytes = 0, peak = 0, allocations = 0, frees = 0;
};
Blocks& blocks() {
  static auto* b = new Blocks;
  return *b;
}

void free_block(void* p) {
  {
    std::lock_guard lock(blocks().mutex);
    const auto it = blocks().live.find(reinterpret_cast<uintptr_t>(p));
    blocks().bytes -= static_cast<int64_t>(it->second), ++blocks().frees;
    blocks().live.erase(it);
  }
  std::free(p);
}

struct TinyHostAllocator final : at::HostAllocator {
  c10::DataPtr allocate(size_t n) override {
    if (n == 0) return {nullptr, nullptr, &free_block, c10::kCPU};
    void* p = std::aligned_alloc(kAlignment, (n + kAlignment - 1) / kAlignment * kAlignment);
    TORCH_CHECK_WITH(OutOfMemoryError, p != nullptr, "torch_tiny: no host memory for ", n, " pinned bytes");
    std::lock_guard lock(blocks().mutex);
    Blocks& b = blocks();
    b.live[reinterpret_cast<uintptr_t>(p)] = n;
    b.bytes += static_cast<int64_t>(n), b.peak = std::max(b.peak, b.bytes), ++b.allocations;
    return {p, p, &free_block, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* dst, const void* src, size_t n) const override { std::memcpy(dst, src, n); }
  /// Copies from host memory have read it when they return, so a block may be reused at once.
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}  // nothing is cached
  at::HostStats get_stats() override {
    std::lock_guard lock(blocks().mutex);
    const Blocks& b = blocks();
    at::HostStats s;
    s.active_requests.current = s.allocations.current = b.allocations - b.frees;
    s.active_bytes.current = s.allocated_bytes.current = b.bytes;
    s.active_bytes.peak = s.allocated_bytes.peak = b.peak;
    s.num_host_alloc = b.allocations, s.num_host_free = b.frees;
    return s;
  }
  void reset_accumulated_stats() override {
    std::lock_guard lock(blocks().mutex);
    blocks().allocations -= blocks().frees, blocks().frees = 0;
  }
  void reset_peak_stats() override {
    std::lock_guard lock(blocks().mutex);
    blocks().peak = blocks().bytes;
  }
};

TinyHostAllocator* instance() {
  static auto* a = new TinyHostAllocator;
  return a;
}

REGISTER_HOST_ALLOCATOR(at::kPrivateUse1, instance())

}  // namespace

at::HostAllocator* host_allocator() { return instance(); }

bool is_pinned(const void* data) {
  const auto p = reinterpret_cast<uintptr_t>(data);
  std::lock_guard lock(blocks().mutex);
  auto it = blocks().live.upper_bound(p);
  if (it == blocks().live.begin()) return false;
  --it;
  return p < it->first + it->second;
}

}  // namespace tiny::glue
