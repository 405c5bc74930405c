// The order of execution.
#pragma once
#include <vector>

#include "uop/ir.h"

namespace tiny {

/// The nodes of a lowered kernel (no FOLD, PREFIX, ORDERED, CHECK) in an order in which they can run: every node in the outermost body that
/// its loops allow, loops opened and closed around them. `lanes`: lanes of a workgroup; with more than one, BARRIERs follow the stores of
/// local memory.
std::vector<UOp*> linearize(UOp* sink, int64_t lanes);

}  // namespace tiny
