// Contractions on targets whose workgroups have lanes and local memory (GPUs): a workgroup computes a block (codegen/block.h).
// For each piece of k all lanes copy tiles of both operands into local memory, whatever expressions these are; the block's sums stay in
// registers. At the end the sums go through local memory too, and what is done with them is a loop over consecutive elements. The loop
// over k is put in its final order, with copies ahead of the products, by codegen/stages.cpp.
#include <algorithm>

#include "base/log.h"
#include "codegen/block.h"
#include "codegen/lane_form.h"
#include "codegen/lower.h"
#include "codegen/opt/contraction.h"
#include "codegen/opt/options.h"
#include "uop/symbolic.h"

namespace tiny {
namespace {

constexpr int64_t kLeast = 16;           // rows, columns and terms of a product from which blocks pay
constexpr int64_t kAccess = 16;          // bytes of the widest access
constexpr int64_t kSumsPad = 8;          // elements between rows of sums, against bank conflicts
constexpr double kLanesToHideLatency = 256;  // of a multiprocessor, without which multiplications wait for each other
constexpr int64_t kNeighbours = 8;       // blocks above each other that run at about one time and share what the cache holds

/// `rate`: of multiplications, in parts of the greatest, measured on an H200 with products that fill it. Small blocks read more for each,
/// but leave fewer multiprocessors idle.
struct Choice {
  int tensor_cores;  // needed
  Block block;
  double rate;
};
const Choice kChoices[] = {
  {90, {Engine::WarpGroups, {128, 256}, 64, {2, 1}, 4}, 1.0},
  {90, {Engine::WarpGroups, {256, 128}, 64, {2, 1}, 4}, 0.95},
  {90, {Engine::WarpGroups, {128, 128}, 64, {2, 1}, 3}, 0.75},
  {90, {Engine::WarpGroups, {128, 64}, 64, {2, 1}, 4}, 0.6},
  {90, {Engine::WarpGroups, {64, 64}, 64, {1, 1}, 4}, 0.4},
  {80, {Engine::Warps, {128, 128}, 64, {2, 2}, 3}, 0.55},
  {80, {Engine::Warps, {64, 64}, 64, {2, 2}, 3}, 0.3},
  {0, {Engine::Lanes, {128, 256}, 16, {4, 2}, 3}, 1.0},
  {0, {Engine::Lanes, {128, 128}, 32, {4, 2}, 3}, 0.96},
  {0, {Engine::Lanes, {64, 64}, 16, {2, 1}, 3}, 0.85},
  {0, {Engine::Lanes, {32, 32}, 16, {2, 1}, 3}, 0.3},
};

int64_t divide_up(int64_t n, int64_t d) { return (n + d - 1) / d; }

U lanes_of(int64_t n) { return node(Op::LANES, kIndex, {}, {}, n); }
U consecutive(U first, int64_t n) { return n == 1 ? first : first + lanes_of(n); }
U both(U a, U b) { return !a.u ? b : !b.u ? a : a & b; }

/// Every LOAD of `e` is one access of consecutive elements, aligned to `align` of them, or of one element.
bool is_vector_of(UOp* e, int64_t align) {
  for (UOp* u : toposort({&e, 1})) {
    if (u->is(Op::CHECK)) return false;
    if (!u->is(Op::LOAD) && !u->is(Op::STORE)) continue;
    UOp *index = u->src[0]->src[1], *gate = u->nsrc == 3 ? u->src[u->is(Op::LOAD) ? 1 : 2] : nullptr;
    if (gate && gate->numel > 1) return false;
    if (index->numel == 1) {
      if (u->is(Op::STORE)) return false;
      continue;
    }
    LaneForm form = lane_form(index);
    if (!form.first || form.stride != 1 || known_factor(form.first) % align) return false;
  }
  return true;
}

/// `e` with global memory read only where `gate` holds.
UOp* with_gated_loads(UOp* e, U gate) {
  return rebuild(e, [&](UOp* u, std::span<UOp* const> src) -> UOp* {
    if (!u->is(Op::LOAD) || src[0]->src[0]->is(Op::LOCAL)) return nullptr;
    if (src.size() == 1) return node(Op::LOAD, u->dtype, {src[0], gate, const_(u->dtype, 0)}, {}, u->numel);
    return node(Op::LOAD, u->dtype, {src[0], U(src[1]) & gate, src[2]}, {}, u->numel);
  });
}

class Blocks {
 public:
  Blocks(Splitter& splitter, Analysis& a, const Caps& caps) : splitter_(splitter), a_(a), caps_(caps) {}

