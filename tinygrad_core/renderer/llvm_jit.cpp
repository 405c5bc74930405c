#include "renderer/llvm_jit.h"

#include "base/error.h"

#ifndef TINY_HAVE_LLVM
namespace tiny {
std::unique_ptr<JitModule> llvm_load(const Binary&, const std::string& symbol) {
  throw Error(ErrorKind::Runtime, "this library was built without LLVM: it cannot load " + symbol);
}
std::string llvm_host_cpu() { return ""; }
}  // namespace tiny
#else
#include <fmt/format.h>
#include <llvm/ExecutionEngine/Orc/AbsoluteSymbols.h>
#include <llvm/ExecutionEngine/Orc/ExecutionUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/TargetSelect.h>

#include <atomic>
#include <cstring>

#include "renderer/libm.h"

namespace tiny {
namespace orc = llvm::orc;
namespace {

template <class T> T checked(llvm::Expected<T> v, const std::string& what) {
  if (!v) throw Error(ErrorKind::Runtime, fmt::format("cannot load {}: {}", what, llvm::toString(v.takeError())));
  return std::move(*v);
}
void checked(llvm::Error e, const std::string& what) {
  if (e) throw Error(ErrorKind::Runtime, fmt::format("cannot load {}: {}", what, llvm::toString(std::move(e))));
}

/// One linker for the process. Never destroyed: kernels may be dropped while the process ends.
struct Linker {
  std::unique_ptr<orc::LLJIT> jit;
  orc::JITDylib* host;               // what kernels may call
  std::atomic<int64_t> number{0};

  Linker() {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    auto made = orc::LLJITBuilder().setPlatformSetUp(orc::setUpInactivePlatform).create();
    jit = checked(std::move(made), "the linker");
    host = &jit->getExecutionSession().createBareJITDylib("host");
    orc::SymbolMap symbols;
    auto add = [&](const char* name, void* code) {
      auto flags = llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable;
      symbols[jit->mangleAndIntern(name)] = {orc::ExecutorAddr::fromPtr(code), flags};
    };
    for (const LibmRow& r : libm_rows()) add(r.f64, r.f64_code), add(r.f32, r.f32_code);
    add("memcpy", reinterpret_cast<void*>(&std::memcpy));
    add("memmove", reinterpret_cast<void*>(&std::memmove));
    add("memset", reinterpret_cast<void*>(&std::memset));
    add("roundeven", libm_row(Op::ROUND)->f64_code), add("roundevenf", libm_row(Op::ROUND)->f32_code);
    add("fma", reinterpret_cast<void*>(static_cast<double (*)(double, double, double)>(&::fma)));
    add("fmaf", reinterpret_cast<void*>(&::fmaf));
    // LLVM joins the sine and the cosine of one argument.
    add("sincos", reinterpret_cast<void*>(&::sincos));
    add("sincosf", reinterpret_cast<void*>(&::sincosf));
    checked(host->define(orc::absoluteSymbols(std::move(symbols))), "the functions of libm");
  }
};

Linker& linker() {
  static Linker* l = new Linker;
  return *l;
}

class LinkedCode final : public JitModule {
 public:
  LinkedCode(const Binary& object, const std::string& symbol) {
    Linker& l = linker();
    library_ = &l.jit->getExecutionSession().createBareJITDylib(fmt::format("{}.{}", symbol, l.number++));
    library_->addToLinkOrder(*l.host);
    try {
      checked(l.jit->addObjectFile(*library_, llvm::MemoryBuffer::getMemBufferCopy(object, symbol)), symbol);
      entry = checked(l.jit->lookup(*library_, symbol), symbol).toPtr<CpuKernel>();
    } catch (...) {
      drop();
      throw;
    }
  }
  ~LinkedCode() override { drop(); }

 private:
  void drop() { llvm::consumeError(linker().jit->getExecutionSession().removeJITDylib(*library_)); }
  orc::JITDylib* library_;
};

}  // namespace

std::unique_ptr<JitModule> llvm_load(const Binary& object, const std::string& symbol) {
  return std::make_unique<LinkedCode>(object, symbol);
}

}  // namespace tiny
#endif
