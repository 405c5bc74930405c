// Devices, streams and events for PyTorch. A device has one in-order queue; every stream is a name for it, so work on two streams is
// ordered, and waiting for another stream's event needs nothing.
#include <ATen/SequenceNumber.h>

#include "device_state.h"
#include "errors.h"
#include "event.h"
#include "gil.h"
#include "tensor.h"

namespace tiny::glue {
namespace {

constexpr int kStreams = 32;

thread_local std::array<c10::StreamId, 64> current_streams{};
std::atomic<int> next_stream{0};

c10::Stream stream(c10::Device d, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kTiny, checked_device(d.index())), id);
}

void synchronize(c10::DeviceIndex index) {
  if (!device_opened(checked_device(index))) return;
  WithoutGil release;
  guarded([&] { Engine::of(device(checked_device(index))).synchronize(); });
}

/// Autograd numbers its nodes in each thread by itself, and a backward pass takes those of the greatest number first. On the CPU forward
/// and backward are one thread, so what a backward pass makes comes after the forward pass that it belongs to; here each device's backward
/// runs in a thread of its own. So that sums of more than two gradients are formed in the CPU's order, a thread that is behind catches up:
/// autograd asks for a stream when it makes a node, when a backward pass begins, and before each of its nodes.
void follow_numbers() {
  static std::atomic<uint64_t> greatest{0};
  const uint64_t most = greatest.load(std::memory_order_relaxed);
  uint64_t mine = at::sequence_number::peek();
  for (; mine < most; ++mine) at::sequence_number::get_and_increment();
  for (uint64_t now = most; now < mine && !greatest.compare_exchange_weak(now, mine, std::memory_order_relaxed);) {
  }
}

struct TinyGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kTiny; }
  c10::Device exchangeDevice(c10::Device d) const override {
    const c10::Device old = getDevice();
    if (d.index() >= 0 && d.index() != old.index()) set_current_device(d.index());
    return old;
  }
  c10::Device getDevice() const override { return c10::Device(kTiny, current_device()); }
  void setDevice(c10::Device d) const override { set_current_device(d.index()); }
  void uncheckedSetDevice(c10::Device d) const noexcept override { set_current_device_unchecked(d.index()); }
  c10::DeviceIndex deviceCount() const noexcept override { return count_devices(); }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    c10::DeviceCapability c;
    c.capability_data.capability_bits = 0;
    for (int t = 0; t < c10::NumScalarTypes; ++t)
      if (core_dtype(static_cast<c10::ScalarType>(t)) != DType::count) c.capability_data.capability_bits |= uint64_t{1} << t;
    return c;
  }

  c10::Stream getStream(c10::Device d) const override {
    follow_numbers();
    return stream(d, current_streams[checked_device(d.index())]);
  }
  c10::Stream getDefaultStream(c10::Device d) const override { return stream(d, 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool) const override { return stream(d, 1 + next_stream++ % kStreams); }
  c10::Stream getNewStream(c10::Device d, int) const override { return stream(d, 1 + next_stream++ % kStreams); }
  c10::Stream exchangeStream(c10::Stream s) const override {
    follow_numbers();
    c10::StreamId& current = current_streams[checked_device(s.device_index())];
    return stream(s.device(), std::exchange(current, s.id()));
  }
  bool queryStream(const c10::Stream& s) const override {
    if (!device_opened(s.device_index())) return true;
    Device& d = device(s.device_index());
    return d.done(d.last_ticket());
  }
  void synchronizeStream(const c10::Stream& s) const override { synchronize(s.device_index()); }
  void synchronizeDevice(const c10::DeviceIndex index) const override { synchronize(index); }
  /// One queue: memory is not reused before the work that reads it is done.
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}

  void record(void** event, const c10::Stream& s, const c10::DeviceIndex index, const c10::EventFlag) const override {
    TORCH_CHECK(index == -1 || index == s.device_index(), "Event device index ", static_cast<int>(index),
                " does not match recording stream's device index ", static_cast<int>(s.device_index()), ".");
    if (*event == nullptr) *event = new Event;
    static_cast<Event*>(*event)->record(s.device_index());
  }
  /// The queue runs in order: what is submitted later on any stream already waits. An event of another device is waited for here.
  void block(void* event, const c10::Stream&) const override {
    if (event != nullptr && count_devices() > 1) static_cast<Event*>(event)->synchronize();
  }
  bool queryEvent(void* event) const override { return event == nullptr || static_cast<Event*>(event)->done(); }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) static_cast<Event*>(event)->synchronize();
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr, "Both events must be recorded before calculating elapsed time.");
    return static_cast<Event*>(start)->elapsed_ms(*static_cast<Event*>(end));
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, TinyGuard)

}  // namespace
}  // namespace tiny::glue
