#include <algorithm>
#include <unordered_dense/unordered_dense.h>

#include "base/error.h"
#include "schedule/dft.h"
#include "schedule/work.h"

namespace tiny::sched {
namespace {

constexpr int64_t kSplitColumns = 1 << 15;  // a reduction of more columns than this, with few rows, gains from two stages
constexpr int64_t kFewRows = 64;
constexpr int64_t kStages = 64;             // the same on every machine: results do not depend on the number of cores

// GPUs: workgroups for each multiprocessor that stages are to make, and the least that one of them should sum.
constexpr int64_t kGroupsOfDevice = 4, kLeastOfRow = 16384, kLeastAcross = 256, kLeastTerms = 128;
constexpr int64_t kColumnsOfGroup = 256, kResultsOfBlock = 4096, kSharedLoop = 2048;

/// A divisor of n near kStages, 0 if there is none worth it.
int64_t stage_count(int64_t n) {
  for (int64_t s = kStages; s >= 8; --s)
    if (n % s == 0) return s;
  for (int64_t s = kStages + 1; s <= 4 * kStages; ++s)
    if (n % s == 0) return s;
  return 0;
}

struct TrivialKey {
  Op op;
  DType dtype;
  int64_t numel;
  uint64_t arg;
  int src;
  bool operator==(const TrivialKey&) const = default;
};
struct TrivialHash {
  uint64_t operator()(const TrivialKey& k) const {
    return mix(mix(mix(static_cast<uint64_t>(k.op) << 8 | static_cast<uint64_t>(k.dtype), static_cast<uint64_t>(k.numel)), k.arg),
               static_cast<uint64_t>(k.src));
  }
};

}  // namespace

int Work::add(Op op, DType dtype, int64_t numel, Arg arg, std::initializer_list<int> src) {
  Node n{op, dtype, numel, arg, {}, -1};
  for (int s : src) n.src.push_back(s);
  nodes.push_back(std::move(n));
  return static_cast<int>(nodes.size()) - 1;
}

int Work::add_view(int src, const Dims& sizes, const Dims& strides, int64_t offset) {
  Record r;
  r.a = sizes, r.b = strides, r.n = offset;
  return add(Op::VIEW, nodes[src].dtype, product(sizes), Arg(intern(std::move(r))), {src});
}

Geometry simplified(const Dims& sizes, const Dims& strides, int64_t offset) {
  Geometry g;
  g.offset = offset;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1) continue;
    if (!g.sizes.empty() && g.strides.back() == strides[i] * sizes[i]) {
      g.sizes.back() *= sizes[i];
      g.strides.back() = strides[i];
    } else {
      g.sizes.push_back(sizes[i]);
      g.strides.push_back(strides[i]);
    }
  }
  return g;
}

int64_t step_through(const Geometry& g, int64_t step) {
  int64_t p = 1;
  for (size_t k = g.sizes.size(); k-- > 0; p *= g.sizes[k])
    if (step < p * g.sizes[k]) return step / p * g.strides[k];
  return 0;
}

namespace {

/// Contractions by the operands that they read: a value, a buffer as such, and the view of it.
class Readers {
 public:
  explicit Readers(std::span<UOp* const> nodes) {
    for (const UOp* u : nodes)
      if (u->is(Op::REDUCE) && u->src[0]->is(Op::MUL))
        for (const UOp* x : u->src[0]->sources())
          if (x->is(Op::VIEW)) ++count_[key(x)];
  }
  int64_t of(const UOp* operand) const {
    auto it = operand->is(Op::VIEW) ? count_.find(key(operand)) : count_.end();
    return it == count_.end() ? 1 : it->second;
  }

