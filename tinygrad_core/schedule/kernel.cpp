// One group of nodes becomes one loop nest. Rows are Global ranges; a group with reductions has inner loops by level: level 0 needs no
// reduction of the row, level 1 the results of level 0, and so on. All that happens on one level shares one loop over the columns.
#include <algorithm>
#include <unordered_dense/unordered_dense.h>

#include "base/error.h"
#include "schedule/dft.h"
#include "schedule/work.h"
#include "uop/symbolic.h"

namespace tiny::sched {
namespace {

constexpr int kReload = 4;   // arithmetic from which an element that is in memory is loaded again
constexpr int kStash = 12;   // arithmetic from which an element of a row is kept in local memory for the next loop
constexpr int64_t kLevelNumbers = 100;
constexpr int64_t kUnusedField = 3;  // of ErrorRecord
// Scatters on GPUs. An owner looks at every index: one for a row, or for each element.
constexpr int64_t kMostOwners = 64, kMostOwnersOfElements = 4, kUpdatesOfOwner = 16, kLanesOfDevice = 1024;

class Builder {
 public:
  Builder(const Work& w, const Grouping& g, const Homes& home, int group, const std::vector<int>& stored, const std::vector<int64_t>& bytes,
          const Caps& caps)
      : w_(w), g_(g), home_(home), group_(group), stored_(stored), bytes_(bytes), caps_(caps), self_(g.groups[group]) {}

  KernelBuild run() {
    int first = stored_[0];
    std::vector<UOp*> roots;
    if (w_[first].op == Op::DFT) {
      roots = dft(first);
    } else if (g_.place[first] == Place::Alone) {
      roots.push_back(alone(first));
    } else {
      find_used();
      find_levels();
      make_ranges();
      for (int m : stored_) w_[m].op == Op::PAIRS ? store_pairs(m, roots) : roots.push_back(store_of(m));
    }
    keep_checks(roots);
    TINY_ASSERT(out_.buffers.size() <= static_cast<size_t>(caps_.max_params), "a group has more buffers than a kernel may have");
    if (!checks_.empty()) roots.push_back(param(-1, DType::i64));  // no node reads it, and later numbers must not be taken for it
    out_.sink = node(Op::SINK, DType::void_, roots);
    return std::move(out_);
  }

 private:
  // ---- what the stored members need
  bool member(int n) const { return g_.group_of[n] == group_; }
  bool in_memory(int n) const { return w_[n].op == Op::BUFFER || (home_[n] >= 0 && !member(n)); }

  void find_used() {
    used_.assign(w_.nodes.size(), false);
    std::vector<int> todo(stored_.begin(), stored_.end());
    while (!todo.empty()) {
      int n = todo.back();
      todo.pop_back();
      if (used_[n]) continue;
      used_[n] = true;
      if (in_memory(n)) continue;
      for (int s : w_[n].src) todo.push_back(s);
    }
    order_.clear();
    for (int m : self_.members)
      if (used_[m]) order_.push_back(m);
  }

  /// Level of the members: of the loop in which a Vec member is computed or a reduction runs, or after which a Row member is known.
  void find_levels() {
    for (int m : order_) {
      int level = 0;
      for (int s : w_[m].src) {
        while (!member(s) && is_free(w_[s].op) && !w_[s].src.empty()) s = w_[s].src[0];
        if (member(s)) level = std::max(level, level_[s] + (w_[s].op == Op::REDUCE));
      }
      level_[m] = level;
      levels_ = std::max(levels_, level + 1);
      if (w_[m].op == Op::REDUCE) reduces_at_.insert(level);
    }
  }

