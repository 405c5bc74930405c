#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <optional>
#include <unordered_dense/unordered_dense.h>

#include "base/env.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "engine/faults.h"
#include "engine/plan.h"
#include "engine/record_only.h"
#include "engine/walk.h"
#include "runtime/allocator.h"
#include "runtime/ready.h"

namespace tiny {
namespace {

constexpr size_t kFlushHistory = 256;
constexpr size_t kMaxPlans = 512;     // programs kept; the least recently used go first
constexpr size_t kSiteWindow = 24;    // writes that tell one place of a loop from another
constexpr size_t kMaxSites = 64;
constexpr int kUnlockedBuilds = 4;    // attempts to compile while other threads change the graph

std::string (*where_hook)() = nullptr;

/// Gives the graph lock up, which this thread holds once.
struct GraphUnlock {
  GraphUnlock() { graph_mutex().unlock(); }
  ~GraphUnlock() { graph_mutex().lock(); }
};

double ms_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - t).count();
}

std::string dims_text(const Dims& d) {
  std::string s = "[";
  for (size_t i = 0; i < d.size(); ++i) s += (i ? "," : "") + std::to_string(d[i]);
  return s + "]";
}

std::string signature_text(const NodeSignature& n) {
  std::string s = fmt::format("{}.{} of {} elements", info(n.op).name, info(n.dtype).name, n.numel);
  if (n.rec) s += " sizes " + dims_text(n.rec->a) + " strides " + dims_text(n.rec->b);
  return s;
}

NodeSignature signature(const UOp* u) {
  bool rec = info(u->op).arg == ArgKind::Rec;
  bool runtime = u->op == Op::BUFFER || u->op == Op::SCALAR;
  return {u->op, u->dtype, u->numel, rec || runtime ? 0 : u->arg.bits, rec ? u->arg.rec : nullptr};
}

bool same(const NodeSignature& a, const NodeSignature& b) {
  return a.op == b.op && a.dtype == b.dtype && a.numel == b.numel && a.arg == b.arg && a.rec == b.rec;
}

}  // namespace

struct Engine::Impl {
  explicit Impl(Device& d) : kernels(d) {}
  Walk walk;
  KernelCache kernels;
  ankerl::unordered_dense::map<Hash128, std::shared_ptr<Plan>, Hash128Hasher> plans;
  EngineStats stats;
  std::deque<FlushRecord> history;
  Storage *head = nullptr, *tail = nullptr;
  std::vector<Storage*> storages;      // scratch of flush()
  size_t flushing_bytes = 0;           // of all storages of the flush
  std::vector<UOp*> roots;
  uint64_t clock = 0;                  // number of the flush
  Faults faults;
  // Stable cuts: hashes of the last writes, and of those at which a cut was forced.
  uint64_t writes[kSiteWindow] = {};
  size_t write_at = 0;
  std::vector<uint64_t> sites;
  int64_t node_bound = 0, base_nodes = 0;
  bool flushing = false, settle = false;

  uint64_t site() const {
    uint64_t h = 0;
    for (size_t i = 0; i < kSiteWindow; ++i) h = mix(h, writes[(write_at + i) % kSiteWindow]);
    return h;
  }
  std::string why_missed() const;
};

Engine::Engine(Device& device) : device_(device), impl_(new Impl(device)) { set_node_bound(env_int(Env::TINY_FLUSH_NODES)); }

Engine& Engine::of(Device& device) {
  static std::array<std::atomic<Engine*>, kMaxDevices> engines;  // never freed: storages may outlive static destruction
  std::atomic<Engine*>& e = engines[static_cast<size_t>(device.index())];
  if (Engine* made = e.load(std::memory_order_acquire)) return *made;
  GraphLock lock;
  if (!e.load(std::memory_order_relaxed)) e.store(new Engine(device), std::memory_order_release);
  return *e.load(std::memory_order_relaxed);
}

void Engine::set_where(std::string (*where)()) { where_hook = where; }

// ---- pending storages
void Engine::link(Storage* s) {
  s->prev_ = impl_->tail;
  s->next_ = nullptr;
  (impl_->tail ? impl_->tail->next_ : impl_->head) = s;
  impl_->tail = s;
  s->linked_ = true;
}

