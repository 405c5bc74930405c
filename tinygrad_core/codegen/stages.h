// Copies to local memory ahead of their use.
#pragma once
#include <vector>

#include "renderer/caps.h"
#include "uop/ir.h"

namespace tiny {

/// The linear list of a kernel whose loop over k fills tiles and computes a BLOCK of them, with the tiles of later turns copied while
/// earlier ones are multiplied. Lists without a BLOCK stay as they are.
std::vector<UOp*> stage_copies(std::vector<UOp*> linear, const Caps& caps);

}  // namespace tiny
