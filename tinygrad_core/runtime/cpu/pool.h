// The CPU device's threads. One parallel region at a time: its chunks are handed out by a counter, the calling thread takes part.
#pragma once
#include <exception>
#include <mutex>

#include "base/event.h"

namespace tiny {

class Pool {
 public:
  /// `worker` is below threads() and differs between threads that run at once; the caller's is 0.
  using Body = void (*)(void* context, int64_t chunk, int worker);

  Pool(int threads, int spin_micros) : threads_(threads), spin_micros_(spin_micros) {}
  Pool(const Pool&) = delete;
  int threads() const { return threads_; }
  /// More regions follow soon, or no more do: how long helpers spin before they sleep. Waking one takes longer than most kernels do.
  void expect_more(bool soon) { patience_.store(soon && spin_micros_ ? kPatientMicros : spin_micros_, std::memory_order_relaxed); }
  /// Wakes the helpers, which then spin for a region to come.
  void alert();

  /// Runs body for chunks 0 .. chunks-1, with up to `helpers` threads beside this one; throws the first exception of a body.
  /// Serial when called from inside a region or while another thread's region runs.
  void run(int64_t chunks, int helpers, Body body, void* context);

  /// In a forked child: the threads are gone and will be started anew.
  void reset();

 private:
  void start_workers();
  void worker_loop(int worker);
  void work(int worker);

  static constexpr int kPatientMicros = 100;

  const int threads_, spin_micros_;
  std::atomic<int> patience_{spin_micros_};
  std::atomic<uint32_t> alerts_{0};
  int started_ = 1;
  std::atomic<bool> taken_{false};               // a thread is in run()

  // The region. Written by its owner while open_ is false and nobody is inside.
  Body body_ = nullptr;
  void* context_ = nullptr;
  std::exception_ptr fault_;
  std::mutex fault_mutex_;
  std::atomic<int64_t> chunks_{0};
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<bool> open_{false};
  alignas(64) std::atomic<int> inside_{0};       // workers that may look at the region
  Event wake_, left_;
};

}  // namespace tiny