 private:
  using Key = std::pair<const void*, const Record*>;
  static Key key(const UOp* view) {
    const UOp* value = view->src[0];
    return {value->is(Op::BUFFER) ? static_cast<const void*>(value->arg.buf) : value, view->arg.rec};
  }
  ankerl::unordered_dense::map<Key, int64_t> count_;
};

/// What a reduction over `cols` elements reads through views: where their dimensions begin, and whether it walks memory one by one.
struct Walked {
  std::vector<int64_t> breaks;
  int side_by_side = 0, apart = 0;
};

Walked walked_by(const Work& w, int src, int64_t cols) {
  constexpr size_t most = 64;
  struct Visit {
    int node;
    int64_t step;
    bool whole;  // element i of it is element i of `src`
  };
  Walked out;
  std::vector<Visit> todo{{src, 1, true}};
  for (size_t i = 0; i < todo.size() && i < most; ++i) {
    const auto [at, step, whole] = todo[i];
    const Node& n = w[at];
    if (n.op == Op::VIEW) {
      Geometry g = simplified(n.arg.rec->a, n.arg.rec->b, 0);
      int64_t p = 1;
      for (size_t k = g.sizes.size(); whole && k-- > 0;)
        if ((p *= g.sizes[k]) < cols) out.breaks.push_back(p);
      if (int64_t next = step_through(g, step)) todo.push_back({n.src[0], std::abs(next), false});
    } else if (is_elementwise(n.op)) {
      for (int s : n.src)
        if (w[s].numel == n.numel) todo.push_back({s, step, whole});
    } else if (n.numel > 1) {
      ++(step == 1 ? out.side_by_side : out.apart);
    }
  }
  return out;
}

bool fits_breaks(const Walked& walked, int64_t n) {
  return std::all_of(walked.breaks.begin(), walked.breaks.end(), [n](int64_t b) { return b % n == 0 || n % b == 0; });
}

/// In how many stages a GPU sums `cols` elements for each of `rows` results; 0: one. Views keep their loops: the elements of a stage are
/// whole dimensions, or parts of one.
int64_t stages_of_groups(const Work& w, int src, int64_t rows, int64_t cols, const Caps& caps) {
  const bool product = is_contraction(w, src);
  const Walked walked = walked_by(w, src, cols);
  const bool across = walked.apart > 0 && walked.side_by_side <= walked.apart;
  // The lanes of a workgroup share the innermost loop of a row: where it is short they are few, and as much work takes more workgroups.
  int64_t loop = kSharedLoop;
  for (int64_t b : walked.breaks) loop = std::min(loop, b);
  const int64_t whole = product ? rows / kResultsOfBlock : across ? rows / kColumnsOfGroup : rows * loop / kSharedLoop;
  const int64_t groups = std::max<int64_t>(1, whole);
  const int64_t least = product ? kLeastTerms : across ? kLeastAcross : kLeastOfRow * loop / kSharedLoop;
  const int64_t wanted = std::min((kGroupsOfDevice * caps.threads + groups - 1) / groups, cols / least);
  if (wanted < 2 || groups >= 2 * caps.threads) return 0;
  for (int64_t s = wanted; s <= std::min(4 * wanted, cols / 2); ++s)
    if (cols % s == 0 && fits_breaks(walked, cols / s)) return s;
  for (int64_t s = wanted - 1; s >= std::max<int64_t>(2, wanted / 4); --s)
    if (cols % s == 0 && fits_breaks(walked, cols / s)) return s;
  return 0;
}

/// A DFT as one node for each of its kernels.
int add_dft(Work& w, const Node& n, const Caps& caps) {
  Dft d = Dft::of(*n.arg.rec);
  std::vector<size_t> cuts = dft_kernels(d, n.dtype, caps);
  int re = n.src[0], im = n.src[1], out = -1;
  int64_t count = d.elements_between();
  for (size_t k = 0; k + 1 < cuts.size(); ++k) {
    d.first = cuts[k], d.last = cuts[k + 1];
    bool ends = d.last == d.passes();
    out = w.add(Op::DFT, n.dtype, ends ? n.numel : 2 * count, Arg(d.record()), {re, im, n.src[2]});
    if (!ends) re = w.add_view(out, {count}, {1}, 0), im = w.add_view(out, {count}, {1}, count);
  }
  return out;
}

}  // namespace

Work prepare(std::span<UOp* const> nodes, std::span<const int> roots, const Caps& caps) {
  Work w;
  w.nodes.reserve(nodes.size() + nodes.size() / 8);
  std::vector<int> number(nodes.size());
  ankerl::unordered_dense::map<Buffer*, int> leaves;
  // Leaves and movement are shared when equal. Arithmetic is not: a program that recomputes (activation checkpointing) means it.
  ankerl::unordered_dense::map<TrivialKey, int, TrivialHash> trivial;
  const Readers readers(nodes);
  Layouts layouts;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const UOp* u = nodes[i];
    Node n{u->op, u->dtype, u->numel, u->arg, {}, -1};
    for (UOp* s : u->sources()) n.src.push_back(number[s->slot]);
    if (u->is(Op::BUFFER)) n.number = leaves.try_emplace(u->arg.buf, static_cast<int>(leaves.size())).first->second;
    if (u->is(Op::SCALAR)) n.number = w.scalars++;
    for (size_t k = 0; k < memory_sources(u->op, n.src.size()); ++k) {
      int t = n.src[k];
      if (is_free(w[t].op) && w[t].op != Op::BUFFER && (w[t].op != Op::EMPTY || u->is(Op::CALL)))
        n.src[k] = w.add(Op::CONTIGUOUS, w[t].dtype, w[t].numel, {}, {t});
    }
    if (u->is(Op::REDUCE) && u->src[0]->numel > 0) {
      int64_t cols = reduce_columns(n);
      DType d = n.dtype;
      int src = n.src[0];
      if (reduce_op(n) == Op::ADD && u->src[0]->is(Op::MUL) && is_float(d)) {
        const int64_t read_by[2] = {readers.of(u->src[0]->src[0]), readers.of(u->src[0]->src[1])};
        src = condition_contraction(w, src, cols, d, caps, read_by, layouts);
        cols = w[src].numel / n.numel;
      }
      int64_t stages = caps.has_local                                  ? stages_of_groups(w, src, n.numel, cols, caps)
                       : n.numel < kFewRows && cols >= kSplitColumns ? stage_count(cols)
                                                                       : 0;
      if (stages) {
        int part = w.add(Op::REDUCE, d, n.numel * stages, reduce_arg(reduce_op(n), cols / stages), {src});
        number[i] = w.add(Op::REDUCE, d, n.numel, reduce_arg(reduce_op(n), stages), {part});
      } else {
        number[i] = w.add(Op::REDUCE, d, n.numel, reduce_arg(reduce_op(n), cols), {src});
      }
      continue;
    }
    if (u->is(Op::DFT)) {
      number[i] = add_dft(w, n, caps);
      continue;
    }
    if (is_free(u->op) && u->op != Op::SCALAR && u->op != Op::EMPTY) {
      TrivialKey key{u->op, u->dtype, u->numel, u->arg.bits, n.src.empty() ? -1 : n.src[0]};
      auto [it, fresh] = trivial.try_emplace(key, static_cast<int>(w.nodes.size()));
      number[i] = it->second;
      if (!fresh) continue;
    } else {
      number[i] = static_cast<int>(w.nodes.size());
    }
    w.nodes.push_back(std::move(n));
  }
  w.leaves = static_cast<int>(leaves.size());
  for (int r : roots) {
    int n = number[static_cast<size_t>(r)];
    if (is_free(w[n].op) && w[n].op != Op::EMPTY) n = w.add(Op::CONTIGUOUS, w[n].dtype, w[n].numel, {}, {n});
    w.roots.push_back(n);
  }
  return w;
}

}  // namespace tiny::sched
