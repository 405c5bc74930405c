#include "runtime/cuda/builtin_kernels.h"

#include "renderer/ptx/attention.h"

namespace tiny::cuda {
namespace {

BuiltinKernel attention(AttentionKernel::Kind kind, const int64_t* ints, const Caps& caps) {
  const AttentionKernel kernel(kind, AttentionBlocks::unpack(ints));
  const size_t colon = caps.target.find(":ptx");  // "sm_90a:ptx83"
  std::string version = caps.target.substr(colon + 4);
  version.insert(version.size() - 1, ".");
  BuiltinKernel made;
  made.program.info = kernel.info();
  made.program.text = kernel.text(caps.target.substr(0, colon), version);
  made.scalars = kernel.scalars();
  return made;
}

}  // namespace

std::optional<BuiltinKernel> builtin_kernel(BuiltinName name, const int64_t* ints, const Caps& caps) {
  switch (name) {
    case BuiltinName::attention_blocks: return attention(AttentionKernel::Kind::Forward, ints, caps);
    case BuiltinName::attention_blocks_keys: return attention(AttentionKernel::Kind::Keys, ints, caps);
    case BuiltinName::attention_blocks_queries: return attention(AttentionKernel::Kind::Queries, ints, caps);
    default: return std::nullopt;
  }
}

}  // namespace tiny::cuda
