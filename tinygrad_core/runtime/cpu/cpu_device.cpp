// The CPU device: kernels in machine code, workgroups spread over a pool of threads.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "renderer/c_load.h"
#include "renderer/host_caps.h"
#ifdef TINY_HAVE_LLVM
#include "renderer/llvm_jit.h"
#endif
#include "runtime/cpu/pool.h"
#include "runtime/host.h"
#include "runtime/open.h"

namespace tiny {
namespace {

// What one thread does in a microsecond, roughly: a first guess at a kernel's time, which decides only whether to wake helpers. That costs
// a few microseconds.
constexpr double kFlopsPerMicro = 2e4, kBytesPerMicro = 1e4;
constexpr double kWorthHelp = 16, kMicrosPerHelper = 8, kMicrosPerChunk = 4;
constexpr double kWorthTiming = 2;                 // microseconds; a clock takes a twentieth of one
// Weight of a run that was faster or slower than what is known: others use the processor too.
constexpr double kFaster = 0.5, kSlower = 0.125;
constexpr int kChunksPerThread = 4;
constexpr size_t kCopyPiece = size_t{256} << 10;  // bytes of a copy that count as one workgroup

class CpuExecutable final : public Executable {
 public:
  CpuExecutable(const ProgramInfo& program, std::unique_ptr<CpuCode> loaded) : code(std::move(loaded)) {
    info = program;
    double bytes = info.bytes;
    if (bytes <= 0 && info.flops <= 0)
      for (const ParamInfo& p : info.params) bytes += static_cast<double>(p.numel * itemsize(p.dtype));
    micros_ = static_cast<float>(std::max(bytes / kBytesPerMicro, info.flops / kFlopsPerMicro));
  }
  const std::unique_ptr<CpuCode> code;

  /// Of one thread for all workgroups: what they took of late.
  double micros() const { return micros_.load(std::memory_order_relaxed); }
  /// True now and then: the next call of a short kernel may be for a greater size.
  bool time_anyway() { return (runs_.fetch_add(1, std::memory_order_relaxed) & 15) == 15; }
  void took(double all) {
    double known = micros(), seen = std::min(all, 4 * known);
    micros_.store(static_cast<float>(known + (seen - known) * (seen < known ? kFaster : kSlower)), std::memory_order_relaxed);
  }

 private:
  std::atomic<float> micros_;
  std::atomic<uint32_t> runs_{0};
};

using Clock = std::chrono::steady_clock;
double micros_since(Clock::time_point t) { return std::chrono::duration<double, std::micro>(Clock::now() - t).count(); }

double micros_of(const Launch& l) {
  return l.kernel ? static_cast<CpuExecutable*>(l.kernel)->micros() : static_cast<double>(l.bytes) / kBytesPerMicro;
}
int64_t groups_of(const Launch& l) {
  return l.kernel ? l.kernel->info.groups : static_cast<int64_t>((l.bytes + kCopyPiece - 1) / kCopyPiece);
}

/// Scratch memory of one thread; grows, never shrinks.
class Scratch {
 public:
  char* bytes(int64_t n) {
    if (n > size_) {
      std::free(memory_);
      size_ = (n + 4095) / 4096 * 4096;
      memory_ = static_cast<char*>(std::aligned_alloc(64, static_cast<size_t>(size_)));
      if (!memory_) size_ = 0, throw Error(ErrorKind::OutOfMemory, fmt::format("no memory for {} bytes of a kernel's scratch", n));
    }
    return memory_;
  }

 private:
  char* memory_ = nullptr;
  int64_t size_ = 0;
};

class CpuDevice final : public HostDevice {
 public:
  explicit CpuDevice(int index) : HostDevice("CPU", index) {
    caps_ = host_caps();
    caps_.symbolic = true;
    pool_ = new Pool(caps_.threads, spin_micros());
    scratch_.resize(static_cast<size_t>(caps_.threads));
    std::string renderer = env_text(Env::TINY_RENDERER);
    if (renderer != "" && renderer != "LLVM" && renderer != "C")
      throw Error(ErrorKind::Value, fmt::format("TINY_RENDERER={} must be LLVM or C", renderer));
    if (renderer != "C") compiler_ = make_llvm_compiler(caps_);
    if (renderer == "LLVM" && !compiler_) throw Error(ErrorKind::Value, "TINY_RENDERER=LLVM, but this library was built without LLVM");
    in_process_ = compiler_ != nullptr;
    if (!compiler_) caps_.has_dot2 = false, compiler_ = make_c_compiler(caps_);
  }

  Compiler& compiler() override { return *compiler_; }

  /// Programs that are waited for tend to be alike: where the last one had work for helpers, they wake while this one is bound.
  void get_ready() override {
    if (helped_.load(std::memory_order_relaxed)) pool_->alert();
  }

  std::unique_ptr<Executable> load(const ProgramInfo& info, const Binary& binary) override {
#ifdef TINY_HAVE_LLVM
    if (in_process_) return std::make_unique<CpuExecutable>(info, llvm_load(binary, info.name));
#endif
    return std::make_unique<CpuExecutable>(info, c_load(binary, info.name));
  }

