#include "event.h"

#include <atomic>
#include <chrono>

#include "errors.h"
#include "gil.h"

namespace tiny::glue {

/// One record() of an event: a host function in the queue writes the time when it is reached.
struct Event::Mark {
  Device* device = nullptr;
  uint64_t ticket = 0;
  std::atomic<int64_t> nanoseconds{0};
  std::vector<Launch> launches;
  int64_t self = 0;  // address of this, as the host function's integer argument
};

void Event::record(c10::DeviceIndex index) {
  WithoutGil release;
  guarded([&] {
    Device& d = tiny::device(index);
    Engine::of(d).flush("event");
    auto mark = std::make_shared<Mark>();
    mark->device = &d;
    mark->self = reinterpret_cast<int64_t>(mark.get());
    Launch stamp;
    stamp.builtin = [](void* const*, const uint64_t*, const int64_t* ints, Device&) {
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      reinterpret_cast<Mark*>(ints[0])->nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    };
    stamp.ints = &mark->self;
    mark->launches.push_back(stamp);
    auto work = std::make_unique<Submission>();
    work->launches = &mark->launches;
    work->keep = mark;
    mark->ticket = d.submit(std::move(work), true);
    mark_ = std::move(mark);
  });
}

bool Event::done() const { return !mark_ || mark_->device->done(mark_->ticket); }

void Event::synchronize() const {
  if (!mark_) return;
  WithoutGil release;
  guarded([&] { mark_->device->wait(mark_->ticket); });
}

double Event::elapsed_ms(const Event& end) const {
  TORCH_CHECK(mark_ && end.mark_, "Both events must be recorded before calculating elapsed time.");
  TORCH_CHECK(done() && end.done(), "Both events must be completed before calculating elapsed time.");
  return static_cast<double>(end.mark_->nanoseconds - mark_->nanoseconds) * 1e-6;
}

}  // namespace tiny::glue
