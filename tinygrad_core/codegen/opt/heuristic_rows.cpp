// Elementwise kernels and kernels with loops over rows: which axis becomes vectors, how many vectors at once, which axes become workgroups.
#include <algorithm>

#include "base/log.h"
#include "codegen/estimate.h"
#include "codegen/opt/options.h"

namespace tiny {
namespace {

constexpr int64_t kAccumulators = 8;   // additions in flight: latency 4 on two ports
constexpr double kLongBody = 120;      // several functions, each waiting for the one before: more than a processor looks ahead
constexpr int64_t kTile = 16;          // elements of a second contiguous axis: a cache line of 4-byte elements
constexpr int64_t kMaxBody = 2000;     // nodes of all copies of a body
constexpr size_t kMaxKernel = 4000;    // nodes of all bodies: the target's compiler takes time for each

class Rows {
 public:
  Rows(Splitter& splitter, Analysis& a, const Caps& caps) : splitter_(splitter), a_(a), caps_(caps) {}

  void run(Choice& choice) {
    choose_vectors();
    take(choice);
    for (size_t v : vectors_) plan_vector(v);
    plan_blocks();
    for (size_t r = 0; r < a_.loops.size(); ++r)
      if (a_.loops[r].reduces && is_leaf(r) && !planned(r)) plan_chain(r);
    TINY_LOG(3, pass, "options: {}", describe());
    std::vector<GroupRange> order = group_order();
    make_groups(splitter_, order, cost_, caps_, plans_);
    apply_plans(splitter_, plans_);
  }

 private:
  bool is_inner(size_t r) const { return !a_.loops[r].global; }
  bool is_leaf(size_t r) {
    for (size_t i = 0; i < a_.loops.size(); ++i)
      if (a_.nest.inside(i, r)) return false;
    return is_inner(r);
  }
  bool planned(size_t r) const {
    return std::any_of(plans_.begin(), plans_.end(), [&](const AxisPlan& p) { return p.range == a_.loops[r].range; });
  }
  bool nested(const std::vector<size_t>& v) {
    for (size_t a : v)
      for (size_t b : v)
        if (a_.nest.inside(a, b)) return true;
    return false;
  }

  /// Either one Global range for the whole kernel, or in each innermost loop (or the best loop around it) that loop's own range.
  void choose_vectors() {
    const double scalar = a_.cost_with({}, caps_);
    ways_.push_back({{}, scalar});
    auto consider = [this](std::vector<size_t> v) {
      const bool known = std::any_of(ways_.begin(), ways_.end(), [&](const Way& w) { return w.vectors == v; });
      if (!known) ways_.push_back({v, a_.cost_with(v, caps_)});
    };
    std::vector<size_t> inner, leaves;
    for (size_t r = 0; r < a_.loops.size(); ++r) {
      if (!is_leaf(r)) continue;
      if (can_vectorise(r)) leaves.push_back(r);
      size_t best = r;
      double least = scalar;
      bool any = false;
      auto try_loop = [&](size_t x) {
        if (!can_vectorise(x)) return;
        double c = a_.cost_with({x}, caps_);
        if (c < least) least = c, best = x, any = true;
      };
      try_loop(r);
      a_.nest.around(r).each([&](size_t x) { if (is_inner(x)) try_loop(x); });
      if (any && std::find(inner.begin(), inner.end(), best) == inner.end()) inner.push_back(best);
    }
    consider(leaves);
    if (!nested(inner)) consider(inner);
    for (size_t r = a_.loops.size(); r-- > 0;)
      if (!is_inner(r) && can_vectorise(r)) consider({r});
    std::stable_sort(ways_.begin(), ways_.end(), [](const Way& x, const Way& y) { return x.cost < y.cost; });
  }

  /// Each way with as many copies as the heuristics think, then with others.
  void take(Choice& choice) {
    constexpr int64_t kCopies[] = {0, 1, 2, 4, 8};
    const size_t n = choice.of(ways_.size() * std::size(kCopies)), way = n / std::size(kCopies);
    vectors_ = ways_[way].vectors, cost_ = ways_[way].cost, wanted_copies_ = kCopies[n % std::size(kCopies)];
  }

  bool can_vectorise(size_t r) { return a_.lanes(r, caps_) > 1; }

  size_t body_nodes(size_t r) {
    return static_cast<size_t>(std::count_if(a_.nest.nodes.begin(), a_.nest.nodes.end(), [&](UOp* u) { return a_.nest.loops(u).has(r); }));
  }

  void plan_vector(size_t r) {
    const LoopFacts& l = a_.loops[r];
    int64_t lanes = a_.lanes(r, caps_), vectors = l.extent / lanes;
    double body = a_.body_cost(r);
    int64_t over = a_.folds_over(r), inside = a_.folds_inside(r), copies = body <= 8 ? 4 : body <= 20 ? 2 : 1;
    if (over) copies = body <= 8 ? std::clamp<int64_t>(kAccumulators / over, 1, 4) : body <= 30 ? 2 : 1;
    if (body > kLongBody) copies = 4;
    if (inside) copies = std::clamp<int64_t>(kAccumulators / inside, 1, inner_cost(r) <= 8 ? 8 : 4);
    if (wanted_copies_) copies = wanted_copies_;
    copies = std::min(copies, std::max<int64_t>(1, kMaxBody / static_cast<int64_t>(4 * body_nodes(r) + 1)));
    copies = std::max<int64_t>(1, std::min({copies, vectors, static_cast<int64_t>(kMaxKernel / a_.nest.nodes.size())}));
    if (l.extent % lanes == 0 && !wanted_copies_)  // no vectors left over, if that takes hardly fewer or more copies
      for (int64_t c : {copies, copies - 1, copies + 1})
        if (c >= 1 && copies > 1 && vectors % c == 0) {
          copies = c;
          break;
        }
    accumulators_ = std::max(accumulators_, copies * std::max<int64_t>(1, inside));
    AxisPlan p{l.range, {Segment{copies, lanes}}};
    if (copies > 1) p.segments.push_back({1, lanes});
    plans_.push_back(p);
  }