  bool run() {
    if (!caps_.block_bytes || !find_product() || !choose()) return false;
    lane_ = range(block_.lanes(), 0, Axis::Local);
    make_groups();
    loop_ = splitter_.inner_loop(index_const(divide_up(depth_, block_.depth)), Axis::Reduce), term_ = loop_ * block_.depth;
    for (int side : {0, 1}) find_vectors(side);
    UOp* sums = product();
    std::vector<UOp*> stores;
    UOp* tile = sums_in_memory(sums);
    for (UOp* s : splitter_.sink()->sources()) stores.push_back(finish(s, tile));
    splitter_.replace_kernel(node(Op::SINK, DType::void_, stores, {}, 1));
    TINY_LOG(3, pass, "options: blocks of {} x {} by {} lanes, {} terms at a time, {} ahead", block_.rows[0], block_.rows[1],
             block_.lanes(), block_.depth, block_.slots);
    return true;
  }

 private:
  /// A: rows m, B: rows n. The results of consecutive n are consecutive in memory, if anything is.
  bool find_product() {
    std::vector<Contraction> found = find_contractions(a_);
    if (found.size() != 1 || found[0].fold->dtype != DType::f32) return false;
    const Contraction& c = found[0];
    fold_ = c.fold;
    int n_side = 1;
    for (UOp* s : splitter_.sink()->sources()) {
      if (!s->is(Op::STORE)) return false;
      for (const std::vector<size_t>& own : c.own)
        for (size_t r : own)
          if (!a_.nest.loops(s).has(r)) return false;
      for (size_t r : c.own[0])
        if (a_.access_stride(s, r, 2) == 1) n_side = 0;
    }
    for (UOp* u : a_.nest.nodes)
      if (u->is(Op::CHECK)) return false;
    for (int side : {0, 1}) {
      int from = side ? n_side : 1 - n_side;
      operand_[side] = c.operand[from];
      for (size_t r : c.own[from]) own_[side].push_back(a_.loops[r].range), extent_[side] *= a_.loops[r].extent;
    }
    for (UOp* r : named_ranges(fold_)) {
      if (!r->src[0]->is(Op::CONST)) return false;
      terms_.push_back(r), depth_ *= const_int(r->src[0]);
    }
    std::sort(terms_.begin(), terms_.end(), nests_before);
    put_neighbours_last();
    for (const LoopFacts& l : a_.loops)
      if (l.global) others_ *= l.extent;
    others_ /= extent_[0] * extent_[1];
    return std::min({extent_[0], extent_[1], depth_}) >= kLeast;
  }

  bool is_contiguous_along(int side, UOp* r) {
    return is_contiguous(a_, operand_[side], static_cast<size_t>(a_.nest.number(r)), kAccess);
  }
  /// The last of the terms should be one along which the operands' elements lie side by side, or else the last of an operand's rows.
  void put_neighbours_last() {
    auto move_last = [](std::vector<UOp*>& ranges, auto&& rank) {
      auto best = ranges.end() - 1;
      for (auto it = ranges.begin(); it != ranges.end(); ++it)
        if (rank(*it) > rank(*best)) best = it;
      std::rotate(best, best + 1, ranges.end());
    };
    move_last(terms_, [&](UOp* r) { return is_contiguous_along(0, r) + is_contiguous_along(1, r); });
    for (int side : {0, 1})
      if (!is_contiguous_along(side, terms_.back())) move_last(own_[side], [&](UOp* r) { return is_contiguous_along(side, r); });
  }

