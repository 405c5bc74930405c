// The verifier: what a kernel must look like at the two borders of codegen. The contracts are in codegen/codegen.h.
#pragma once
#include <string>

#include "uop/ir.h"

namespace tiny {

/// "" if `sink` is a well-formed kernel AST, else what is wrong with the first node that is not, and that node's text.
std::string verify_kernel(UOp* sink);

/// The same for what one pass of codegen hands to the next: every node is well formed, but vectors and accumulators may be there already,
/// and what later passes lower still is.
std::string verify_nodes(UOp* sink);

/// The same for an instruction list that codegen hands to a renderer.
std::string verify_program(std::span<UOp* const> linear);

}  // namespace tiny
