#include "codegen/split.h"

#include <algorithm>

#include "base/error.h"
#include "uop/symbolic.h"

namespace tiny {
namespace {

U make_range(UOp* extent, int64_t number, Axis axis) { return node(Op::RANGE, kIndex, {extent}, range_arg(number, axis)); }
U minimum(U a, U b) { return alu(Op::MIN, {a, b}); }
U maximum(U a, U b) { return alu(Op::MAX, {a, b}); }

bool is_array(const UOp* u) { return u->is(Op::PARAM) || u->is(Op::LOCAL); }
const UOp* base_array(const UOp* u) {
  while (u->is(Op::AFTER)) u = u->src[0];
  return u;
}

/// x0 op x1 op ..., as a balanced tree: the order is fixed and the chains are short.
UOp* combine(Op op, std::vector<UOp*> x) {
  while (x.size() > 1) {
    size_t n = 0;
    for (size_t i = 0; i < x.size(); i += 2) x[n++] = i + 1 < x.size() ? alu(op, {x[i], x[i + 1]}).u : x[i];
    x.resize(n);
  }
  return x[0];
}

UOp* fold_lanes(Op op, UOp* x, int64_t lanes) {
  if (lanes == 1) return x;
  if (x->numel == 1) x = node(Op::STACK, x->dtype, std::vector<UOp*>(static_cast<size_t>(lanes), x));
  return node(Op::FOLDLANES, x->dtype, {x}, Arg(static_cast<int64_t>(op)), 1);
}

}  // namespace

int64_t RangeNumbers::after(int64_t number) {
  TINY_ASSERT(made_ + 1 < kStep, "too many loops in one kernel");
  return number / kStep * kStep + ++made_;
}

/// One segment of a split axis: its loop, if it has one, and how everything inside is renamed.
struct Splitter::Piece {
  Segment segment;
  U base, turn;                     // first element of the segment; number of the turn (a constant 0 without a loop)
  std::vector<UOp*> map;            // substitution of what lies inside, but for the axis itself
  int64_t step;                     // elements from one turn to the next
  U empty = {};                     // of a segment that may have no turn: whether it has none
};

Splitter::Splitter(UOp* sink) : sink_(sink) {
  std::vector<UOp*> order = toposort({&sink, 1}), map;
  std::vector<char> named(current_arena().size());
  for (UOp* u : order)
    if (u->is(Op::FOLD) || u->is(Op::PREFIX) || u->is(Op::ORDERED))
      for (UOp* r : named_ranges(u)) named[r->slot] = 1;
  for (UOp* u : order)
    if (u->is(Op::LOCAL)) locals_ = std::max(locals_, u->arg.i + 1);
  for (UOp* u : order)
    if (u->is(Op::RANGE)) {
      map.resize(current_arena().size());
      UOp* extent = substitute(u->src[0], map);
      U r = index_const(0);  // of a loop of one turn
      if (named[u->slot] || !extent->is_const(1)) r = make_range(extent, (2 * range_number(u) + 2) * RangeNumbers::kStep, range_axis(u));
      map.resize(current_arena().size());
      map[u->slot] = r;
    }
  sink_ = substitute(sink_, map);
}

void Splitter::apply(UOp* from, UOp* to) {
  if (from == to) return;
  std::vector<UOp*> map(current_arena().size());
  map[from->slot] = to;
  sink_ = substitute(sink_, map);
}

UOp* Splitter::replace(UOp* r, int64_t number, Axis axis) {
  UOp* to = make_range(r->src[0], number, axis);
  apply(r, to);
  return to;
}

UOp* Splitter::chunk(UOp* r, int64_t size, int64_t inner_number) {
  U n = r->src[0];
  const bool fixed = n->is(Op::CONST);
  const int64_t most = most_turns(r);
  if (size == 1 && fixed) return r;
  if (!fixed) size = std::max<int64_t>(size, 2);  // the number of a loop of at most one turn would fold to 0, and its body leave it
  if (size >= most) return replace(r, inner_number ? inner_number : range_number(r), Axis::Loop);
  U group = range((most + size - 1) / size, range_number(r), Axis::Global), first = group * size;
  U extent = fixed && most % size == 0 ? index_const(size) : minimum(n - first, index_const(size));
  if (!fixed) {  // the last groups may be empty; what is read ahead of a loop must exist even there
    extent = maximum(extent, index_const(0));
    first = minimum(first, n - 1);
  }
  U inner = make_range(extent, inner_number ? inner_number : numbers_.after(range_number(r)), Axis::Loop);
  apply(r, first + inner);
  return inner;
}

UOp* Splitter::share(UOp* r, UOp* groups) {
  U n = r->src[0];
  int64_t g = const_int(groups->src[0]);
  U size = maximum((n + (g - 1)) / g, index_const(2)), first = U(groups) * size;  // 2: as in chunk()
  U extent = maximum(minimum(n - first, size), index_const(0));
  first = minimum(first, n - 1);
  U inner = make_range(extent, numbers_.after(range_number(r)), Axis::Loop);
  apply(r, first + inner);
  return inner;
}

UOp* Splitter::vectors(UOp* r, int64_t elements) {
  if (elements == 1) return r;
  int64_t n = const_int(r->src[0]) / elements;
  U group = n > 1 ? range(n, range_number(r), Axis::Global) : index_const(0);
  U inner = make_range(index_const(elements), numbers_.after(range_number(r)), Axis::Loop);
  apply(r, group * elements + inner);
  const Segment whole{1, elements};
  split(inner, {&whole, 1});
  return n > 1 ? group.u : nullptr;
}

UOp* Splitter::lanes(UOp* r, int64_t lanes, int64_t number) {
  int64_t n = const_int(r->src[0]);
  lanes = std::min(lanes, n);
  for (int64_t d = lanes; d >= 32 && 2 * d > lanes; --d)
    if (n % d == 0) {
      lanes = d;
      break;
    }
  U group = range((n + lanes - 1) / lanes, range_number(r), Axis::Global);
  U lane = range(lanes, number ? number : range_number(r), Axis::Local), element = group * lanes + lane;
  apply(r, element);
  if (n % lanes == 0) return lane;
  std::vector<UOp*> stores(sink_->src, sink_->src + sink_->nsrc);
  for (UOp*& s : stores) s = guarded(s, lt(element, index_const(n)));
  sink_ = node(Op::SINK, DType::void_, stores, {}, 1);
  return lane;
}

UOp* Splitter::inner_loop(UOp* extent, Axis axis) { return make_range(extent, numbers_.after(RangeNumbers::kInnermost), axis); }

UOp* Splitter::local_array(DType d, int64_t n) { return node(Op::LOCAL, d, {index_const(n)}, Arg(locals_++)); }

/// A substitution that puts copy number `copy` of a turn of `p` in the place of axis `r`. A CHECK holds in a segment without a turn: it may
/// leave the loop, if what it looks at does not depend on the turn.
std::vector<UOp*> Splitter::copy_of(const Piece& p, UOp* r, int64_t copy, Nest& nest) {
  U element = element_of(p, copy);
  std::vector<UOp*> map = p.map;
  map.resize(current_arena().size());
  map[r->slot] = element;
  if (!p.empty.u) return map;
  for (UOp* u : nest.nodes) {
    if (!u->is(Op::CHECK) || map[u->slot]) continue;
    U value = substitute(u->src[0], map), holds = substitute(u->src[1], map);
    UOp* check = node(Op::CHECK, u->dtype, {value, alu(Op::OR, {holds, p.empty})}, u->arg);
    map.resize(current_arena().size());
    map[u->slot] = check;
  }
  return map;
}

/// `partial`, one value or vector a lane, reduced over the lanes of a workgroup. Many lanes take two steps of about sqrt(lanes) values
/// each: in the first, lane l adds the values of the lanes equal to l modulo the number of sums, so that neighbours read neighbours.
UOp* Splitter::fold_lanes_of_group(Op op, UOp* partial, LanesOfGroup group) {
  constexpr int64_t one_step = 16;
  DType d = partial->dtype;
  const int64_t lanes = const_int(group.lane->src[0]), others = group.other ? const_int(group.other->src[0]) : 1, width = partial->numel;
  int64_t sums = 1;
  while (sums * sums < lanes) sums *= 2;
  TINY_ASSERT(lanes <= one_step || lanes % sums == 0, "the lanes of a workgroup are a power of two");
  U other = group.other ? U(group.other) : index_const(0);
  auto element = [&](UOp* array, U lane) {
    U at = (lane * others + other) * width;
    return node(Op::INDEX, d, {array, width == 1 ? at : at + node(Op::LANES, kIndex, {}, {}, width)});
  };
  auto step = [&](int64_t slots, U slot, UOp* value, int64_t terms, auto lane_of) {
    UOp* array = local_array(d, slots * others * width);
    UOp* full = node(Op::AFTER, d, {array, node(Op::STORE, DType::void_, {element(array, slot), value})}, {}, 1);
    std::vector<UOp*> values;
    for (int64_t j = 0; j < terms; ++j) values.push_back(node(Op::LOAD, d, {element(full, lane_of(j))}, {}, width));
    return combine(op, std::move(values));
  };
  U lane = group.lane;
  if (lanes <= one_step) return step(lanes, lane, partial, lanes, [](int64_t j) { return index_const(j); });
  U column = lane % sums;
  UOp* sum = step(lanes, lane, partial, lanes / sums, [&](int64_t j) { return column + j * sums; });
  return step(sums, column, sum, sums, [](int64_t j) { return index_const(j); });
}

UOp* Splitter::share_among_lanes(UOp* r, UOp* lane, UOp* other, int64_t elements) {
  Nest nest(sink_);
  int64_t lanes = const_int(lane->src[0]);
  U pieces = U(r->src[0]) / elements;
  bool even = pieces->is(Op::CONST) && const_int(pieces) % lanes == 0;
  U turns = even ? pieces / lanes : maximum(pieces - U(lane) + (lanes - 1), index_const(0)) / lanes;
  Piece p{{1, elements}, U(lane) * elements, make_range(turns, range_number(r), range_axis(r)),
          std::vector<UOp*>(current_arena().size()), lanes * elements, {}};
  // Lanes without an element do nothing, so accesses stay in the loop; but only those: what does not depend on it, barriers among it, is
  // for all lanes.
  p.map = copy_of(p, r, 0, nest);
  for (UOp* u : nest.nodes) {
    if (even || !u->is(Op::INDEX) || !nest.loops(u).has(static_cast<size_t>(nest.number(r)))) continue;
    U array = substitute(u->src[0], p.map), index = substitute(u->src[1], p.map);
    UOp* tied = node(Op::INDEX, u->dtype, {node(Op::AFTER, array->dtype, {array, p.turn}, {}, 1), index});
    p.map.resize(current_arena().size());
    p.map[u->slot] = tied;
  }
  UOp* turn = p.turn;
  std::vector<Piece> parts{std::move(p)};
  replace_axis(nest, r, parts, {lane, other});
  return turn;
}

void Splitter::store_once(UOp* lane) {
  std::vector<UOp*> stores(sink_->src, sink_->src + sink_->nsrc);
  U first = alu(Op::CMPEQ, {lane, index_const(0)});
  for (UOp*& s : stores) {
    if (!s->is(Op::STORE)) continue;
    UOp* index = s->src[0]->src[1];
    std::vector<UOp*> of_index = toposort({&index, 1});
    if (std::find(of_index.begin(), of_index.end(), lane) != of_index.end()) continue;
    s = node(Op::STORE, DType::void_, {s->src[0], s->src[1], s->nsrc > 2 ? U(s->src[2]) & first : first});
  }
  sink_ = node(Op::SINK, DType::void_, stores, {}, 1);
}

/// `store` inside a loop that runs once where `condition` holds, else not at all, with loops of its own.
UOp* Splitter::guarded(UOp* store, UOp* condition) {
  U turn = make_range(cast(condition, kIndex), numbers_.after(0), Axis::Loop);
  std::vector<UOp*> map(current_arena().size());
  for (UOp* u : toposort({&store, 1})) {
    map.resize(current_arena().size());
    if (is_array(u)) map[u->slot] = node(Op::AFTER, u->dtype, {u, turn}, {}, 1);
    if (!u->is(Op::RANGE) || range_axis(u) == Axis::Global || range_axis(u) == Axis::Local) continue;
    UOp* extent = substitute(u->src[0], map);
    UOp* renamed = make_range(extent, numbers_.after(range_number(u)), range_axis(u));
    map.resize(current_arena().size());
    map[u->slot] = renamed;
  }
  return substitute(store, map);
}

void Splitter::run_once(UOp* store, std::span<UOp* const> zero) {
  U here = const_(DType::bool_, 1);
  for (UOp* g : zero) here = here & alu(Op::CMPEQ, {g, index_const(0)});
  std::vector<UOp*> stores(sink_->src, sink_->src + sink_->nsrc);
  for (UOp*& s : stores)
    if (s == store) s = guarded(s, here);
  sink_ = node(Op::SINK, DType::void_, stores, {}, 1);
}

/// What depends on loop `self` reads its arrays behind the loop of piece `p`. The rest stays where it is, and what it is: a FOLD that does
/// not depend on `self` has loops of its own, which must not be in two places.
void Splitter::tie_arrays(Piece& p, Nest& nest, size_t self) {
  for (UOp* u : nest.nodes) {
    bool free = true;
    nest.loops(u).each([&](size_t r) { free &= r != self && !nest.inside(r, self); });
    if (free && is_array(base_array(u))) {
      UOp* tied = node(Op::AFTER, u->dtype, {u, p.turn}, {}, 1);
      p.map[u->slot] = tied;
    } else if (free) {
      p.map[u->slot] = u;
    }
  }
}

std::vector<Splitter::Piece> Splitter::pieces(UOp* r, std::span<const Segment> segments, int64_t elements, Nest& nest) {
  std::vector<Piece> out;
  U extent = r->src[0], rest = extent;
  size_t self = static_cast<size_t>(nest.number(r));
  for (size_t k = 0; k <= segments.size() && !rest->is_const(0); ++k) {
    Segment s = k < segments.size() ? segments[k] : Segment{1, 1};
    // Only the last chunk has less than whole turns of the first segment, and how much less is known.
    if (k > 0 && elements > 0) {
      int64_t left = elements;
      for (size_t i = 0; i < k; ++i) left %= segments[i].size();
      if (left == 0) break;
      if (left < s.size()) continue;
    }
    U turns = rest / s.size();
    Piece p{s, extent - rest, index_const(0), std::vector<UOp*>(current_arena().size()), s.size(), {}};
    rest = rest % s.size();
    if (turns->is_const(0)) continue;
    if (!turns->is_const(1)) {
      p.turn = make_range(turns, out.empty() ? range_number(r) : numbers_.after(range_number(r)), range_axis(r));
      // What a loop guards is tied to it through its arrays, lest it move out of it: a loop of at most one turn is an "if", whose number
      // folds to 0; and a rest that may be empty has its first element beyond the end.
      bool may_be_empty = !turns->is(Op::CONST) && (k > 0 || bounds(turns).hi <= 1 || bounds(extent).lo <= 0);
      if (may_be_empty) tie_arrays(p, nest, self);
      if (!turns->is(Op::CONST)) p.empty = lt(turns, index_const(1));
    }
    if (!out.empty())  // the loops inside are loops of their own in each segment
      for (size_t i = 0; i < nest.ranges.size(); ++i)
        if (nest.inside(i, self)) {
          UOp* x = nest.ranges[i];
          UOp* inner_extent = substitute(x->src[0], p.map);
          UOp* renamed = make_range(inner_extent, numbers_.after(range_number(x)), range_axis(x));
          p.map.resize(current_arena().size());
          p.map[x->slot] = renamed;
        }
    out.push_back(std::move(p));
  }
  return out;
}

U Splitter::element_of(const Piece& p, int64_t copy) {
  U e = p.base + p.turn * p.step + copy * p.segment.lanes;
  return p.segment.lanes == 1 ? e : e + node(Op::LANES, kIndex, {}, {}, p.segment.lanes);
}

/// FOLD `f` over the split axis as one FOLD a copy of each piece; lanes and copies are combined at the end. `lanes`: every lane of a
/// workgroup has such a part.
UOp* Splitter::split_fold(UOp* f, UOp* r, std::vector<Piece>& parts, LanesOfGroup lanes, Nest& nest) {
  Op op = static_cast<Op>(f->arg.i);
  std::vector<UOp*> results;
  for (Piece& p : parts) {
    std::vector<UOp*> copies;
    for (int64_t c = 0; c < p.segment.copies; ++c) {
      std::vector<UOp*> inner = copy_of(p, r, c, nest);
      std::vector<UOp*> src{substitute(f->src[0], inner)};
      if (p.turn->is(Op::RANGE)) src.push_back(p.turn);
      for (UOp* other : named_ranges(f))
        if (other != r) src.push_back(substitute(other, inner));
      copies.push_back(src.size() == 1 ? src[0] : node(Op::FOLD, f->dtype, src, f->arg).u);
    }
    results.push_back(fold_lanes(op, combine(op, std::move(copies)), p.segment.lanes));
  }
  if (lanes.lane) return fold_lanes_of_group(op, results[0], lanes);
  if (results.empty()) return current_arena().make(Op::CONST, f->dtype, 1, identity_arg(op, f->dtype), {});
  UOp* whole = results[0];
  for (size_t i = 1; i < results.size(); ++i) whole = alu(op, {whole, results[i]});
  return whole;
}

void Splitter::nest_folds(UOp* r, int64_t size) {
  Nest nest(sink_);
  const size_t self = static_cast<size_t>(nest.number(r));
  U n = r->src[0];
  U outer = make_range((n + (size - 1)) / size, range_number(r), Axis::Reduce), first = outer * size;
  U extent = n->is(Op::CONST) && const_int(n) % size == 0 ? index_const(size) : minimum(n - first, index_const(size));
  U inner = make_range(extent, numbers_.after(range_number(r)), Axis::Reduce);
  std::vector<UOp*> map(current_arena().size());
  auto replace = [&map](UOp* u, UOp* by) { map.resize(current_arena().size()), map[u->slot] = by; };
  replace(r, first + inner);
  for (UOp* u : nest.nodes) {
    if (!u->is(Op::FOLD) || std::find(u->src + 1, u->src + u->nsrc, r) == u->src + u->nsrc) continue;
    std::vector<UOp*> part{substitute(u->src[0], map), inner}, whole{nullptr, outer};
    for (UOp* other : named_ranges(u)) {
      if (other == r) continue;
      const bool inside = nest.inside(static_cast<size_t>(nest.number(other)), self);
      (inside ? part : whole).push_back(substitute(other, map));
      map.resize(current_arena().size());
    }
    whole[0] = node(Op::FOLD, u->dtype, part, u->arg);
    replace(u, node(Op::FOLD, u->dtype, whole, u->arg));
  }
  map.resize(current_arena().size());
  sink_ = substitute(sink_, map);
}

void Splitter::split(UOp* r, std::span<const Segment> segments, int64_t elements) {
  Nest nest(sink_);
  if (!nest.contains(r)) return;
  std::vector<Piece> parts = pieces(r, segments, elements, nest);
  replace_axis(nest, r, parts, {});
}

void Splitter::replace_axis(Nest& nest, UOp* r, std::vector<Piece>& parts, LanesOfGroup lanes) {
  size_t self = static_cast<size_t>(nest.number(r));
  auto copies_of = [&](UOp* store, std::vector<UOp*>* out) {
    for (Piece& p : parts)
      for (int64_t c = 0; c < p.segment.copies; ++c) {
        std::vector<UOp*> map = copy_of(p, r, c, nest);
        out->push_back(substitute(store, map));
      }
  };
  std::vector<UOp*> map(current_arena().size()), src;
  auto replace = [&map](UOp* u, UOp* by) { map.resize(current_arena().size()), map[u->slot] = by; };
  for (UOp* u : nest.nodes) {
    if (u->is(Op::FOLD) && std::find(u->src + 1, u->src + u->nsrc, r) != u->src + u->nsrc) replace(u, split_fold(u, r, parts, lanes, nest));
    if (!u->is(Op::AFTER) || nest.loops(u).has(self)) continue;
    // Stores into arrays that are read later, outside of this loop: the reads wait for all copies.
    src.assign({u->src[0]});
    for (UOp* s : named_ranges(u)) {
      if (s->is(Op::STORE) && nest.loops(s).has(self)) {
        copies_of(s, &src);
      } else {
        src.push_back(s);
      }
    }
    if (src.size() != u->nsrc || !std::equal(src.begin(), src.end(), u->src)) replace(u, node(Op::AFTER, u->dtype, src, u->arg, u->numel));
  }
  std::vector<UOp*> stores;
  for (UOp* s : sink_->sources()) {
    if (nest.loops(s).has(self)) {
      copies_of(s, &stores);
    } else {
      stores.push_back(s);
    }
  }
  map.resize(current_arena().size());
  for (UOp*& s : stores) s = substitute(s, map);
  sink_ = node(Op::SINK, DType::void_, stores, {}, 1);
}

}  // namespace tiny
