// Gathers that together read a square block. Copies 0..k-1 of a body that read lane l at first + stride*l + copy need k vectors of
// consecutive elements, turned by shuffles, instead of k*k single loads.
#include <algorithm>
#include <tuple>

#include "codegen/lane_form.h"
#include "codegen/lower.h"

namespace tiny {
namespace {

/// A LOAD of lanes at rest + offset + stride * lane.
struct Gather {
  UOp *load, *array, *rest;
  int64_t stride, offset, lanes;
  /// Loads of one block agree in all but the offset.
  auto block() const { return std::tuple(array->slot, rest->slot, stride, lanes); }
};

bool is_gather(UOp* u, Gather* out) {
  if (!u->is(Op::LOAD) || u->nsrc != 1 || u->src[0]->src[1]->numel != u->numel || u->numel < 2) return false;
  LaneForm f = lane_form(u->src[0]->src[1]);
  if (!f.first || f.stride == 0 || f.stride == 1) return false;
  UOp* rest = f.first;
  int64_t offset = 0;
  if (rest->is(Op::ADD) && rest->src[1]->is(Op::CONST)) offset = rest->src[1]->arg.i, rest = rest->src[0];
  *out = {u, u->src[0]->src[0], rest, f.stride, offset, u->numel};
  return true;
}

/// Element `offset` of each of the block's lanes, out of the vectors that start at `from`.
UOp* turned(const Gather& g, int64_t from) {
  std::vector<UOp*> elements;
  for (int64_t l = 0; l < g.lanes; ++l) {
    UOp* index = node(Op::INDEX, g.array->dtype, {g.array, U(g.rest) + (from + g.stride * l)});
    UOp* row = node(Op::LOAD, g.load->dtype, {index}, {}, g.lanes);
    elements.push_back(node(Op::LANE, g.load->dtype, {row}, Arg(g.offset - from), 1));
  }
  return node(Op::STACK, g.load->dtype, elements);
}

}  // namespace

UOp* transpose_loads(UOp* sink) {
  std::vector<Gather> gathers;
  for (UOp* u : toposort({&sink, 1})) {
    Gather g;
    if (is_gather(u, &g)) gathers.push_back(g);
  }
  std::stable_sort(gathers.begin(), gathers.end(), [](const Gather& a, const Gather& b) {
    return std::tuple(a.block(), a.offset) < std::tuple(b.block(), b.offset);
  });
  std::vector<UOp*> map(current_arena().size());
  bool any = false;
  for (size_t i = 0; i < gathers.size();) {
    size_t lanes = static_cast<size_t>(gathers[i].lanes), last = i + lanes - 1;
    bool whole = last < gathers.size() && gathers[last].block() == gathers[i].block() &&
                 gathers[last].offset == gathers[i].offset + gathers[i].lanes - 1;
    if (!whole) {
      ++i;
      continue;
    }
    for (size_t k = i; k <= last; ++k) {
      UOp* by = turned(gathers[k], gathers[i].offset);
      map.resize(current_arena().size());
      map[gathers[k].load->slot] = by;
    }
    any = true, i += lanes;
  }
  return any ? substitute(sink, map) : sink;
}

}  // namespace tiny