  void parallel_for(int64_t n, int64_t grain, LoopBody body, void* context) override {
    struct Loop {
      int64_t n, grain;
      LoopBody body;
      void* context;
    } loop{n, std::max<int64_t>(grain, 1), body, context};
    int64_t chunks = (n + loop.grain - 1) / loop.grain;
    auto piece = [](void* p, int64_t i, int) {
      const Loop& l = *static_cast<Loop*>(p);
      l.body(l.context, i * l.grain, std::min(l.n, (i + 1) * l.grain));
    };
    pool_->run(chunks, pool_->threads(), piece, &loop);
  }

 protected:
  void run_kernel(Executable& kernel, void* const* buffers, const uint64_t* scalars) override {
    auto& k = static_cast<CpuExecutable&>(kernel);
    if (k.micros() < kWorthTiming && !k.time_anyway()) return run_groups(k, buffers, scalars, 0, k.info.groups, 0);
    Clock::time_point begin = Clock::now();
    run_groups(k, buffers, scalars, 0, k.info.groups, 0);
    k.took(micros_since(begin));
  }

  void waited_for(bool begins) override {
    pool_->expect_more(begins);
    if (begins) helped_.store(false, std::memory_order_relaxed);
  }

  void run_batch(std::span<const Launch> batch, const Submission& work) override {
    double micros = 0;
    for (const Launch& l : batch) micros += micros_of(l);
    if (micros < kWorthHelp || pool_->threads() == 1) return HostDevice::run_batch(batch, work);
    helped_.store(true, std::memory_order_relaxed);
    Region region{*this, work, {}};
    int64_t chunks = 0;
    double chunk_micros = std::max(kMicrosPerChunk, micros / (pool_->threads() * kChunksPerThread));
    for (const Launch& l : batch) {
      if (l.builtin) {  // brings its own parallelism
        run_launch(l, work);
        continue;
      }
      int64_t groups = groups_of(l), wanted = static_cast<int64_t>(micros_of(l) / chunk_micros);
      int64_t parts = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(groups, 1));
      region.pieces.push_back({&l, chunks, parts, groups});
      chunks += parts;
    }
    pool_->run(chunks, static_cast<int>(std::min(micros / kMicrosPerHelper, 1e4)), Region::run_chunk, &region);
  }

  void after_fork(bool in_child) override {
    if (in_child) pool_->reset();
    HostDevice::after_fork(in_child);
  }

 private:
  /// Independent launches as one parallel loop over chunks of their workgroups.
  struct Region {
    struct Piece {
      const Launch* launch;
      int64_t first_chunk, chunks, groups;
      int64_t left = chunks, nanos = 0;  // chunks that run or wait, and what those before took; of several threads
    };
    CpuDevice& device;
    const Submission& work;
    SmallVec<Piece, 8> pieces;

    static void run_chunk(void* context, int64_t chunk, int worker) {
      Region& r = *static_cast<Region*>(context);
      auto after = std::upper_bound(r.pieces.begin(), r.pieces.end(), chunk, [](int64_t c, const Piece& p) { return c < p.first_chunk; });
      Piece& p = after[-1];
      int64_t i = chunk - p.first_chunk, begin = p.groups * i / p.chunks, end = p.groups * (i + 1) / p.chunks;
      void* const* buffers = r.work.buffers.data() + p.launch->first_buffer;
      const uint64_t* scalars = r.work.scalars.data() + p.launch->first_scalar;
      if (p.launch->kernel) {
        auto& k = static_cast<CpuExecutable&>(*p.launch->kernel);
        Clock::time_point started = Clock::now();
        r.device.run_groups(k, buffers, scalars, begin, end, worker);
        // Groups differ, and those of a symbolic kernel may be empty: only all of them together tell what it takes.
        const int64_t nanos = static_cast<int64_t>(micros_since(started) * 1e3);
        std::atomic_ref(p.nanos).fetch_add(nanos, std::memory_order_acq_rel);
        if (std::atomic_ref(p.left).fetch_sub(1, std::memory_order_acq_rel) == 1)
          k.took(static_cast<double>(std::atomic_ref(p.nanos).load(std::memory_order_acquire)) / 1e3);
      } else {
        size_t from = static_cast<size_t>(begin) * kCopyPiece, to = std::min(p.launch->bytes, static_cast<size_t>(end) * kCopyPiece);
        if (from < to) std::memcpy(static_cast<char*>(buffers[0]) + from, static_cast<const char*>(buffers[1]) + from, to - from);
      }
    }
  };

  void run_groups(CpuExecutable& k, void* const* buffers, const uint64_t* scalars, int64_t begin, int64_t end, int worker) {
    char* scratch = k.info.scratch_bytes ? scratch_[static_cast<size_t>(worker)].bytes(k.info.scratch_bytes) : nullptr;
    k.code->entry(buffers, scalars, begin, end, scratch);
  }

  std::unique_ptr<Compiler> compiler_;
  bool in_process_ = false;
  std::atomic<bool> helped_{false};  // the work that was waited for last had helpers
  Pool* pool_ = nullptr;  // never destroyed: its threads end with the process
  std::vector<Scratch> scratch_;
};

}  // namespace

Device* make_cpu_device(int index, int) { return new CpuDevice(index); }

}  // namespace tiny
