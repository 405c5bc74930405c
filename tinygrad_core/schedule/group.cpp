// Which nodes share a kernel. Nodes are taken in program order; each joins the last group that any of its sources is in, if it can be
// computed there at the same place of the loop nest, else it opens a group. Every edge then leads to the same or a later group: no cycles,
// in linear time.
#include <algorithm>
#include <unordered_dense/unordered_dense.h>

#include "base/error.h"
#include "schedule/work.h"

namespace tiny::sched {
namespace {

constexpr int kMaxWeight = 1200;  // arithmetic of one kernel: bounds compile time and register pressure
constexpr int kMaxMembers = 300;
constexpr int kMaxEpilogue = 80;  // the same behind a contraction, whose tile computes it many times over
constexpr int kCheapForLanes = 24;  // on GPUs, of a value that has few readers
constexpr int kMuchMore = 8;      // elements made of one, from which on that one is not computed again
constexpr int kMaxBases = 8;      // inputs of a reduction that are looked at for siblings
constexpr int64_t kSmall = 1 << 14;  // elements up to which a launch costs as much as the kernel
constexpr int kOpenSiblings = 4;  // how many recent groups of one shape are tried for a sibling reduction

class Grouper {
 public:
  Grouper(const Work& w, const Caps& caps) : w_(w), caps_(caps) {
    size_t n = w.nodes.size();
    out_.group_of.assign(n, -1);
    out_.place.assign(n, Place::Free);
    out_.cost.assign(n, 0);
    out_.again.assign(n, false);
    latest_.assign(n, -1);
    loads_.assign(n, 0), reads_.assign(n, 0), users_.assign(n, 0);
    base_.assign(n, -1);
    outside_.assign(n, false), dead_.assign(n, false);
    forced_.assign(n, false);
    for (int r : w.roots) forced_[r] = true;
    for (const Node& x : w.nodes)
      for (size_t k = 0; k < memory_sources(x.op, x.src.size()); ++k) forced_[x.src[k]] = true;
  }

  Grouping run() {
    find_last_uses();
    count_users();
    for (int i = 0; i < static_cast<int>(w_.nodes.size()); ++i) visit(i);
    return std::move(out_);
  }

 private:
  void visit(int i) {
    const Node& n = w_[i];
    for (int s : n.src) latest_[i] = std::max(latest_[i], latest_[s]);
    count_cost(i);
    if (is_free(n.op)) {
      base_[i] = n.op == Op::BUFFER ? i : n.src.empty() ? -1 : base_[n.src[0]];
      return;
    }
    if (!forced_[i] && n.numel == 1 && latest_[i] < 0 && is_elementwise(n.op) && all_scalars(i))
      return;  // arithmetic on run-time arguments
    int g = -1;
    switch (n.op) {
      case Op::REDUCE: g = join_reduce(i); break;
      case Op::RESULT:  // in the group of its CALL
        g = out_.group_of[n.src[0]];
        out_.place[i] = Place::Alone;
        break;
      case Op::ASSIGN: case Op::SCATTER: case Op::SCAN: case Op::CALL: case Op::DFT: case Op::CONTIGUOUS:
        g = open(i, n.op == Op::SCAN ? n.numel / std::max<int64_t>(1, reduce_columns(n)) : n.numel,
                 n.op == Op::SCAN ? reduce_columns(n) : 0);
        out_.groups[g].closed = true;
        out_.place[i] = Place::Alone;
        break;
      default: g = join_elementwise(i);
    }
    out_.group_of[i] = latest_[i] = g;
    base_[i] = i;
    count_buffers(i, g);
    Group& group = out_.groups[g];
    group.members.push_back(i);
    group.weight += op_weight(n);
  }

  int open(int, int64_t rows, int64_t cols) {
    Group g;
    g.rows = rows, g.cols = cols;
    out_.groups.push_back(std::move(g));
    return static_cast<int>(out_.groups.size()) - 1;
  }

  bool all_scalars(int i) const {
    for (int s : w_[i].src)
      if (w_[s].numel != 1 || touches_memory(s)) return false;
    return true;
  }
  bool touches_memory(int i) const {
    const Node& n = w_[i];
    return n.op == Op::BUFFER || n.op == Op::VIEW || n.op == Op::PAD || n.op == Op::GATHER || n.op == Op::CHECK || out_.group_of[i] >= 0;
  }

