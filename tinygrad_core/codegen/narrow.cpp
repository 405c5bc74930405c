// Vectors of 64-bit indices in 32 bits. Vector units hold half as many 64-bit lanes and mostly cannot multiply, divide or compare them
// well; indices of masks, of arange and of gathers nearly always fit in 32.
#include "codegen/lower.h"
#include "uop/symbolic.h"

namespace tiny {
namespace {

bool fits(const UOp* u) {
  Bounds b = bounds(u);
  return b.lo >= INT32_MIN && b.hi <= INT32_MAX;
}

bool narrows(const UOp* u) {
  switch (u->op) {
    case Op::ADD:
    case Op::SUB:
    case Op::MUL:
    case Op::IDIV:
    case Op::MOD:
    case Op::MAX:
    case Op::MIN:
    case Op::NEG:
    case Op::WHERE:
      return true;
    default: return false;
  }
}

}  // namespace

UOp* narrow_indices(UOp* sink) {
  // By slot of the new node: the same value in i32.
  std::vector<UOp*> narrow;
  auto get = [&narrow](UOp* u) -> UOp* {
    if (u->dtype != DType::i64 || !fits(u)) return nullptr;
    if (u->slot < narrow.size() && narrow[u->slot]) return narrow[u->slot];
    return u->numel == 1 ? cast(u, DType::i32).u : nullptr;
  };
  auto put = [&narrow](UOp* wide, UOp* u) {
    if (narrow.size() <= wide->slot) narrow.resize(current_arena().size());
    narrow[wide->slot] = u;
    return wide;
  };
  return rebuild(sink, [&](UOp* u, std::span<UOp* const> src) -> UOp* {
    if (u->is(Op::LANES) && u->dtype == DType::i64) return put(u, node(Op::LANES, DType::i32, {}, {}, u->numel));
    if (u->numel == 1 || src.empty()) return nullptr;
    bool compare = has(u->op, group::Cmp), conversion = u->is(Op::CAST) && u->dtype != DType::i64;
    if (!compare && !conversion && !(narrows(u) && u->dtype == DType::i64 && fits(u))) return nullptr;
    size_t first = u->is(Op::WHERE) ? 1 : 0;
    bool vector = false;
    std::vector<UOp*> small(src.begin(), src.end());
    for (size_t i = first; i < src.size(); ++i) {
      vector |= src[i]->numel > 1;
      small[i] = get(src[i]);
      if (!small[i]) return nullptr;
    }
    if (!vector) return nullptr;
    if (compare) return simplify_node(node(u->op, DType::bool_, small));
    if (conversion) return cast(small[0], u->dtype);
    return put(with_sources(u, src), simplify_node(node(u->op, DType::i32, small)));
  });
}

}  // namespace tiny