  // ---- ranges
  /// Flat positions at which some view's dimension begins, such that each divides the next.
  void collect_breaks(int n, std::vector<int64_t>& breaks, std::vector<int>& seen) {
    std::vector<int> todo{n};
    while (!todo.empty()) {
      int x = todo.back();
      todo.pop_back();
      if (std::find(seen.begin(), seen.end(), x) != seen.end() || seen.size() > 4000) continue;
      seen.push_back(x);
      const Node& v = w_[x];
      if (in_memory(x)) continue;
      if (v.op == Op::VIEW || v.op == Op::PAD) {
        const Record* r = v.arg.rec;
        Geometry geo = v.op == Op::VIEW ? simplified(r->a, r->b, 0) : Geometry{r->c, {}, 0};
        int64_t p = 1;
        for (size_t i = geo.sizes.size(); i-- > 0;) breaks.push_back(p *= geo.sizes[i]);
      } else if (is_elementwise(v.op) || v.op == Op::CHECK) {
        for (int s : v.src)
          if (w_[s].numel == v.numel && (!member(s) || v.op != Op::REDUCE)) todo.push_back(s);
      } else if (v.op == Op::GATHER) {
        todo.push_back(v.src[1]);
      } else if (v.op == Op::PAIRS) {
        for (int s : v.src)
          if (w_[s].numel == steps_of(v)) todo.push_back(s);
      }
    }
  }

  static std::vector<int64_t> divisor_chain(std::vector<int64_t> breaks, int64_t total, int64_t must) {
    std::sort(breaks.begin(), breaks.end());
    std::vector<int64_t> chain{1};
    bool passed = must <= 1;
    for (int64_t b : breaks) {
      if (!passed && b >= must) chain.push_back(must), passed = true;
      if (b <= chain.back() || b >= total || total % b) continue;
      if (b < must ? must % b != 0 : b % must != 0) continue;
      if (b % chain.back() == 0) chain.push_back(b);
    }
    if (!passed) chain.push_back(must);
    if (total > chain.back()) chain.push_back(total);
    return chain;
  }

  void make_ranges() {
    int64_t cols = std::max<int64_t>(1, self_.cols), total = self_.rows * cols;
    std::vector<int64_t> breaks;
    std::vector<int> seen_vec, seen_row;
    std::vector<int64_t> row_breaks;
    for (int m : order_) {
      if (g_.place[m] == Place::Vec) {
        collect_breaks(m, breaks, seen_vec);
      } else if (w_[m].op == Op::REDUCE) {
        collect_breaks(w_[m].src[0], breaks, seen_vec);
      } else {
        collect_breaks(m, row_breaks, seen_row);
      }
    }
    for (int64_t b : row_breaks) breaks.push_back(b * cols);
    std::vector<int64_t> chain = divisor_chain(std::move(breaks), total, cols);
    U row = index_const(0);
    int64_t number = 0;
    for (size_t k = chain.size(); k-- > 1;) {
      if (chain[k - 1] < cols) break;
      row = row + range(chain[k] / chain[k - 1], number++, Axis::Global) * (chain[k - 1] / cols);
    }
    row_ = row;
    for (int level = 0; level < levels_; ++level) {
      U col = index_const(0);
      std::vector<UOp*> ranges;
      int64_t inner = kLevelNumbers * (level + 1);
      for (size_t k = chain.size(); k-- > 1;) {
        if (chain[k] > cols) continue;
        U r = range(chain[k] / chain[k - 1], inner++, reduces_at_.contains(level) ? Axis::Reduce : Axis::Loop);
        ranges.push_back(r);
        col = col + r * chain[k - 1];
      }
      cols_.push_back(col);
      vec_.push_back(self_.cols ? row_ * cols + col : row_);
      col_ranges_.push_back(std::move(ranges));
    }
  }

  // ---- values
  struct Key {
    int node;
    UOp *index, *gate;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    uint64_t operator()(const Key& k) const {
      return mix(mix(static_cast<uint64_t>(k.node), reinterpret_cast<uint64_t>(k.index)), reinterpret_cast<uint64_t>(k.gate));
    }
  };

  /// Element `index` of node n; where `gate` (may be null) is false it is unspecified, but memory is not touched.
  U value(int n, U index, U gate) {
    if (w_[n].numel == 1) index = index_const(0);
    Key key{n, index, gate};
    auto it = memo_.find(key);
    if (it != memo_.end()) return it->second;
    U v = compute(n, index, gate);
    memo_.emplace(key, v);
    return v;
  }