  /// Arithmetic and loads from what is in memory anyway (leaves, results of reductions and the like) to here.
  void count_cost(int i) {
    const Node& n = w_[i];
    if (!is_free(n.op) && !is_elementwise(n.op)) {
      out_.cost[i] = 0, loads_[i] = reads_[i] = 1;
      return;
    }
    int64_t c = is_free(n.op) ? (n.op == Op::PAD ? 2 : 0) : op_weight(n), l = n.op == Op::BUFFER, reads = l;
    for (int s : n.src) {
      // What much more is made of is stored rather than computed again for each.
      const bool few = w_[s].numel * kMuchMore <= n.numel;
      const bool stored = is_elementwise(w_[s].op) && ((out_.cost[s] > kCheap && few) || (caps_.has_local && !out_.again[s]));
      c += stored ? 0 : out_.cost[s], l += stored ? 1 : loads_[s];
      if (!few) reads += stored ? 1 : reads_[s];
    }
    loads_[i] = static_cast<int>(std::min<int64_t>(l, kNever));
    reads_[i] = static_cast<int>(std::min<int64_t>(reads, kNever));
    out_.cost[i] = l > 2 && !caps_.has_local ? kNever : static_cast<int>(std::min<int64_t>(c, kNever));
    out_.again[i] = is_elementwise(n.op) && (caps_.has_local ? cheap_for_lanes(i) : out_.cost[i] <= kCheap);
  }

  /// GPUs: arithmetic costs less than memory, so a value is computed again if that takes its readers hardly more reads than if it were
  /// stored. Not where it is half as wide as what it is made of.
  bool cheap_for_lanes(int i) const {
    const Node& n = w_[i];
    const Node& from = w_[n.src[0]];
    if (n.op == Op::CAST && itemsize(n.dtype) < itemsize(from.dtype) && !is_free(from.op)) return false;
    if (out_.cost[i] <= kCheap && reads_[i] <= 2) return true;
    const int readers = reads_[i] <= 1 ? kNever : reads_[i] == 2 ? 2 : reads_[i] <= 4 ? 1 : 0;  // at most
    return out_.cost[i] <= kCheapForLanes && users_[i] <= readers;
  }

  /// By node: how many others read it, through movement.
  void count_users() {
    for (size_t i = 0; i < w_.nodes.size(); ++i) {
      if (is_free(w_.nodes[i].op)) continue;
      for (int s : w_.nodes[i].src) {
        while (is_free(w_[s].op) && !w_[s].src.empty()) s = w_[s].src[0];
        ++users_[s];
      }
    }
  }

  // ---- the bound on a kernel's buffers
  /// By node: the last one that reads it, through movement.
  void find_last_uses() {
    last_use_.assign(w_.nodes.size(), -1);
    for (int i = static_cast<int>(w_.nodes.size()); i-- > 0;)
      for (int s : w_[i].src) last_use_[s] = std::max(last_use_[s], is_free(w_[i].op) ? last_use_[i] : i);
  }

  /// Buffers that it takes to read node b from another group, or that b's own group stores for such readers: b itself, or what it is
  /// computed again from.
  int buffers_for(int b) const { return out_.again[b] ? std::max(1, loads_[b]) : 1; }
  static uint64_t read_key(int g, int b) { return static_cast<uint64_t>(g) << 32 | static_cast<uint32_t>(b); }

  /// True if group g has room for what node i reads and stores. One buffer is left for the error record.
  bool has_room(int g, int i) const {
    int more = buffers_for(i);
    for (int s : w_[i].src) {
      int b = base_[s];
      if (b >= 0 && out_.group_of[b] != g && !read_.contains(read_key(g, b))) more += buffers_for(b);
    }
    return out_.groups[g].buffers + more < caps_.max_params;
  }

  /// A member counts until its last reader has joined too: before that, any of them may turn out to be in another group.
  void count_buffers(int i, int g) {
    Group& group = out_.groups[g];
    for (int s : w_[i].src) {
      int b = base_[s];
      if (b < 0) continue;
      if (out_.group_of[b] != g) {
        outside_[b] = true;
        if (read_.insert(read_key(g, b)).second) group.buffers += buffers_for(b);
      } else if (last_use_[b] <= i && !outside_[b] && !forced_[b] && !dead_[b]) {
        dead_[b] = true;
        group.buffers -= buffers_for(b);
      }
    }
    group.buffers += buffers_for(i);
  }

  bool full(int g, int i) const {
    const Group& group = out_.groups[g];
    return group.closed || group.weight > (group.contraction ? kMaxEpilogue : kMaxWeight) ||
           static_cast<int>(group.members.size()) >= kMaxMembers || !has_room(g, i);
  }

