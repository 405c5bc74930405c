// Contractions (contraction.h) on CPUs. A tile of m x n accumulators stays in registers through the loop over k; each element loaded is
// used as often as the tile is wide.
#include <algorithm>

#include "base/log.h"
#include "codegen/opt/contraction.h"
#include "codegen/opt/options.h"

namespace tiny {
namespace {

// Cycles of a CPU with two multiply-add units and two vector loads a cycle, and 4 cycles until an accumulator can be added to again
// (Zen 2 to Zen 4, Skylake and later; https://uops.info: VFMADD231PS).
constexpr double kMulAdd = 0.5, kLoad = 0.5, kLatency = 5;  // one cycle more: loads are not always in time
constexpr double kScatter = 2;          // a lane stored by itself
constexpr double kRowStart = 7;         // first touch of a row of an operand: address translation, no prefetch

struct Tile {
  double cost = 0;           // cycles for an element of m x n x k
  size_t vector = 0, copies = 0;  // ranges: made vectors; copied
  size_t columns = 0;             // the second copied range of a tile over k
  int64_t vectors = 1, rows = 1;  // of a tile
  int64_t lanes = 1;
};
constexpr size_t kTiles = 64;  // that a search may try

class Contract {
 public:
  Contract(Splitter& splitter, Analysis& a, const Caps& caps) : splitter_(splitter), a_(a), caps_(caps) {}

  bool run(Choice& choice) {
    if (caps_.vector_bytes == 0) return false;
    found_ = find_contractions(a_);
    if (found_.empty()) return false;
    for (const Contraction& c : found_) columns_ = std::max(columns_, c.columns);
    for (const Contraction& c : found_)
      for (int side : {1, 0})
        for (size_t v : c.own[side])
          for (size_t w : c.own[1 - side]) consider_rows(c, side, v, w);
    for (const Contraction& c : found_)
      for (size_t m : c.own[0])
        for (size_t n : c.own[1])
          for (size_t k = 0; k < a_.loops.size(); ++k) consider_columns(c, m, n, k);
    if (tiles_.empty()) return false;
    auto best_tile = tiles_.begin();
    for (auto t = tiles_.begin(); t != tiles_.end(); ++t)
      if (t->cost < best_tile->cost * 0.999) best_tile = t;  // of equals, the first
    std::rotate(tiles_.begin(), best_tile, best_tile + 1);
    std::stable_sort(tiles_.begin() + 1, tiles_.end(), [](const Tile& x, const Tile& y) { return x.cost < y.cost; });
    const Tile best = tiles_[choice.of(std::min(tiles_.size(), kTiles))];
    TINY_LOG(3, pass, "options: tile of {} x {} vectors of {}, {:.3f} cycles for each product", best.rows, best.vectors, best.lanes,
             best.cost);
    if (a_.loops[best.vector].global) {
      apply_rows_tile(best);
    } else {
      apply_columns_tile(best);
    }
    return true;
  }

 private:
  int64_t lanes_of(const Contraction& c) const { return std::max<int64_t>(1, caps_.vector_bytes / itemsize(compute_dtype(c.fold->dtype))); }
  double folds() const { return static_cast<double>(found_.size()); }
  int64_t registers() const { return std::max<int64_t>(8, caps_.registers); }

  /// Cycles of one turn over k with rows x vectors accumulators. A tile of one "vector" may be of single elements.
  double tile_cycles(int64_t rows, int64_t vectors) const {
    double n = static_cast<double>(rows * vectors) * folds();
    return std::max({n * kMulAdd, static_cast<double>(rows + vectors) * kLoad * folds(), kLatency});
  }

  /// Parts into which an axis of n elements falls: {size, number of them}.
  static std::vector<std::pair<int64_t, int64_t>> parts(int64_t n, std::initializer_list<int64_t> sizes) {
    std::vector<std::pair<int64_t, int64_t>> out;
    for (int64_t s : sizes) {
      if (s < 1) continue;
      if (n / s) out.push_back({s, n / s});
      n %= s;
    }
    return out;
  }

  /// Vectors along v, which its operand has side by side; copies along w, of which the other operand's elements are broadcast.
  void consider_rows(const Contraction& c, int side, size_t v, size_t w) {
    int64_t lanes = lanes_of(c), n = a_.loops[v].extent, m = a_.loops[w].extent;
    while (lanes > 1 && lanes > n) lanes /= 2;
    if (lanes == 1 || !is_contiguous(a_, c.operand[side], v, lanes)) return;
    double store = 0;  // of one result
    for (UOp* u : a_.accesses)
      if (u->is(Op::STORE)) store += a_.access_stride(u, v, lanes) == 1 ? 1.0 / static_cast<double>(lanes) : kScatter;
    int64_t each = static_cast<int64_t>(found_.size());
    for (int64_t vectors = 1; vectors <= 4 && vectors * lanes <= n; ++vectors)
      for (int64_t rows = 1; rows <= m && (rows * vectors + vectors) * each + 1 <= registers(); ++rows) {
        double cycles = 0;
        for (auto [size, turns] : parts(n, {vectors * lanes, lanes, lanes / 2, 1}))
          for (auto [high, times] : parts(m, {rows, m % rows}))
            cycles += (tile_cycles(high, std::max<int64_t>(1, size / lanes)) * static_cast<double>(times) + kRowStart) *
                      static_cast<double>(turns);
        double cost = cycles / static_cast<double>(n * m) + store / columns_;
        tiles_.push_back({cost, v, w, 0, vectors, rows, lanes});
      }
  }

