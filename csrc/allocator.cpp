#include "allocator.h"

#include <sys/mman.h>

#include <atomic>

#include "device_state.h"
#include "errors.h"
#include "gil.h"
#include "tables.h"
#include "where.h"

namespace tiny::glue {
namespace {

constexpr size_t kPlaceholderSpacing = 64;

/// Addresses that no memory has: every storage gets one of its own, so that address comparisons tell storages apart, and a host that
/// dereferences one faults at once instead of reading somebody's memory.
struct Placeholders {
  char* base = nullptr;
  size_t count = 0;
  std::atomic<uint64_t> next{0};

  Placeholders() {
    for (size_t bytes = size_t{1} << 40; bytes >= (size_t{1} << 26); bytes >>= 2) {
      void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (p == MAP_FAILED) continue;
      base = static_cast<char*>(p), count = bytes / kPlaceholderSpacing;
      return;
    }
    TORCH_CHECK(false, "torch_tiny: cannot reserve address space for storages");
  }
  void* take() { return base + kPlaceholderSpacing * (next.fetch_add(1, std::memory_order_relaxed) % count); }
};

Placeholders& placeholders() {
  static auto* p = new Placeholders;
  return *p;
}

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13
#define TINY_HAS_MATERIALIZER 1
void materialize_hook(c10::StorageImpl* storage) { materialize(*storage); }
#endif

void install_materializer(c10::StorageImpl& storage) {
#ifdef TINY_HAS_MATERIALIZER
  if (!storage.has_materializer()) storage.set_materializer(&materialize_hook);
#endif
}

c10::intrusive_ptr<c10::StorageImpl> create_storage_impl(c10::StorageImpl::use_byte_size_t, c10::SymInt size, c10::DataPtr data,
                                                         c10::Allocator* alloc, bool resizable) {
  if (data.get_context() == nullptr && alloc != nullptr) data = alloc->allocate(size.guard_int(__FILE__, __LINE__));
  auto storage =
      c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), std::move(size), std::move(data), alloc, resizable);
  if (storage->_mutable_data_ptr_no_checks().get_deleter() == &delete_memory) install_materializer(*storage);
  return storage;
}

void set_stat(c10::CachingAllocator::StatArray& stat, int64_t current, int64_t peak, int64_t allocated, int64_t freed) {
  auto& total = stat[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  total.current = current, total.peak = peak, total.allocated = allocated, total.freed = freed;
}

struct TinyAllocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t nbytes) override { return allocate_on(current_device(), nbytes); }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }  // data and context differ: no raw allocation
  void copy_data(void*, const void*, size_t) const override {
    TORCH_CHECK(false, "torch_tiny: memory of tiny storages is copied by tensor copies, not by address");
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {
    WithoutGil release;
    guarded([] {
      for (int i = 0; i < device_count(); ++i)
        if (device_opened(i)) drop_tables(device(i)), device(i).empty_cache();
    });
  }
  /// One in-order queue per device: memory is never reused before the work that reads it is done, so there is nothing to record.
  void recordStream(const c10::DataPtr&, c10::Stream) override {}

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    const int i = checked_device(index);
    if (!device_opened(i)) return stats;
    const MemoryStats m = device(i).memory_stats();
    set_stat(stats.allocated_bytes, m.allocated, m.peak_allocated, m.total_allocated, m.total_freed);
    set_stat(stats.requested_bytes, m.allocated, m.peak_allocated, m.total_allocated, m.total_freed);
    set_stat(stats.active_bytes, m.allocated, m.peak_allocated, m.total_allocated, m.total_freed);
    set_stat(stats.reserved_bytes, m.reserved, m.peak_reserved, m.reserved, 0);
    set_stat(stats.allocation, m.allocations - m.frees, m.allocations - m.frees, m.allocations, m.frees);
    set_stat(stats.active, m.allocations - m.frees, m.allocations - m.frees, m.allocations, m.frees);
    stats.num_ooms = m.ooms, stats.num_alloc_retries = m.retries;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override { resetPeakStats(index); }
  void resetPeakStats(c10::DeviceIndex index) override {
    const int i = checked_device(index);
    if (device_opened(i)) device(i).reset_peak_stats();
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    const int i = checked_device(index);
    size_t free_bytes = 0, total_bytes = 0;
    guarded([&] { device(i).memory_info(&free_bytes, &total_bytes); });
    return {free_bytes, total_bytes};
  }
};

