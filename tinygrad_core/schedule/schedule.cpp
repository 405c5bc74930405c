#include "schedule/schedule.h"

#include <algorithm>

#include "base/error.h"
#include "codegen/codegen.h"
#include "schedule/work.h"

namespace tiny {
namespace sched {
namespace {

class Scheduler {
 public:
  Scheduler(Schedule& out, Work work, const std::vector<int64_t>& leaf_bytes, const std::vector<bool>& donated, const Caps& caps)
      : out_(out), w_(std::move(work)), leaf_bytes_(leaf_bytes), donated_(donated), caps_(caps), g_(group_nodes(w_, caps)) {}

  void run() {
    find_wanted();
    make_leaf_buffers();
    for (int g = 0; g < static_cast<int>(g_.groups.size()); ++g) emit(g);
    finish_roots();
    find_checked();
  }

 private:
  // ---- which nodes get memory
  void find_wanted() {
    size_t n = w_.nodes.size();
    wanted_.assign(n, false), is_root_.assign(n, false);
    last_read_.assign(n, -1), last_target_.assign(n, -1);
    visited_.assign(n, -1);
    for (int r : w_.roots) wanted_[r] = is_root_[r] = true;
    for (int g = static_cast<int>(g_.groups.size()); g-- > 0;) {
      std::vector<int> todo;
      for (int m : g_.groups[g].members)
        if (wanted_[m]) todo.push_back(m);
      while (!todo.empty()) {
        int m = todo.back();
        todo.pop_back();
        if (visited_[m] == g) continue;
        visited_[m] = g;
        visit_sources(m, g, todo);
      }
    }
  }

  void visit_sources(int m, int g, std::vector<int>& todo) {
    const Node& n = w_[m];
    bool writes_into = n.op == Op::ASSIGN || n.op == Op::SCATTER;
    for (size_t k = 0; k < n.src.size(); ++k) {
      int s = n.src[k];
      if (k == 0 && writes_into) {
        wanted_[s] = wanted_[s] || !is_free(w_[s].op);
        last_target_[s] = std::max(last_target_[s], g);
        continue;
      }
      if (w_[s].op == Op::BUFFER) {
        last_read_[s] = std::max(last_read_[s], g);
      } else if (is_free(w_[s].op) || g_.group_of[s] == g || g_.group_of[s] < 0) {
        todo.push_back(s);
      } else if (caps_.tensor_cores && g_.groups[g].contraction && widens(w_, s)) {
        todo.push_back(s);  // tensor cores multiply what it widens
      } else {
        last_read_[s] = std::max(last_read_[s], g);
        bool reused = g_.groups[g].contraction || n.op == Op::CALL;
        if (recompute(w_, g_, s, reused) && !wanted_[s]) todo.push_back(s);
        else wanted_[s] = true;
      }
    }
  }

  // ---- buffers
  int add_buffer(ScheduledBuffer::Kind kind, int number, int64_t nbytes) {
    out_.buffers.push_back({kind, number, nbytes});
    bytes_.push_back(kind == ScheduledBuffer::Leaf ? leaf_bytes_[number] : nbytes);
    return static_cast<int>(out_.buffers.size()) - 1;
  }

  void make_leaf_buffers() {
    home_.assign(w_.nodes.size(), -1);
    for (int l = 0; l < w_.leaves; ++l) add_buffer(ScheduledBuffer::Leaf, l, 0);
    leaf_read_.assign(w_.leaves, -1), leaf_target_.assign(w_.leaves, -1);
    for (size_t i = 0; i < w_.nodes.size(); ++i) {
      if (w_[i].op != Op::BUFFER) continue;
      int l = home_[i] = w_[i].number;
      leaf_read_[l] = std::max(leaf_read_[l], last_read_[i]);
      leaf_target_[l] = std::max(leaf_target_[l], last_target_[i]);
    }
    read_last_by_.resize(g_.groups.size());
    for (int l = 0; l < w_.leaves; ++l)
      if (donated_[l] && leaf_read_[l] >= 0 && leaf_target_[l] < 0) read_last_by_[leaf_read_[l]].push_back(l);
  }