  U compute(int n, U index, U gate) {
    const Node& v = w_[n];
    if (v.op == Op::BUFFER) return load(home_[n], v.dtype, index, gate);
    if (home_[n] >= 0 && !member(n)) return load(home_[n], v.dtype, index, gate);
    if (member(n) && g_.place[n] == Place::Vec && self_.cols) {
      for (int l = level_[n] + 1; l < levels_; ++l)
        if (vec_[l].u == index.u && !gate.u) {
          U kept = reload(n, l);
          if (kept) return kept;
        }
    }
    switch (v.op) {
      case Op::CONST: return node(Op::CONST, v.dtype, {}, v.arg, 1);
      case Op::SCALAR: return node(Op::VAR, v.dtype, {}, Arg(static_cast<int64_t>(scalar(v.number))), 1);
      case Op::IOTA: return index;
      case Op::EMPTY: return node(Op::CONST, v.dtype, {}, const_arg(v.dtype, int64_t{0}), 1);
      case Op::VIEW: return view(n, index, gate);
      case Op::PAD: return pad(n, index, gate);
      case Op::REDUCE: return reduce(n);
      case Op::CONTIGUOUS: return value(v.src[0], index, gate);
      case Op::GATHER: return value(v.src[0], value(v.src[1], index, gate), gate);
      case Op::CHECK: return check(n, index, gate);
      case Op::CAST: return cast(value(v.src[0], index, gate), v.dtype);
      default: break;
    }
    TINY_ASSERT(is_elementwise(v.op), std::string("the scheduler cannot inline ") + info(v.op).name);
    UOp* src[3];
    for (size_t k = 0; k < v.src.size(); ++k) src[k] = value(v.src[k], index, gate);
    if (v.op == Op::BITCAST) return src[0]->dtype == v.dtype ? U(src[0]) : node(Op::BITCAST, v.dtype, {src[0]});
    switch (v.src.size()) {
      case 1: return alu(v.op, {src[0]});
      case 2: return alu(v.op, {src[0], src[1]});
      default: return alu(v.op, {src[0], src[1], src[2]});
    }
  }

  U view(int n, U index, U gate) {
    const Record* r = w_[n].arg.rec;
    int s = w_[n].src[0];
    if (member(s) && g_.place[s] == Place::Row && self_.cols) return value(s, row_, gate);
    Geometry geo = simplified(r->a, r->b, r->n);
    U at = index_const(geo.offset);
    int64_t p = 1;
    for (size_t i = geo.sizes.size(); i-- > 0; p *= geo.sizes[i])
      if (geo.strides[i] != 0) at = at + index / p % geo.sizes[i] * geo.strides[i];
    return value(s, at, gate);
  }

  U pad(int n, U index, U gate) {
    const Record* r = w_[n].arg.rec;
    int s = w_[n].src[0];
    U at = index_const(0), inside = gate;
    int64_t p = 1, stride = 1;
    auto both = [](U a, U b) { return a.u ? a & b : b; };
    for (size_t i = r->c.size(); i-- > 0; p *= r->c[i], stride *= r->a[i]) {
      U d = index / p % r->c[i];
      if (r->b[i] > 0) inside = both(inside, lt(index_const(r->b[i] - 1), d));
      if (r->b[i] + r->a[i] < r->c[i]) inside = both(inside, lt(d, index_const(r->b[i] + r->a[i])));
      at = at + (d - r->b[i]) * stride;
    }
    if (inside.u == gate.u) return value(s, at, gate);
    if (inside->op == Op::CONST) return inside->arg.i ? value(s, at, U()) : zero(w_[n].dtype);
    if (in_memory(s)) return value(s, at, inside);
    return where(inside, value(s, at, inside), zero(w_[n].dtype));
  }

  U reduce(int n) {
    auto it = folds_.find(n);
    if (it != folds_.end()) return it->second;
    TINY_ASSERT(member(n), "a reduction is read before it is stored");
    int level = level_[n];
    std::vector<UOp*> src{value(w_[n].src[0], vec_[level], U())};
    src.insert(src.end(), col_ranges_[level].begin(), col_ranges_[level].end());
    U f = src.size() == 1 ? U(src[0]) : node(Op::FOLD, w_[n].dtype, src, Arg(static_cast<int64_t>(reduce_op(w_[n]))));
    folds_.emplace(n, f);
    return f;
  }