void Engine::unlink(Storage* s) {
  if (!s->linked_) return;
  Impl& i = *of(*s->device_).impl_;
  (s->prev_ ? s->prev_->next_ : i.head) = s->next_;
  (s->next_ ? s->next_->prev_ : i.tail) = s->prev_;
  s->prev_ = s->next_ = nullptr;
  s->linked_ = false;
}

// ---- the bound
void Engine::note_write(const UOp* value) {
  Impl& i = *impl_;
  i.writes[i.write_at] =
      mix(static_cast<uint64_t>(value->op) << 8 | static_cast<uint64_t>(value->dtype), static_cast<uint64_t>(value->numel));
  i.write_at = (i.write_at + 1) % kSiteWindow;
}

void Engine::set_node_bound(int64_t n) {
  impl_->node_bound = n;
  impl_->base_nodes = live_nodes();
  node_limit_ = n ? impl_->base_nodes + n / 2 : INT64_MAX;
}

void Engine::settle_after_operator() {
  impl_->settle = true;
  node_limit_ = INT64_MIN;
}

/// Past half of the bound a flush waits for a place of the program where one was forced before, so that a loop is always cut at the same
/// place and its pieces are found in the cache; at the bound it is forced, and the place remembered.
void Engine::flush_at_bound() {
  if (RecordOnly::active()) return;
  bool settle = false;
  {
    GraphLock lock;
    Impl& i = *impl_;
    settle = std::exchange(i.settle, false);
    if (settle) set_node_bound(i.node_bound);
  }
  if (settle) {
    flush("shared memory", true);
    return wait_and_check(device_.last_ticket());
  }
  {
    GraphLock lock;
    Impl& i = *impl_;
    uint64_t site = i.site();
    bool known = std::find(i.sites.begin(), i.sites.end(), site) != i.sites.end();
    if (!known && live_nodes() < i.base_nodes + i.node_bound) return;
    if (!known) {
      if (i.sites.size() >= kMaxSites) i.sites.erase(i.sites.begin());
      i.sites.push_back(site);
    }
  }
  flush("bound");
}

// ---- flush
std::string Engine::Impl::why_missed() const {
  const Plan* nearest = nullptr;
  size_t best = 0;
  for (const auto& [key, plan] : plans) {  // the plan that agrees longest from the start
    size_t k = 0, n = std::min(plan->nodes.size(), walk.nodes.size());
    while (k < n && same(plan->nodes[k], signature(walk.nodes[k]))) ++k;
    if (!nearest || k > best) nearest = plan.get(), best = k;
  }
  if (!nearest) return "first flush";
  if (best == walk.nodes.size() && best == nearest->nodes.size()) return "same operators; other inputs, outputs or edges";
  if (best == nearest->nodes.size())
    return fmt::format("{} more operators from {}", walk.nodes.size() - best, signature_text(signature(walk.nodes[best])));
  if (best == walk.nodes.size()) return fmt::format("ends before {}", signature_text(nearest->nodes[best]));
  return fmt::format("node {}: {}, earlier {}", best, signature_text(signature(walk.nodes[best])), signature_text(nearest->nodes[best]));
}

/// Lists what is pending: storages and the nodes that they hold.
void Engine::gather() {
  Impl& i = *impl_;
  i.storages.clear(), i.roots.clear(), i.flushing_bytes = 0;
  for (Storage* s = i.head; s; s = s->next_)
    if (s->is_pending()) i.storages.push_back(s), i.roots.push_back(s->value_.get()), i.flushing_bytes += s->nbytes_;
}

void Engine::flush(const char* cause, bool wait) {
  GraphLock lock;
  Impl& i = *impl_;
  if (!i.head || i.flushing) return;
  RecordOnly::refuse(cause);
  if (wait) get_ready(device_);
  FlushRecord record;
  record.cause = cause;
  if (where_hook) record.where = where_hook();
  try {
    const std::shared_ptr<Plan> plan = find(record);
    while (i.head) unlink(i.head);
    if (!plan) return;  // nothing was pending, or another thread has flushed it while this one compiled
    ++i.clock;
    i.flushing = true;
    struct Reset {
      Impl& i;
      Engine& e;
      ~Reset() {
        i.flushing = false;
        e.set_node_bound(i.node_bound);
      }
    } reset{i, *this};
    run(plan, record, wait);
  } catch (const Error& e) {
    fail(e.kind, e.what());
    throw;
  } catch (const std::exception& e) {
    fail(ErrorKind::Runtime, e.what());
    throw;
  }
  i.history.push_back(std::move(record));
  if (i.history.size() > kFlushHistory) i.history.pop_front();
}