  int64_t node_bytes(int n) const { return w_[n].numel * itemsize(w_[n].dtype); }

  int fresh(int n) { return add_buffer(is_root_[n] ? ScheduledBuffer::Output : ScheduledBuffer::Temp, 0, node_bytes(n)); }

  /// Where ASSIGN or SCATTER n of group g writes: over its old value if nobody needs that later, else into a copy of it.
  int target_of(int n, int g) {
    int old = w_[n].src[0];
    if (w_[old].op == Op::EMPTY) return fresh(n);
    if (w_[old].op == Op::BUFFER) {
      int l = w_[old].number;
      if (donated_[l] && leaf_read_[l] < g && leaf_target_[l] == g && leaf_bytes_[l] >= node_bytes(n)) return claim(l), l;
    } else if (!is_root_[old] && last_read_[old] < g && last_target_[old] == g) {
      int b = home_[old];
      if (is_root_[n] && out_.buffers[b].kind == ScheduledBuffer::Temp) out_.buffers[b].kind = ScheduledBuffer::Output;
      return b;
    }
    int b = fresh(n);
    copy(b, home_[old], node_bytes(n));
    return b;
  }

  void claim(int leaf) {
    claimed_.resize(w_.leaves, false);
    claimed_[leaf] = true;
  }
  bool is_claimed(int leaf) const { return leaf < static_cast<int>(claimed_.size()) && claimed_[leaf]; }

  void copy(int to, int from, int64_t nbytes) {
    ScheduledItem item;
    item.kind = ScheduledItem::Copy;
    item.name = "copy";
    item.buffers = {to, from};
    item.ints = {nbytes};
    out_.items.push_back(std::move(item));
  }

  // ---- kernels
  void emit(int g) {
    std::vector<int> stored;
    for (int m : g_.groups[g].members)
      if (wanted_[m]) stored.push_back(m);
    if (stored.empty()) return;
    int first = stored[0];
    if (w_[first].op == Op::RESULT) return call(w_[first].src[0], stored);
    for (int m : stored) home_[m] = w_[m].op == Op::ASSIGN || w_[m].op == Op::SCATTER ? target_of(m, g) : fresh(m);
    KernelBuild k = build_kernel(w_, g_, home_, g, stored, bytes_, caps_);
    if (g_.place[first] != Place::Alone && reuse_leaves(g, stored, k)) k = build_kernel(w_, g_, home_, g, stored, bytes_, caps_);
    ScheduledItem item;
    item.kind = ScheduledItem::Kernel;
    item.sink = k.sink;
    item.name = kernel_name(k.sink);
    for (int b : k.buffers) item.buffers.push_back(b < 0 ? error_buffer() : b);
    item.scalars = k.scalars;
    out_.items.push_back(std::move(item));
  }

  /// True if computing `value` reads buffer b: then every read of it comes before the store of `value`.
  static bool reads(UOp* value, int b, const KernelBuild& k) {
    UOp* roots[] = {value};
    for (UOp* u : toposort(roots))
      if (u->is(Op::LOAD) && u->src[0]->src[0]->is(Op::PARAM) && k.buffers[static_cast<size_t>(u->src[0]->src[0]->arg.i)] == b) return true;
    return false;
  }

  /// An output may take the memory of a donated leaf of its size that this kernel reads last, for this output and only at the index that it
  /// writes: the same bytes, so with elements of one size.
  bool reuse_leaves(int g, const std::vector<int>& stored, const KernelBuild& k) {
    bool any = false;
    for (int m : stored) {
      int b = home_[m];
      if (!is_root_[m] || out_.buffers[b].kind != ScheduledBuffer::Output || w_[m].op == Op::PAIRS) continue;
      UOp *index = nullptr, *value = nullptr;
      for (const auto& s : k.stores)
        if (s.buffer == b) index = s.index, value = s.value;
      for (int l : read_last_by_[g]) {
        if (is_claimed(l) || leaf_bytes_[l] != node_bytes(m)) continue;
        bool same = true;
        for (const auto& a : k.loads)
          same = same && (a.buffer != l || (a.index == index && itemsize(a.dtype) == itemsize(w_[m].dtype)));
        if (!same || !reads(value, l, k)) continue;
        claim(l);
        home_[m] = l;
        any = true;
        break;
      }
    }
    return any;
  }

