// Loops are placed by what depends on them: a node stands in the body of the innermost loop that it depends on, so nothing that a loop does
// not change is computed inside it. In each body, nodes and whole inner loops are put in an order of dependence.
#include "codegen/linearize.h"

#include <algorithm>

#include "base/error.h"
#include "codegen/nest.h"

namespace tiny {
namespace {

constexpr int kRoot = -1;

class Linearizer {
 public:
  Linearizer(UOp* sink, int64_t lanes) : nest_(sink), lanes_(lanes) {}

  std::vector<UOp*> run() {
    place();
    find_edges();
    for (UOp* r : nest_.ranges)
      if (is_group(r)) emit_group(r);
    emit_body(kRoot);
    return std::move(out_);
  }

 private:
  static bool is_group(const UOp* r) { return range_axis(r) == Axis::Global || range_axis(r) == Axis::Local; }
  size_t nodes() const { return nest_.nodes.size(); }

  /// The innermost loop of a set; the ranges of workgroups and lanes make no loop.
  int innermost(LoopSet loops) const {
    int last = loops.last();
    return last >= 0 && is_group(nest_.ranges[static_cast<size_t>(last)]) ? kRoot : last;
  }

  void place() {
    size_t n = nodes(), loops = nest_.ranges.size();
    body_.resize(n), parent_.resize(loops), depth_.resize(loops);
    for (size_t r = 0; r < loops; ++r) {  // outer loops come first
      parent_[r] = is_group(nest_.ranges[r]) ? kRoot : innermost(nest_.around(r));
      depth_[r] = parent_[r] == kRoot ? 1 : depth_[static_cast<size_t>(parent_[r])] + 1;
    }
    for (size_t i = 0; i < n; ++i) {
      UOp* u = nest_.nodes[i];
      body_[i] = innermost(nest_.loops(u));
      if (u->is(Op::ACC)) {  // stands before its outermost loop
        std::span<UOp* const> own = named_ranges(u);
        TINY_ASSERT(!own.empty(), "an accumulator without a loop");
        UOp* first = *std::min_element(own.begin(), own.end(), nests_before);
        body_[i] = parent_[static_cast<size_t>(nest_.number(first))];
      }
    }
    bodies_.resize(loops + 1);
    for (size_t i = 0; i < n; ++i) {
      UOp* u = nest_.nodes[i];
      if (!u->is(Op::RANGE)) bodies_[static_cast<size_t>(body_[i] + 1)].push_back(i);
      if (u->is(Op::RANGE) && !is_group(u)) {
        size_t r = static_cast<size_t>(nest_.number(u));
        bodies_[static_cast<size_t>(parent_[r] + 1)].push_back(n + r);
      }
    }
  }

  int depth(int loop) const { return loop == kRoot ? 0 : depth_[static_cast<size_t>(loop)]; }
  int parent(int loop) const { return parent_[static_cast<size_t>(loop)]; }

  /// An item is a node (its position) or a loop (nodes() + its number). Item `user` must come after item `source` in a body that has both.
  void add_edge(size_t source, int source_body, size_t user, int user_body) {
    while (depth(source_body) > depth(user_body)) source = nodes() + static_cast<size_t>(source_body), source_body = parent(source_body);
    while (depth(user_body) > depth(source_body)) user = nodes() + static_cast<size_t>(user_body), user_body = parent(user_body);
    while (source_body != user_body) {
      source = nodes() + static_cast<size_t>(source_body), source_body = parent(source_body);
      user = nodes() + static_cast<size_t>(user_body), user_body = parent(user_body);
    }
    if (source != user) edges_.push_back({user, source});
  }

  void find_edges() {
    for (size_t i = 0; i < nodes(); ++i) {
      UOp* u = nest_.nodes[i];
      bool loop = u->is(Op::RANGE);
      if (loop && is_group(u)) continue;
      size_t user = loop ? nodes() + static_cast<size_t>(nest_.number(u)) : i;
      int user_body = loop ? parent_[static_cast<size_t>(nest_.number(u))] : body_[i];
      for (UOp* s : u->sources()) {
        if (s->is(Op::RANGE)) continue;  // open wherever its number is used
        if (u->is(Op::ACC) && s != u->src[0]) continue;
        size_t source = static_cast<size_t>(nest_.position(s));
        add_edge(source, body_[source], user, user_body);
      }
      if (u->is(Op::ACC))  // before its loops open
        for (UOp* r : named_ranges(u)) {
          size_t number = static_cast<size_t>(nest_.number(r));
          add_edge(i, body_[i], nodes() + number, parent_[number]);
        }
    }
    size_t items = nodes() + nest_.ranges.size();
    first_.assign(items + 1, 0);
    for (auto [user, source] : edges_) ++first_[user + 1];
    for (size_t i = 0; i < items; ++i) first_[i + 1] += first_[i];
    sources_.resize(edges_.size());
    std::vector<uint32_t> at(first_.begin(), first_.end() - 1);
    for (auto [user, source] : edges_) sources_[at[user]++] = source;
    state_.assign(items, State::New);
  }