  /// Blocks of lanes x lanes elements in a transposing kernel: gathers of a block become vector loads.
  void plan_blocks() {
    if (vectors_.empty() || is_inner(vectors_[0])) return;
    size_t v = vectors_[0], w = second_axis(v);
    int64_t lanes = a_.lanes(v, caps_);
    if (w == a_.loops.size() || lanes > kTile || static_cast<int64_t>(body_nodes(w)) * lanes > kMaxBody) return;
    plans_[0].segments = {Segment{1, lanes}};
    plans_.push_back({a_.loops[w].range, {Segment{lanes, 1}}});
  }

  /// Cost of one turn of all loops inside r, per element of r.
  double inner_cost(size_t r) {
    double c = 0;
    for (size_t i = 0; i < a_.loops.size(); ++i)
      if (a_.nest.inside(i, r)) c = std::max(c, a_.body_cost(i));
    return c;
  }

  /// A reduction whose loop is no vector: several accumulators, so that one addition need not wait for the one before.
  void plan_chain(size_t r) {
    const LoopFacts& l = a_.loops[r];
    if (l.sequential || l.holds_array || l.extent < 8 || a_.body_cost(r) > 24) return;
    bool inside_vector = std::any_of(vectors_.begin(), vectors_.end(), [&](size_t v) { return a_.nest.inside(r, v); });
    int64_t have = std::max<int64_t>(1, a_.folds_over(r)) * (inside_vector ? accumulators_ : 1);
    int64_t copies = std::clamp<int64_t>(kAccumulators / have, 1, 4);
    copies = std::min(copies,
                      std::max<int64_t>(1, kMaxBody / static_cast<int64_t>(4 * body_nodes(r) * (inside_vector ? accumulators_ : 1) + 1)));
    if (copies > 1) plans_.push_back({l.range, {Segment{copies, 1}}});
  }

  /// Global ranges from the one that changes fastest within a group. A vector axis lies inside the others, so that its loop is the
  /// innermost.
  std::vector<GroupRange> group_order() {
    std::vector<GroupRange> order;
    size_t v = a_.loops.size(), w = a_.loops.size(), last = 0;
    for (size_t r = 0; r < a_.loops.size(); ++r)
      if (!is_inner(r)) last = r;
    if (!vectors_.empty() && !is_inner(vectors_[0])) v = vectors_[0];
    if (v < a_.loops.size()) {
      GroupRange g{a_.loops[v].range, plans_[0].segments[0].size()};
      w = second_axis(v);
      if (w < a_.loops.size()) g.limit = std::max<int64_t>(g.unit, 256);
      if (v != last) g.number = range_number(a_.loops[last].range) + RangeNumbers::kStep;
      if (a_.folds_inside(v)) g.limit = g.unit;  // as many groups as there are tiles of accumulators
      order.push_back(g);
    }
    if (w < a_.loops.size()) order.push_back({a_.loops[w].range, kTile, kTile, RangeNumbers::kInnermost});
    for (size_t r = a_.loops.size(); r-- > 0;)
      if (!is_inner(r) && r != v && r != w) order.push_back({a_.loops[r].range});
    return order;
  }

  /// In a transposing elementwise kernel: the axis along which other arrays are contiguous. Both run in small tiles, so that lines are used
  /// up.
  size_t second_axis(size_t v) {
    size_t none = a_.loops.size();
    if (std::any_of(a_.loops.begin(), a_.loops.end(), [](const LoopFacts& l) { return !l.global; })) return none;
    int64_t lanes = a_.lanes(v, caps_);
    for (UOp* u : a_.accesses) {
      int64_t s = a_.access_stride(u, v, lanes);
      if (s == 0 || s == 1 || s == -1 || !a_.nest.loops(u).has(v)) continue;
      for (size_t r = 0; r < a_.loops.size(); ++r)
        if (r != v && a_.loops[r].extent >= kTile && a_.nest.loops(u).has(r) && a_.access_stride(u, r, kTile) == 1) return r;
    }
    return none;
  }

  std::string describe() const {
    std::string text = fmt::format("cost {:.0f}", cost_);
    for (const AxisPlan& p : plans_) {
      text += fmt::format(", range {} by", range_number(p.range));
      for (const Segment& s : p.segments) text += fmt::format(" {}x{}", s.copies, s.lanes);
    }
    return text;
  }

  Splitter& splitter_;
  Analysis& a_;
  const Caps& caps_;
  struct Way {
    std::vector<size_t> vectors;
    double cost;
  };
  std::vector<Way> ways_;
  double cost_ = 0;
  std::vector<size_t> vectors_;
  int64_t wanted_copies_ = 0;  // 0: as many as the heuristics think
  std::vector<AxisPlan> plans_;
  int64_t accumulators_ = 1;  // of a vector axis with FOLDs inside
};

}  // namespace

void apply_rows(Splitter& splitter, Analysis& a, const Caps& caps, Choice& choice) { Rows(splitter, a, caps).run(choice); }

}  // namespace tiny