  /// Place of a node of `numel` elements in g; false if it has none.
  static bool place_in(const Group& g, int64_t numel, Place* p) {
    if (g.cols == 0) return *p = Place::Vec, numel == g.rows;
    if (numel == g.rows) return *p = Place::Row, true;
    return *p = Place::Vec, numel == g.rows * g.cols;
  }

  /// True if source s of a node at `place` in group g can be had there: from memory, computed again, or as a value of the same row or
  /// element.
  bool reachable(int s, int g, Place place) const {
    if (latest_[s] < g) return true;  // an earlier group's result, or leaves
    const Group& group = out_.groups[g];
    const int base = base_[s];
    if (base >= 0 && w_[base].op == Op::PAIRS && out_.group_of[base] == g) return false;  // it has two elements for each of the group
    if (out_.group_of[s] == g) {
      if (w_[s].numel == 1 && group.rows > 1) return false;
      return out_.place[s] == place || (out_.place[s] == Place::Row && group.rows == 1 && w_[s].numel == 1);
    }
    // Movement, or arithmetic on numbers, over something of this group.
    const Node& n = w_[s];
    if (n.op == Op::VIEW && out_.group_of[n.src[0]] == g && out_.place[n.src[0]] == Place::Row && place == Place::Vec)
      return is_row_broadcast(w_, s, group.rows, group.cols);
    return false;
  }

  int join_elementwise(int i) {
    const Node& n = w_[i];
    int g = latest_[i];
    Place place = Place::Vec;
    if (g >= 0 && !full(g, i) && n.op != Op::GATHER && place_in(out_.groups[g], steps_of(n), &place)) {
      bool ok = true;
      for (int s : n.src) ok = ok && reachable(s, g, place);
      if (ok && !(place == Place::Vec && out_.groups[g].contraction)) {
        out_.place[i] = place;
        return g;
      }
    }
    if (n.op == Op::GATHER && g >= 0 && !full(g, i) && place_in(out_.groups[g], n.numel, &place) && latest_[n.src[0]] < g &&
        reachable(n.src[1], g, place)) {
      out_.place[i] = place;
      return g;
    }
    out_.place[i] = Place::Vec;
    const bool joins = n.op != Op::GATHER && (steps_of(n) <= kSmall || reads_as_stored(i));
    const int h = joins ? flat_sibling(i, g) : -1;
    if (h >= 0) return h;
    const int made = open(i, steps_of(n), 0);
    if (joins)
      for (int s : n.src) remember(made, s);
    return made;
  }

  /// Node i reads leaves element by element, and nothing else.
  bool reads_as_stored(int i) const {
    const Node& n = w_[i];
    return is_elementwise(n.op) && std::all_of(n.src.begin(), n.src.end(), [&](int s) {
      return w_[s].op == Op::BUFFER ? w_[s].numel == n.numel : w_[s].numel == 1 && is_free(w_[s].op);
    });
  }

  /// A flat group after g, as long as node i and with an input that i reads too. Large values that are read through views are not joined
  /// so: their kernels cost more than a launch, and each gets the loops that suit its own views.
  int flat_sibling(int i, int g) const {
    auto it = recent_.find(shape_key(steps_of(w_[i]), 0));
    if (it == recent_.end()) return -1;
    std::vector<int> read;
    for (int s : w_[i].src)
      for (int b : bases(s)) read.push_back(b);
    for (int h : it->second) {
      const Group& group = out_.groups[h];
      if (h <= g || full(h, i) || group.cols != 0 || group.rows != steps_of(w_[i])) continue;
      for (int b : read)
        if (std::find(group.inputs.begin(), group.inputs.end(), b) != group.inputs.end()) return h;
    }
    return -1;
  }

  /// What a reduction over `i` reads from memory, through movement and cheap arithmetic.
  std::vector<int> bases(int i) const {
    std::vector<int> todo{i}, found;
    while (!todo.empty() && found.size() < kMaxBases) {
      int x = todo.back();
      todo.pop_back();
      const Node& n = w_[x];
      if (n.op == Op::VIEW || n.op == Op::PAD || out_.again[x]) {
        for (int s : n.src) todo.push_back(s);
      } else if (n.numel > 1) {
        found.push_back(x);
      }
    }
    return found;
  }

