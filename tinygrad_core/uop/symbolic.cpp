// Drivers of the symbolic engine: constant folding and the rule tables, at one node or to a fixed point.
#include "uop/symbolic.h"

#include "base/error.h"
#include "uop/eval.h"
#include "uop/facts.h"
#include "uop/matcher.h"

namespace tiny {
namespace {

/// The value of an operator on constants, or whose bounds leave one value. Null for transcendentals: their bits are the target's own.
UOp* fold_constants(UOp* u) {
  if (!is_elementwise(u->op)) return nullptr;
  if (Bounds b = facts(u).bounds; b.is_const()) return const_(u->dtype, b.lo);
  if (has(u->op, group::Trans) || u->is(Op::MULACC)) return nullptr;
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
  if (UOp* known = facts(u).simple) return known;
  UOp* now = u;
  for (int steps = 0; !facts(now).simple; ++steps) {
    TINY_ASSERT(steps < 100, "rules do not end at " + print(u));
    UOp* next = fold_constants(now);
    if (!next) next = apply_rules(now);
    if (!next) facts(now).simple = now;
    else now = next;
  }
  return facts(u).simple = facts(now).simple;
}

UOp* simplify(UOp* u) {
  for (int rounds = 0; rounds < 16; ++rounds) {
    UOp* next = rebuild(u);
    if (next == u) break;
    u = next;
  }
  return u;
}

}  // namespace tiny