  void emit_group(UOp* r) {
    State& extent = state_[static_cast<size_t>(nest_.position(r->src[0]))];
    if (extent == State::New) out_.push_back(r->src[0]);
    extent = State::Done;
    out_.push_back(r);
  }

  /// Depth-first over what each item waits for; items are tried in the order of the graph, so values stand near their uses.
  void emit_body(int loop) {
    std::vector<std::pair<size_t, uint32_t>> stack;
    for (size_t root : bodies_[static_cast<size_t>(loop + 1)]) {
      if (state_[root] != State::New) continue;
      state_[root] = State::Open;
      stack.push_back({root, first_[root]});
      while (!stack.empty()) {
        auto& [item, next] = stack.back();
        if (next < first_[item + 1]) {
          size_t s = sources_[next++];
          TINY_ASSERT(state_[s] != State::Open, "loops of a kernel wait for each other:\n" + print(nest_.nodes.back()));
          if (state_[s] == State::New) state_[s] = State::Open, stack.push_back({s, first_[s]});
        } else {
          size_t done = item;
          stack.pop_back();
          state_[done] = State::Done;
          emit_item(done);
        }
      }
    }
  }

  void emit_item(size_t item) {
    if (item < nodes()) {
      UOp* u = nest_.nodes[item];
      if (u->is(Op::SINK)) return;
      // What a lane stored outside of loops; for stores in loops the barrier stands behind the loop.
      if (lanes_ > 1 && u->is(Op::AFTER) && stored_here(u)) out_.push_back(node(Op::BARRIER, DType::void_, {out_.back()}, {}, 1));
      out_.push_back(u);
      return;
    }
    UOp* r = nest_.ranges[item - nodes()];
    size_t begin = out_.size();
    out_.push_back(r);
    emit_body(static_cast<int>(item - nodes()));
    out_.push_back(node(Op::END, DType::void_, {r}, {}, 1));
    if (lanes_ > 1 && stores_local(begin)) out_.push_back(node(Op::BARRIER, DType::void_, {out_.back()}, {}, 1));
  }

  /// AFTER of a LOCAL array that waits for a STORE in the same body.
  bool stored_here(UOp* u) const {
    UOp* array = u->src[0];
    while (array->is(Op::AFTER)) array = array->src[0];
    if (!array->is(Op::LOCAL)) return false;
    int body = body_[static_cast<size_t>(nest_.position(u))];
    return std::any_of(u->src + 1, u->src + u->nsrc, [&](UOp* s) {
      return s->is(Op::STORE) && body_[static_cast<size_t>(nest_.position(s))] == body;
    });
  }

  bool stores_local(size_t begin) const {
    for (size_t i = begin; i < out_.size(); ++i) {
      if (!out_[i]->is(Op::STORE)) continue;
      UOp* array = out_[i]->src[0]->src[0];
      while (array->is(Op::AFTER)) array = array->src[0];
      if (array->is(Op::LOCAL)) return true;
    }
    return false;
  }

  enum class State : uint8_t { New, Open, Done };
  struct Edge {
    size_t user, source;
  };
  Nest nest_;
  int64_t lanes_;
  std::vector<int> body_;                   // by node: the loop in which it stands
  std::vector<int> parent_, depth_;         // by loop
  std::vector<std::vector<size_t>> bodies_; // by loop + 1: items in the order of the graph
  std::vector<Edge> edges_;
  std::vector<uint32_t> first_;             // sources_ of item i start at first_[i]
  std::vector<size_t> sources_;
  std::vector<State> state_;
  std::vector<UOp*> out_;
};

}  // namespace

std::vector<UOp*> linearize(UOp* sink, int64_t lanes) { return Linearizer(sink, lanes).run(); }

}  // namespace tiny
