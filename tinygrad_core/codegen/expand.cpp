// Vector indices. The memory operators take a scalar index for consecutive elements and a vector of indices for all else.
#include "codegen/lane_form.h"
#include "codegen/lower.h"

namespace tiny {
namespace {

UOp* repeated(UOp* u, int64_t lanes) {
  return u->numel == lanes ? u : node(Op::STACK, u->dtype, std::vector<UOp*>(static_cast<size_t>(lanes), u)).u;
}

int64_t lanes_of(std::span<UOp* const> src) {
  int64_t n = 1;
  for (UOp* s : src) n = std::max(n, s->numel);
  return n;
}

}  // namespace

UOp* lower_vector_indices(UOp* sink) {
  return rebuild(sink, [&](UOp* u, std::span<UOp* const> src) -> UOp* {
    if (!u->is(Op::LOAD) && !u->is(Op::STORE)) return nullptr;
    UOp *array = src[0]->src[0], *index = src[0]->src[1];
    int64_t lanes = lanes_of(src);
    if (lanes == 1) return nullptr;
    std::vector<UOp*> made(src.begin(), src.end());
    LaneForm form = lane_form(index);
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
    if (u->is(Op::STORE)) made[1] = repeated(made[1], lanes);
    made[0] = node(Op::INDEX, u->dtype == DType::void_ ? array->dtype : u->dtype, {array, index});
    return node(u->op, u->dtype, made, u->arg, lanes);
  });
}

}  // namespace tiny
