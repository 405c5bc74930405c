// Judge of the code generator: runs a kernel's AST (codegen/codegen.h) as it is defined, one element after the other, knowing nothing of
// loops' placement.
#pragma once
#include <cstring>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "scalar_eval.h"
#include "uop/ir.h"

namespace tiny::testing {

/// A buffer argument and its bytes.
struct KernelBuffer {
  DType dtype;
  std::vector<uint8_t> bytes;
  int64_t size() const { return static_cast<int64_t>(bytes.size()) / itemsize(dtype); }
  Cell get(int64_t i) const {
    uint64_t b = 0;
    std::memcpy(&b, bytes.data() + i * itemsize(dtype), static_cast<size_t>(itemsize(dtype)));
    return bits_cell(dtype, b);
  }
  void set(int64_t i, Cell c) {
    uint64_t b = cell_bits(dtype, c);
    std::memcpy(bytes.data() + i * itemsize(dtype), &b, static_cast<size_t>(itemsize(dtype)));
  }
};

class KernelEval {
 public:
  KernelEval(UOp* sink, std::vector<KernelBuffer>& buffers) : sink_(sink), buffers_(buffers), nodes_(toposort({&sink, 1})) {
    for (UOp* u : nodes_) {
      for (UOp* s : u->sources()) depends_[u].insert(depends_[s].begin(), depends_[s].end());
      if (u->is(Op::RANGE)) depends_[u].insert(u);
      for (UOp* r : depends_[u]) dependents_[r].push_back(u);
      if (u->is(Op::FOLD)) free_[u] = without(free_of_sources(u), u);
      else if (u->is(Op::AFTER)) free_[u] = {};
      else free_[u] = free_of_sources(u);
      if (u->is(Op::RANGE)) free_[u].insert(u);
    }
    known_.assign(nodes_.size(), false), cells_.resize(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) position_[nodes_[i]] = i;
    std::set<UOp*> tainted;  // computed from memory
    for (UOp* u : nodes_) {
      bool t = u->is(Op::LOAD);
      for (UOp* s : u->sources()) t |= tainted.contains(s);
      if (t) tainted.insert(u);
      if (t && !u->is(Op::AFTER)) from_memory_.push_back(position_[u]);
    }
    for (auto& [range, users] : dependents_)
      for (UOp* u : users) forgets_[range].push_back(position_[u]);
  }

  void run(std::vector<uint64_t> scalars = {}) {
    scalars_ = std::move(scalars);
    for (UOp* s : sink_->sources()) run_store(s);
  }
  int64_t faults = 0;

 private:
  using Ranges = std::set<UOp*>;
  Ranges free_of_sources(UOp* u) {
    Ranges out;
    for (UOp* s : u->sources()) out.insert(free_[s].begin(), free_[s].end());
    return out;
  }
  static Ranges without(Ranges r, UOp* fold) {
    for (int i = 1; i < fold->nsrc; ++i) r.erase(fold->src[i]);
    return r;
  }
  static bool before(UOp* a, UOp* b) { return range_number(a) < range_number(b); }

  void set(UOp* range, int64_t v) {
    env_[range] = v;
    for (size_t u : forgets_[range]) known_[u] = false;
  }

  /// f() for all values of the ranges, in order, the last the fastest.
  template <class F> void each(std::vector<UOp*> ranges, F f, size_t k = 0) {
    if (k == ranges.size()) return f();
    int64_t n = value(ranges[k]->src[0]).i;
    for (int64_t i = 0; i < n; ++i) set(ranges[k], i), each(ranges, f, k + 1);
    env_.erase(ranges[k]);
  }

  void run_store(UOp* s) {
    Ranges r = free_[s];
    if (s->is(Op::ORDERED))
      for (int i = 1; i < s->nsrc; ++i) r.insert(s->src[i]);
    std::vector<UOp*> loops;
    for (UOp* x : r)
      if (!env_.contains(x)) loops.push_back(x);
    std::sort(loops.begin(), loops.end(), before);
    UOp* store = s->is(Op::ORDERED) ? s->src[0] : s;
    Op op = s->is(Op::ORDERED) ? static_cast<Op>(s->arg.i) : Op::NOOP;
    each(loops, [&] {
      if (store->nsrc > 2 && !value(store->src[2]).i) return;
      Cell v = value(store->src[1]);
      int64_t i = value(store->src[0]->src[1]).i;
      KernelBuffer& b = array(store->src[0]->src[0]);
      DType d = store->src[1]->dtype;
      if (i < 0 || i >= b.size()) throw std::runtime_error("store out of bounds");
      Cell both[] = {b.get(i), v};
      b.set(i, op == Op::NOOP ? v : apply(op, d, d, both));
      for (size_t u : from_memory_) known_[u] = false;  // a write may change what was read
    });
  }

