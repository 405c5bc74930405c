// Interpreter of a Program's linear list (the contract is in codegen/codegen.h). Every value has the meaning of uop/eval.h, every access
// is checked against the length of its array, and reads of local memory that another lane wrote since the last barrier are refused.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "codegen/codegen.h"

namespace tiny {

class Interpreter {
 public:
  /// Takes what it needs from the nodes; they may go afterwards. Throws TINY_ASSERT's Error for a list that breaks the contract.
  Interpreter(const ProgramInfo& info, const std::vector<UOp*>& linear);
  ~Interpreter();

  /// All workgroups, one after the other; their lanes in step. Throws Error(Runtime) naming kernel, array, index and length.
  void run(void* const* buffers, const uint64_t* scalars) const;

 private:
  struct Code;
  class Run;
  std::unique_ptr<Code> code_;
};

}  // namespace tiny
