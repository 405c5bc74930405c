// The tensor graph's nodes: making and owning them. All of it needs the graph lock (one for the process; never held while
// compiling or waiting for a device).
#pragma once
#include <pthread.h>

#include <atomic>
#include <mutex>
#include <utility>

#include "uop/uop.h"

namespace tiny {

/// Recursive; a thread that holds it takes it again for next to nothing.
class GraphMutex {
 public:
  void lock() {
    const pthread_t self = pthread_self();
    if (owner_.load(std::memory_order_relaxed) != self) {
      mutex_.lock();
      owner_.store(self, std::memory_order_relaxed);
    }
    ++depth_;
  }
  void unlock() {
    if (--depth_ > 0) return;
    owner_.store(pthread_t{}, std::memory_order_relaxed);
    mutex_.unlock();
  }
  /// How often the calling thread, which holds it, has taken it.
  int depth() const { return depth_; }

 private:
  std::mutex mutex_;
  std::atomic<pthread_t> owner_{};
  int depth_ = 0;
};

GraphMutex& graph_mutex();
struct GraphLock : std::lock_guard<GraphMutex> {
  GraphLock() : std::lock_guard<GraphMutex>(graph_mutex()) {}
};

namespace detail {
void free_nodes(UOp* dead);  // iterative: a chain of a million nodes needs no stack
}

/// An owner of a tensor-graph node.
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  /// Takes another reference to `u`.
  static Ref share(UOp* u) {
    if (u) ++u->refs;
    return Ref(u);
  }
  /// Takes over the one reference that the maker of `u` holds.
  static Ref adopt(UOp* u) { return Ref(u); }
  Ref(const Ref& o) : u_(o.u_) { if (u_) ++u_->refs; }
  Ref(Ref&& o) noexcept : u_(std::exchange(o.u_, nullptr)) {}
  Ref& operator=(Ref o) noexcept { std::swap(u_, o.u_); return *this; }
  ~Ref() { if (u_ && --u_->refs == 0) detail::free_nodes(u_); }
  UOp* get() const { return u_; }
  UOp* operator->() const { return u_; }
  UOp& operator*() const { return *u_; }
  explicit operator bool() const { return u_ != nullptr; }
  UOp* release() { return std::exchange(u_, nullptr); }

 private:
  explicit Ref(UOp* u) : u_(u) {}
  UOp* u_ = nullptr;
};

/// A new node that refers to `src` (each gains an owner). No rewriting, no look-up: at most 100 ns.
Ref make_node(Op op, DType dtype, int64_t numel, Arg arg, std::span<UOp* const> src);

/// A leaf for `numel` elements of `dtype` at the start of `buffer`; the node owns a reference to it.
Ref make_buffer_node(Buffer* buffer, DType dtype, int64_t numel);

/// Starts a walk: a number that no node's `mark` has. Its nodes may use `slot` until the next walk begins.
uint32_t new_epoch();

/// Nodes alive now; for tests against leaks.
int64_t live_nodes();

}  // namespace tiny