  /// The operand before it was widened for the multiplication, where tensor cores take it as it is.
  UOp* narrow(int side) const {
    UOp* u = operand_[side];
    bool is = u->is(Op::CAST) && (u->src[0]->dtype == DType::bf16 || u->src[0]->dtype == DType::f16);
    return is ? u->src[0] : nullptr;
  }

  bool choose() {
    bool halves = narrow(0) && narrow(1) && narrow(0)->dtype == narrow(1)->dtype;
    double best = 1e300;
    for (const Choice& c : kChoices) {
      const Block& b = c.block;
      if ((b.engine != Engine::Lanes) != (halves && caps_.tensor_cores >= 80) || c.tensor_cores > caps_.tensor_cores) continue;
      int64_t bytes = scratch(b);
      if (b.lanes() > caps_.max_local || bytes > caps_.block_bytes) continue;
      int64_t blocks = others_ * divide_up(extent_[0], b.rows[0]) * divide_up(extent_[1], b.rows[1]);
      int64_t each = divide_up(blocks, caps_.threads);  // of the busiest multiprocessor
      double cost = static_cast<double>(each * b.rows[0] * b.rows[1]) / c.rate;
      if (b.engine == Engine::Lanes) cost *= std::max(1.0, kLanesToHideLatency / static_cast<double>(each * b.lanes()));
      if (cost < best) best = cost, block_ = b;
    }
    if (best > 1e200) return false;
    for (int side : {0, 1})
      if (block_.engine != Engine::Lanes) operand_[side] = narrow(side);
    return true;
  }

  static int64_t sums_stride(const Block& b) { return b.rows[1] + kSumsPad; }
  static int64_t scratch(const Block& b) {
    int64_t element = b.engine == Engine::Lanes ? 4 : 2;
    return std::max(b.slots * b.slot() * element, b.rows[0] * sums_stride(b) * 4);
  }

  /// Groups: neighbours in m change fastest.
  void make_groups() {
    int64_t number = 0;
    for (const LoopFacts& l : a_.loops)
      if (l.global) number = std::max(number, range_number(l.range) + RangeNumbers::kStep);
    int64_t high = divide_up(extent_[0], block_.rows[0]), low = kNeighbours;
    while (high % low) low /= 2;
    U first = range(high / low, number, Axis::Global);
    first_[1] = range(divide_up(extent_[1], block_.rows[1]), number + 1, Axis::Global) * block_.rows[1];
    first_[0] = (first * low + range(low, number + 2, Axis::Global)) * block_.rows[0];
  }

  /// Puts the digits of `number` in the place of `ranges`, the last the fastest.
  static void put_digits(const std::vector<UOp*>& ranges, U number, std::vector<UOp*>& map) {
    for (size_t i = ranges.size(); i-- > 0;) {
      int64_t n = const_int(ranges[i]->src[0]);
      U digit = i ? number % n : number;
      if (i) number = number / n;
      map.resize(current_arena().size());
      map[ranges[i]->slot] = digit;
    }
  }

  /// The operand at an element of its rows and of k.
  UOp* element(int side, U row, U k) {
    std::vector<UOp*> map;
    put_digits(own_[side], row, map);
    put_digits(terms_, k, map);
    map.resize(current_arena().size());
    return substitute(operand_[side], map);
  }

  struct Spot {
    U row, k;  // in the tile
  };
  /// What this lane copies in turn `turn`, the first of `v` consecutive elements.
  Spot spot(int side, int64_t v, U turn) {
    int64_t per = (along_k_[side] ? block_.depth : block_.rows[side]) / v;
    U number = turn * block_.lanes() + lane_, inner = (number % per) * v, outer = number / per;
    return along_k_[side] ? Spot{outer, inner} : Spot{inner, outer};
  }

