#include "runtime/host.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/thread.h"
#include "runtime/ready.h"

namespace tiny {
namespace {

constexpr int kSpinMicros = 5;
constexpr std::chrono::milliseconds kExitPatience{5000}, kInterruptPatience{50};
constexpr double kLongFlops = 1e9;    // some tens of milliseconds at least
constexpr size_t kHugePage = size_t{2} << 20;

thread_local const HostDevice* running_queue = nullptr;  // the device whose work this thread runs

void log_time(std::span<const Launch> batch, std::chrono::nanoseconds took) {
  std::string names;
  for (const Launch& l : batch) {
    names += names.empty() ? "" : ", ";
    names += l.kernel ? l.kernel->info.name : l.builtin ? "a builtin" : fmt::format("a copy of {} bytes", l.bytes);
  }
  TINY_LOG(1, time, "{:.1f} us: {}", static_cast<double>(took.count()) / 1e3, names);
}

/// A number of bytes alone in a file (control groups); SIZE_MAX if it is not there or says "max".
size_t bytes_in_file(const char* path) {
  size_t n = SIZE_MAX;
  if (FILE* f = std::fopen(path, "re")) {
    if (std::fscanf(f, "%zu", &n) != 1) n = SIZE_MAX;
    std::fclose(f);
  }
  return n;
}

size_t available_memory() {
  size_t n = 0;
  if (FILE* f = std::fopen("/proc/meminfo", "re")) {
    char line[128];
    while (std::fgets(line, sizeof line, f))
      if (std::sscanf(line, "MemAvailable: %zu kB", &n) == 1) break;
    std::fclose(f);
  }
  return n * 1024;
}

/// Physical memory, or what the control group of the process may use of it.
size_t total_memory() {
  static const size_t total = [] {
    size_t n = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
    n = std::min(n, bytes_in_file("/sys/fs/cgroup/memory.max"));
    return std::min(n, bytes_in_file("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  }();
  return total;
}

/// Whether a thread that wants to hear of an interrupt should leave this to the queue's thread.
bool is_long(const Submission& work) {
  double flops = 0;
  for (const Launch& l : *work.launches) {
    if (l.kernel) flops += l.kernel->info.flops;
    if (flops > kLongFlops) return true;
  }
  return false;
}

}  // namespace

HostDevice::HostDevice(std::string name, int index)
    : Device(std::move(name), index), spin_micros_(sysconf(_SC_NPROCESSORS_ONLN) > 1 ? kSpinMicros : 0) {}

void get_ready(Device& device) {
  if (auto* host = dynamic_cast<HostDevice*>(&device)) host->get_ready();
}

// ---- memory

void* HostDevice::raw_alloc(size_t n) {
  if (n > total_memory()) return nullptr;  // the system would promise it all the same, and kill the process when it is touched
  if (n < kHugePage) return std::aligned_alloc(4096, (n + 4095) / 4096 * 4096);
  // Whole huge pages, so that the first touch of a big array costs few page faults.
  size_t size = (n + kHugePage - 1) / kHugePage * kHugePage, mapped = size + kHugePage;
  void* p = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  char* begin = static_cast<char*>(p);
  char* aligned = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(begin) + kHugePage - 1) / kHugePage * kHugePage);
  if (aligned > begin) munmap(begin, static_cast<size_t>(aligned - begin));
  size_t tail = mapped - size - static_cast<size_t>(aligned - begin);
  if (tail) munmap(aligned + size, tail);
  madvise(aligned, size, MADV_HUGEPAGE);
  return aligned;
}

void HostDevice::raw_free(void* p, size_t n) {
  if (n < kHugePage) return std::free(p);
  munmap(p, (n + kHugePage - 1) / kHugePage * kHugePage);
}

void HostDevice::memory_info(size_t* free_bytes, size_t* total_bytes) {
  *total_bytes = total_memory();
  *free_bytes = std::min(available_memory(), *total_bytes);
}

void HostDevice::copy_in(Buffer* dst, size_t offset, const void* src, size_t n) {
  TINY_ASSERT(offset + n <= dst->nbytes, fmt::format("{} bytes at {} of a buffer of {}", n, offset, dst->nbytes));
  if (n == 0) return;
  settle(dst->last_use);
  std::memcpy(static_cast<char*>(dst->ptr) + offset, src, n);
}

void HostDevice::copy_out(void* dst, Buffer* src, size_t offset, size_t n) {
  TINY_ASSERT(offset + n <= src->nbytes, fmt::format("{} bytes at {} of a buffer of {}", n, offset, src->nbytes));
  wait(src->last_use);
  if (n) std::memcpy(dst, static_cast<const char*>(src->ptr) + offset, n);
}

// ---- the queue

bool HostDevice::on_queue() const { return running_queue == this; }

uint64_t HostDevice::submit(std::unique_ptr<Submission> work, bool inline_if_idle) {
  Item item;
  {
    std::lock_guard lock(mutex_);
    uint64_t ticket = last_.load(std::memory_order_relaxed) + 1;
    last_.store(ticket, std::memory_order_release);
    for (Buffer* b : work->owned) b->last_use.store(ticket, std::memory_order_relaxed);
    item = {ticket, std::move(work)};
    bool idle = !busy_.load(std::memory_order_relaxed) && queue_.empty();
    if (idle && ((inline_if_idle && !is_long(*item.work)) || !start_queue())) {
      busy_.store(true, std::memory_order_relaxed);
    } else {
      queue_.push_back(std::move(item));
      queued_.store(queue_.size(), std::memory_order_seq_cst);
    }
  }
  uint64_t ticket = item.ticket;
  if (item.work) {
    execute(std::move(item), inline_if_idle);
  } else {
    work_.notify(1);
  }
  return ticket;
}

bool HostDevice::take(Item* item, uint64_t last_wanted) {
  std::lock_guard lock(mutex_);
  if (last_wanted != UINT64_MAX && started_ && !queue_.empty() && is_long(*queue_.front().work)) return false;
  if (busy_.load(std::memory_order_relaxed) || queue_.empty() || queue_.front().ticket > last_wanted) return false;
  *item = std::move(queue_.front());
  queue_.pop_front();
  queued_.store(queue_.size(), std::memory_order_relaxed);
  busy_.store(true, std::memory_order_relaxed);
  return true;
}

void HostDevice::execute(Item item, bool waited) {
  std::exception_ptr fault;
  const HostDevice* outer = std::exchange(running_queue, this);
  if (waited) waited_for(true);
  try {
    run(*item.work);
  } catch (...) {
    fault = std::current_exception();
  }
  if (waited) waited_for(false);
  for (Buffer* b : item.work->owned) b->release();
  item.work.reset();
  running_queue = outer;
  bool more;
  {
    std::lock_guard lock(mutex_);
    if (fault && !fault_) fault_ = fault, fault_ticket_ = item.ticket;
    busy_.store(false, std::memory_order_seq_cst);
    completed_.store(std::max(item.ticket, completed_.load()), std::memory_order_seq_cst);  // stop() may have passed it
    more = !queue_.empty();
  }
  done_.notify();
  if (more) work_.notify(1);
}

void HostDevice::run(const Submission& work) {
  std::span<const Launch> launches(*work.launches);
  TINY_LOG(3, device, "{}: submission of {} launches", name(), launches.size());
  for (size_t i = 0, n; i < launches.size() && !stopping_.load(std::memory_order_relaxed); i += n) {
    for (n = 1; i + n < launches.size() && launches[i + n].batch == launches[i].batch;) ++n;
    const bool timed = log_on(1, Topic::time);
    const auto begin = timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
    n == 1 && !launches[i].kernel ? run_launch(launches[i], work) : run_batch(launches.subspan(i, n), work);
    if (timed) log_time(launches.subspan(i, n), std::chrono::steady_clock::now() - begin);
  }
}

void HostDevice::run_batch(std::span<const Launch> batch, const Submission& work) {
  for (const Launch& l : batch) run_launch(l, work);
}

void HostDevice::run_launch(const Launch& l, const Submission& work) {
  void* const* buffers = work.buffers.data() + l.first_buffer;
  const uint64_t* scalars = work.scalars.data() + l.first_scalar;
  if (l.kernel) {
    run_kernel(*l.kernel, buffers, scalars);
  } else if (l.builtin) {
    l.builtin(buffers, scalars, l.ints, *this);
  } else if (l.bytes) {
    std::memmove(buffers[0], buffers[1], l.bytes);
  }
}

void HostDevice::wait(uint64_t ticket) {
  wait_for(ticket, Interruptible::active());
  std::exception_ptr fault;
  {
    std::lock_guard lock(mutex_);
    if (fault_ && fault_ticket_ <= ticket) fault = std::exchange(fault_, nullptr);
  }
  if (fault) std::rethrow_exception(fault);
}

void HostDevice::settle(uint64_t ticket) { wait_for(ticket, false); }

void HostDevice::wait_for(uint64_t ticket, bool interruptible) {
  if (done(ticket) || on_queue()) return;
  TINY_ASSERT(ticket <= last_ticket(), fmt::format("waits for ticket {}, the last is {}", ticket, last_ticket()));
  while (!done(ticket)) {
    Item item;
    if (take(&item, ticket)) {  // sooner than waking the queue's thread
      execute(std::move(item), true);
    } else {
      auto changed = [&] { return done(ticket) || (!busy_.load() && queued_.load()); };
      if (!interruptible) done_.wait(changed, spin_micros_);
      else if (!done_.wait(changed, spin_micros_, kInterruptPatience)) check_interrupt();
    }
  }
}

bool HostDevice::start_queue() {
  if (stopping_.load(std::memory_order_relaxed)) return false;
  if (!started_) started_ = start_thread("tiny-queue", [this] { queue_loop(); });
  return started_;
}

void HostDevice::queue_loop() {
  while (!stopping_.load(std::memory_order_relaxed)) {
    auto ready = [&] { return stopping_.load() || (queued_.load() && !busy_.load()); };
    work_.wait(ready, spin_micros_);
    Item item;
    if (!stopping_.load(std::memory_order_relaxed) && take(&item, UINT64_MAX)) execute(std::move(item), false);
  }
}

// ---- exit and fork

void HostDevice::stop() {
  stopping_.store(true, std::memory_order_seq_cst);
  work_.notify();
  if (!on_queue()) done_.wait_for([&] { return !busy_.load(); }, kExitPatience);
  std::lock_guard lock(mutex_);
  for (Item& item : queue_) item.work.release();  // programs and buffers may be half gone by now: nothing is destroyed
  queue_.clear();
  queued_.store(0);
  completed_.store(last_.load(), std::memory_order_seq_cst);
  done_.notify();
}

void HostDevice::before_fork() {
  for (;;) {  // the child has no thread that would end the work, so the work ends first
    if (!on_queue()) settle(last_ticket());
    mutex_.lock();
    if (on_queue() || done(last_ticket())) break;
    mutex_.unlock();
  }
  Device::before_fork();
}

void HostDevice::after_fork(bool in_child) {
  Device::after_fork(in_child);
  if (in_child) {
    started_ = false;
    busy_.store(false);
    queue_.clear();
    queued_.store(0);
    completed_.store(last_.load());
    work_.reset();
    done_.reset();
  }
  mutex_.unlock();
}

}  // namespace tiny