  int join_reduce(int i) {
    const Node& n = w_[i];
    int s = n.src[0], g = latest_[i];
    int64_t cols = reduce_columns(n), rows = n.numel;
    bool contraction = is_contraction(w_, s);
    out_.place[i] = Place::Row;
    if (g >= 0 && out_.group_of[s] == g && out_.place[s] == Place::Vec && w_[s].op != Op::PAIRS && !full(g, i)) {
      Group& group = out_.groups[g];
      if (group.cols == 0 && !group.contraction && cols > 1 && !only_feeds_rows(group, cols)) {
        group.rows = rows, group.cols = cols, group.contraction = contraction;
        if (!contraction) remember(g, s);
        return g;
      }
      if (group.cols == cols && group.rows == rows && !group.contraction) return g;
    }
    if (!contraction) {  // a sibling: same rows and columns, reading something that the other reads too
      auto it = recent_.find(shape_key(rows, cols));
      if (it != recent_.end())
        for (int h : it->second) {
          Group& group = out_.groups[h];
          if (h <= g || full(h, i) || group.rows != rows || group.cols != cols) continue;
          for (int b : bases(s))
            if (std::find(group.inputs.begin(), group.inputs.end(), b) != group.inputs.end()) return h;
        }
    }
    int h = open(i, rows, cols);
    out_.groups[h].contraction = contraction;
    if (!contraction) remember(h, s);
    return h;
  }

  /// A flat group takes rows and columns only if its members can be seen so: they are all of one length, which is rows*cols.
  static bool only_feeds_rows(const Group& g, int64_t cols) { return g.rows % cols != 0; }

  static uint64_t shape_key(int64_t rows, int64_t cols) { return mix(static_cast<uint64_t>(rows), static_cast<uint64_t>(cols)); }
  void remember(int g, int source) {
    for (int b : bases(source)) out_.groups[g].inputs.push_back(b);
    auto& v = recent_[shape_key(out_.groups[g].rows, out_.groups[g].cols)];
    if (!v.empty() && v.front() == g) return;
    v.insert(v.begin(), g);
    if (v.size() > kOpenSiblings) v.pop_back();
  }
  const Work& w_;
  const Caps& caps_;
  Grouping out_;
  std::vector<int> loads_;   // by node: memory reads of computing it from what is stored
  std::vector<int> reads_;   // the same without those of values with much fewer elements
  std::vector<int> users_;   // by node: how many read it
  std::vector<bool> forced_;  // by node: needs memory of its own
  std::vector<int> latest_;  // by node: the last group that it depends on or is in
  std::vector<int> base_;    // by node: what it is in memory, behind movement; -1: nothing
  std::vector<int> last_use_;
  std::vector<bool> outside_, dead_;  // by node: read by another group; a member that nobody will read any more
  ankerl::unordered_dense::set<uint64_t> read_;  // what each group reads
  ankerl::unordered_dense::map<uint64_t, std::vector<int>> recent_;
};

}  // namespace

int op_weight(const Node& n) {
  switch (n.op) {
    case Op::EXP: case Op::EXP2: case Op::LOG: case Op::LOG2: case Op::SIN: case Op::COS: return 12;
    case Op::POW: case Op::ERF: case Op::TANH: return 20;
    case Op::THREEFRY: return 40;
    case Op::FDIV: case Op::SQRT: case Op::RECIP: case Op::IDIV: case Op::MOD: return 4;
    case Op::CAST: return is_reduced_float(n.dtype) ? 3 : 1;
    default: return has(n.op, group::Trans) ? 30 : 1;
  }
}

bool is_contraction(const Work& w, int n) {
  while (w[n].op == Op::CAST) n = w[n].src[0];
  if (w[n].op == Op::DOT2) return true;
  if (w[n].op != Op::MUL) return false;
  int broadcast = 0;
  for (int x : w[n].src) {
    while (w[x].op == Op::CAST) x = w[x].src[0];
    if (w[x].op != Op::VIEW) continue;
    const Record* r = w[x].arg.rec;
    for (size_t k = 0; k < r->a.size(); ++k)
      if (r->b[k] == 0 && r->a[k] > 1) {
        ++broadcast;
        break;
      }
  }
  return broadcast == 2;
}

bool is_row_broadcast(const Work& w, int v, int64_t rows, int64_t cols) {
  const Record* r = w[v].arg.rec;
  if (w[v].op != Op::VIEW || r->n != 0) return false;
  Geometry g = simplified(r->a, r->b, r->n);
  if (rows == 1) return g.sizes.size() <= 1 && (g.sizes.empty() || g.strides[0] == 0);
  if (cols == 1) return g.sizes.size() == 1 && g.sizes[0] == rows && g.strides[0] == 1;
  return g.sizes.size() == 2 && g.sizes[0] == rows && g.sizes[1] == cols && g.strides[0] == 1 && g.strides[1] == 0;
}

Grouping group_nodes(const Work& w, const Caps& caps) { return Grouper(w, caps).run(); }

}  // namespace tiny::sched