  U check(int n, U index, U gate) {
    const Node& v = w_[n];
    U x = value(v.src[0], index, gate), ok = value(v.src[1], index, gate);
    if (gate.u) ok = alu(Op::OR, {ok, alu(Op::NOT, {gate})});
    if (ok->op == Op::CONST && ok->arg.i) return x;
    checks_.push_back(node(Op::CHECK, v.dtype, {x, ok}, v.arg));
    return checks_.back();
  }

  /// A CHECK is an effect: it stays although what needed its value folded away, as a gather from a constant does. A store into the error
  /// record's unused field needs it then, where it fails.
  void keep_checks(std::vector<UOp*>& roots) {
    if (checks_.empty()) return;
    std::vector<UOp*> reached = toposort(roots);
    for (size_t i = checks_.size(); i-- > 0;) {  // the outer ones first: they need the inner ones
      if (std::find(reached.begin(), reached.end(), checks_[i].u) != reached.end()) continue;
      U field = node(Op::INDEX, DType::i64, {param(-1, DType::i64), index_const(kUnusedField)});
      roots.push_back(node(Op::STORE, DType::void_, {field, cast(checks_[i], DType::i64), alu(Op::NOT, {U(checks_[i]->src[1])})}));
      reached = toposort(roots);
    }
  }

  static U zero(DType d) { return node(Op::CONST, d, {}, const_arg(d, int64_t{0}), 1); }

  // ---- keeping an element of a row from one loop to the next
  /// Arithmetic to compute Vec member n again, from memory and row values.
  int again(int n) {
    auto it = again_.find(n);
    if (it != again_.end()) return it->second;
    if (in_memory(n) || w_[n].op == Op::REDUCE || (member(n) && g_.place[n] == Place::Row)) return 0;
    int64_t c = is_free(w_[n].op) ? 0 : op_weight(w_[n]);
    for (int s : w_[n].src) c += again(s);
    return again_[n] = static_cast<int>(std::min<int64_t>(c, kNever));
  }

  U reload(int n, int level) {
    int cost = again(n);
    if (home_[n] >= 0 && std::find(stored_.begin(), stored_.end(), n) != stored_.end()) {
      if (cost < kReload) return {};
      U array = node(Op::AFTER, w_[n].dtype, {param(home_[n], w_[n].dtype), store_of(n)});
      return node(Op::LOAD, w_[n].dtype, {node(Op::INDEX, w_[n].dtype, {array, vec_[level]})});
    }
    int64_t need = self_.cols * itemsize(w_[n].dtype);
    auto it = stashes_.find(n);
    if (it == stashes_.end()) {
      if (cost < kStash || local_bytes_ + need > (caps_.block_bytes ? caps_.block_bytes / 4 : caps_.local_bytes / 2)) return {};
      local_bytes_ += need;
      U local = node(Op::LOCAL, w_[n].dtype, {index_const(self_.cols)}, Arg(locals_++));  // value() may keep others
      U store = node(Op::STORE, DType::void_, {node(Op::INDEX, w_[n].dtype, {local, cols_[level_[n]]}), value(n, vec_[level_[n]], U())});
      it = stashes_.emplace(n, node(Op::AFTER, w_[n].dtype, {local, store})).first;
    }
    return node(Op::LOAD, w_[n].dtype, {node(Op::INDEX, w_[n].dtype, {it->second, cols_[level]})});
  }