  bool reads_vectors(int side, bool along_k, int64_t v, int64_t align) {
    int64_t extent = along_k ? depth_ : extent_[side];
    if (extent % align) return false;
    along_k_[side] = along_k;
    Spot s = spot(side, v, index_const(0));
    U row = first_[side] + s.row, k = term_ + s.k;
    return is_vector_of(element(side, along_k ? row : consecutive(row, v), along_k ? consecutive(k, v) : k), align);
  }

  /// Decides in which direction and how many elements at once the tile is copied.
  void find_vectors(int side) {
    bool lanes = block_.engine == Engine::Lanes;
    for (int64_t v = kAccess / itemsize(operand_[side]->dtype); v > 1; v /= 2)
      for (bool along_k : {true, false})
        if (reads_vectors(side, along_k, v, v)) {
          vector_[side] = lanes && along_k ? 1 : v;  // tiles of Engine::Lanes have rows side by side
          block_.k_inner[side] = along_k && !lanes;
          return;
        }
    vector_[side] = 1;
    along_k_[side] = reads_vectors(side, true, 2, 1) || !reads_vectors(side, false, 2, 1);
    block_.k_inner[side] = along_k_[side] && !lanes;
  }

  /// The lane's sums of the block.
  UOp* product() {
    DType d = operand_[0]->dtype;
    tiles_ = splitter_.local_array(d, block_.slots * block_.slot());
    U slot = (loop_ % block_.slots) * block_.slot();
    std::vector<UOp*> copies{tiles_};
    for (int side : {0, 1}) {
      int64_t v = vector_[side], turns = block_.rows[side] * block_.depth / (v * block_.lanes());
      for (int64_t t = 0; t < turns; ++t) {
        Spot s = spot(side, v, index_const(t));
        U row = first_[side] + s.row, k = term_ + s.k, gate;
        if (extent_[side] % block_.rows[side]) gate = both(gate, lt(row, index_const(extent_[side])));
        if (depth_ % block_.depth) gate = both(gate, lt(k, index_const(depth_)));
        UOp* x = element(side, along_k_[side] ? row : consecutive(row, v), along_k_[side] ? consecutive(k, v) : k);
        if (gate.u) {
          x = with_gated_loads(x, gate);
          if (!x->is(Op::LOAD)) x = where(gate, x, const_(d, 0));
        }
        U to = slot + (side ? block_.tile(0) : 0) + block_.offset<U>(side, s.row, s.k);
        copies.push_back(node(Op::STORE, DType::void_, {node(Op::INDEX, d, {tiles_, consecutive(to, v)}), x}));
      }
    }
    UOp* full = node(Op::AFTER, d, copies, {}, 1);
    UOp *a = node(Op::INDEX, d, {full, slot}), *b = node(Op::INDEX, d, {full, slot + block_.tile(0)});
    UOp* part = node(Op::BLOCK, DType::f32, {a, b, const_(DType::f32, 0)}, block_.pack(), block_.sums());
    return node(Op::FOLD, DType::f32, {part, loop_}, Arg(static_cast<int64_t>(Op::ADD)), block_.sums());
  }

  /// An array of all sums of the block, in the memory of the tiles.
  UOp* sums_in_memory(UOp* sums) {
    int64_t stride = sums_stride(block_), run = block_.run();
    UOp* tile = node(Op::LOCAL, DType::f32, {index_const(block_.rows[0] * stride)}, tiles_->arg);
    std::vector<UOp*> stores{tile};
    for (int64_t i = 0; i < block_.sums(); i += run) {
      auto at = block_.position<U>(lane_, i);
      std::vector<UOp*> values;
      for (int64_t j = 0; j < run; ++j) values.push_back(node(Op::LANE, DType::f32, {sums}, Arg(i + j), 1));
      UOp* index = node(Op::INDEX, DType::f32, {tile, consecutive(at.row * stride + at.column, run)});
      stores.push_back(node(Op::STORE, DType::void_, {index, node(Op::STACK, DType::f32, values)}));
    }
    return node(Op::AFTER, DType::f32, stores, {}, 1);
  }

