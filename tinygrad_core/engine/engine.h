// The engine of one device: gathers pending values, finds or builds the program that computes them, and submits it.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "engine/storage.h"

namespace tiny {

struct Fault;
struct Plan;
struct Schedule;

/// What one flush did; the last kFlushHistory of them are kept for explain().
struct FlushRecord {
  std::string cause;        // "read", "step", "bound", "pin", ...
  std::string where;        // Python file and line, "" without Python
  bool hit = false;
  std::string miss_reason;  // what differs from the nearest earlier flush
  int nodes = 0, kernels = 0, compiled = 0;
  double bytes = 0, flops = 0, schedule_ms = 0, compile_ms = 0, submit_ms = 0;
  int64_t arena_bytes = 0, arena_bound = 0;  // memory of the program's temporaries, and the most of them alive at once
  std::shared_ptr<const std::vector<std::string>> kernel_names;  // the program's
};

struct EngineStats {
  int64_t flushes = 0, hits = 0, misses = 0, kernels_run = 0, kernels_compiled = 0, nodes_scheduled = 0;
};

class Engine {
 public:
  static Engine& of(Device& device);

  /// Schedules and submits every pending value; returns at once (`wait`: the caller is about to wait, so the work may run on its thread).
  /// If it fails, the storages it was to fill raise the same error on every later read.
  void flush(const char* cause, bool wait = false);
  /// Flushes, waits, and raises errors found while running (index out of bounds, ...).
  void synchronize();
  /// Called after each operator: flushes when the pending graph passes its bound.
  void after_operator() { if (live_nodes() >= node_limit_.load(std::memory_order_relaxed)) flush_at_bound(); }
  /// For an operator on memory that the host reads and writes at any time: the next after_operator() flushes and waits. Needs the graph
  /// lock.
  void settle_after_operator();
  /// Nodes that may be pending before a flush is forced (TINY_FLUSH_NODES); 0: no bound.
  void set_node_bound(int64_t n);

  EngineStats stats() const;
  std::vector<FlushRecord> history() const;
  /// Names the user's line in FlushRecord::where. Called with the lock: it takes none itself.
  static void set_where(std::string (*where)());

 private:
  friend class Storage;
  struct Impl;
  explicit Engine(Device& device);
  void flush_at_bound();
  void link(Storage* s);                 // to the end of the pending list
  static void unlink(Storage* s);
  void note_write(const UOp* value);     // remembers where in the program we are, for stable cuts
  /// Waits for the buffer's work and raises a fault that a kernel reported.
  void wait_and_check(uint64_t ticket);
  void gather();
  std::shared_ptr<Plan> known(Hash128* key);
  std::shared_ptr<Plan> find(FlushRecord& record);
  void build(const Hash128& key, FlushRecord& record, bool unlock);
  std::shared_ptr<Plan> compile(Schedule& schedule, int* compiled);
  void keep_listed(const std::vector<Ref>& values);
  void run(const std::shared_ptr<Plan>& plan, FlushRecord& record, bool wait);
  /// Memory of the device; a fault also tells how much the pending values need.
  Buffer* alloc(size_t n);
  void run_one_by_one(FlushRecord& record, bool wait);
  void submit(const std::shared_ptr<Plan>& plan, bool wait);
  void copy(Buffer* to, Buffer* from, bool wait);
  void fail(ErrorKind kind, const std::string& message);
  void forget_old_plans();
  void wait(uint64_t ticket);
  /// Why the storage's value cannot be trusted; null if it can.
  const Fault* fault_of(const Storage* s) const;
  Device& device_;
  Impl* impl_;
  std::atomic<int64_t> node_limit_{INT64_MAX};       // live_nodes() at which the bound is passed
};

}  // namespace tiny
