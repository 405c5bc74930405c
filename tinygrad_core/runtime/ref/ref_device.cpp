// The REF device: the interpreter behind the interface of a device.
#include "base/env.h"
#include "base/error.h"
#include "runtime/host.h"
#include "runtime/open.h"
#include "runtime/ref/interpreter.h"
#include "uop/ir.h"
#include "uop/parse.h"

namespace tiny {
namespace {

class RefExecutable final : public Executable {
 public:
  RefExecutable(const ProgramInfo& program, const std::vector<UOp*>& linear) : interpreter(program, linear) { info = program; }
  const Interpreter interpreter;
};

class RefDevice final : public HostDevice {
 public:
  explicit RefDevice(int index) : HostDevice("REF", index), compiler_(make_text_compiler()) {
    caps_.target = "ref";
    if (env_flag(Env::TINY_REF_LOCAL)) {
      caps_.target = "ref:local";
      caps_.has_local = true;
      caps_.max_local = 64;
      caps_.block_bytes = caps_.local_bytes;
      caps_.async_copies = true;
    }
  }
  Compiler& compiler() override { return *compiler_; }

  std::unique_ptr<Executable> load(const ProgramInfo& info, const Binary& binary) override {
    Arena arena;
    IrScope scope(arena);
    return std::make_unique<RefExecutable>(info, parse(binary));
  }

 protected:
  void run_kernel(Executable& kernel, void* const* buffers, const uint64_t* scalars) override {
    static_cast<RefExecutable&>(kernel).interpreter.run(buffers, scalars);
  }

 private:
  std::unique_ptr<Compiler> compiler_;
};

}  // namespace

Device* make_ref_device(int index, int) { return new RefDevice(index); }

}  // namespace tiny
