// LLVM IR to object code, in process. Accepts LLVM 19 to 22.
#include "renderer/renderer.h"

#ifndef TINY_HAVE_LLVM
namespace tiny {
std::unique_ptr<Compiler> make_llvm_compiler(const Caps&) { return nullptr; }
std::unique_ptr<Compiler> make_ptx_compiler(const Caps&) { return nullptr; }
}  // namespace tiny
#else
#include <fmt/format.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <mutex>

#include "base/env.h"
#include "renderer/failure.h"
#include "renderer/host_caps.h"
#include "renderer/llvm_emit.h"
#include "renderer/llvm_jit.h"

namespace tiny {
namespace {

/// What LLVM is asked for: a processor, or a GPU's assembly.
struct LlvmTarget {
  std::string triple, cpu, features, tune;
  llvm::CodeGenFileType output = llvm::CodeGenFileType::ObjectFile;
};

/// Of loads and stores in one block the schedulers of LLVM compare each with each, and keep all pairs that may touch: by default they are
/// frugal from 1000 on. A kernel whose epilogue writes 1,400 numbers one by one then compiles for 1.7 s instead of 0.13. The option is
/// hidden, so another version may lack it.
void limit_scheduling() {
  auto& options = llvm::cl::getRegisteredOptions();
  auto it = options.find("dag-maps-huge-region");
  if (it != options.end()) it->second->addOccurrence(1, it->first, "128");
}

void initialize_targets() {
  static std::once_flag once;
  std::call_once(once, [] {
    limit_scheduling();
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
#ifdef TINY_LLVM_NVPTX
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
#endif
  });
}

LlvmTarget cpu_target(const std::string& text) {
  CpuTarget c = parse_cpu_target(text);
  bool arm = c.arch == "aarch64";
  LlvmTarget t{arm ? "aarch64-unknown-linux-gnu" : "x86_64-unknown-linux-gnu", arm ? "generic" : "x86-64", "", c.cpu};
  for (const std::string& f : c.features) t.features += (t.features.empty() ? "+" : ",+") + f;
  return t;
}

/// "sm_90:ptx83"
LlvmTarget ptx_target(const std::string& text) {
  size_t colon = text.find(':');
  return {"nvptx64-nvidia-cuda", text.substr(0, colon), "+" + text.substr(colon + 1), "", llvm::CodeGenFileType::AssemblyFile};
}

std::unique_ptr<llvm::TargetMachine> make_machine(const LlvmTarget& target) {
  std::string why;
#if LLVM_VERSION_MAJOR >= 21
  llvm::Triple t(target.triple);
#else
  const std::string& t = target.triple;
#endif
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(t, why);
  if (!found) throw Error(ErrorKind::Compile, fmt::format("this LLVM has no target {}: {}", target.triple, why));
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(found->createTargetMachine(t, target.cpu, target.features, options, llvm::Reloc::PIC_,
                                                                         llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
}

class LlvmCompiler final : public Compiler {
 public:
  LlvmCompiler(const Caps& caps, LlvmTarget target) : caps_(caps), target_(std::move(target)) {
    initialize_targets();
    give_machine(make_machine(target_));
  }

  std::string id() const override { return fmt::format("llvm-{} {}", LLVM_VERSION_STRING, caps_.target); }

  std::string render(const Program& program) override {
    Job job(*this, program);
    job.emit();
    return job.text();
  }

  Binary compile(const Program& program) override {
    Job job(*this, program);
    job.emit();
    job.optimize();
    return job.object();
  }

 private:
  /// One compilation: a context and a target machine of its own, so that kernels compile in parallel.
  struct Job {
    LlvmCompiler& owner;
    const Program& program;
    std::unique_ptr<llvm::TargetMachine> machine;
    llvm::LLVMContext context;
    llvm::Module module;

    Job(LlvmCompiler& owner, const Program& program)
        : owner(owner), program(program), machine(owner.take_machine()), module(program.info.name, context) {
#if LLVM_VERSION_MAJOR >= 21
      module.setTargetTriple(machine->getTargetTriple());
#else
      module.setTargetTriple(machine->getTargetTriple().str());
#endif
      module.setDataLayout(machine->createDataLayout());
    }
    ~Job() { owner.give_machine(std::move(machine)); }

    void emit() {
      LlvmEmitter(program, owner.caps_, module).run();
      llvm::Function* f = module.getFunction(program.info.name);
      if (!owner.target_.tune.empty()) f->addFnAttr("tune-cpu", owner.target_.tune);
      if (!owner.caps_.has_local) f->addFnAttr("prefer-vector-width", std::to_string(owner.caps_.vector_bytes * 8));
#ifndef NDEBUG
      verify();
#else
      if (env_flag(Env::TINY_SPEC)) verify();
#endif
    }

    void verify() {
      std::string why;
      llvm::raw_string_ostream stream(why);
      if (llvm::verifyModule(module, &stream)) fail_compile(program.info.name, "ll", text(), why);
    }

    std::string text() {
      std::string out;
      llvm::raw_string_ostream stream(out);
      module.print(stream, nullptr);
      return out;
    }

    /// Codegen leaves little to do: variables into registers, common addresses once, invariant ones out of the loops.
    void optimize() {
      llvm::LoopAnalysisManager loops;
      llvm::FunctionAnalysisManager functions;
      llvm::CGSCCAnalysisManager sccs;
      llvm::ModuleAnalysisManager modules;
      llvm::PassBuilder builder(machine.get());
      builder.registerModuleAnalyses(modules);
      builder.registerCGSCCAnalyses(sccs);
      builder.registerFunctionAnalyses(functions);
      builder.registerLoopAnalyses(loops);
      builder.crossRegisterProxies(loops, functions, sccs, modules);
      llvm::FunctionPassManager passes;
      passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
      passes.addPass(llvm::EarlyCSEPass(true));
      passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), true));
      passes.addPass(llvm::SimplifyCFGPass());
      passes.run(*module.getFunction(program.info.name), functions);
    }

    Binary object() {
      llvm::SmallVector<char, 0> bytes;
      llvm::raw_svector_ostream stream(bytes);
      llvm::legacy::PassManager passes;
      if (machine->addPassesToEmitFile(passes, stream, nullptr, owner.target_.output))
        throw Error(ErrorKind::Compile, "this LLVM writes no code for " + owner.caps_.target);
      passes.run(module);
      return Binary(bytes.begin(), bytes.end());
    }
  };

  std::unique_ptr<llvm::TargetMachine> take_machine() {
    {
      std::lock_guard lock(mutex_);
      if (!machines_.empty()) {
        auto m = std::move(machines_.back());
        machines_.pop_back();
        return m;
      }
    }
    return make_machine(target_);
  }
  void give_machine(std::unique_ptr<llvm::TargetMachine> m) {
    std::lock_guard lock(mutex_);
    machines_.push_back(std::move(m));
  }

  Caps caps_;
  LlvmTarget target_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<llvm::TargetMachine>> machines_;  // idle ones
};

}  // namespace

std::unique_ptr<Compiler> make_llvm_compiler(const Caps& caps) { return std::make_unique<LlvmCompiler>(caps, cpu_target(caps.target)); }

std::unique_ptr<Compiler> make_ptx_compiler(const Caps& caps) {
#ifdef TINY_LLVM_NVPTX
  return std::make_unique<LlvmCompiler>(caps, ptx_target(caps.target));
#else
  return nullptr;
#endif
}

std::string llvm_host_cpu() { return llvm::sys::getHostCPUName().str(); }

}  // namespace tiny
#endif
