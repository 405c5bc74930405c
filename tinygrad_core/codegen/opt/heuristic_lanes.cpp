// Targets whose workgroups have lanes (GPUs). Memory is read fastest when neighbouring lanes read neighbouring elements, each 16 bytes
// at once. So either lanes lie along Global axes, from the contiguous one outwards, or the lanes of a workgroup share the loops of a row.
// Where rows are short, or a reduction runs across what is contiguous, a workgroup has lanes along one Global axis and along the loops.
#include <algorithm>

#include "base/log.h"
#include "codegen/opt/options.h"
#include "uop/symbolic.h"

namespace tiny {
namespace {

constexpr int64_t kLanes = 256, kLanesOfRow = 512, kMostLanes = 1024;
constexpr int64_t kAccess = 16, kMostElements = 8;  // bytes and elements of the widest access
constexpr int64_t kTurnsOfLane = 4;                 // accesses of a lane to a row, above which more lanes share it
constexpr int64_t kShortLoop = 16;                  // elements up to which a lane runs a loop by itself
constexpr int64_t kWarp = 32;
constexpr int64_t kEnoughLanes = 1024;              // for each multiprocessor: from there on lanes take several elements at once

int64_t power_of_two_up_to(int64_t n) {
  int64_t p = 1;
  while (2 * p <= n) p *= 2;
  return p;
}

int64_t divisor_up_to(int64_t n, int64_t most) {
  for (int64_t d = std::min(n, most); d > 1; --d)
    if (n % d == 0) return d;
  return 1;
}

class Lanes {
 public:
  Lanes(Splitter& splitter, Analysis& a, const Caps& caps)
      : splitter_(splitter), a_(a), caps_(caps), most_lanes_(std::max<int64_t>(1, std::min(caps.max_local, kMostLanes))) {
    for (size_t r = 0; r < a_.loops.size(); ++r)
      if (a_.loops[r].global) rows_ *= a_.loops[r].extent, ++axes_;
    holds_array_ = std::any_of(a_.loops.begin(), a_.loops.end(), [](const LoopFacts& l) { return l.holds_array; });
  }

  void run() {
    if (!find_shared() || !share_loops()) lanes_of_axes();
  }

 private:
  // ---- what is contiguous

  bool reads(const UOp* access, size_t r) { return a_.nest.loops(access).has(r); }

  /// How many accesses in the body of loop r are to consecutive elements along axis `along`, less those that are to distant ones.
  int64_t contiguity(size_t body, size_t along) {
    int64_t n = 0;
    for (UOp* u : a_.accesses) {
      if (!reads(u, body) || !reads(u, along)) continue;
      int64_t stride = a_.access_stride(u, along, 2);
      n += stride == 1 ? 1 : stride == 0 ? 0 : -1;
    }
    return n;
  }

  /// Elements of one access along axis r: as many as most accesses there have side by side, aligned.
  int64_t elements(size_t r) {
    const LoopFacts& l = a_.loops[r];
    if (l.sequential || !l.range->src[0]->is(Op::CONST)) return 1;
    int64_t least = 8;
    for (UOp* u : a_.accesses)
      if (reads(u, r) && a_.access_stride(u, r, 2) == 1) least = std::min<int64_t>(least, itemsize(u->src[0]->dtype));
    for (int64_t v = std::min(kMostElements, kAccess / least); v > 1; v /= 2)
      if (l.extent % v == 0 && mostly_vectors(r, v)) return v;
    return 1;
  }

  bool mostly_vectors(size_t r, int64_t v) {
    double good = 0, bad = 0;
    for (UOp* u : a_.accesses) {
      if (!reads(u, r)) continue;
      UOp* index = u->src[0]->src[1];
      int64_t stride = a_.stride(index, r, v);
      if (stride == 0) continue;
      if (stride != 1) {
        bad += a_.turns(u);
        continue;
      }
      std::vector<UOp*> map(current_arena().size());
      UOp* zero = index_const(0);
      map.resize(current_arena().size());
      map[a_.loops[r].range->slot] = zero;
      (known_factor(substitute(index, map)) % v == 0 ? good : bad) += a_.turns(u);
    }
    return good > bad;
  }

