// What a kernel costs and what it is called.
#pragma once
#include "codegen/codegen.h"
#include "codegen/nest.h"

namespace tiny {

/// Additions that one element of `u` costs on a CPU, roughly: 1 for most operators, more for divisions and transcendentals.
double op_cost(const UOp* u);

/// Whether FOLD `f` adds up products.
inline bool sums_products(const UOp* f) {
  return static_cast<Op>(f->arg.i) == Op::ADD && (f->src[0]->is(Op::MUL) || f->src[0]->is(Op::DOT2));
}

/// Arithmetic (flops, without index arithmetic) and bytes moved by one launch of the kernel `sink`, an AST before any option was applied.
void estimate(UOp* sink, ProgramInfo* info);

}  // namespace tiny
