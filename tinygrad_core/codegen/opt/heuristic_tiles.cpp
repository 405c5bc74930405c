// Contractions on targets whose workgroups have lanes (GPUs): a workgroup computes a block of m x n results, each lane a tile of it in
// registers, through the loop over k. Neighbouring lanes have neighbouring n, so what they read and write lies side by side.
#include <algorithm>
#include <array>

#include "base/log.h"
#include "codegen/opt/contraction.h"
#include "codegen/opt/options.h"

namespace tiny {
namespace {

constexpr int64_t kLanesM = 16, kLanesN = 16;
constexpr int64_t kGroupsOfDevice = 2;     // workgroups for each multiprocessor, below which tiles are made smaller
constexpr int64_t kTiles[][2] = {{8, 8}, {8, 4}, {4, 4}, {4, 2}, {2, 2}, {1, 1}};  // m, n of a lane

/// The own range of an operand that gets the lanes: contiguous if there is one, the longest otherwise.
size_t range_of(Analysis& a, const Contraction& c, int side, bool want_contiguous) {
  size_t best = c.own[side][0];
  int64_t best_score = -1;
  for (size_t r : c.own[side]) {
    int64_t score = std::min<int64_t>(a.loops[r].extent, 1 << 20);
    if (want_contiguous && is_contiguous(a, c.operand[side], r, 2)) score += int64_t{1} << 32;
    if (score > best_score) best = r, best_score = score;
  }
  return best;
}

}  // namespace

bool apply_tiles_of_lanes(Splitter& splitter, Analysis& a, const Caps& caps) {
  std::vector<Contraction> found = find_contractions(a);
  if (found.empty() || caps.max_local < kLanesM * kLanesN) return false;
  const Contraction& c = found[0];
  bool second = is_contiguous(a, c.operand[1], range_of(a, c, 1, true), 2) || !is_contiguous(a, c.operand[0], range_of(a, c, 0, true), 2);
  int n_side = second ? 1 : 0;
  size_t n = range_of(a, c, n_side, true), m = range_of(a, c, 1 - n_side, false);
  for (const Contraction& other : found)
    for (const std::vector<size_t>& own : other.own)
      if (std::count(own.begin(), own.end(), m) && std::count(own.begin(), own.end(), n)) return false;
  int64_t extent_m = a.loops[m].extent, extent_n = a.loops[n].extent, others = 1;
  if (extent_m < kLanesM || extent_n < kLanesN) return false;
  for (const LoopFacts& l : a.loops)
    if (l.global) others *= l.extent;
  others /= extent_m * extent_n;
  auto groups = [&](int64_t size_m, int64_t size_n) {
    return others * ((extent_m + size_m - 1) / size_m) * ((extent_n + size_n - 1) / size_n);
  };
  const int64_t* tile = kTiles[0];
  for (const auto& t : kTiles) {
    tile = t;
    bool fits = t[0] * kLanesM <= extent_m && t[1] * kLanesN <= extent_n;
    int64_t accumulators = t[0] * t[1] * static_cast<int64_t>(found.size());
    if (fits && accumulators <= caps.registers && groups(t[0] * kLanesM, t[1] * kLanesN) >= kGroupsOfDevice * caps.threads) break;
  }
  TINY_LOG(3, pass, "options: {} x {} lanes with tiles of {} x {}", kLanesM, kLanesN, tile[0], tile[1]);
  size_t last = 0;
  for (size_t r = 0; r < a.loops.size(); ++r)
    if (a.loops[r].global) last = r;
  int64_t inner = range_number(a.loops[last].range) + RangeNumbers::kStep;
  UOp *range_m = a.loops[m].range, *range_n = a.loops[n].range;
  UOp* loop_m = splitter.chunk(range_m, kLanesM * tile[0], inner);
  UOp* loop_n = splitter.chunk(range_n, kLanesN * tile[1], inner + RangeNumbers::kStep / 2);
  UOp* turn_m = splitter.share_among_lanes(loop_m, range(kLanesM, 0, Axis::Local));
  UOp* turn_n = splitter.share_among_lanes(loop_n, range(kLanesN, 1, Axis::Local));
  splitter.split(turn_n, std::array{Segment{tile[1], 1}});  // inner loops first, so that each part of the outer one has its own
  splitter.split(turn_m, std::array{Segment{tile[0], 1}});
  return true;
}

}  // namespace tiny
