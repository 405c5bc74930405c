// Drivers of the symbolic engine: constant folding and the rule tables, at one node or to a fixed point.
#include "uop/symbolic.h"

#include "uop/eval.h"
#include "uop/facts.h"

namespace tiny {
namespace {

/// The value of an operator on constants; null for transcendentals, whose bits are the target's own.
UOp* fold_constants(UOp* u) {
  if (!is_elementwise(u->op) || has(u->op, group::Trans) || u->op == Op::MULACC) return nullptr;
  Arg values[3];
  for (int i = 0; i < u->nsrc; ++i) {
    if (!u->src[i]->is(Op::CONST)) return nullptr;
    values[i] = u->src[i]->arg;
  }
  Arg value = eval(u->op, u->dtype, u->src[0]->dtype, {values, u->nsrc});
  return current_arena().make(Op::CONST, u->dtype, 1, value, {});
}

}  // namespace

UOp* simplify_node(UOp* u) {
  if (UOp* c = fold_constants(u)) return c;
  return u;
}

UOp* simplify(UOp* u) {
  std::vector<UOp*> map;
  return substitute(u, map);
}

}  // namespace tiny
