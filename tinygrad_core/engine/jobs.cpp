#include "engine/jobs.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace tiny {
namespace {

using Clock = std::chrono::steady_clock;

/// A line on a terminal that shows how far a long compilation is; nothing elsewhere.
class Progress {
 public:
  Progress(const char* doing, size_t total) : doing_(doing), total_(total), tty_(isatty(2)) {}
  void show(size_t done) {
    if (!tty_ || Clock::now() - start_ < std::chrono::seconds(2)) return;
    std::fprintf(stderr, "\rtiny: %s kernels, %zu of %zu ", doing_, done, total_);
    shown_ = true;
  }
  ~Progress() {
    if (shown_) std::fprintf(stderr, "\r\033[K");
  }

 private:
  const char* doing_;
  size_t total_;
  bool tty_, shown_ = false;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

void run_jobs(const char* doing, size_t count, size_t threads, const std::function<void(size_t)>& work_on) {
  Progress progress(doing, count);
  std::atomic<size_t> next{0}, done{0};
  std::exception_ptr fault;
  std::mutex fault_mutex;
  auto work = [&] {
    for (size_t k; (k = next.fetch_add(1)) < count;) {
      try {
        work_on(k);
      } catch (...) {
        std::lock_guard lock(fault_mutex);
        if (!fault) fault = std::current_exception();
      }
      done.fetch_add(1);
    }
  };
  std::vector<std::thread> helpers;
  auto help = [&] {
    try {
      helpers.emplace_back(work);
      return true;
    } catch (const std::system_error&) {  // the system has no threads left: those that run do it
      return false;
    }
  };
  for (size_t t = 1; t < std::min(threads, count); ++t) help();
  if (count < 4 || !help()) {
    work();
  } else {
    while (done.load() < count) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      progress.show(done.load());
    }
  }
  for (std::thread& t : helpers) t.join();
  if (fault) std::rethrow_exception(fault);
}

}  // namespace tiny
