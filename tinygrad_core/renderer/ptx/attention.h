// Attention and its gradients on the tensor cores of sm_90: a kernel of a form serves every size, which it takes as arguments.
#pragma once
#include <string>
#include <vector>

#include "codegen/codegen.h"
#include "uop/attention_blocks.h"

namespace tiny {

class AttentionKernel {
 public:
  enum class Kind : uint8_t { Forward, Keys, Queries };
  /// How the work is cut: a workgroup of `teams` groups of four warps has 64 rows a team, which stay, and streams tiles of `columns` past
  /// them, `stages` of which lie in shared memory; `groups`: that a multiprocessor is to run at once, which bounds their registers.
  struct Shape {
    int64_t teams, columns, stages, groups;
  };

  AttentionKernel(Kind kind, const AttentionBlocks& blocks);
  AttentionKernel(Kind kind, const AttentionBlocks& blocks, Shape shape) : kind_(kind), b_(blocks), shape_(shape) {}

  const Shape& shape() const { return shape_; }
  /// Of two kernels with one name the text is the same.
  std::string name() const;
  std::string text(const std::string& architecture, const std::string& version) const;
  ProgramInfo info() const;
  /// The arguments behind the buffers.
  std::vector<uint64_t> scalars() const;

 private:
  Kind kind_;
  AttentionBlocks b_;
  Shape shape_;
};

}  // namespace tiny