  // ---- memory
  U param(int buffer, DType dtype) {
    for (size_t i = 0; i < params_.size(); ++i)
      if (out_.buffers[i] == buffer && params_[i]->dtype == dtype) return params_[i];
    int64_t elements = buffer < 0 ? 4 : bytes_[static_cast<size_t>(buffer)] / itemsize(dtype);
    U p = node(Op::PARAM, dtype, {index_const(elements)}, Arg(static_cast<int64_t>(params_.size())));
    params_.push_back(p);
    out_.buffers.push_back(buffer);
    return p;
  }
  int scalar(int number) {
    for (size_t i = 0; i < out_.scalars.size(); ++i)
      if (out_.scalars[i] == number) return static_cast<int>(i);
    out_.scalars.push_back(number);
    return static_cast<int>(out_.scalars.size()) - 1;
  }
  U load(int buffer, DType dtype, U index, U gate) {
    out_.loads.push_back({buffer, index, dtype});
    U at = node(Op::INDEX, dtype, {param(buffer, dtype), index});
    if (gate.u) return node(Op::LOAD, dtype, {at, gate, zero(dtype)});
    return node(Op::LOAD, dtype, {at});
  }
  U store(int buffer, DType dtype, U index, U v) {
    out_.stores.push_back({buffer, index, dtype, v});
    return node(Op::STORE, DType::void_, {node(Op::INDEX, dtype, {param(buffer, dtype), index}), v});
  }
  U store_of(int m) {
    auto it = stores_.find(m);
    if (it != stores_.end()) return it->second;
    U index = own_index(m), s = store(home_[m], w_[m].dtype, index, value(m, index, U()));
    stores_.emplace(m, s);
    return s;
  }
  U own_index(int m) { return g_.place[m] == Place::Vec && self_.cols ? vec_[level_[m]] : row_; }
  void store_pairs(int m, std::vector<UOp*>& roots) {
    U index = own_index(m);
    for (int k : {0, 1}) roots.push_back(store(home_[m], w_[m].dtype, index * 2 + k, value(w_[m].src[k], index, U())));
  }

  // ---- kernels of one node
  /// Global ranges over `total` elements that suit the views under node n; more breaks may be given.
  U flat_index(int n, int64_t total, std::vector<int64_t> breaks = {}) {
    std::vector<int> seen;
    if (n >= 0) collect_breaks(n, breaks, seen);
    return ranges(divisor_chain(std::move(breaks), total, 1), 0);
  }

  /// Global ranges between the positions of a chain, numbered from `number` on.
  static U ranges(const std::vector<int64_t>& chain, int64_t number) {
    U index = index_const(0);
    for (size_t k = chain.size(); k-- > 1;) index = index + range(chain[k] / chain[k - 1], number++, Axis::Global) * chain[k - 1];
    return index;
  }

  static U loop(int64_t extent, int64_t number, Axis axis) { return extent == 1 ? index_const(0) : range(extent, number, axis); }

  U alone(int n) {
    const Node& v = w_[n];
    const Record* r = v.op == Op::ASSIGN || v.op == Op::SCATTER ? v.arg.rec : nullptr;
    switch (v.op) {
      case Op::CONTIGUOUS: {
        U i = flat_index(v.src[0], v.numel);
        return store(home_[n], v.dtype, i, value(v.src[0], i, U()));
      }
      case Op::ASSIGN: {
        Geometry geo = simplified(r->a, r->b, r->n);
        std::vector<int64_t> breaks;
        int64_t p = 1;
        for (size_t i = geo.sizes.size(); i-- > 0;) breaks.push_back(p *= geo.sizes[i]);
        U i = flat_index(v.src[1], product(r->a), std::move(breaks)), at = index_const(geo.offset);
        p = 1;
        for (size_t k = geo.sizes.size(); k-- > 0; p *= geo.sizes[k]) at = at + i / p % geo.sizes[k] * geo.strides[k];
        return store(home_[n], v.dtype, at, value(v.src[1], i, U()));
      }
      case Op::SCAN: {
        int64_t cols = reduce_columns(v);
        U row = loop(v.numel / cols, 0, Axis::Global), col = loop(cols, kLevelNumbers, Axis::Loop);
        U i = row * cols + col;
        if (cols == 1) return store(home_[n], v.dtype, i, value(v.src[0], i, U()));
        U running = node(Op::PREFIX, v.dtype, {value(v.src[0], i, U()), col}, Arg(static_cast<int64_t>(reduce_op(v))));
        return store(home_[n], v.dtype, i, running);
      }
      case Op::SCATTER: return scatter(v, r, home_[n]);
      default: TINY_ASSERT(false, std::string("no kernel for ") + info(v.op).name); return {};
    }
  }

