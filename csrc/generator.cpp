#include "generator.h"

#include "device_state.h"

namespace tiny::glue {
namespace {

constexpr size_t kStateBytes = 16;  // seed, offset

struct TinyGenerator final : c10::GeneratorImpl {
  explicit TinyGenerator(c10::DeviceIndex index)
      : c10::GeneratorImpl(c10::Device(kTiny, index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  void set_current_seed(uint64_t seed) override { seed_ = seed, offset_ = 0; }
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return seed_;
  }
  void set_state(const c10::TensorImpl& state) override {
    at::detail::check_rng_state(state);
    TORCH_CHECK(state.numel() == static_cast<int64_t>(kStateBytes), "RNG state is wrong size: expected ", kStateBytes, " bytes, got ",
                state.numel());
    const auto* bytes = static_cast<const char*>(state.data());
    std::memcpy(&seed_, bytes, 8);
    std::memcpy(&offset_, bytes + 8, 8);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    at::Tensor t = at::empty({static_cast<int64_t>(kStateBytes)}, at::TensorOptions().dtype(at::kByte).device(c10::kCPU));
    auto* bytes = static_cast<char*>(t.mutable_data_ptr());
    std::memcpy(bytes, &seed_, 8);
    std::memcpy(bytes + 8, &offset_, 8);
    return t.getIntrusivePtr();
  }
  TinyGenerator* clone_impl() const override {
    auto* g = new TinyGenerator(device_.index());
    g->seed_ = seed_, g->offset_ = offset_;
    return g;
  }

  uint64_t seed_ = c10::default_rng_seed_val, offset_ = 0;
};

}  // namespace

at::Generator new_generator(c10::DeviceIndex index) { return at::make_generator<TinyGenerator>(checked_device(index)); }

const at::Generator& default_generator(c10::DeviceIndex index) {
  static const auto* generators = [] {
    auto* v = new std::vector<at::Generator>;
    for (c10::DeviceIndex i = 0; i < count_devices(); ++i) v->push_back(at::make_generator<TinyGenerator>(i));
    return v;
  }();
  return (*generators)[checked_device(index)];
}

Draw draw(const at::Generator& generator, int64_t numel) {
  TORCH_CHECK(generator.device().type() == kTiny, "Expected a '", c10::Device(kTiny, 0), "' generator device but found '",
              generator.device(), "'");
  auto* g = static_cast<TinyGenerator*>(generator.unsafeGetGeneratorImpl());
  std::lock_guard lock(g->mutex_);
  const Draw d{g->seed_, g->offset_};
  g->offset_ += static_cast<uint64_t>(numel);
  return d;
}

namespace {
thread_local DrawLog* draw_log = nullptr;
}
DrawLog::DrawLog() { draw_log = this; }
DrawLog::~DrawLog() { draw_log = nullptr; }
DrawLog* DrawLog::current() { return draw_log; }

at::Generator cpu_generator_from(const at::Generator& generator) {
  const Draw d = draw(generator, 1);
  return at::detail::createCPUGenerator(mix(mix(0, d.seed), d.offset));
}

}  // namespace tiny::glue
