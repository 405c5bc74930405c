// The loop over k of a BLOCK:
//
//   for ahead < stages: copies of turn `ahead`; COMMIT
//   for k: WAIT for this turn's batch; BARRIER; copies of turn k + stages, if there is one; COMMIT; BLOCK
//
// One BARRIER a turn serves both ways: the tile of turn k is there for all lanes, and none reads any longer what the next copies overwrite.
#include "codegen/stages.h"

#include <algorithm>

#include "base/error.h"
#include "codegen/block.h"
#include "uop/symbolic.h"

namespace tiny {
namespace {

constexpr int64_t kWidestCopy = 16, kNarrowestCopy = 4;  // bytes

UOp* base(UOp* array) {
  while (array->is(Op::AFTER)) array = array->src[0];
  return array;
}

/// `store` as a COPY, which lanes do not wait for; where it cannot be one, as it is.
UOp* as_copy(UOp* store) {
  UOp *to = store->src[0], *value = store->src[1];
  if (store->nsrc != 2 || !value->is(Op::LOAD) || !base(value->src[0]->src[0])->is(Op::PARAM)) return store;
  int64_t bytes = value->numel * itemsize(value->dtype);
  if (bytes < kNarrowestCopy || bytes > kWidestCopy || (bytes & (bytes - 1))) return store;
  for (UOp* index : {to->src[1], value->src[0]->src[1]})
    if (index->numel != 1 || known_factor(index) % value->numel) return store;
  if (value->nsrc == 1) return node(Op::COPY, DType::void_, {to, value->src[0]}, {}, value->numel);
  if (value->src[1]->numel != 1 || !value->src[2]->is_const(0)) {
    bool zero = value->src[2]->is(Op::CONST) && is_float(value->dtype) && value->src[2]->arg.f == 0;
    if (value->src[1]->numel != 1 || !zero) return store;
  }
  return node(Op::COPY, DType::void_, {to, value->src[0], value->src[1]}, {}, value->numel);
}

class Stager {
 public:
  Stager(std::vector<UOp*> in, const Caps& caps) : in_(std::move(in)), caps_(caps) {}

  std::vector<UOp*> run() {
    size_t at = static_cast<size_t>(std::find_if(in_.begin(), in_.end(), [](UOp* u) { return u->is(Op::BLOCK); }) - in_.begin());
    if (at == in_.size()) return std::move(in_);
    find_loop(at);
    Block block = Block::unpack(in_[at]->arg);
    UOp* tiles = base(in_[at]->src[0]->src[0]);
    for (size_t i = begin_; i < end_; ++i)
      if (in_[i]->is(Op::STORE) && base(in_[i]->src[0]->src[0]) == tiles) copies_.push_back(in_[i]);
    // A BLOCK of four warps is still read one turn later.
    stages_ = block.slots - (block.engine == Engine::WarpGroups ? 2 : 1);
    TINY_ASSERT(stages_ >= 1, "a BLOCK with too few slots");
    for (size_t i = 0; i < begin_; ++i) put(in_[i]);
    first_copies();
    loop(tiles);
    // Where the loop stores nothing itself, having one turn, nobody has put a BARRIER between its reads and what comes into their place.
    if (end_ + 1 == in_.size() || !in_[end_ + 1]->is(Op::BARRIER)) effect(Op::BARRIER);
    for (size_t i = end_ + 1; i < in_.size(); ++i) put_renewed(in_[i]);
    return std::move(out_);
  }

 private:
  /// The loop whose body holds the BLOCK.
  void find_loop(size_t block) {
    std::vector<size_t> open;
    for (size_t i = 0; i < block; ++i) {
      if (in_[i]->is(Op::RANGE) && range_axis(in_[i]) != Axis::Global && range_axis(in_[i]) != Axis::Local) open.push_back(i);
      if (in_[i]->is(Op::END)) open.pop_back();
    }
    TINY_ASSERT(!open.empty(), "a BLOCK outside of a loop");
    begin_ = open.back(), end_ = begin_;
    while (!in_[end_]->is(Op::END) || in_[end_]->src[0] != in_[begin_]) ++end_;
    turns_ = const_int(in_[begin_]->src[0]);
    for (UOp* u : in_) next_number_ = std::max(next_number_, u->is(Op::RANGE) ? range_number(u) + 1 : 0);
  }

  bool is_put(const UOp* u) const { return u->slot < put_.size() && put_[u->slot]; }
  void put(UOp* u) {
    if (put_.size() <= u->slot) put_.resize(std::max<size_t>(current_arena().size(), u->slot + 1));
    put_[u->slot] = 1;
    out_.push_back(u);
  }
  UOp* effect(Op op, int64_t arg = 0) {
    UOp* u = node(op, DType::void_, {out_.back()}, Arg(arg), 1);
    put(u);
    return u;
  }