Buffer* Engine::alloc(size_t n) {
  try {
    return device_.alloc(n);
  } catch (const Error& e) {
    if (e.kind != ErrorKind::OutOfMemory) throw;
    size_t pending = impl_->flushing ? impl_->flushing_bytes : 0;
    for (Storage* s = impl_->head; s; s = s->next_) pending += s->is_pending() ? s->nbytes_ : 0;
    throw Error(e.kind, fmt::format("{}; pending results need {}", e.what(), bytes_text(pending)));
  }
}

/// The storages of the flush hold no value any more; reading one says why.
void Engine::fail(ErrorKind kind, const std::string& message) {
  for (Storage* s : impl_->storages) {
    unlink(s);
    s->value_ = Ref();
    s->failed_ = message;
    s->failed_kind_ = kind;
  }
}

/// The program for the listed values; null if this process has not built it. Leaves its key.
std::shared_ptr<Plan> Engine::known(Hash128* key) {
  Impl& i = *impl_;
  i.walk.run(i.roots);
  *key = i.walk.key;
  for (Storage* s : i.storages) key->lo = mix(key->lo, static_cast<uint64_t>(s->pinned_) | s->nbytes_ << 1);
  auto it = i.plans.find(*key);
  return it != i.plans.end() && it->second->nodes.size() == i.walk.nodes.size() ? it->second : nullptr;
}

/// The program for all that is pending, which is listed afterwards; null if nothing is. A program that is missing is compiled without
/// the lock. Other threads may then write to storages or drop them, so what is pending is looked at again; should they do so every
/// time, the lock is kept at last. Whoever calls with the lock held has references into the graph: then it is kept, too.
std::shared_ptr<Plan> Engine::find(FlushRecord& record) {
  Impl& i = *impl_;
  record.hit = true;
  for (int attempt = 0;; ++attempt) {
    gather();
    if (i.roots.empty()) return nullptr;
    Hash128 key;
    if (std::shared_ptr<Plan> plan = known(&key)) return plan;
    record.hit = false;
    build(key, record, attempt < kUnlockedBuilds && graph_mutex().depth() == 1);
  }
}

/// Schedules and compiles the program with this key.
void Engine::build(const Hash128& key, FlushRecord& record, bool unlock) {
  Impl& i = *impl_;
  auto start = std::chrono::steady_clock::now();
  record.miss_reason = i.why_missed();
  std::vector<int64_t> leaf_bytes;
  for (const Leaf& l : i.walk.leaves) leaf_bytes.push_back(static_cast<int64_t>(l.buffer->nbytes));
  std::unique_ptr<Schedule> schedule = make_schedule(i.walk.nodes, i.walk.roots, leaf_bytes, i.walk.donated, device_.caps());
  record.schedule_ms += ms_since(start);
  std::vector<NodeSignature> signatures;
  for (const UOp* u : i.walk.nodes) signatures.push_back(signature(u));
  std::vector<Ref> held;  // so that no other node gets the address of one of these
  for (UOp* root : i.roots) held.push_back(Ref::share(root));
  start = std::chrono::steady_clock::now();
  std::shared_ptr<Plan> plan;
  int compiled = 0;
  try {
    std::optional<GraphUnlock> unlocked;
    if (unlock) unlocked.emplace();
    plan = compile(*schedule, &compiled);
  } catch (...) {
    if (unlock) keep_listed(held);
    throw;
  }
  record.compile_ms += ms_since(start), record.compiled += compiled;
  i.stats.kernels_compiled += compiled;
  plan->nodes = std::move(signatures);
  plan->last_used = i.clock;  // before room is made: the newest is never the oldest
  i.plans[key] = plan;
  forget_old_plans();
}

std::shared_ptr<Plan> Engine::compile(Schedule& schedule, int* compiled) {
  std::vector<const ScheduledItem*> kernels, builtins;
  for (const ScheduledItem& item : schedule.items) {
    if (item.kind == ScheduledItem::Kernel) kernels.push_back(&item);
    if (item.kind == ScheduledItem::Builtin) builtins.push_back(&item);
  }
  IrScope scope(schedule.arena);
  std::vector<CompiledKernel> made = impl_->kernels.get(kernels, compiled);
  return make_plan(schedule, made, impl_->kernels.builtins(builtins, compiled));
}