  /// A store of the kernel in a loop over the block's elements, `sum` in the place of the LOAD `stand_in`.
  struct Finished {
    UOp *store, *stand_in, *sum;
  };
  /// `v` elements at once.
  Finished finish_by(UOp* store, UOp* tile, int64_t v) {
    int64_t turns = block_.rows[0] * block_.rows[1] / (v * block_.lanes()), per = block_.rows[1] / v;
    if (turns_.size() <= static_cast<size_t>(v)) turns_.resize(static_cast<size_t>(v) + 1);
    U& turn = turns_[static_cast<size_t>(v)];
    if (!turn.u) turn = splitter_.inner_loop(index_const(turns), Axis::Loop);
    U number = turn * block_.lanes() + lane_, row = number / per, column = (number % per) * v;
    U m = first_[0] + row, n = first_[1] + column, gate;
    if (extent_[0] % block_.rows[0]) gate = both(gate, lt(m, index_const(extent_[0])));
    if (extent_[1] % block_.rows[1]) gate = both(gate, lt(n, index_const(extent_[1])));
    Finished f;
    f.sum = node(Op::LOAD, DType::f32, {node(Op::INDEX, DType::f32, {tile, consecutive(row * sums_stride(block_) + column, v)})});
    UOp* nothing = node(Op::LOCAL, DType::f32, {index_const(1)}, Arg(int64_t{1} << 20));
    f.stand_in = node(Op::LOAD, DType::f32, {node(Op::INDEX, DType::f32, {nothing, index_const(0)})});
    std::vector<UOp*> map;
    put_digits(own_[0], m, map);
    put_digits(own_[1], consecutive(n, v), map);
    map.resize(current_arena().size());
    map[fold_->slot] = f.stand_in;
    f.store = substitute(store, map);
    if (!gate.u) return f;
    std::vector<UOp*> src(f.store->src, f.store->src + f.store->nsrc);
    for (UOp*& x : src) x = with_gated_loads(x, gate);
    if (src.size() == 3) {
      src[2] = U(src[2]) & gate;
    } else {
      src.push_back(gate);
    }
    f.store = node(Op::STORE, DType::void_, src);
    return f;
  }

  UOp* finish(UOp* store, UOp* tile) {
    for (int64_t v = kAccess / itemsize(store->src[1]->dtype);; v /= 2) {
      if (v > 1 && extent_[1] % v) continue;
      Finished f = finish_by(store, tile, v);
      if (v > 1 && !is_vector_of(f.store, v)) continue;
      std::vector<UOp*> map(current_arena().size());
      map[f.stand_in->slot] = f.sum;
      return substitute(f.store, map);
    }
  }

  Splitter& splitter_;
  Analysis& a_;
  const Caps& caps_;
  UOp* fold_ = nullptr;
  UOp* operand_[2] = {nullptr, nullptr};
  std::vector<UOp*> own_[2], terms_;         // ranges of rows; of k
  int64_t extent_[2] = {1, 1}, depth_ = 1;   // their elements
  int64_t others_ = 1;                       // products: batches
  Block block_;
  U lane_, first_[2], loop_, term_;          // first row of the block; turn over k, and its first term
  bool along_k_[2] = {true, true};
  int64_t vector_[2] = {1, 1};
  UOp* tiles_ = nullptr;
  std::vector<U> turns_;                     // loops over the results, by elements at once
};

}  // namespace

bool apply_blocks(Splitter& splitter, Analysis& a, const Caps& caps) { return Blocks(splitter, a, caps).run(); }

}  // namespace tiny