  /// Nodes below `roots` that no loop of `inside` changes are put at once, the others returned, sources first.
  std::vector<UOp*> hoist(const std::vector<UOp*>& roots, const std::vector<UOp*>& inside) {
    std::vector<UOp*> order = toposort(roots), rest;
    std::vector<char> varies(current_arena().size());
    for (UOp* u : order) {
      bool v = std::find(inside.begin(), inside.end(), u) != inside.end() || std::find(roots.begin(), roots.end(), u) != roots.end();
      for (UOp* s : u->sources()) v |= static_cast<bool>(varies[s->slot]);
      varies[u->slot] = v;
      if (is_put(u) || std::find(inside.begin(), inside.end(), u) != inside.end()) continue;
      if (v) {
        rest.push_back(u);
      } else {
        put(u);
      }
    }
    return rest;
  }

  /// The copies of turn `turn` of the loop.
  std::vector<UOp*> copies_of(UOp* turn) {
    std::vector<UOp*> map(current_arena().size()), out;
    map[in_[begin_]->slot] = turn;
    for (UOp* c : copies_) {
      map.resize(current_arena().size());
      UOp* s = substitute(c, map);
      if (s->numel != c->numel) {  // no lane reads memory in this turn
        UOp* value = node(Op::STACK, s->src[1]->dtype, std::vector<UOp*>(static_cast<size_t>(c->numel), s->src[1]));
        s = node(Op::STORE, DType::void_, {s->src[0], value}, {}, c->numel);
      }
      out.push_back(caps_.async_copies ? as_copy(s) : s);
    }
    return out;
  }

  UOp* new_loop(UOp* extent) { return node(Op::RANGE, kIndex, {extent}, range_arg(next_number_++, Axis::Loop), 1); }

  void first_copies() {
    int64_t n = std::min(stages_, turns_);
    UOp* ahead = new_loop(index_const(n));
    std::vector<UOp*> body = hoist(copies_of(ahead), {ahead});
    if (!is_put(ahead->src[0])) put(ahead->src[0]);
    put(ahead);
    for (UOp* u : body) put(u);
    effect(Op::COMMIT);
    put(node(Op::END, DType::void_, {ahead}, {}, 1));
    for (; n < stages_; ++n) effect(Op::COMMIT);
  }

  void loop(UOp* tiles) {
    UOp* k = in_[begin_];
    std::vector<UOp*> later, ahead;
    UOp* guard = nullptr;
    if (turns_ > stages_) {
      guard = new_loop(cast(lt(U(k) + stages_, index_const(turns_)), kIndex));
      later = copies_of(U(k) + stages_);
      ahead = hoist({guard->src[0]}, {k});
      later = hoist(later, {k});
    }
    put(k);
    effect(Op::WAIT, stages_ - 1);
    UOp* barrier = effect(Op::BARRIER);
    if (guard) {
      for (UOp* u : ahead)
        if (!is_put(u)) put(u);
      std::vector<UOp*> reads = put_indices(later);
      put(guard);
      for (UOp* u : reads) put(u);
      put(node(Op::END, DType::void_, {guard}, {}, 1));
    }
    effect(Op::COMMIT);
    renewed_.resize(current_arena().size());
    // What the BLOCK and the rest of the body need; arrays are full once the BARRIER has passed.
    for (size_t i = begin_; i < end_; ++i) {
      UOp* u = in_[i];
      if (u->is(Op::AFTER) && base(u) == tiles) renew(u, node(Op::AFTER, u->dtype, {tiles, barrier}, {}, 1));
    }
    std::vector<UOp*> roots;
    for (size_t i = begin_; i < end_; ++i)
      if (in_[i]->is(Op::UPDATE)) roots.push_back(renewed(in_[i]));
    for (UOp* u : toposort(roots))
      if (!is_put(u)) put(u);
    put(in_[end_]);
  }

  /// Puts what reads no memory, which the BLOCK may need too, and returns the others.
  std::vector<UOp*> put_indices(const std::vector<UOp*>& nodes) {
    std::vector<UOp*> reads;
    std::vector<char> is_read(current_arena().size());
    for (UOp* u : nodes) {
      bool r = u->dtype == DType::void_ || u->is(Op::LOAD);
      for (UOp* s : u->sources()) r |= static_cast<bool>(is_read[s->slot]);
      is_read[u->slot] = r;
      if (is_put(u)) continue;
      if (r) {
        reads.push_back(u);
      } else {
        put(u);
      }
    }
    return reads;
  }

  void renew(UOp* old, UOp* by) {
    renewed_.resize(std::max<size_t>(renewed_.size(), current_arena().size()));
    renewed_[old->slot] = by;
  }
  UOp* renewed(UOp* u) {
    renewed_.resize(std::max<size_t>(renewed_.size(), current_arena().size()));
    return substitute(u, renewed_);
  }
  void put_renewed(UOp* u) {
    UOp* r = renewed(u);
    if (!is_put(r)) put(r);
  }

  std::vector<UOp*> in_, out_, copies_, renewed_;
  const Caps& caps_;
  std::vector<char> put_;
  size_t begin_ = 0, end_ = 0;  // places of the loop's RANGE and END
  int64_t turns_ = 0, stages_ = 1, next_number_ = 0;
};

}  // namespace

std::vector<UOp*> stage_copies(std::vector<UOp*> linear, const Caps& caps) { return Stager(std::move(linear), caps).run(); }

}  // namespace tiny
