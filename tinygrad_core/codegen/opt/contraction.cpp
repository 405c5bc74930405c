#include "codegen/opt/contraction.h"

#include "codegen/estimate.h"

namespace tiny {
namespace {
constexpr double kShortestSum = 4;
}

std::vector<Contraction> find_contractions(Analysis& a) {
  for (const LoopFacts& l : a.loops)
    if (l.sequential || l.holds_array || (!l.global && !l.reduces)) return {};
  std::vector<Contraction> found;
  for (UOp* f : a.folds) {
    UOp* x = f->src[0];
    if (!sums_products(f) || !is_float(f->dtype)) return {};
    Contraction c{f, {x->src[0], x->src[1]}, {}, 1};
    for (int side : {0, 1})
      a.nest.loops(c.operand[side]).each([&](size_t r) {
        if (a.loops[r].global && !a.nest.loops(c.operand[1 - side]).has(r)) c.own[side].push_back(r);
      });
    if (c.own[0].empty() || c.own[1].empty()) return {};
    for (UOp* r : named_ranges(f)) c.columns *= static_cast<double>(a.loops[static_cast<size_t>(a.nest.number(r))].extent);
    if (c.columns < kShortestSum) return {};
    found.push_back(c);
  }
  return found;
}

bool is_contiguous(Analysis& a, UOp* operand, size_t r, int64_t lanes) {
  bool any = false;
  for (UOp* u : toposort({&operand, 1})) {
    if (!u->is(Op::LOAD) || !a.nest.loops(u).has(r)) continue;
    if (a.access_stride(u, r, lanes) != 1) return false;
    any = true;
  }
  return any;
}

}  // namespace tiny