  int error_buffer() {
    if (error_ < 0) error_ = add_buffer(ScheduledBuffer::Error, 0, 32);
    return error_;
  }

  /// The builtin of CALL n. Results that nobody reads are written all the same, to memory that lives no longer than that.
  void call(int n, const std::vector<int>& stored) {
    const Record& r = *w_[n].arg.rec;
    ScheduledItem item;
    item.kind = ScheduledItem::Builtin;
    item.name = r.text;
    item.builtin = static_cast<BuiltinName>(r.n);
    item.ints.assign(r.a.begin(), r.a.end());
    item.results = static_cast<int>(r.b.size() / 2);
    for (int k = 0; k < item.results; ++k) {
      item.nbytes.push_back(r.b[2 * k + 1] * itemsize(static_cast<DType>(r.b[2 * k])));
      auto kept = std::find_if(stored.begin(), stored.end(), [&](int m) { return w_[m].arg.i == k; });
      if (kept != stored.end()) home_[*kept] = fresh(*kept);
      item.buffers.push_back(kept != stored.end() ? home_[*kept] : add_buffer(ScheduledBuffer::Temp, 0, item.nbytes.back()));
    }
    for (int s : w_[n].src) item.buffers.push_back(home_[s]), item.nbytes.push_back(node_bytes(s));
    out_.items.push_back(std::move(item));
  }

  /// Several roots may be one node: each gets a buffer of its own.
  void finish_roots() {
    std::vector<bool> given(w_.nodes.size(), false);
    for (int r : w_.roots) {
      if (w_[r].op == Op::EMPTY) {
        out_.outputs.push_back(add_buffer(ScheduledBuffer::Output, 0, node_bytes(r)));
        continue;
      }
      TINY_ASSERT(home_[r] >= 0, std::string("a root was not stored: ") + info(w_[r].op).name);
      int b = home_[r];
      if (given[r]) {
        b = add_buffer(ScheduledBuffer::Output, 0, node_bytes(r));
        copy(b, home_[r], node_bytes(r));
      }
      given[r] = true;
      out_.outputs.push_back(b);
    }
  }

  void find_checked() {
    std::vector<bool> checked(w_.nodes.size(), false);
    for (size_t i = 0; i < w_.nodes.size(); ++i) {
      checked[i] = w_[i].op == Op::CHECK;
      for (int s : w_[i].src) checked[i] = checked[i] || checked[s];
    }
    for (int r : w_.roots) out_.checked.push_back(checked[r]);
  }

  Schedule& out_;
  Work w_;
  const std::vector<int64_t>& leaf_bytes_;
  const std::vector<bool>& donated_;
  const Caps& caps_;
  Grouping g_;
  Homes home_;
  std::vector<bool> wanted_, is_root_, claimed_;
  std::vector<int> last_read_, last_target_, leaf_read_, leaf_target_, visited_;
  std::vector<std::vector<int>> read_last_by_;  // by group: donated leaves, not written to, that it reads last
  std::vector<int64_t> bytes_;
  int error_ = -1;
};

}  // namespace
}  // namespace sched

std::unique_ptr<Schedule> make_schedule(std::span<UOp* const> nodes, std::span<const int> roots, const std::vector<int64_t>& leaf_bytes,
                                        const std::vector<bool>& donated, const Caps& caps) {
  auto s = std::make_unique<Schedule>();
  IrScope scope(s->arena);
  sched::Scheduler(*s, sched::prepare(nodes, roots, caps), leaf_bytes, donated, caps).run();
  return s;
}

}  // namespace tiny
