// The passes of the code generator, one after another.
#pragma once
#include "codegen/codegen.h"
#include "codegen/opt/options.h"

namespace tiny {

/// What a pass may know.
struct PassContext {
  const Caps& caps;
  int flags;
  ProgramInfo* info;
  int64_t record;  // PARAM number of the error record
  Choice choice;
};

using Pass = UOp* (*)(UOp* sink, PassContext& context);

}  // namespace tiny
