// Devices: memory, queues and kernels of one processor, behind one interface. device.def lists them.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/error.h"
#include "renderer/renderer.h"
#include "uop/builtins.h"

namespace tiny {

class Device;

/// A kernel loaded on a device.
class Executable {
 public:
  virtual ~Executable() = default;
  ProgramInfo info;
};

/// Host function run in queue order (sorting, decompositions of matrices); same arguments as a kernel. runtime/builtin/ has them.
using Builtin = void (*)(void* const* buffers, const uint64_t* scalars, const int64_t* ints, Device& device);

/// The kernel of a builtin: its program has a text, whose name stands for it (the same for other sizes), and arguments behind its buffers.
struct BuiltinKernel {
  Program program;
  std::vector<uint64_t> scalars;
};

/// One step of a submission: a kernel, a builtin, or a copy of `bytes` from buffers[1] to buffers[0].
struct Launch {
  Executable* kernel = nullptr;
  Builtin builtin = nullptr;
  size_t bytes = 0;
  int first_buffer = 0, first_scalar = 0;  // into Submission::buffers, ::scalars
  const int64_t* ints = nullptr;
  std::span<const int64_t> nbytes;         // a builtin's buffers: their sizes; a device with its own memory takes them to the host and back
  int results = 0;                         // a builtin's first buffers, which it writes
  int batch = 0;                           // consecutive launches with one batch number do not depend on each other
};

/// A list of launches with its arguments. The launches belong to a cached program; the arguments are this run's.
struct Submission {
  const std::vector<Launch>* launches = nullptr;
  std::vector<void*> buffers;
  std::vector<uint64_t> scalars;
  std::vector<Buffer*> owned;              // released when the work is done
  std::shared_ptr<const void> keep;        // whatever owns `launches`
};

/// The first fault since the last read. A kernel's CHECK writes i64[4]: {check_number << 32 | value's low 32 bits, value, unused, unused};
/// take_error() gives fault = check_number and its value.
struct ErrorRecord { int64_t fault = 0, value = 0, limit = 0, unused = 0; };
/// Number of a CHECK's text, and back. Never 0, and the same in every process: kernels from the disk cache hold it. The text is known for
/// every number made in this process and for those that kernels read from the disk cache were made with; else "".
int64_t check_number(const Record* r);
std::string check_text(int64_t number);
/// The kind of the Error for a CHECK that failed, taken off the front of its text: Index or Runtime (tensor.h, check()).
ErrorKind take_check_kind(std::string* text);

struct MemoryStats {
  int64_t allocated = 0, reserved = 0, peak_allocated = 0, peak_reserved = 0;      // bytes now and at most
  int64_t allocations = 0, frees = 0, total_allocated = 0, total_freed = 0;        // blocks and bytes ever
  int64_t ooms = 0, retries = 0;
};

/// Part of a parallel loop: the indices begin .. end-1.
using LoopBody = void (*)(void* context, int64_t begin, int64_t end);

class Device {
 public:
  virtual ~Device() = default;
  const std::string& name() const { return name_; }   // "CPU"
  int index() const { return index_; }                 // tiny:index
  const Caps& caps() const { return caps_; }
  virtual Compiler& compiler() = 0;
  virtual std::unique_ptr<Executable> load(const ProgramInfo& info, const Binary& binary) = 0;

  // ---- memory. alloc: from the cache, else new; throws Error(OutOfMemory) after the cache was emptied and retried.
  Buffer* alloc(size_t nbytes);
  void empty_cache();
  MemoryStats memory_stats() const;
  void reset_peak_stats();
  /// Free and total bytes of the device.
  virtual void memory_info(size_t* free_bytes, size_t* total_bytes) = 0;
  /// Limit on reserved bytes (torch.tiny.set_per_process_memory_fraction, tests of out of memory); 0: none.
  void set_memory_limit(size_t bytes);

  // ---- work, in order. A ticket grows with each submission.
  /// Queues the launches; returns at once. `inline_if_idle`: run them on this thread when the queue is empty (the caller is about to wait).
  virtual uint64_t submit(std::unique_ptr<Submission> work, bool inline_if_idle) = 0;
  /// Waits until the work up to `ticket` is done; throws what it threw (once: the first fault since the last throw).
  virtual void wait(uint64_t ticket) = 0;
  virtual bool done(uint64_t ticket) = 0;
  virtual uint64_t last_ticket() = 0;
  /// Host copies; wait for the buffer's last use first. Device pointers of CPU-like devices are host pointers.
  virtual void copy_in(Buffer* dst, size_t offset, const void* src, size_t n) = 0;
  virtual void copy_out(void* dst, Buffer* src, size_t offset, size_t n) = 0;
  virtual bool host_visible() const { return false; }
  /// A builtin as a kernel of this device; nothing where it has none.
  virtual std::optional<BuiltinKernel> builtin_kernel(BuiltinName, const int64_t*) { return std::nullopt; }
  /// For builtins: runs body over 0 .. n-1 in pieces of about `grain`, on the device's threads where it has any.
  virtual void parallel_for(int64_t n, int64_t grain, LoopBody body, void* context);

  /// The error record in device memory, and its value now (waits), cleared by taking it.
  Buffer* error_buffer();
  ErrorRecord take_error();

 protected:
  friend struct Buffer;
  Device(std::string name, int index);
  virtual void* raw_alloc(size_t n) = 0;               // nullptr when there is none
  virtual void raw_free(void* p, size_t n) = 0;
  /// Waits as wait() does but throws nothing; returns at once on the thread that runs the queue.
  virtual void settle(uint64_t ticket) = 0;
  /// Around fork(): before (no queue is running or changes, locks are held), then in parent and child. Overriders call the base's.
  virtual void before_fork();
  virtual void after_fork(bool in_child);
  friend struct ForkHandlers;
  /// Ends the queue at exit(): what is queued is dropped.
  virtual void stop() {}
  Caps caps_;
 private:
  class Cache;
  std::string name_;
  int index_;
  std::shared_ptr<Cache> cache_;
  std::mutex error_mutex_;
  Buffer* error_ = nullptr;
};

inline constexpr int kMaxDevices = 64;
/// tiny:0, tiny:1 ... as TINY_DEVICE says ("CPU", "REF", "NULL,CPU:1"). Counting opens nothing; device(i) opens on first use.
int device_count();
Device& device(int index);
/// After fork the child's devices must not touch the parent's threads: called in the child, makes every open device usable or refusing.
void after_fork_in_child();

/// Compiles through the disk cache (TINY_CACHE_DIR, else XDG_CACHE_HOME/torch-tiny): key = kernel key, target, compiler id.
/// `lower` is called only on a miss. Thread-safe.
std::unique_ptr<Executable> compile_cached(Device& device, const Hash128& key, const std::function<Program()>& lower);

}  // namespace tiny
