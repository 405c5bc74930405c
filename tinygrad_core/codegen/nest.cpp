#include "codegen/nest.h"

#include <algorithm>

#include "base/error.h"
#include "uop/symbolic.h"

namespace tiny {
namespace {

int axis_class(const UOp* r) {
  switch (range_axis(r)) {
    case Axis::Global: return 0;
    case Axis::Local: return 1;
    default: return 2;
  }
}

bool is_array(const UOp* u) {
  while (u->is(Op::AFTER)) u = u->src[0];
  return u->is(Op::PARAM) || u->is(Op::LOCAL);
}

}  // namespace

bool nests_before(const UOp* a, const UOp* b) {
  int x = axis_class(a), y = axis_class(b);
  return x != y ? x < y : range_number(a) != range_number(b) ? range_number(a) < range_number(b) : a->slot < b->slot;
}

Nest::Nest(UOp* sink) : nodes(toposort({&sink, 1})) {
  position_.assign(current_arena().size(), -1);
  for (size_t i = 0; i < nodes.size(); ++i) {
    UOp* u = nodes[i];
    position_[u->slot] = static_cast<int>(i);
    if (u->is(Op::RANGE)) ranges.push_back(u);
    if (u->is(Op::AFTER) && is_array(u)) orders_arrays_ = true;
  }
  std::sort(ranges.begin(), ranges.end(), nests_before);
  number_.assign(position_.size(), -1);
  for (size_t i = 0; i < ranges.size(); ++i) number_[ranges[i]->slot] = static_cast<int>(i);
  words_ = std::max<size_t>(1, (ranges.size() + 63) / 64);
  sets_.assign(nodes.size() * words_, 0);
  around_.assign(std::max<size_t>(1, ranges.size()) * words_, 0);
  if (orders_arrays_) find_users();
  for (UOp* u : nodes) find_loops(u);
  enclose();
}

/// For each node, the loops that its users (and theirs) depend on otherwise than by waiting for stores.
void Nest::find_users() {
  std::vector<uint64_t> direct(nodes.size() * words_, 0);
  users_.assign(nodes.size() * words_, 0);
  auto at = [this](std::vector<uint64_t>& v, const UOp* u) {
    return LoopSet(&v[static_cast<size_t>(position_[u->slot]) * words_], words_);
  };
  for (UOp* u : nodes) {
    LoopSet own = at(direct, u);
    if (u->is(Op::SINK)) continue;  // stores are no users of each other
    if (u->is(Op::RANGE)) own.add(static_cast<size_t>(number_[u->slot]));
    bool waits = u->is(Op::AFTER) && is_array(u);
    for (UOp* s : u->sources())
      if (!waits || s->is(Op::RANGE) || s->is(Op::AFTER)) own.add_all(at(direct, s));
    const UOp* reduction = u->is(Op::FOLD) ? u : u->is(Op::AFTER) && u->src[0]->is(Op::ACC) ? u->src[0] : nullptr;
    if (!reduction) continue;
    for (UOp* r : named_ranges(reduction)) own.remove(static_cast<size_t>(number_[r->slot]));
    for (UOp* s : named_ranges(u))
      if (s->is(Op::RANGE) && u->is(Op::AFTER)) own.add_all(at(direct, s));
  }
  for (size_t i = nodes.size(); i-- > 0;)
    for (UOp* s : nodes[i]->sources()) {
      if (nodes[i]->is(Op::SINK)) break;  // joins what has nothing to do with each other
      at(users_, s).add_all(at(direct, nodes[i]));
      at(users_, s).add_all(at(users_, nodes[i]));
    }
}

void Nest::find_loops(UOp* u) {
  LoopSet own = loops(u);
  switch (u->op) {
    case Op::SINK: return;  // in no loop: those of its stores stand side by side
    case Op::RANGE:
      own.add_all(loops(u->src[0]));
      own.add(static_cast<size_t>(number_[u->slot]));
      return;
    case Op::FOLD:
      own.add_all(loops(u->src[0]));
      for (UOp* r : named_ranges(u)) own.remove(static_cast<size_t>(number_[r->slot]));
      for (UOp* r : named_ranges(u)) own.add_all(loops(r->src[0]));
      return;
    case Op::AFTER:
      own.add_all(loops(u->src[0]));
      for (UOp* s : named_ranges(u)) {
        if (u->src[0]->is(Op::ACC)) continue;
        if (s->is(Op::RANGE) || s->is(Op::AFTER)) {
          own.add_all(loops(s));
        } else {
          LoopSet users(&users_[static_cast<size_t>(position_[u->slot]) * words_], words_);
          loops(s).each([&](size_t r) { if (axis_class(ranges[r]) < 2 || users.has(r)) own.add(r); });
        }
      }
      if (u->src[0]->is(Op::ACC)) {
        UOp* acc = u->src[0];
        own.clear();
        for (UOp* s : named_ranges(u)) own.add_all(loops(s));
        for (UOp* r : named_ranges(acc)) own.remove(static_cast<size_t>(number_[r->slot]));
        for (UOp* s : named_ranges(u))
          if (s->is(Op::RANGE)) own.add_all(loops(s));  // a PREFIX is read inside its loop
      }
      return;
    default:
      for (UOp* s : u->sources()) own.add_all(loops(s));
  }
}

/// Each loop lies inside those before it in any node's set, and inside those that enclose them. True if that changed anything.
bool Nest::close() {
  bool changed = false;
  std::vector<uint64_t> storage(words_);
  LoopSet outer(storage.data(), words_);
  auto chain = [&](LoopSet loops) {
    bool more = false;
    outer.clear();
    loops.each([&](size_t r) { more |= around(r).add_all(outer), outer.add(r); });
    return more;
  };
  std::vector<uint64_t> body(words_);
  for (UOp* u : nodes) {
    if (u->nsrc) changed |= chain(loops(u));
    if (!u->is(Op::FOLD)) continue;
    LoopSet own(body.data(), words_);  // a FOLD's loops nest even if its value does not depend on all of them
    own.copy(loops(u->src[0]));
    for (UOp* r : named_ranges(u)) own.add(static_cast<size_t>(number_[r->slot]));
    changed |= chain(own);
  }
  for (bool more = true; more; changed |= more) {
    more = false;
    for (size_t r = 0; r < ranges.size(); ++r) {
      more |= chain(around(r));
      around(r).each([&](size_t o) { more |= around(r).add_all(around(o)); });
    }
  }
  return changed;
}

/// Finds which loops enclose which, and puts a FOLD's result where its outermost loop ends, until nothing changes.
void Nest::enclose() {
  std::vector<uint64_t> storage(words_);
  LoopSet before(storage.data(), words_);
  while (close()) {
    bool moved = false;
    for (UOp* u : nodes) {
      if (!u->nsrc) continue;
      before.copy(loops(u));
      find_loops(u);
      loops(u).add_all(before);
      bool fold = u->is(Op::FOLD);
      if (!fold && !(u->is(Op::AFTER) && u->src[0]->is(Op::ACC))) continue;
      std::span<UOp* const> own = named_ranges(fold ? u : u->src[0]);
      if (own.empty()) continue;
      UOp* first = *std::min_element(own.begin(), own.end(), nests_before);
      moved |= loops(u).add_all(around(static_cast<size_t>(number_[first->slot])));
    }
    if (!moved) break;
  }
}

int64_t most_turns(const UOp* range) {
  const UOp* n = range->src[0];
  return n->is(Op::CONST) ? n->arg.i : bounds(n).hi;
}

int64_t Nest::extent(size_t r) const { return most_turns(ranges[r]); }

}  // namespace tiny
