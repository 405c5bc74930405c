// Reductions, scans and read-modify-writes as accumulators and plain stores.
#include "base/error.h"
#include "codegen/lower.h"
#include "codegen/nest.h"
#include "uop/symbolic.h"

namespace tiny {

UOp* with_sources(UOp* u, std::span<UOp* const> src) {
  bool lanes_changed = false;
  for (size_t i = 0; i < src.size(); ++i) lanes_changed |= src[i]->numel != u->src[i]->numel;
  return simplify_node(node(u->op, u->dtype, src, u->arg, lanes_changed ? 0 : u->numel));
}

namespace {

UOp* identity(Op op, DType d) { return current_arena().make(Op::CONST, d, 1, identity_arg(op, d), {}); }

/// acc op x; a sum of products is one operation where the target has it.
UOp* step(Op op, UOp* acc, UOp* x, const Caps& caps) {
  if (x->is(Op::BLOCK) && x->src[2]->is(Op::CONST)) return node(Op::BLOCK, x->dtype, {x->src[0], x->src[1], acc}, x->arg, x->numel);
  if (x->is(Op::DOT2) && x->src[2]->is(Op::CONST)) return alu(Op::DOT2, {x->src[0], x->src[1], acc});
  bool fma = caps.has_fma && op == Op::ADD && x->is(Op::MUL) && (x->dtype == DType::f32 || x->dtype == DType::f64);
  if (fma) return alu(Op::MULACC, {x->src[0], x->src[1], acc});
  return alu(op, {acc, x});
}

UOp* accumulator(Op op, UOp* x, std::span<UOp* const> ranges, int64_t number) {
  std::vector<UOp*> src{identity(op, x->dtype)};
  src.insert(src.end(), ranges.begin(), ranges.end());
  return node(Op::ACC, x->dtype, src, Arg(number), x->numel);
}

UOp* ordered_store(Op op, UOp* store, std::span<UOp* const> ranges) {
  UOp *index = store->src[0], *value = store->src[1], *gate = store->nsrc > 2 ? store->src[2] : nullptr;
  // The array is tied to the loops, or the read could leave them.
  std::vector<UOp*> tied{index->src[0]};
  tied.insert(tied.end(), ranges.begin(), ranges.end());
  index = node(Op::INDEX, index->dtype, {node(Op::AFTER, tied[0]->dtype, tied, {}, 1), index->src[1]});
  if (op != Op::NOOP) {
    UOp* old = gate ? node(Op::LOAD, value->dtype, {index, gate, const_(value->dtype, 0)}) : node(Op::LOAD, value->dtype, {index});
    value = alu(op, {old, value});
  }
  return gate ? node(Op::STORE, DType::void_, {index, value, gate}) : node(Op::STORE, DType::void_, {index, value});
}

}  // namespace

UOp* lower_folds(UOp* sink, const Caps& caps) {
  int64_t accumulators = 0;
  return rebuild(sink, [&](UOp* u, std::span<UOp* const> src) -> UOp* {
    Op op = static_cast<Op>(u->arg.i);
    switch (u->op) {
      case Op::FOLD: case Op::PREFIX: {
        UOp* acc = accumulator(op, src[0], src.subspan(1), accumulators++);
        UOp* update = node(Op::UPDATE, DType::void_, {acc, step(op, acc, src[0], caps)});
        if (u->is(Op::FOLD)) return node(Op::AFTER, u->dtype, {acc, update}, {}, acc->numel);
        return node(Op::AFTER, u->dtype, {acc, update, src[1]}, {}, acc->numel);  // the RANGE: read inside the loop
      }
      case Op::ORDERED: return ordered_store(op, src[0], src.subspan(1));
      default: return nullptr;
    }
  });
}

}  // namespace tiny
