// A GPU's context, and kernels loaded into it.
#pragma once
#include "runtime/cuda/driver.h"
#include "runtime/device.h"

namespace tiny::cuda {

inline DevicePtr address(const void* p) { return reinterpret_cast<DevicePtr>(p); }

/// The context of a GPU, current on a thread once it was used there.
class ContextUser {
 public:
  explicit ContextUser(int ordinal);
  void use() const;
  int attribute(int which) const;
  void set_forked() { forked_ = true; }
  Context context() const { return context_; }

 private:
  int device_ = 0;
  Context context_ = nullptr;
  bool forked_ = false;
};

class CudaExecutable final : public Executable {
 public:
  CudaExecutable(const ContextUser& context, const ProgramInfo& program, const Binary& cubin);
  ~CudaExecutable() override { driver().cuModuleUnload(module_); }

  /// The kernel with the arguments of a launch, `parameters` being room for their addresses.
  KernelNode node(void* const* buffers, const uint64_t* scalars, SmallVec<void*, 32>& parameters) const;

 private:
  const ContextUser& context_;
  Module module_ = nullptr;
  Function function_ = nullptr;
  unsigned dynamic_bytes_ = 0;  // of shared memory
};

}  // namespace tiny::cuda
