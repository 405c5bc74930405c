// The NULL device: everything but the kernels. Schedules and kernels are made and rendered, memory is real, copies and builtins run;
// a kernel writes nothing. It is also the shortest example of a device. NULL:90 makes the kernels of an NVIDIA GPU of that architecture.
#include "base/error.h"
#include "renderer/host_caps.h"
#include "runtime/cuda/builtin_kernels.h"
#include "runtime/cuda/limits.h"
#include "runtime/host.h"
#include "runtime/open.h"

namespace tiny {
namespace {

constexpr int kLeastArchitecture = 50;  // smaller ordinals number devices of this kind

/// Renders with every renderer that this build has and makes nothing.
class NullCompiler final : public Compiler {
 public:
  explicit NullCompiler(const Caps& caps) : llvm_(make_llvm_compiler(caps)) {
    try {
      c_ = make_c_compiler(caps);
    } catch (const Error&) {  // no C compiler on this machine
      if (!llvm_) throw;
    }
  }
  std::string id() const override { return "null"; }
  std::string render(const Program& program) override { return llvm_ ? llvm_->render(program) : c_->render(program); }
  Binary compile(const Program& program) override {
    if (c_) c_->render(program);
    if (llvm_) llvm_->render(program);
    return "";
  }

 private:
  std::unique_ptr<Compiler> c_, llvm_;
};

/// PTX, as the CUDA device makes it before the driver takes it on.
class NullGpuCompiler final : public Compiler {
 public:
  explicit NullGpuCompiler(const Caps& caps) : ptx_(make_ptx_compiler(caps)) {
    if (!ptx_) throw Error(ErrorKind::Runtime, "TINY_DEVICE names a GPU of NULL's, but this library was built without LLVM's NVPTX target");
  }
  std::string id() const override { return "null " + ptx_->id(); }
  std::string render(const Program& program) override { return program.text.empty() ? ptx_->compile(program) : program.text; }
  Binary compile(const Program& program) override { return render(program); }

 private:
  std::unique_ptr<Compiler> ptx_;
};

class NullExecutable final : public Executable {
 public:
  explicit NullExecutable(const ProgramInfo& program) { info = program; }
};

class NullDevice final : public HostDevice {
 public:
  NullDevice(int index, int architecture) : HostDevice("NULL", index) {
    if (architecture >= kLeastArchitecture) {
      caps_ = cuda::caps_of({.architecture = architecture});
      compiler_ = std::make_unique<NullGpuCompiler>(caps_);
    } else {
      caps_ = host_caps();
      caps_.has_dot2 = false;
      compiler_ = std::make_unique<NullCompiler>(caps_);
    }
  }
  Compiler& compiler() override { return *compiler_; }
  std::unique_ptr<Executable> load(const ProgramInfo& info, const Binary&) override { return std::make_unique<NullExecutable>(info); }
  std::optional<BuiltinKernel> builtin_kernel(BuiltinName name, const int64_t* ints) override {
    if (!caps_.has_local) return std::nullopt;
    return cuda::builtin_kernel(name, ints, caps_);
  }

 protected:
  void run_kernel(Executable&, void* const*, const uint64_t*) override {}

 private:
  std::unique_ptr<Compiler> compiler_;
};

}  // namespace

Device* make_null_device(int index, int ordinal) { return new NullDevice(index, ordinal); }

}  // namespace tiny
