#include "codegen/estimate.h"

#include <algorithm>
#include <map>

namespace tiny {

double op_cost(const UOp* u) {
  if (!is_elementwise(u->op)) return u->is(Op::FOLD) || u->is(Op::PREFIX) ? 1 : 0;
  if (u->is(Op::THREEFRY)) return 60;
  if (has(u->op, group::Trans)) return u->is(Op::EXP) || u->is(Op::EXP2) || u->is(Op::LOG) || u->is(Op::LOG2) ? 15 : 30;
  switch (u->op) {
    case Op::FDIV: case Op::SQRT: case Op::RECIP: return 4;
    case Op::IDIV: case Op::MOD: return u->src[1]->is(Op::CONST) ? 4 : 20;
    case Op::MULACC: return 2;
    case Op::DOT2: return 4;
    case Op::MAX: case Op::MIN: return is_float(u->dtype) ? 3 : 1;
    case Op::CAST: case Op::BITCAST: return is_reduced_float(u->dtype) || is_reduced_float(u->src[0]->dtype) ? 2 : 1;
    default: return 1;
  }
}

void estimate(UOp* sink, ProgramInfo* info) {
  Nest nest(sink);
  std::map<int64_t, double> moved;  // by PARAM
  auto turns = [&nest](const UOp* u) {
    double n = 1;
    nest.loops(u).each([&](size_t r) { n *= static_cast<double>(nest.extent(r)); });
    return n;
  };
  std::vector<bool> arithmetic(current_arena().size());  // in the values stored, not in an index
  for (size_t i = nest.nodes.size(); i-- > 0;) {
    UOp* u = nest.nodes[i];
    bool counts = u->is(Op::STORE) || arithmetic[u->slot];
    for (size_t k = 0; counts && k < u->nsrc; ++k)
      if (!u->src[k]->is(Op::INDEX) && !u->src[k]->is(Op::RANGE)) arithmetic[u->src[k]->slot] = true;
    if (u->is(Op::SINK) || u->is(Op::ORDERED) || u->is(Op::AFTER))
      for (UOp* s : u->sources()) arithmetic[s->slot] = true;
    if (arithmetic[u->slot]) {
      bool folds = u->is(Op::FOLD) || u->is(Op::PREFIX);
      info->flops += turns(folds ? u->src[0] : u) * op_cost(u);
    }
    if (!u->is(Op::LOAD) && !u->is(Op::STORE)) continue;
    UOp* array = u->src[0]->src[0];
    while (array->is(Op::AFTER)) array = array->src[0];
    if (!array->is(Op::PARAM)) continue;
    double all = static_cast<double>(const_int(array->src[0])), n = std::min(all, turns(u));
    double& bytes = moved[array->arg.i * 2 + u->is(Op::STORE)];
    bytes = std::max(bytes, n * static_cast<double>(itemsize(array->dtype)));
  }
  for (auto [param, bytes] : moved) info->bytes += bytes;
}

/// "e_1003", "r_512_2048": elementwise, reduction, scan (s), contraction (c) or ordered (o), and the extents of the loops.
std::string kernel_name(UOp* sink) {
  std::vector<UOp*> ranges;
  bool folds = false, scans = false, orders = false, contracts = false;
  for (UOp* u : toposort({&sink, 1})) {
    folds |= u->is(Op::FOLD), scans |= u->is(Op::PREFIX), orders |= u->is(Op::ORDERED);
    contracts |= u->is(Op::FOLD) && sums_products(u);
    if (u->is(Op::RANGE)) ranges.push_back(u);
  }
  std::sort(ranges.begin(), ranges.end(), nests_before);
  std::string name = orders ? "o" : scans ? "s" : contracts ? "c" : folds ? "r" : "e";
  for (size_t i = 0; i < ranges.size() && i < 8; ++i)
    if (ranges[i]->src[0]->is(Op::CONST)) name += "_" + std::to_string(const_int(ranges[i]->src[0]));
  return name;
}

}  // namespace tiny
