#include "runtime/cpu/pool.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/thread.h"

namespace tiny {
namespace {
thread_local int this_worker = 0;
constexpr int kLastChunkSpinMicros = 20;  // helpers are in their last chunk: they are back before a sleep would pay
}  // namespace

void Pool::run(int64_t chunks, int helpers, Body body, void* context) {
  helpers = static_cast<int>(std::min<int64_t>({helpers, threads_ - 1, chunks - 1}));
  if (helpers <= 0 || taken_.exchange(true, std::memory_order_acquire)) {
    for (int64_t i = 0; i < chunks; ++i) body(context, i, this_worker);
    return;
  }
  if (started_ < threads_) start_workers();
  body_ = body;
  context_ = context;
  next_.store(0, std::memory_order_relaxed);
  chunks_.store(chunks, std::memory_order_relaxed);
  open_.store(true, std::memory_order_seq_cst);
  wake_.notify(helpers);
  work(0);
  open_.store(false, std::memory_order_seq_cst);
  left_.wait([&] { return inside_.load(std::memory_order_seq_cst) == 0; }, spin_micros_ ? kLastChunkSpinMicros : 0);
  std::exception_ptr fault = std::exchange(fault_, nullptr);
  taken_.store(false, std::memory_order_release);
  if (fault) std::rethrow_exception(fault);
}

void Pool::alert() {
  if (started_ == 1 || !spin_micros_) return;
  expect_more(true);
  alerts_.fetch_add(1, std::memory_order_seq_cst);
  wake_.notify();
}

void Pool::work(int worker) {
  int64_t chunks = chunks_.load(std::memory_order_relaxed);
  for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < chunks;) {
    try {
      body_(context_, i, worker);
    } catch (...) {
      std::lock_guard lock(fault_mutex_);
      if (!fault_) fault_ = std::current_exception();
      next_.store(chunks, std::memory_order_relaxed);  // the rest is not wanted
    }
  }
}

void Pool::worker_loop(int worker) {
  this_worker = worker;
  auto ready = [&] {
    return open_.load(std::memory_order_seq_cst) && next_.load(std::memory_order_relaxed) < chunks_.load(std::memory_order_relaxed);
  };
  for (;;) {
    const uint32_t alerts = alerts_.load(std::memory_order_seq_cst);
    wake_.wait([&] { return ready() || alerts_.load(std::memory_order_seq_cst) != alerts; }, patience_.load(std::memory_order_relaxed));
    if (!ready()) continue;
    // First announce, then look: the owner first closes, then counts. So either it waits for us, or we see that it is closed.
    inside_.fetch_add(1, std::memory_order_seq_cst);
    if (open_.load(std::memory_order_seq_cst)) work(worker);
    if (inside_.fetch_sub(1, std::memory_order_seq_cst) == 1) left_.notify();
  }
}

void Pool::start_workers() {
  while (started_ < threads_) {
    int worker = started_;
    if (!start_thread("tiny-" + std::to_string(worker), [this, worker] { worker_loop(worker); })) break;
    ++started_;
  }
}

void Pool::reset() {
  started_ = 1;
  taken_.store(false);
  open_.store(false);
  inside_.store(0);
  wake_.reset();
  left_.reset();
}

}  // namespace tiny
