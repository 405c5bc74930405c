#include "runtime/device.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "runtime/allocator.h"
#include "runtime/open.h"
#include "uop/graph.h"

namespace tiny {

// ---- what all devices share

Device::Device(std::string name, int index) : name_(std::move(name)), index_(index), cache_(std::make_shared<Cache>(*this)) {
  if (int64_t mib = env_int(Env::TINY_MEMORY_MB)) set_memory_limit(static_cast<size_t>(mib) << 20);
}

void Buffer::release() {
  if (refs.fetch_sub(1, std::memory_order_acq_rel) == 1) device->cache_->give_back(this);
}

Buffer* Device::alloc(size_t nbytes) {
  Buffer* b = cache_->alloc(nbytes);
  b->suspect = 0;
  return b;
}
void Device::empty_cache() { cache_->empty(); }
MemoryStats Device::memory_stats() const { return cache_->stats(); }
void Device::reset_peak_stats() { cache_->reset_peaks(); }
void Device::set_memory_limit(size_t bytes) { cache_->set_limit(bytes); }

void Device::parallel_for(int64_t n, int64_t, LoopBody body, void* context) {
  if (n > 0) body(context, 0, n);
}

Buffer* Device::error_buffer() {
  std::lock_guard lock(error_mutex_);
  if (!error_) {
    Buffer* b = cache_->alloc_uncounted(sizeof(ErrorRecord));
    ErrorRecord none;
    copy_in(b, 0, &none, sizeof none);
    error_ = b;
  }
  return error_;
}

ErrorRecord Device::take_error() {
  wait(last_ticket());
  ErrorRecord found;
  std::lock_guard lock(error_mutex_);
  if (!error_) return found;
  copy_out(&found, error_, 0, sizeof found);
  if (!found.fault) return found;
  ErrorRecord none;
  copy_in(error_, 0, &none, sizeof none);
  auto low = static_cast<int32_t>(found.fault);
  if (low != INT32_MIN && low != INT32_MAX) found.value = low;  // else it may need more bits
  found.fault >>= 32;
  return found;
}

void Device::before_fork() {
  error_mutex_.lock();
  cache_->mutex.lock();
}

void Device::after_fork(bool) {
  cache_->mutex.unlock();
  error_mutex_.unlock();
}

// ---- the registry

namespace {

struct DeviceRow {
  const char* name;
  Device* (*open)(int index, int ordinal);
  const char* meaning;
};
constexpr DeviceRow kDevices[] = {
#define DEVICE(name, open, meaning) {#name, open, meaning},
#include "runtime/device.def"
};

struct NamedDevice {
  const DeviceRow* row;
  int ordinal;
};

struct Registry {
  std::mutex mutex;
  std::vector<NamedDevice> rows;                             // tiny:0, tiny:1, ...; set once
  std::atomic<int> count{0};                                 // rows.size(), once they are set
  std::array<std::atomic<Device*>, kMaxDevices> open = {};
  pid_t pid = 0;                                             // that opened or inherited the devices
};
Registry& registry() {
  static Registry* r = new Registry;  // never destroyed: threads of the devices outlive main
  return *r;
}

const DeviceRow* row_named(std::string_view name) {
  for (const DeviceRow& d : kDevices)
    if (name == d.name) return &d;
  std::string known;
  for (const DeviceRow& d : kDevices) known += fmt::format("\n  {:<6} {}", d.name, d.meaning);
  std::string list = env_text(Env::TINY_DEVICE);
  throw Error(ErrorKind::Value, fmt::format("TINY_DEVICE={}: there is no device '{}'; devices are{}", list, name, known));
}

/// "CUDA:1,CPU" -> rows. What follows the colon numbers devices of one kind; the host's are all alike.
std::vector<NamedDevice> parse_devices(std::string_view list) {
  std::vector<NamedDevice> rows;
  while (!list.empty()) {
    std::string_view word = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), word.size() + 1));
    std::string_view name = word.substr(0, word.find(':')), ordinal = word.substr(std::min(word.size(), name.size() + 1));
    if (word.empty()) continue;
    if (ordinal.find_first_not_of("0123456789") != ordinal.npos || ordinal.size() > 3 || (ordinal.empty() && name.size() != word.size()))
      throw Error(ErrorKind::Value, fmt::format("TINY_DEVICE={}: '{}' is not a device and a number", env_text(Env::TINY_DEVICE), word));
    rows.push_back({row_named(name), ordinal.empty() ? 0 : std::atoi(std::string(ordinal).c_str())});
  }
  if (rows.empty() || rows.size() > kMaxDevices)
    throw Error(ErrorKind::Value, fmt::format("TINY_DEVICE={} must list 1 to {} devices", env_text(Env::TINY_DEVICE), kMaxDevices));
  return rows;
}

}  // namespace

/// Locks are taken from the top: graph, compiling(), registry, devices, compile cache.
struct ForkHandlers {
  static void before() {
    graph_mutex().lock();
    compiling().lock();
    registry().mutex.lock();
    each([](Device& d) { d.before_fork(); });
    compile_cache_at_fork(0);
  }
  static void parent() {
    compile_cache_at_fork(1);
    each([](Device& d) { d.after_fork(false); });
    registry().mutex.unlock();
    compiling().unlock();
    graph_mutex().unlock();
  }
  static void child() {
    registry().pid = getpid();
    compile_cache_at_fork(2);
    each([](Device& d) { d.after_fork(true); });
    registry().mutex.unlock();
    // These know their owner by a thread number that changed with the fork, so they cannot be unlocked here.
    new (&compiling()) std::shared_mutex;
    new (&graph_mutex()) GraphMutex;
  }
  static void at_exit() {
    if (registry().pid == getpid()) each([](Device& d) { d.stop(); });
  }
  static void install() {
    registry().pid = getpid();
    pthread_atfork(before, parent, after_fork_in_child);
    std::atexit(at_exit);
  }

 private:
  static void each(void (*f)(Device&)) {
    for (auto& slot : registry().open)
      if (Device* d = slot.load()) f(*d);
  }
};

int device_count() {
  Registry& r = registry();
  if (int n = r.count.load(std::memory_order_acquire)) return n;
  std::lock_guard lock(r.mutex);
  if (r.rows.empty()) r.rows = parse_devices(env_text(Env::TINY_DEVICE));
  r.count.store(static_cast<int>(r.rows.size()), std::memory_order_release);
  return r.count;
}

Device& device(int index) {
  Registry& r = registry();
  if (index >= 0 && index < kMaxDevices)
    if (Device* d = r.open[index].load(std::memory_order_acquire)) return *d;
  if (index < 0 || index >= device_count())
    throw Error(ErrorKind::Value,
                fmt::format("there is no device tiny:{}; TINY_DEVICE={} makes {}", index, env_text(Env::TINY_DEVICE), device_count()));
  std::lock_guard lock(r.mutex);
  if (Device* d = r.open[index].load()) return *d;
  if (!r.pid) ForkHandlers::install();
  Device* d = r.rows[index].row->open(index, r.rows[index].ordinal);
  r.open[index].store(d, std::memory_order_release);
  TINY_LOG(1, device, "tiny:{} is {}: {}, {} threads", index, d->name(), d->caps().target, d->caps().threads);
  return *d;
}

/// Once a fork, whoever calls it first: our own handler, or that of a layer above which needs the devices in its own.
void after_fork_in_child() {
  if (registry().pid && registry().pid != getpid()) ForkHandlers::child();
}

}  // namespace tiny
