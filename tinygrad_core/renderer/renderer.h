// Renderers: a Program's instructions in the words of one language.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "codegen/codegen.h"

namespace tiny {

using Binary = std::string;  // object code, or text for devices that compile later

/// Source to machine code for one target. Thread-safe: kernels of one flush compile in parallel.
class Compiler {
 public:
  virtual ~Compiler() = default;
  /// Names language, compiler and version: part of the disk cache's key.
  virtual std::string id() const = 0;
  /// Human-readable source (C, LLVM IR, text IR), for TINY_DEBUG and failures.
  virtual std::string render(const Program& program) = 0;
  /// Throws Error(Compile) with the kernel's name and the path where its source was left.
  virtual Binary compile(const Program& program) = 0;
};

/// C for the host's compiler. Kernel ABI of all CPU renderers:
///   void NAME(void* const* buffers, const uint64_t* scalars, int64_t begin, int64_t end, char* scratch)
/// runs workgroups begin..end-1; workgroup g's Global ranges are the digits of g, the last range fastest. scratch: info.scratch_bytes,
/// 64-byte aligned.
std::unique_ptr<Compiler> make_c_compiler(const Caps& caps);

/// LLVM IR, compiled in process; null when the core was built without LLVM.
std::unique_ptr<Compiler> make_llvm_compiler(const Caps& caps);

/// PTX for caps.target, "sm_90:ptx83" (architecture, version of the language), made by LLVM; null when it was built without NVPTX. One
/// function of the buffers, then the scalars as 8 bytes each; workgroups are blocks in x, lanes threads in x; LOCAL arrays in static shared
/// memory, and in dynamic shared memory if they take more than kStaticScratch bytes.
inline constexpr int64_t kStaticScratch = 48 << 10;
std::unique_ptr<Compiler> make_ptx_compiler(const Caps& caps);

/// Text IR (print of the linear list), for the interpreter.
std::unique_ptr<Compiler> make_text_compiler();

}  // namespace tiny