/// Lists again those storages that still hold one of `values`: the others were written or dropped without the lock.
void Engine::keep_listed(const std::vector<Ref>& values) {
  Impl& i = *impl_;
  ankerl::unordered_dense::set<const UOp*> known;
  for (const Ref& v : values) known.insert(v.get());
  gather();
  std::erase_if(i.storages, [&](const Storage* s) { return !known.count(s->value_.get()); });
}

/// Out of memory: each value by itself, so that only those which do not fit are lost.
void Engine::run_one_by_one(FlushRecord& record, bool wait) {
  Impl& i = *impl_;
  std::vector<Storage*> all = i.storages;
  for (Storage* s : all) {
    i.storages = {s};
    i.roots = {s->value_.get()};
    try {
      Hash128 key;
      std::shared_ptr<Plan> plan = known(&key);
      if (!plan) build(key, record, false), plan = known(&key);
      submit(plan, wait);
    } catch (const Error& e) {
      fail(e.kind, e.what());
    }
  }
}

void Engine::run(const std::shared_ptr<Plan>& plan, FlushRecord& record, bool wait) {
  Impl& i = *impl_;
  ++i.stats.flushes;
  ++(record.hit ? i.stats.hits : i.stats.misses);
  i.stats.nodes_scheduled += static_cast<int64_t>(i.walk.nodes.size());
  record.nodes = static_cast<int>(i.walk.nodes.size());
  plan->last_used = i.clock;
  record.kernels = plan->kernel_count, record.flops = plan->flops, record.bytes = plan->bytes;
  record.arena_bytes = plan->arena_bytes, record.arena_bound = plan->arena_bound;
  record.kernel_names = plan->names;
  i.stats.kernels_run += plan->kernel_count;
  auto start = std::chrono::steady_clock::now();
  try {
    submit(plan, wait);
  } catch (const Error& e) {
    if (e.kind != ErrorKind::OutOfMemory || i.storages.size() == 1) throw;
    run_one_by_one(record, wait);
  }
  record.submit_ms = ms_since(start);
  TINY_LOG(1, flush, "flush {} ({}): {} nodes, {} kernels, {}{}", i.clock, record.cause, record.nodes, record.kernels,
           record.hit ? "hit" : "miss: ", record.miss_reason);
}

void Engine::forget_old_plans() {
  Impl& i = *impl_;
  while (i.plans.size() > kMaxPlans) {
    auto oldest = i.plans.begin();
    for (auto it = i.plans.begin(); it != i.plans.end(); ++it)
      if (it->second->last_used < oldest->second->last_used) oldest = it;
    i.plans.erase(oldest);
  }
}

namespace {
/// Blocks of one submission, given back unless a storage took them.
struct Blocks {
  std::vector<Buffer*> outputs;
  Buffer* arena = nullptr;
  ~Blocks() {
    for (Buffer* b : outputs)
      if (b) b->release();
    if (arena) arena->release();
  }
};
}  // namespace