  // ---- loops shared by the lanes of a workgroup

  struct Shared {
    size_t loop, top;
    int64_t elements = 1;  // of an access
  };

  /// The loop to share in the nest of each outermost loop. False if there is none, or one that must run in order.
  bool find_shared() {
    for (size_t top = 0; top < a_.loops.size(); ++top) {
      if (a_.loops[top].global || in_a_loop(top)) continue;
      std::vector<size_t> chain{top};
      bool fork = false;
      for (size_t r = top; r < a_.loops.size(); ++r) {
        if (!a_.nest.inside(r, top)) continue;
        fork |= !a_.nest.inside(r, chain.back());
        chain.push_back(r);
      }
      for (size_t r : chain)
        if (a_.loops[r].sequential) return false;
      if (a_.loops[top].holds_array) return false;
      if (fork) chain = {top};
      shared_.push_back({best_of(chain), top});
      longest_ = std::max(longest_, a_.loops[shared_.back().loop].extent);
    }
    return !shared_.empty() && longest_ > kShortLoop;
  }

  bool in_a_loop(size_t r) {
    bool inner = false;
    a_.nest.around(r).each([&](size_t o) { inner |= !a_.loops[o].global; });
    return inner;
  }

  /// Of loops one in the other: the innermost that is long and contiguous, else the longest.
  size_t best_of(const std::vector<size_t>& chain) {
    size_t best = chain[0];
    for (size_t r : chain) {
      if (r == chain[0] || !can_be_shared(r)) continue;
      bool longer = a_.loops[r].extent > a_.loops[best].extent;
      bool better = a_.loops[r].extent > kShortLoop && contiguity(r, r) > contiguity(best, best);
      if (better || (longer && contiguity(r, r) >= contiguity(best, best))) best = r;
    }
    return best;
  }

  /// Sums over a loop within others are combined once, behind all of them.
  bool can_be_shared(size_t r) {
    for (UOp* f : a_.folds) {
      auto own = named_ranges(f);
      auto names = [&](size_t o) { return std::find(own.begin(), own.end(), a_.loops[o].range) != own.end(); };
      if (!names(r)) {
        if (reads(f, r)) return false;
        continue;
      }
      bool all = true;
      a_.nest.around(r).each([&](size_t o) { all &= a_.loops[o].global || names(o); });
      if (!all) return false;
    }
    bool arrays = false;
    a_.nest.around(r).each([&](size_t o) { arrays |= a_.loops[o].holds_array; });
    return !arrays && !a_.loops[r].holds_array;
  }

  /// The Global axis along which most accesses of the shared loops are contiguous; none: loops.size().
  size_t contiguous_axis() {
    size_t best = a_.loops.size();
    int64_t most = 0;
    for (size_t g = 0; g < a_.loops.size(); ++g) {
      if (!a_.loops[g].global) continue;
      int64_t n = 0;
      for (const Shared& s : shared_) n += contiguity(s.loop, g);
      if (n > 0 && n >= most) most = n, best = g;
    }
    return best;
  }

  bool share_loops() {
    int64_t along_loops = 0;
    for (const Shared& s : shared_) along_loops += contiguity(s.loop, s.loop);
    size_t axis = contiguous_axis();
    bool across = along_loops <= 0 && axis < a_.loops.size() && !holds_array_;
    if (across && a_.loops[axis].extent < kShortLoop) across = false;
    return across ? share_across(axis) : share_along();
  }