  /// Vectors along k, contiguous in both operands: the lanes are added up at the end. rows x vectors elements at once.
  void consider_columns(const Contraction& c, size_t m, size_t n, size_t k) {
    const LoopFacts& l = a_.loops[k];
    int64_t lanes = lanes_of(c);
    if (l.global || l.extent < 2 * lanes) return;
    if (!is_contiguous(a_, c.operand[0], k, lanes) || !is_contiguous(a_, c.operand[1], k, lanes)) return;
    int64_t rows_max = a_.loops[m].extent, vectors_max = a_.loops[n].extent, each = static_cast<int64_t>(found_.size());
    for (int64_t vectors = 1; vectors <= std::min<int64_t>(6, vectors_max); ++vectors)
      for (int64_t rows = 1; rows <= std::min<int64_t>(6, rows_max) && (rows * vectors + std::min(rows, vectors)) * each + 1 <= registers();
           ++rows) {
        double turns = static_cast<double>(l.extent / lanes + l.extent % lanes) / static_cast<double>(l.extent), cycles = 0;
        for (auto [wide, times_n] : parts(vectors_max, {vectors, vectors_max % vectors}))
          for (auto [high, times_m] : parts(rows_max, {rows, rows_max % rows}))
            cycles += tile_cycles(high, wide) * static_cast<double>(times_n * times_m);
        double cost = cycles * turns / static_cast<double>(vectors_max * rows_max) + (static_cast<double>(lanes) + 1) / columns_;
        tiles_.push_back({cost, k, m, n, vectors, rows, lanes});
      }
  }

  double work() { return a_.cost_with({}, caps_) / 4; }

  /// Groups: copied range first (its tiles run under one panel of the other operand), then the vectors, then all others.
  std::vector<GroupRange> groups(size_t w, int64_t rows, size_t v, int64_t unit) {
    int64_t bytes = static_cast<int64_t>(columns_) * 4,
            block = std::max<int64_t>(rows, 4 * caps_.l2_bytes / std::max<int64_t>(1, bytes) / rows * rows);
    // v outside w, both inside all other Global ranges.
    size_t last = 0;
    for (size_t r = 0; r < a_.loops.size(); ++r)
      if (a_.loops[r].global) last = r;
    int64_t inner = range_number(a_.loops[last].range) + RangeNumbers::kStep;
    std::vector<GroupRange> order{{a_.loops[w].range, rows, block, inner + RangeNumbers::kStep / 2}, {a_.loops[v].range, unit, 0, inner}};
    for (size_t r = a_.loops.size(); r-- > 0;)
      if (a_.loops[r].global && r != w && r != v) order.push_back({a_.loops[r].range});
    return order;
  }

  Segments row_segments(size_t w, int64_t rows) const {
    const bool fixed = a_.loops[w].range->src[0]->is(Op::CONST);
    int64_t rest = fixed ? a_.loops[w].extent % rows : rows / 2;
    Segments s{Segment{rows, 1}};
    if (rest > 1) s.push_back({rest, 1});
    return s;
  }

  void apply_rows_tile(const Tile& t) {
    Segments s{Segment{t.vectors, t.lanes}};
    if (t.vectors > 1) s.push_back({1, t.lanes});
    if (t.lanes >= 4) s.push_back({1, t.lanes / 2});
    std::vector<AxisPlan> plans{{a_.loops[t.vector].range, s}, {a_.loops[t.copies].range, row_segments(t.copies, t.rows)}};
    make_groups(splitter_, groups(t.copies, t.rows, t.vector, t.vectors * t.lanes), work(), caps_, plans);
    apply_plans(splitter_, plans);
  }

  void apply_columns_tile(const Tile& t) {
    const size_t n = t.columns;
    std::vector<AxisPlan> plans{{a_.loops[t.vector].range, {Segment{1, t.lanes}}},
                                {a_.loops[t.copies].range, row_segments(t.copies, t.rows)},
                                {a_.loops[n].range, row_segments(n, t.vectors)}};
    make_groups(splitter_, groups(t.copies, t.rows, n, t.vectors), work(), caps_, plans);
    apply_plans(splitter_, plans);
  }

  Splitter& splitter_;
  Analysis& a_;
  const Caps& caps_;
  std::vector<Contraction> found_;
  std::vector<Tile> tiles_;
  double columns_ = 1;  // of the sum
};

}  // namespace

bool apply_contraction(Splitter& splitter, Analysis& a, const Caps& caps, Choice& choice) {
  return Contract(splitter, a, caps).run(choice);
}

}  // namespace tiny
