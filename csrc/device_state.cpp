#include "device_state.h"

#include <pthread.h>

#include <atomic>
#include <new>

#include "api.h"
#include "errors.h"

namespace tiny::glue {
namespace {
thread_local c10::DeviceIndex current = 0;
std::atomic<uint64_t> opened{0};
}  // namespace

c10::DeviceIndex count_devices() noexcept {
  try {
    static const auto n = static_cast<c10::DeviceIndex>(std::min(device_count(), 64));
    return n;
  } catch (const std::exception&) {
    return 0;
  }
}

c10::DeviceIndex current_device() { return current; }

c10::DeviceIndex checked_device(c10::DeviceIndex index) {
  if (index < 0) return current;
  if (count_devices() == 0) guarded([] { device_count(); });  // says what is wrong with TINY_DEVICE
  TORCH_CHECK(index < count_devices(), "The device index is out of range. It must be in [0, ", static_cast<int>(count_devices()),
              "), but got ", static_cast<int>(index), ".");
  return index;
}

void set_current_device(c10::DeviceIndex index) { current = checked_device(index); }
void set_current_device_unchecked(c10::DeviceIndex index) noexcept {
  if (index >= 0) current = index;
}

bool device_opened(c10::DeviceIndex index) { return (opened.load(std::memory_order_relaxed) >> index & 1) != 0; }
void mark_opened(c10::DeviceIndex index) {
  const uint64_t bit = uint64_t{1} << index;
  if ((opened.load(std::memory_order_relaxed) & bit) == 0) opened.fetch_or(bit, std::memory_order_relaxed);
}

void register_fork_handlers() {
  static const bool once = [] {
    pthread_atfork([] { graph_mutex().lock(); }, [] { graph_mutex().unlock(); },
                   [] {
                     new (&graph_mutex()) GraphMutex;  // its owner was another thread id: the child cannot unlock it
                     after_fork_in_child();
                   });
    return true;
  }();
  (void)once;
}

}  // namespace tiny::glue