  std::vector<UOp*> dft(int n) {
    const Node& v = w_[n];
    DftAccess io;
    std::vector<int> seen;
    collect_breaks(v.src[0], io.breaks, seen);
    io.real = [&](U index, U gate) { return value(v.src[0], index, gate); };
    if (w_[v.src[1]].op != Op::CONST) io.imaginary = [&](U index, U gate) { return value(v.src[1], index, gate); };
    io.root = [&](U index, U gate) { return value(v.src[2], index, gate); };
    io.store = [&](U index, U x, U gate) -> UOp* {
      U s = store(home_[n], v.dtype, index, x);
      return gate.u ? node(Op::STORE, DType::void_, {s->src[0], s->src[1], gate}) : s;
    };
    return dft_stores(Dft::of(*v.arg.rec), v.dtype, io);
  }

  /// GPUs: among how many groups the places of a scatter are shared whose `lanes` go through `updates` one after the other.
  int64_t owners_of_places(int64_t lanes, int64_t updates, bool of_rows) const {
    int64_t owners = 1, most = of_rows ? kMostOwners : kMostOwnersOfElements;
    if (!caps_.has_local) return owners;
    while (2 * owners <= most && 2 * owners * lanes <= caps_.threads * kLanesOfDevice && 2 * owners <= updates / kUpdatesOfOwner)
      owners *= 2;
    return owners;
  }

  U scatter(const Node& v, const Record* r, int home) {
    int64_t B = r->a[0], updates = r->a[1], D = r->a[2];
    std::vector<int64_t> breaks;
    std::vector<int> seen;
    collect_breaks(v.src[2], breaks, seen);
    U b = loop(B, 0, Axis::Global), d = ranges(divisor_chain(std::move(breaks), D, 1), 1), u = loop(updates, kLevelNumbers, Axis::Loop);
    U row = b * updates + u, i = row * D + d;
    bool of_rows = w_[v.src[1]].numel == B * updates;
    U at = value(v.src[1], of_rows ? row : i, U()), here;
    if (bounds(at).lo < 0) here = lt(index_const(-1), at);
    // Places are shared among groups, each of which goes through all updates: in order wherever two meet.
    if (int64_t owners = owners_of_places(B * D, updates, of_rows); owners > 1) {
      U mine = alu(Op::CMPEQ, {at % owners, loop(owners, kLevelNumbers - 1, Axis::Global)});
      here = here.u ? here & mine : mine;
    }
    U x = value(v.src[2], i, here);
    if (of_rows) at = at * D + d;
    out_.stores.push_back({home, at, v.dtype, x});
    U where_to = node(Op::INDEX, v.dtype, {param(home, v.dtype), at});
    U s = here.u ? node(Op::STORE, DType::void_, {where_to, x, here}) : node(Op::STORE, DType::void_, {where_to, x});
    std::vector<UOp*> src{s};
    if (updates > 1) src.push_back(u);
    return node(Op::ORDERED, DType::void_, src, Arg(r->n));
  }

  const Work& w_;
  const Grouping& g_;
  const Homes& home_;
  int group_;
  const std::vector<int>& stored_;
  const std::vector<int64_t>& bytes_;
  const Caps& caps_;
  const Group& self_;
  KernelBuild out_;
  std::vector<bool> used_;
  std::vector<int> order_;
  ankerl::unordered_dense::map<int, int> level_, again_;
  ankerl::unordered_dense::set<int> reduces_at_;
  int levels_ = 1;
  U row_;
  std::vector<U> cols_, vec_;
  std::vector<std::vector<UOp*>> col_ranges_;
  ankerl::unordered_dense::map<Key, U, KeyHash> memo_;
  ankerl::unordered_dense::map<int, U> folds_, stores_, stashes_;
  std::vector<U> params_;
  int64_t local_bytes_ = 0, locals_ = 0;
  std::vector<U> checks_;
};

}  // namespace

bool recompute(const Work& w, const Grouping& g, int node, bool reused) {
  if (!is_elementwise(w[node].op)) return false;
  return reused ? g.cost[node] <= 0 : g.again[node];
}

KernelBuild build_kernel(const Work& w, const Grouping& g, const Homes& home, int group, const std::vector<int>& stored,
                         const std::vector<int64_t>& buffer_bytes, const Caps& caps) {
  return Builder(w, g, home, group, stored, buffer_bytes, caps).run();
}

}  // namespace tiny::sched