TinyAllocator* instance() {
  static auto* a = new TinyAllocator;
  return a;
}

const bool registered = [] {
  c10::SetAllocator(kTiny, instance(), 0);
  c10::SetStorageImplCreate(kTiny, &create_storage_impl);
  return true;
}();

}  // namespace

c10::DeviceAllocator* allocator() { return instance(); }

void delete_memory(void* context) {
  GraphLock lock;
  delete static_cast<Memory*>(context);
}

c10::DataPtr allocate_on(c10::DeviceIndex index, size_t nbytes) {
  return guarded([&] {
    Device& d = device(index);
    mark_opened(index);
    return c10::DataPtr(nbytes == 0 ? nullptr : placeholders().take(), new Memory(d, nbytes), &delete_memory, c10::Device(kTiny, index));
  });
}

c10::intrusive_ptr<c10::StorageImpl> make_storage(c10::DeviceIndex index, size_t nbytes) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), static_cast<int64_t>(nbytes),
                                                       allocate_on(index, nbytes), instance(), true);
  install_materializer(*storage);
  return storage;
}

bool is_ours(const c10::StorageImpl& storage) {
  const c10::DataPtr& data = const_cast<c10::StorageImpl&>(storage)._mutable_data_ptr_no_checks();
  return data.get_deleter() == &delete_memory && data.get_context() != nullptr;
}

Memory& memory_of(const c10::StorageImpl& storage) {
  const c10::DataPtr& data = const_cast<c10::StorageImpl&>(storage)._mutable_data_ptr_no_checks();
  TORCH_CHECK(is_ours(storage), "torch_tiny: this storage was not made on a tiny device, or its memory was released");
  return *static_cast<Memory*>(data.get_context());
}

/// Replaces the address that a DataPtr shows; its context stays.
static void set_address(c10::StorageImpl& storage, void* address) {
  c10::DataPtr& data = storage._mutable_data_ptr_no_checks();
  const c10::Device where = data.device();
  void* context = data.release_context();
  storage.set_data_ptr_noswap(c10::DataPtr(address, context, &delete_memory, where));
}

void expect_address_again(c10::StorageImpl& storage) { install_materializer(storage); }

void resize_storage(c10::StorageImpl& storage, size_t nbytes) {
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  guarded([&] {
    Memory& m = memory_of(storage);
    GraphLock lock;
    m.storage.resize(nbytes);
  });
  storage.set_nbytes(nbytes);
  set_address(storage, nbytes == 0 ? nullptr : placeholders().take());  // the old address is not the memory's any more
  install_materializer(storage);
}

namespace {
std::atomic<int64_t> materialized_count{0};
}
int64_t materialized() { return materialized_count.load(std::memory_order_relaxed); }

void* materialize(c10::StorageImpl& storage) {
  materialized_count.fetch_add(1, std::memory_order_relaxed);
  note_where();
  WithoutGil release;
  return guarded([&]() -> void* {
    Memory& m = memory_of(storage);
    if (m.storage.nbytes() == 0) return nullptr;
    void* address = m.storage.pin();
    Device& d = m.storage.device();
    d.wait(d.last_ticket());  // whoever asks for the address does not know our queue
    GraphLock lock;  // another thread may be here for the same storage
    if (storage._mutable_data_ptr_no_checks().get() != address) set_address(storage, address);
    return address;
  });
}

}  // namespace tiny::glue