  /// Rows are contiguous: lanes along the loops, and several rows in a workgroup if they are short.
  bool share_along() {
    int64_t accesses = 0;  // to the longest row
    for (Shared& s : shared_) {
      s.elements = elements(s.loop);
      accesses = std::max(accesses, (a_.loops[s.loop].extent + s.elements - 1) / s.elements);
    }
    const int64_t enough = caps_.threads * kEnoughLanes;
    int64_t of_row = power_of_two_up_to(std::clamp<int64_t>(accesses / kTurnsOfLane, 1, kLanesOfRow));
    while (2 * of_row <= std::min(accesses, most_lanes_) && rows_ * of_row < enough) of_row *= 2;
    of_row = std::min(of_row, power_of_two_up_to(most_lanes_));
    if (of_row == 1) return false;
    int64_t rows = 1, most = std::min({kLanes / 2 / of_row, most_lanes_ / of_row, rows_ / (2 * caps_.threads)});
    size_t axis = a_.loops.size();
    for (size_t r = 0; r < a_.loops.size() && !holds_array_; ++r) {
      int64_t n = a_.loops[r].global ? divisor_up_to(a_.loops[r].extent, most) : 1;
      if (n > 1 && n >= rows) rows = n, axis = r;
    }
    UOp* row = rows > 1 ? splitter_.lanes(a_.loops[axis].range, rows) : nullptr;
    UOp* lane = range(of_row, RangeNumbers::kInnermost, Axis::Local);
    UOp* outer = nullptr;
    if (!row && of_row < kLanes / 2 && !holds_array_) outer = lanes_of_outer_loops(std::min(kLanes, most_lanes_) / of_row, lane);
    share(lane, row ? row : outer);
    TINY_LOG(3, pass, "options: {} rows of {} lanes in a workgroup, {} elements at once", rows, of_row, shared_[0].elements);
    return true;
  }

  /// Loops run across what is contiguous: lanes along the contiguous axis, and groups of them share the loops.
  bool share_across(size_t axis) {
    const int64_t extent = a_.loops[axis].extent, enough = caps_.threads * kEnoughLanes;
    int64_t v = elements(axis), wide = 1;
    for (;; v /= 2) {
      wide = divisor_up_to(extent / v, std::min(kWarp, most_lanes_));
      if (v == 1 || (wide >= kWarp / 4 && rows_ / v * power_of_two_up_to(longest_ / kTurnsOfLane) >= enough / 4)) break;
    }
    if (wide < kWarp / 4) return false;
    int64_t high = 1;
    while (2 * high * wide <= std::min(kLanesOfRow, most_lanes_) && 2 * high * kTurnsOfLane <= longest_) high *= 2;
    while (2 * high * wide <= most_lanes_ && rows_ / v * high < enough && 4 * high <= longest_) high *= 2;
    if (high == 1) return false;
    UOp* column = splitter_.lanes(splitter_.vectors(a_.loops[axis].range, v), wide, RangeNumbers::kInnermost);
    share(range(high, RangeNumbers::kInnermost - 1, Axis::Local), column);
    TINY_LOG(3, pass, "options: {} x {} lanes, {} elements at once, share loops across a contiguous axis", high, wide, v);
    return true;
  }

  /// Rows whose contiguous loops are short: more lanes share the loops around those. Null if not all have such loops.
  UOp* lanes_of_outer_loops(int64_t most, UOp* inner) {
    int64_t shortest = INT64_MAX;
    for (const Shared& s : shared_) {
      if (s.top == s.loop || !can_be_shared(s.top)) return nullptr;
      shortest = std::min(shortest, a_.loops[s.top].extent);
    }
    const int64_t lanes = power_of_two_up_to(std::min(most, shortest));
    if (lanes < 2) return nullptr;
    UOp* outer = range(lanes, RangeNumbers::kInnermost - 1, Axis::Local);
    for (const Shared& s : shared_) splitter_.share_among_lanes(a_.loops[s.top].range, outer, inner);
    return outer;
  }

  void share(UOp* lane, UOp* other) {
    for (const Shared& s : shared_) splitter_.share_among_lanes(a_.loops[s.loop].range, lane, other, s.elements);
    splitter_.store_once(lane);
    if (other) splitter_.store_once(other);
  }

  // ---- lanes along Global axes

