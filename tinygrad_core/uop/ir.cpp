#include "uop/ir.h"

#include <atomic>
#include <bit>
#include <cstring>
#include <new>

#include "base/error.h"
#include "unordered_dense/unordered_dense.h"
#include "uop/facts.h"

namespace tiny {

uint64_t arg_hash(Op op, Arg arg) { return info(op).arg == ArgKind::Rec && arg.rec ? arg.rec->hash : arg.bits; }
namespace {

thread_local Arena* g_current = nullptr;

/// Marks of walks over kernel nodes. One counter for all arenas: a node never carries the number of another walk.
std::atomic<uint32_t> g_epoch{0};

uint64_t structural_hash(Op op, DType dtype, int64_t numel, Arg arg, std::span<UOp* const> src) {
  uint64_t h = mix(static_cast<uint64_t>(op) << 16 | static_cast<uint64_t>(dtype), arg_hash(op, arg));
  h = mix(h, static_cast<uint64_t>(numel) << 16 | src.size());
  for (const UOp* s : src) h = mix(h, facts(s).hash);
  return (h ^ h >> 32) * 0xD6E8FEB86659FD93ull;  // the upper half is used by itself: let every bit count there
}

}  // namespace

/// Nodes lie in slabs that only grow; an open-addressing table finds them by hash.
struct Arena::Impl {
  struct Entry {
    uint32_t hash;
    UOp* node;
  };
  std::vector<char*> slabs;
  char *at = nullptr, *end = nullptr;
  std::vector<Entry> table = std::vector<Entry>(256);
  size_t count = 0;

  ~Impl() {
    for (char* s : slabs) ::operator delete(s);
  }

  UOp* allocate(size_t nsrc) {
    size_t n = sizeof(Facts) + sizeof(UOp) + nsrc * sizeof(UOp*);
    if (static_cast<size_t>(end - at) < n) {
      size_t slab = std::max<size_t>(n, size_t{16384} << std::min<size_t>(slabs.size(), 6));
      at = static_cast<char*>(::operator new(slab));
      end = at + slab;
      slabs.push_back(at);
    }
    UOp* u = reinterpret_cast<UOp*>(at + sizeof(Facts));
    at += n;
    return u;
  }

