// The NULL device: everything but the kernels. Schedules and kernels are made and rendered, memory is real, copies and builtins run;
// a kernel writes nothing. It is also the shortest example of a device.
#include "base/error.h"
#include "renderer/host_caps.h"
#include "runtime/host.h"
#include "runtime/open.h"

namespace tiny {
namespace {

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

class NullExecutable final : public Executable {
 public:
  explicit NullExecutable(const ProgramInfo& program) { info = program; }
};

class NullDevice final : public HostDevice {
 public:
  explicit NullDevice(int index) : HostDevice("NULL", index), compiler_((caps_ = host_caps(), caps_.has_dot2 = false, caps_)) {}
  Compiler& compiler() override { return compiler_; }
  std::unique_ptr<Executable> load(const ProgramInfo& info, const Binary&) override { return std::make_unique<NullExecutable>(info); }

 protected:
  void run_kernel(Executable&, void* const*, const uint64_t*) override {}

 private:
  NullCompiler compiler_;
};

}  // namespace

Device* make_null_device(int index, int) { return new NullDevice(index); }

}  // namespace tiny
