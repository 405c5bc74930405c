// Event: threads wait for a condition that others make true. Waiters spin for a few microseconds and then sleep in the kernel (futex);
// notify() costs one atomic addition when nobody sleeps.
#pragma once
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdint>

namespace tiny {

inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class Event {
 public:
  /// Call after making the condition true. Wakes at most `n` sleepers.
  void notify(int n = INT_MAX) {
    word_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, n, nullptr, nullptr, 0);
  }

  /// Returns once condition() holds. It may be called any number of times and must read atomics.
  template <class Condition>
  void wait(Condition&& condition, int spin_micros) {
    if (spin(condition, spin_micros)) return;
    while (!sleep(condition, nullptr)) {}
  }
  /// The same, but false if nobody called notify() for `limit`.
  template <class Condition>
  bool wait(Condition&& condition, int spin_micros, std::chrono::milliseconds limit) {
    if (spin(condition, spin_micros)) return true;
    const timespec most{limit.count() / 1000, limit.count() % 1000 * 1000000};
    return sleep(condition, &most);
  }

  /// The same with a limit; false if it passed.
  template <class Condition>
  bool wait_for(Condition&& condition, std::chrono::milliseconds limit) {
    auto end = std::chrono::steady_clock::now() + limit;
    while (!condition()) {
      if (std::chrono::steady_clock::now() >= end) return false;
      timespec pause{0, 1000000};
      nanosleep(&pause, nullptr);
    }
    return true;
  }

  /// Forgets sleepers that did not come along into a forked child.
  void reset() { sleepers_.store(0); }

 private:
  /// Until condition() holds; false if `limit` (null: none) passed without a notification.
  template <class Condition>
  bool sleep(Condition& condition, const timespec* limit) {
    bool holds = false, timeout = false;
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    while (!timeout) {
      const uint32_t seen = word_.load(std::memory_order_seq_cst);
      if ((holds = condition())) break;
      timeout = syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, seen, limit, nullptr, 0) == -1 && errno == ETIMEDOUT;
    }
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    return holds || (timeout && condition());
  }

  template <class Condition>
  static bool spin(Condition& condition, int micros) {
    if (condition()) return true;
    if (micros <= 0) return false;
    auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(micros);
    do {
      for (int i = 0; i < 16; ++i) {
        cpu_pause();
        if (condition()) return true;
      }
    } while (std::chrono::steady_clock::now() < end);
    return false;
  }

  std::atomic<uint32_t> word_{0};
  std::atomic<int> sleepers_{0};
};

}  // namespace tiny
