// What builtins that pack their operands share: memory for it, and loops over pieces of work on the device's threads.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/error.h"
#include "runtime/device.h"

namespace tiny {

inline int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/// Arrays one behind the other, each at a multiple of 64 elements.
template <class T>
class Areas {
 public:
  /// Offset of the next array.
  int64_t add(int64_t elements) { return std::exchange(size_, size_ + up(elements, 64)); }
  int64_t size() const { return size_; }

 private:
  int64_t size_ = 0;
};

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Memory = std::unique_ptr<void, Free>;

/// Memory for packed operands: the thread's own, which stays for the next call, or `large` for more than `keep_bytes`.
template <class T>
T* scratch(int64_t elements, int64_t keep_bytes, Memory& large) {
  static thread_local Memory kept;
  static thread_local int64_t size = 0;
  const int64_t bytes = up(elements * static_cast<int64_t>(sizeof(T)), 64);
  const bool keep = bytes <= keep_bytes;
  if (keep && bytes <= size) return static_cast<T*>(kept.get());
  Memory& memory = keep ? kept : large;
  if (keep) size = 0;
  memory.reset(std::aligned_alloc(64, static_cast<size_t>(bytes)));
  if (!memory) throw Error(ErrorKind::OutOfMemory, "no memory for the packed operands of a builtin");
  if (keep) size = bytes;
  return static_cast<T*>(memory.get());
}

/// f(i) for 0 .. n-1, on the device's threads.
template <class F>
void in_parallel(Device& device, int64_t n, F f) {
  device.parallel_for(n, 1, [](void* context, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) (*static_cast<F*>(context))(i);
  }, &f);
}

}  // namespace tiny