void Engine::submit(const std::shared_ptr<Plan>& plan, bool wait) {
  Impl& i = *impl_;
  Blocks blocks;
  for (int64_t n : plan->output_bytes) blocks.outputs.push_back(alloc(static_cast<size_t>(n)));
  if (plan->arena_bytes) blocks.arena = alloc(static_cast<size_t>(plan->arena_bytes));
  std::vector<Buffer*> results;

  auto block_of = [&](const Plan::Place& p) -> Buffer* {
    switch (p.home) {
      case Plan::Home::Leaf: return i.walk.leaves[static_cast<size_t>(p.number)].buffer;
      case Plan::Home::Output: return blocks.outputs[static_cast<size_t>(p.number)];
      case Plan::Home::Error: return device_.error_buffer();
      default: return blocks.arena;
    }
  };
  // A result may be a leaf itself. One whose address is known is no other storage's: it is copied before anything moves there.
  std::vector<std::pair<Buffer*, Buffer*>> copies;
  for (size_t k = 0; k < i.storages.size(); ++k) {
    Buffer* b = block_of(plan->places[static_cast<size_t>(plan->outputs[k])]);
    if (b->pinned && b != i.storages[k]->pinned_buffer_) {
      copies.push_back({alloc(b->nbytes), b});
      blocks.outputs.push_back(b = copies.back().first);
    }
    results.push_back(b);
  }
  auto work = std::make_unique<Submission>();
  work->launches = &plan->launches;
  work->keep = plan;
  work->buffers.reserve(plan->buffer_args.size());
  for (int b : plan->buffer_args) {
    const Plan::Place& p = plan->places[static_cast<size_t>(b)];
    char* base = static_cast<char*>(block_of(p)->ptr);
    work->buffers.push_back(p.home == Plan::Home::Arena ? base + p.number : base);
  }
  work->scalars.reserve(plan->scalar_args.size());
  for (int s : plan->scalar_args)
    work->scalars.push_back(s >= 0 ? i.walk.scalars[static_cast<size_t>(s)] : plan->constants[static_cast<size_t>(~s)]);

  uint64_t ticket = plan->launches.empty() ? device_.last_ticket() : device_.submit(std::move(work), wait);
  for (const Leaf& l : i.walk.leaves) l.buffer->last_use = ticket;
  for (Buffer* b : blocks.outputs) b->last_use = ticket;
  if (blocks.arena) blocks.arena->last_use = ticket;
  const std::vector<int> states = i.faults.states(i.walk);
  if (plan->has_check) i.faults.expect(i.clock);

  for (auto [to, from] : copies) copy(to, from, wait);
  for (size_t k = 0; k < i.storages.size(); ++k) {
    Storage* s = i.storages[k];
    Buffer* b = results[k];
    DType d = s->value_->dtype;
    int64_t n = s->value_->numel;
    if (s->pinned_) copy(s->pinned_buffer_, b, wait);  // it keeps its address
    s->value_ = make_buffer_node(s->pinned_ ? s->pinned_buffer_ : b, d, n);
    const int state = states.empty() ? Faults::Good : states[static_cast<size_t>(i.walk.roots[k])];
    s->flush_ = i.clock;
    s->suspect_ = plan->checked[k] || state != Faults::Good;
    s->buffer()->suspect = s->suspect_ ? i.clock : 0;
    if (state >= Faults::Spoiled) s->spoil(i.faults.all()[static_cast<size_t>(state - Faults::Spoiled)]);
  }
}

/// Queues a copy of what both have room for.
void Engine::copy(Buffer* to, Buffer* from, bool wait) {
  static const std::vector<int64_t> no_ints{0};
  auto launches = std::make_shared<std::vector<Launch>>(1);
  (*launches)[0].bytes = std::min(to->nbytes, from->nbytes);
  (*launches)[0].ints = no_ints.data();
  auto work = std::make_unique<Submission>();
  work->launches = launches.get();
  work->keep = launches;
  work->buffers = {to->ptr, from->ptr};
  uint64_t ticket = device_.submit(std::move(work), wait);
  to->last_use = from->last_use = ticket;
}

// ---- waiting and faults
/// Waits; if the queue failed, the values of what it had to do say so from then on.
void Engine::wait(uint64_t ticket) {
  try {
    Interruptible here;  // nobody who waits by this function holds the graph lock
    device_.wait(ticket);
  } catch (const Error& e) {
    GraphLock lock;
    impl_->faults.queue_failed(e, impl_->clock);
    throw;
  }
}

void Engine::wait_and_check(uint64_t ticket) {
  wait(ticket);
  {
    GraphLock lock;
    if (!impl_->faults.expected()) {
      if (ticket == device_.last_ticket()) impl_->faults.trust(impl_->clock);
      return;
    }
  }
  wait(device_.last_ticket());
  GraphLock lock;  // whoever reads meanwhile learns of a fault before the value passes for good
  if (impl_->faults.expected()) impl_->faults.look(device_.take_error(), impl_->clock);
}

const Fault* Engine::fault_of(const Storage* s) const { return impl_->faults.of(s->flush_, s->suspect_); }

void Engine::synchronize() {
  RecordOnly::refuse("synchronize");
  flush("synchronize", true);
  size_t before = 0;
  {
    GraphLock lock;
    before = impl_->faults.all().size();
  }
  wait_and_check(device_.last_ticket());
  GraphLock lock;
  if (impl_->faults.all().size() > before) throw Error(impl_->faults.all().back().kind, impl_->faults.all().back().message);
}

EngineStats Engine::stats() const {
  GraphLock lock;
  return impl_->stats;
}

std::vector<FlushRecord> Engine::history() const {
  GraphLock lock;
  return {impl_->history.begin(), impl_->history.end()};
}

}  // namespace tiny
