// Targets whose workgroups have lanes (GPUs). Either consecutive elements of the contiguous Global axis are lanes, or a workgroup takes one
// row, and its lanes share the elements of each loop over the row.
#include <algorithm>

#include "codegen/opt/options.h"

namespace tiny {
namespace {

constexpr int64_t kLanes = 256, kLanesOfRow = 1024;
constexpr int64_t kElementsOfLane = 4;    // of a row: from which more lanes are worth their part in combining
constexpr int64_t kShortRow = 32;         // elements from which a row gets lanes of its own
constexpr int64_t kLanesOfDevice = 2048;  // for each multiprocessor: enough to hide the latency of memory

/// Loops over the elements of a row: in no other loop than Global ones.
std::vector<size_t> loops_of_row(Analysis& a) {
  std::vector<size_t> out;
  for (size_t r = 0; r < a.loops.size(); ++r) {
    if (a.loops[r].global) continue;
    bool inner = false;
    a.nest.around(r).each([&](size_t o) { inner |= !a.loops[o].global; });
    if (!inner) out.push_back(r);
  }
  return out;
}

/// How many of the accesses in the body of loop r are to consecutive elements, less those that are not.
int64_t contiguity(Analysis& a, size_t r) {
  int64_t n = 0;
  for (UOp* u : a.accesses) {
    if (!a.nest.loops(u).has(r)) continue;
    int64_t stride = a.access_stride(u, r, 2);
    n += stride == 1 ? 1 : stride == 0 ? 0 : -1;
  }
  return n;
}

/// One row a workgroup. False: rows are short, or many and not contiguous along the loops.
bool apply_rows_of_groups(Splitter& splitter, Analysis& a, const Caps& caps) {
  std::vector<size_t> loops = loops_of_row(a);
  int64_t rows = 1, longest = 0, contiguous = 0;
  bool reduces = false;
  for (const LoopFacts& l : a.loops)
    if (l.global) rows *= l.extent;
  for (size_t r : loops) {
    if (a.loops[r].sequential) return false;
    longest = std::max(longest, a.loops[r].extent), reduces |= a.loops[r].reduces;
    contiguous += contiguity(a, r);
  }
  if (!reduces || longest < kShortRow) return false;
  if (rows >= caps.threads * kLanesOfDevice && contiguous <= 0) return false;
  int64_t lanes = 32;
  while (lanes < std::min(kLanesOfRow, caps.max_local) && lanes * kElementsOfLane < longest) lanes *= 2;
  UOp* lane = range(lanes, 0, Axis::Local);
  for (size_t r : loops) splitter.share_among_lanes(a.loops[r].range, lane);
  return true;
}

}  // namespace

void apply_lanes(Splitter& splitter, Analysis& a, const Caps& caps) {
  if (apply_rows_of_groups(splitter, a, caps)) return;
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
