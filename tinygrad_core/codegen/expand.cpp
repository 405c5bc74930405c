// Vector indices. The memory operators take a scalar index for consecutive elements and a vector of indices for all else.
#include <numeric>

#include "base/error.h"
#include "codegen/lower.h"
#include "uop/symbolic.h"

namespace tiny {
namespace {

/// A vector index as first + stride * lane, where it has that form.
struct LaneForm {
  UOp* first = nullptr;  // scalar; null: another form
  int64_t stride = 0;
};

class LaneForms {
 public:
  /// Depth is that of one index expression, whose vector part is a few operators deep.
  LaneForm of(UOp* u, int depth = 0) {
    if (u->numel == 1) return {u, 0};
    if (depth > 64) return {};
    switch (u->op) {
      case Op::LANES: return {const_(u->dtype, 0), 1};
      case Op::ADD: case Op::SUB: {
        LaneForm a = of(u->src[0], depth + 1), b = of(u->src[1], depth + 1);
        if (!a.first || !b.first) return {};
        return {alu(u->op, {a.first, b.first}), u->is(Op::ADD) ? a.stride + b.stride : a.stride - b.stride};
      }
      case Op::MUL: {
        LaneForm a = of(u->src[0], depth + 1);
        if (!a.first || !u->src[1]->is(Op::CONST)) return {};
        return {alu(Op::MUL, {a.first, u->src[1]}), a.stride * u->src[1]->arg.i};
      }
      case Op::IDIV: case Op::MOD: {
        // With g dividing first and c, and lanes * stride below g: (first + stride*l) / c == first / c.
        LaneForm a = of(u->src[0], depth + 1);
        if (!a.first || !u->src[1]->is(Op::CONST) || u->src[1]->arg.i <= 0 || a.stride < 0 || bounds(a.first).lo < 0) return {};
        int64_t c = u->src[1]->arg.i, g = std::gcd(known_factor(a.first), c);
        if (a.stride * (u->numel - 1) >= g) return {};
        return {alu(u->op, {a.first, u->src[1]}), u->is(Op::MOD) ? a.stride : 0};
      }
      case Op::CAST: {
        LaneForm a = of(u->src[0], depth + 1);
        if (!a.first || u->dtype != DType::i64 || u->src[0]->dtype != DType::i64) return {};
        return a;
      }
      default: return {};
    }
  }
};

UOp* repeated(UOp* u, int64_t lanes) { return u->numel == lanes ? u : node(Op::STACK, u->dtype, std::vector<UOp*>(static_cast<size_t>(lanes), u)).u; }

int64_t lanes_of(std::span<UOp* const> src) {
  int64_t n = 1;
  for (UOp* s : src) n = std::max(n, s->numel);
  return n;
}

}  // namespace

UOp* lower_vector_indices(UOp* sink) {
  LaneForms forms;
  return rebuild(sink, [&](UOp* u, std::span<UOp* const> src) -> UOp* {
    if (!u->is(Op::LOAD) && !u->is(Op::STORE)) return nullptr;
    UOp *array = src[0]->src[0], *index = src[0]->src[1];
    int64_t lanes = lanes_of(src);
    if (lanes == 1) return nullptr;
    std::vector<UOp*> made(src.begin(), src.end());
    LaneForm form = forms.of(index);
    if (index->numel > 1 && form.first && form.stride == 1) {
      index = form.first;
    } else if (form.first && form.stride == 0 && u->is(Op::LOAD)) {
      // One element for all lanes: read once if any lane wants it.
      std::vector<UOp*> one{node(Op::INDEX, u->dtype, {array, form.first})};
      if (src.size() < 2) return node(Op::LOAD, u->dtype, one, {}, 1);
      UOp* gate = src[1];
      one.push_back(gate->numel == 1 ? gate : node(Op::FOLDLANES, gate->dtype, {gate}, Arg(static_cast<int64_t>(Op::OR)), 1).u);
      one.push_back(const_(u->dtype, 0));
      UOp* value = node(Op::LOAD, u->dtype, one, {}, 1);
      return src.size() < 3 ? value : where(gate, value, src[2]).u;
    } else {
      index = repeated(form.first && form.stride == 0 ? form.first : index, lanes);
    }
    made[0] = node(Op::INDEX, u->dtype == DType::void_ ? array->dtype : u->dtype, {array, index});
    return node(u->op, u->dtype, made, u->arg, lanes);
  });
}

}  // namespace tiny
