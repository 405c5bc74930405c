#include "uop/graph.h"

#include <atomic>
#include <cstdlib>
#include <new>

#include "base/buffer.h"

namespace tiny {
namespace {

constexpr int kPooledSources = 4;      // nodes with more sources come from malloc
constexpr size_t kSlabBytes = 1 << 18;

struct FreeNode { FreeNode* next; };

/// Freed nodes by number of sources; slabs are kept for the life of the process.
struct Pool {
  FreeNode* free[kPooledSources + 1] = {};
  char *at = nullptr, *end = nullptr;
  std::atomic<int64_t> live{0};  // written under the lock, read without
  uint32_t epoch = 0;
};
Pool pool;

constexpr size_t node_bytes(size_t nsrc) { return sizeof(UOp) + nsrc * sizeof(UOp*); }

void* take(size_t nsrc) {
  pool.live.store(pool.live.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (nsrc > kPooledSources) {
    void* p = std::malloc(node_bytes(nsrc));
    if (!p) throw std::bad_alloc();
    return p;
  }
  if (FreeNode* f = pool.free[nsrc]) {
    pool.free[nsrc] = f->next;
    return f;
  }
  size_t n = node_bytes(nsrc);
  if (static_cast<size_t>(pool.end - pool.at) < n) {
    pool.at = static_cast<char*>(std::malloc(kSlabBytes));
    if (!pool.at) throw std::bad_alloc();
    pool.end = pool.at + kSlabBytes;
  }
  void* p = pool.at;
  pool.at += n;
  return p;
}

void give(UOp* u) {
  pool.live.store(pool.live.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  if (u->nsrc > kPooledSources) return std::free(u);
  auto* f = reinterpret_cast<FreeNode*>(u);
  size_t n = u->nsrc;
  f->next = pool.free[n];
  pool.free[n] = f;
}

}  // namespace

GraphMutex& graph_mutex() {
  static auto* m = new GraphMutex;  // outlives every tensor, also those freed at exit
  return *m;
}

Ref make_node(Op op, DType dtype, int64_t numel, Arg arg, std::span<UOp* const> src) {
  auto* u = static_cast<UOp*>(take(src.size()));
  u->op = op, u->dtype = dtype, u->nsrc = static_cast<uint16_t>(src.size());
  u->refs = 1, u->mark = 0, u->slot = 0, u->numel = numel, u->arg = arg;
  for (size_t i = 0; i < src.size(); ++i) {
    u->src[i] = src[i];
    ++src[i]->refs;
  }
  return Ref::adopt(u);
}

Ref make_buffer_node(Buffer* buffer, DType dtype, int64_t numel) {
  buffer->retain();
  return make_node(Op::BUFFER, dtype, numel, Arg(buffer), {});
}

/// Dead nodes wait in a list linked through `arg` (a dead BUFFER gives its buffer back first).
void detail::free_nodes(UOp* dead) {
  auto bury = [](UOp* u, UOp* below) {
    if (u->op == Op::BUFFER) u->arg.buf->release();
    u->arg.bits = reinterpret_cast<uint64_t>(below);
    return u;
  };
  UOp* top = bury(dead, nullptr);
  while (top) {
    UOp* u = top;
    top = reinterpret_cast<UOp*>(u->arg.bits);
    for (UOp* s : u->sources())
      if (--s->refs == 0) top = bury(s, top);
    give(u);
  }
}

uint32_t new_epoch() {
  return ++pool.epoch;  // 4 billion walks: a flush every millisecond for 49 days; then marks may meet by chance
}

int64_t live_nodes() { return pool.live.load(std::memory_order_relaxed); }

}  // namespace tiny