  void grow() {
    std::vector<Entry> bigger(table.size() * 2);
    for (const Entry& e : table) {
      if (!e.node) continue;
      size_t i = e.hash & (bigger.size() - 1);
      while (bigger[i].node) i = (i + 1) & (bigger.size() - 1);
      bigger[i] = e;
    }
    table.swap(bigger);
  }
};

Arena::Arena() : impl_(std::make_unique<Impl>()) {}
Arena::~Arena() = default;
size_t Arena::size() const { return impl_->count; }

UOp* Arena::make(Op op, DType dtype, int64_t numel, Arg arg, std::span<UOp* const> src) {
  Impl& m = *impl_;
  if (info(op).arg == ArgKind::None) arg = {};
  uint64_t full_hash = structural_hash(op, dtype, numel, arg, src);
  uint32_t hash = static_cast<uint32_t>(full_hash >> 32);
  size_t i = hash & (m.table.size() - 1);
  for (; m.table[i].node; i = (i + 1) & (m.table.size() - 1)) {
    if (m.table[i].hash != hash) continue;
    UOp* u = m.table[i].node;
    if (u->op == op && u->dtype == dtype && u->numel == numel && u->arg.bits == arg.bits && u->nsrc == src.size() &&
        std::equal(src.begin(), src.end(), u->src))
      return u;
  }
  TINY_ASSERT(src.size() <= UINT16_MAX, "too many sources");
  UOp* u = m.allocate(src.size());
  *u = UOp{op, dtype, static_cast<uint16_t>(src.size()), hash, 0, static_cast<uint32_t>(m.count), numel, arg};
  std::copy(src.begin(), src.end(), u->src);
  facts(u) = find_facts(u);
  facts(u).hash = full_hash;
  m.table[i] = {hash, u};
  if (++m.count * 2 > m.table.size()) m.grow();
  return u;
}

IrScope::IrScope(Arena& arena) : previous_(g_current) { g_current = &arena; }
IrScope::~IrScope() { g_current = previous_; }

Arena& current_arena() {
  TINY_ASSERT(g_current, "no IrScope on this thread");
  return *g_current;
}

namespace {

int64_t lanes_of(Op op, std::span<UOp* const> src) {
  if (op == Op::STACK) return static_cast<int64_t>(src.size());
  if (op == Op::FOLDLANES || op == Op::LANE) return 1;
  int64_t n = 1;
  for (const UOp* s : src) n = std::max(n, s->numel);
  return n;
}

}  // namespace

U node(Op op, DType dtype, std::span<UOp* const> src, Arg arg, int64_t numel) {
  return current_arena().make(op, dtype, numel ? numel : lanes_of(op, src), arg, src);
}
U node(Op op, DType dtype, std::initializer_list<UOp*> src, Arg arg, int64_t numel) {
  return node(op, dtype, std::span<UOp* const>(src.begin(), src.size()), arg, numel);
}

U const_(DType d, double v) { return current_arena().make(Op::CONST, d, 1, const_arg(d, v), {}); }
U const_(DType d, int64_t v) { return current_arena().make(Op::CONST, d, 1, const_arg(d, v), {}); }

U range(int64_t extent, int64_t number, Axis axis) { return node(Op::RANGE, kIndex, {index_const(extent)}, range_arg(number, axis)); }

U alu(Op op, std::initializer_list<UOp*> src) {
  const UOp* last = src.begin()[src.size() - 1];
  TINY_ASSERT(has(op, group::Elementwise) && static_cast<int>(src.size()) == info(op).nsrc, info(op).name);
  const bool alike = src.size() == 1 || op == Op::DOT2 || src.begin()[src.size() - 2]->dtype == last->dtype;
  TINY_ASSERT(alike, std::string("dtypes differ in ") + info(op).name);
  return simplify_node(node(op, has(op, group::Cmp) ? DType::bool_ : last->dtype, src));
}

U cast(UOp* x, DType d) { return x->dtype == d ? U(x) : U(simplify_node(node(Op::CAST, d, {x}))); }

namespace {

/// A walk in depth-first post-order that calls visit(u) once for each node for which enter(u) holds; sources come first.
template <class Enter, class Visit>
void walk(UOp* root, Enter enter, Visit visit) {
  struct Step {
    UOp* u;
    uint32_t next;
  };
  if (!enter(root)) return;
  std::vector<Step> stack{{root, 0}};
  while (!stack.empty()) {
    Step& top = stack.back();
    if (top.next < top.u->nsrc) {
      UOp* s = top.u->src[top.next++];
      if (enter(s)) stack.push_back({s, 0});
    } else {
      UOp* u = top.u;
      stack.pop_back();
      visit(u);
    }
  }
}

/// `u` with other sources; lanes follow the sources where theirs changed.
UOp* remake(UOp* u, std::span<UOp* const> src) {
  bool lanes_changed = false;
  for (size_t i = 0; i < src.size(); ++i) lanes_changed |= src[i]->numel != u->src[i]->numel;
  return simplify_node(node(u->op, u->dtype, src, u->arg, lanes_changed ? 0 : u->numel));
}

}  // namespace

std::vector<UOp*> toposort(std::span<UOp* const> roots) {
  std::vector<UOp*> order;
  uint32_t epoch = ++g_epoch;
  auto enter = [epoch](UOp* u) { return u->mark != epoch && (u->mark = epoch, true); };
  for (UOp* r : roots) walk(r, enter, [&](UOp* u) { order.push_back(u); });
  return order;
}

UOp* substitute(UOp* root, std::vector<UOp*>& map) {
  if (map.size() < current_arena().size()) map.resize(current_arena().size());
  std::vector<UOp*> src;
  walk(root, [&](UOp* u) { return map[u->slot] == nullptr; },
       [&](UOp* u) {
         src.clear();
         bool changed = false;
         for (UOp* s : u->sources()) src.push_back(map[s->slot]), changed |= src.back() != s;
         UOp* made = changed ? remake(u, src) : u;
         map[u->slot] = made;
       });
  return map[root->slot];
}

UOp* rebuild(UOp* root) {
  ankerl::unordered_dense::map<const UOp*, UOp*> made;
  std::vector<UOp*> src;
  walk(root, [&](UOp* u) { return !made.contains(u); },
       [&](UOp* u) {
         src.clear();
         for (UOp* s : u->sources()) src.push_back(made.at(s));
         UOp* result = remake(u, src);
         made.emplace(u, result);
       });
  return made.at(root);
}

UOp* replace(UOp* root, UOp* from, UOp* to) {
  ankerl::unordered_dense::map<const UOp*, UOp*> made{{from, to}};
  std::vector<UOp*> src;
  auto enter = [&made](UOp* u) {
    if (made.contains(u)) return false;
    bool computed = is_elementwise(u->op) || u->is(Op::STACK) || u->is(Op::LANE) || u->is(Op::FOLDLANES);
    if (!computed) made.emplace(u, u);
    return computed;
  };
  walk(root, enter,
       [&](UOp* u) {
         src.clear();
         bool changed = false;
         for (UOp* s : u->sources()) src.push_back(made.at(s)), changed |= src.back() != s;
         UOp* result = changed ? remake(u, src) : u;
         made.emplace(u, result);
       });
  return made.at(root);
}

UOp* import_graph(UOp* root) {
  ankerl::unordered_dense::map<const UOp*, UOp*> made;
  std::vector<UOp*> src;
  walk(root, [&](UOp* u) { return !made.contains(u); },
       [&](UOp* u) {
         src.clear();
         for (UOp* s : u->sources()) src.push_back(made.at(s));
         made.emplace(u, current_arena().make(u->op, u->dtype, u->numel, u->arg, src));
       });
  return made.at(root);
}

Hash128 kernel_key(UOp* sink) {
  std::vector<UOp*> order = toposort({&sink, 1});
  ankerl::unordered_dense::map<const UOp*, uint64_t> position;
  position.reserve(order.size());
  std::vector<uint64_t> words;
  words.reserve(order.size() * 5);
  for (const UOp* u : order) {
    position.emplace(u, position.size());
    words.push_back(static_cast<uint64_t>(u->op) << 32 | static_cast<uint64_t>(u->dtype) << 16 | u->nsrc);
    words.push_back(static_cast<uint64_t>(u->numel));
    words.push_back(arg_hash(u->op, u->arg));
    for (const UOp* s : u->sources()) words.push_back(position.at(s));
  }
  return hash128(words.data(), words.size() * sizeof(uint64_t));
}

}  // namespace tiny