  /// The Global axis along which most elements are written, or read, side by side; none: loops.size().
  size_t axis_of(bool stores) {
    size_t best = a_.loops.size();
    double most = 0;
    for (size_t r = 0; r < a_.loops.size(); ++r) {
      double n = 0;
      for (UOp* u : a_.accesses)
        if (a_.loops[r].global && u->is(Op::STORE) == stores && a_.access_stride(u, r, 2) == 1) n += a_.turns(u);
      if (n > 0 && n >= most) most = n, best = r;
    }
    return best;
  }

  /// What is read along one axis and written along another: lanes lie along the first, and each writes a vector along the second.
  bool transpose() {
    const size_t from = axis_of(false), to = axis_of(true), none = a_.loops.size();
    if (from == to || from == none || to == none || a_.loops.size() != axes_) return false;
    int64_t widest = 1;
    for (UOp* u : a_.accesses) {
      const int64_t stride = a_.access_stride(u, to, 2);
      if (!u->is(Op::STORE) && a_.turns(u) >= static_cast<double>(rows_) && (stride == 0 || stride == 1)) return false;
      if (u->is(Op::STORE)) widest = std::max(widest, itemsize(u->src[0]->dtype));
    }
    const int64_t v = std::min(kMostElements, kAccess / widest), wanted = std::min(kLanes, most_lanes_);
    if (a_.loops[to].extent % v || a_.loops[from].extent < kWarp / 2 || rows_ / v < caps_.threads * kEnoughLanes / 4) return false;
    splitter_.vectors(a_.loops[to].range, v);
    splitter_.lanes(a_.loops[from].range, wanted, RangeNumbers::kInnermost);
    TINY_LOG(3, pass, "options: lanes along the axis that is read, {} elements of the one that is written", v);
    return true;
  }

  void lanes_of_axes() {
    if (holds_array_) return;  // one array a workgroup: it is one lane
    if (transpose()) return;
    std::vector<size_t> axes;  // from the contiguous one outwards
    double most = -1;
    size_t best = a_.loops.size();
    for (size_t r = 0; r < a_.loops.size(); ++r) {
      if (!a_.loops[r].global) continue;
      axes.insert(axes.begin(), r);
      double contiguous = 0;  // elements read or written so: rows of numbers that many elements share count little
      for (UOp* u : a_.accesses)
        if (a_.access_stride(u, r, 2) == 1) contiguous += a_.turns(u);
      if (contiguous >= most) most = contiguous, best = r;
    }
    if (axes.empty()) return;
    axes.erase(std::find(axes.begin(), axes.end(), best));
    int64_t v = elements(best), number = RangeNumbers::kInnermost, lanes = 1;
    const int64_t wanted = std::min(kLanes, most_lanes_);
    while (v > 1 && rows_ / v < caps_.threads * kEnoughLanes) v /= 2;
    if (UOp* rest = splitter_.vectors(a_.loops[best].range, v)) lanes = const_int(splitter_.lanes(rest, wanted, number)->src[0]);
    if (lanes * v < a_.loops[best].extent) axes.clear();
    for (size_t r : axes) {
      int64_t n = divisor_up_to(a_.loops[r].extent, wanted / lanes);
      if (n > 1) splitter_.lanes(a_.loops[r].range, n, --number);
      lanes *= n;
      if (n < a_.loops[r].extent) break;
    }
    TINY_LOG(3, pass, "options: {} lanes along Global axes, {} elements at once", lanes, v);
  }

  Splitter& splitter_;
  Analysis& a_;
  const Caps& caps_;
  const int64_t most_lanes_;
  int64_t rows_ = 1, longest_ = 0;  // elements of all Global axes, and of a loop
  size_t axes_ = 0;                 // Global ones
  bool holds_array_ = false;
  std::vector<Shared> shared_;
};

}  // namespace

void apply_lanes(Splitter& splitter, Analysis& a, const Caps& caps) { Lanes(splitter, a, caps).run(); }

}  // namespace tiny