  KernelBuffer& array(UOp* u) {
    if (u->is(Op::AFTER)) {
      size_t at = position_[u];
      if (!known_[at]) {
        for (int i = 1; i < u->nsrc; ++i) run_store(u->src[i]);
        known_[at] = true;
      }
      return array(u->src[0]);
    }
    if (u->is(Op::PARAM)) return buffers_[static_cast<size_t>(u->arg.i)];
    KernelBuffer& b = locals_[u->arg.i];
    if (b.bytes.empty()) b = {u->dtype, std::vector<uint8_t>(static_cast<size_t>(const_int(u->src[0]) * itemsize(u->dtype)))};
    return b;
  }

  Cell value(UOp* u) {
    size_t at = position_[u];
    if (known_[at]) return cells_[at];
    Cell c = compute(u);
    known_[at] = true, cells_[at] = c;
    return c;
  }

  Cell reduce(UOp* u, UOp* x, const std::vector<UOp*>& ranges) {
    Op op = static_cast<Op>(u->arg.i);
    Arg start = identity_arg(op, u->dtype);
    Cell acc{start.f, start.i};
    each(ranges, [&] {
      Cell both[] = {acc, value(x)};
      acc = apply(op, u->dtype, u->dtype, both);
    });
    return acc;
  }

  Cell compute(UOp* u) {
    switch (u->op) {
      case Op::CONST: return {u->arg.f, u->arg.i};
      case Op::VAR: { Cell c; c.i = static_cast<int64_t>(scalars_[static_cast<size_t>(u->arg.i)]); std::memcpy(&c.f, &c.i, 8); return c; }
      case Op::RANGE: return {0, env_.at(u)};
      case Op::FOLD: {
        std::vector<UOp*> r(u->src + 1, u->src + u->nsrc);
        std::sort(r.begin(), r.end(), before);
        return reduce(u, u->src[0], r);
      }
      case Op::PREFIX: {
        UOp* r = u->src[1];
        int64_t at = env_.at(r);
        Op op = static_cast<Op>(u->arg.i);
        Arg start = identity_arg(op, u->dtype);
        Cell acc{start.f, start.i};
        for (int64_t i = 0; i <= at; ++i) {
          set(r, i);
          Cell both[] = {acc, value(u->src[0])};
          acc = apply(op, u->dtype, u->dtype, both);
        }
        return acc;
      }
      case Op::LOAD: {
        if (u->nsrc > 1 && !value(u->src[1]).i) return value(u->src[2]);
        KernelBuffer& b = array(u->src[0]->src[0]);
        int64_t i = value(u->src[0]->src[1]).i;
        if (i < 0 || i >= b.size()) throw std::runtime_error("load out of bounds");
        return b.get(i);
      }
      case Op::CHECK:
        if (value(u->src[1]).i) return value(u->src[0]);
        ++faults;
        return {};
      case Op::WHERE: return value(value(u->src[0]).i ? u->src[1] : u->src[2]);
      default: {
        Cell s[3];
        for (int i = 0; i < u->nsrc; ++i) s[i] = value(u->src[i]);
        return apply(u->op, u->src[0]->dtype, u->dtype, s);
      }
    }
  }

  UOp* sink_;
  std::vector<KernelBuffer>& buffers_;
  std::vector<UOp*> nodes_;
  std::vector<uint64_t> scalars_;
  std::map<UOp*, Ranges> depends_, free_;
  std::map<UOp*, std::vector<UOp*>> dependents_;
  std::map<UOp*, std::vector<size_t>> forgets_;
  std::map<UOp*, int64_t> env_;
  std::unordered_map<UOp*, size_t> position_;
  std::vector<size_t> from_memory_;
  std::vector<char> known_;
  std::vector<Cell> cells_;
  std::map<int64_t, KernelBuffer> locals_;
};

}  // namespace tiny::testing
