// What PyTorch asks of a device outside of operators.
#include "device_state.h"
#include "generator.h"
#include "host_allocator.h"

namespace tiny::glue {
namespace {

struct TinyHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return count_devices() > 0; }
  void init() const override {}
  bool hasPrimaryContext(c10::DeviceIndex index) const override { return index >= 0 && index < count_devices() && device_opened(index); }
  c10::DeviceIndex deviceCount() const override { return count_devices(); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { set_current_device(index); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const c10::DeviceIndex old = current_device();
    set_current_device(index);
    return old;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? current_device() : exchangeDevice(index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override { return default_generator(index); }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override { return new_generator(index); }
  /// Device pointers do not tell their device; one process's device pointers come from the current one.
  at::Device getDeviceFromPtr(void*) const override { return {kTiny, current_device()}; }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return host_allocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t nbytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), nbytes);
  }
};

const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new TinyHooks);
  register_fork_handlers();
  return true;
}();

}  // namespace
}  // namespace tiny::glue
