// Targets whose workgroups have lanes (GPUs): consecutive elements of the contiguous Global axis are lanes of a workgroup.
#include <algorithm>

#include "codegen/opt/options.h"

namespace tiny {
namespace {

constexpr int64_t kLanes = 256;

}  // namespace

void apply_lanes(Splitter& splitter, Analysis& a, const Caps& caps) {
  // One array a workgroup: with a row in local memory, a workgroup is one lane.
  for (const LoopFacts& l : a.loops)
    if (l.holds_array) return;
  size_t best = a.loops.size();
  int64_t most = -1;
  for (size_t r = 0; r < a.loops.size(); ++r) {
    if (!a.loops[r].global) continue;
    int64_t contiguous = std::count_if(a.accesses.begin(), a.accesses.end(), [&](UOp* u) { return a.access_stride(u, r, 2) == 1; });
    if (contiguous >= most) most = contiguous, best = r;
  }
  if (best == a.loops.size()) return;
  splitter.lanes(a.loops[best].range, std::min<int64_t>(kLanes, std::max<int64_t>(1, caps.max_local)));
}

}  // namespace tiny
