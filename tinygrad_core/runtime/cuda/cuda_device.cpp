// The CUDA device: kernels in PTX, which the driver compiles; one stream, so work runs in order.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "base/env.h"
#include "base/error.h"
#include "renderer/failure.h"
#include "renderer/renderer.h"
#include "runtime/cuda/builtin_kernels.h"
#include "runtime/cuda/graph.h"
#include "runtime/cuda/limits.h"
#include "runtime/open.h"

namespace tiny {
namespace {

using namespace cuda;

constexpr int kPtxInput = 1, kErrorLog = 5, kErrorLogBytes = 6, kErrorLogSize = 8192;  // CUjitInputType, CUjit_option
constexpr size_t kStagingBytes = 64 << 10;  // copies to the host up to which they go through memory that the GPU reaches directly
constexpr unsigned kNonBlockingStream = 1, kEventWithoutTiming = 2;

/// PTX by LLVM, machine code by the driver.
class CudaCompiler final : public Compiler {
 public:
  CudaCompiler(const ContextUser& context, const Caps& caps) : context_(context), ptx_(make_ptx_compiler(caps)) {
    if (!ptx_) throw Error(ErrorKind::Runtime, "TINY_DEVICE names CUDA, but this library was built without LLVM's NVPTX target");
  }
  std::string id() const override {
    return fmt::format("{} driver {}{}", ptx_->id(), driver().version, env_flag(Env::TINY_BOUNDS) ? " bounds" : "");
  }
  std::string render(const Program& program) override { return program.text.empty() ? ptx_->compile(program) : program.text; }
  Binary compile(const Program& program) override {
    Binary ptx = render(program);
    context_.use();
    char log[kErrorLogSize] = "";
    int names[] = {kErrorLog, kErrorLogBytes};
    void* values[] = {log, reinterpret_cast<void*>(static_cast<uintptr_t>(sizeof log))};
    LinkState state = nullptr;
    TINY_CUDA(cuLinkCreate_v2, 2, names, values, &state);
    void* cubin = nullptr;
    size_t bytes = 0;
    Result r = driver().cuLinkAddData_v2(state, kPtxInput, ptx.data(), ptx.size() + 1, program.info.name.c_str(), 0, nullptr, nullptr);
    if (r == 0) r = driver().cuLinkComplete(state, &cubin, &bytes);
    Binary out;
    if (r == 0) out.assign(static_cast<const char*>(cubin), bytes);
    driver().cuLinkDestroy(state);
    if (r) fail_compile(program.info.name, "ptx", ptx, log);
    return out;
  }

 private:
  const ContextUser& context_;
  std::unique_ptr<Compiler> ptx_;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(int index, int ordinal) : Device("CUDA", index), context_(ordinal), graphs_(context_.context()) {
    context_.use();
    caps_ = caps_of({context_.attribute(kMajor) * 10 + context_.attribute(kMinor), context_.attribute(kMultiprocessors),
                     context_.attribute(kThreadsPerBlock), context_.attribute(kSharedPerBlock), context_.attribute(kSharedPerBlockOptIn),
                     context_.attribute(kL2Bytes)});
    compiler_ = std::make_unique<CudaCompiler>(context_, caps_);
    TINY_CUDA(cuStreamCreate, &stream_, kNonBlockingStream);
  }

  Compiler& compiler() override { return *compiler_; }
  std::unique_ptr<Executable> load(const ProgramInfo& info, const Binary& binary) override {
    return std::make_unique<CudaExecutable>(context_, info, binary);
  }
  std::optional<BuiltinKernel> builtin_kernel(BuiltinName name, const int64_t* ints) override {
    return cuda::builtin_kernel(name, ints, caps_);
  }
  void memory_info(size_t* free_bytes, size_t* total_bytes) override {
    context_.use();
    TINY_CUDA(cuMemGetInfo_v2, free_bytes, total_bytes);
  }

  uint64_t submit(std::unique_ptr<Submission> work, bool) override {
    context_.use();
    Finished finished;
    std::lock_guard lock(mutex_);
    uint64_t ticket = last_.load(std::memory_order_relaxed) + 1;
    for (Buffer* b : work->owned) b->last_use.store(ticket, std::memory_order_relaxed);
    try {
      issue_all(*work);
    } catch (...) {
      if (!fault_) fault_ = std::current_exception(), fault_ticket_ = ticket;
    }
    last_.store(ticket, std::memory_order_release);
    in_flight_.push_back({ticket, record(), std::move(work)});
    retire(finished);
    return ticket;
  }

  void wait(uint64_t ticket) override {
    settle(ticket);
    std::exception_ptr fault;
    {
      std::lock_guard lock(mutex_);
      if (fault_ && fault_ticket_ <= ticket) fault = std::exchange(fault_, nullptr);
    }
    if (fault) std::rethrow_exception(fault);
  }

  bool done(uint64_t ticket) override {
    if (completed_.load(std::memory_order_acquire) >= ticket) return true;
    context_.use();
    Finished finished;
    std::lock_guard lock(mutex_);
    retire(finished);
    return completed_.load(std::memory_order_relaxed) >= ticket;
  }
  uint64_t last_ticket() override { return last_.load(std::memory_order_acquire); }

  void copy_in(Buffer* dst, size_t offset, const void* src, size_t n) override {
    TINY_ASSERT(offset + n <= dst->nbytes, fmt::format("{} bytes at {} of a buffer of {}", n, offset, dst->nbytes));
    if (n == 0) return;
    context_.use();
    TINY_CUDA(cuMemcpyHtoDAsync_v2, address(dst->ptr) + offset, src, n, stream_);
    TINY_CUDA(cuStreamSynchronize, stream_);
  }
  void copy_out(void* dst, Buffer* src, size_t offset, size_t n) override {
    TINY_ASSERT(offset + n <= src->nbytes, fmt::format("{} bytes at {} of a buffer of {}", n, offset, src->nbytes));
    context_.use();
    // The copy stands behind the work in the stream: one wait for both. What it fails with is most likely a fault of that work.
    std::unique_lock staging(staging_mutex_, std::defer_lock);
    void* to = dst;
    if (n <= kStagingBytes) {
      staging.lock();
      if (!staging_) TINY_CUDA(cuMemHostAlloc, &staging_, kStagingBytes, 0u);
      to = staging_;
    }
    Result r = n ? driver().cuMemcpyDtoHAsync_v2(to, address(src->ptr) + offset, n, stream_) : 0;
    if (!r) r = driver().cuStreamSynchronize(stream_);
    wait(src->last_use);
    check(r, "cuMemcpyDtoHAsync");
    if (to != dst) std::memcpy(dst, to, n);
  }

 protected:
  void* raw_alloc(size_t n) override {
    context_.use();
    DevicePtr p = 0;
    Result r = driver().cuMemAlloc_v2(&p, n);
    if (r == kOutOfMemory) return nullptr;
    check(r, "cuMemAlloc");
    return reinterpret_cast<void*>(p);
  }
  void raw_free(void* p, size_t) override {
    context_.use();
    TINY_CUDA(cuMemFree_v2, address(p));
  }

  /// A failure that the driver reports here belongs to work before: wait() throws it.
  void settle(uint64_t ticket) override {
    if (done(ticket)) return;
    Result r = driver().cuStreamSynchronize(stream_);
    Finished finished;
    std::lock_guard lock(mutex_);
    if (r) note_fault(r);
    retire(finished);
    completed_.store(std::max(completed_.load(), ticket), std::memory_order_release);
  }

  void after_fork(bool in_child) override {
    if (in_child) context_.set_forked();
    Device::after_fork(in_child);
  }

 private:
  struct InFlight {
    uint64_t ticket;
    DriverEvent event;
    std::unique_ptr<Submission> work;
  };
  /// Work that is over, dropped after the lock: its buffers return to the cache, which has a lock of its own.
  struct Finished {
    std::vector<std::unique_ptr<Submission>> work;
    ~Finished() {
      for (auto& w : work)
        for (Buffer* b : w->owned) b->release();
    }
  };

  /// A builtin that touches no device memory, in the order of the stream. The submission lives until its event has passed.
  struct HostCall {
    const Launch* launch;
    const Submission* work;
    Device* device;
    static void run(void* argument) {
      std::unique_ptr<HostCall> c(static_cast<HostCall*>(argument));
      c->launch->builtin(c->work->buffers.data() + c->launch->first_buffer, c->work->scalars.data() + c->launch->first_scalar,
                         c->launch->ints, *c->device);
    }
  };

  void issue_all(const Submission& work) {
    const ReplayGraphs::Graphs* graphs = sync_ ? nullptr : graphs_.find(work);
    for (size_t i = 0; i < work.launches->size();) {
      auto g = graphs ? graphs->find(i) : ReplayGraphs::Graphs::const_iterator{};
      if (graphs && g != graphs->end()) {
        g->second->launch(work, stream_);
        i = g->second->end();
      } else {
        issue((*work.launches)[i++], work);
      }
    }
  }

  void issue(const Launch& l, const Submission& work) {
    void* const* buffers = work.buffers.data() + l.first_buffer;
    if (l.kernel) {
      SmallVec<void*, 32> parameters;
      KernelNode k = static_cast<const CudaExecutable&>(*l.kernel).node(buffers, work.scalars.data() + l.first_scalar, parameters);
      check(driver().cuLaunchKernel(k.function, k.grid[0], 1, 1, k.block[0], 1, 1, k.shared_bytes, stream_, k.parameters, nullptr),
            "cuLaunchKernel", l.kernel->info.name.c_str());
      if (sync_) check(driver().cuStreamSynchronize(stream_), "the GPU failed", l.kernel->info.name.c_str());
    } else if (l.builtin && !l.nbytes.empty()) {
      call_on_host(l, buffers);
    } else if (l.builtin) {
      auto call = std::make_unique<HostCall>(HostCall{&l, &work, this});
      TINY_CUDA(cuLaunchHostFunc, stream_, &HostCall::run, call.get());
      call.release();  // run() deletes it
    } else if (l.bytes) {
      TINY_CUDA(cuMemcpyDtoDAsync_v2, address(buffers[0]), address(buffers[1]), l.bytes, stream_);
    }
  }

  /// Builtins have no kernels on GPUs yet: sources go to the host, results come back.
  void call_on_host(const Launch& l, void* const* buffers) {
    std::vector<std::unique_ptr<char[]>> memory;
    std::vector<void*> host;
    for (size_t k = 0; k < l.nbytes.size(); ++k) {
      size_t n = static_cast<size_t>(l.nbytes[k]);
      memory.emplace_back(new char[n]);
      host.push_back(memory.back().get());
      if (k >= static_cast<size_t>(l.results)) TINY_CUDA(cuMemcpyDtoHAsync_v2, host[k], address(buffers[k]), n, stream_);
    }
    TINY_CUDA(cuStreamSynchronize, stream_);
    l.builtin(host.data(), nullptr, l.ints, *this);
    for (size_t k = 0; k < static_cast<size_t>(l.results); ++k)
      TINY_CUDA(cuMemcpyHtoDAsync_v2, address(buffers[k]), host[k], static_cast<size_t>(l.nbytes[k]), stream_);
    TINY_CUDA(cuStreamSynchronize, stream_);
  }

  // ---- with mutex_ held
  DriverEvent record() {
    DriverEvent e = nullptr;
    if (spare_events_.empty()) {
      if (Result r = driver().cuEventCreate(&e, kEventWithoutTiming)) return note_fault(r), nullptr;
    } else {
      e = spare_events_.back();
      spare_events_.pop_back();
    }
    if (Result r = driver().cuEventRecord(e, stream_)) note_fault(r);
    return e;
  }

  void retire(Finished& finished) {
    while (!in_flight_.empty()) {
      InFlight& f = in_flight_.front();
      Result r = f.event ? driver().cuEventQuery(f.event) : 0;
      if (r == kNotReady) return;
      if (r) note_fault(r);
      if (f.event) spare_events_.push_back(f.event);
      completed_.store(f.ticket, std::memory_order_release);
      finished.work.push_back(std::move(f.work));
      in_flight_.pop_front();
    }
  }

  void note_fault(Result r) {
    if (fault_) return;
    try {
      std::string last = in_flight_.empty() ? "" : kernels_of(*in_flight_.front().work);
      check(r, "the GPU failed", last.c_str());
    } catch (...) {
      fault_ = std::current_exception();
      fault_ticket_ = in_flight_.empty() ? last_.load() : in_flight_.front().ticket;
    }
  }

  static std::string kernels_of(const Submission& work) {
    std::string names;
    for (const Launch& l : *work.launches)
      if (l.kernel && names.size() < 200) names += (names.empty() ? "one of " : ", ") + l.kernel->info.name;
    return names;
  }

  ContextUser context_;
  ReplayGraphs graphs_;  // with mutex_ held
  std::unique_ptr<CudaCompiler> compiler_;
  Stream stream_ = nullptr;
  const bool sync_ = env_flag(Env::TINY_SYNC);
  std::mutex mutex_, staging_mutex_;
  void* staging_ = nullptr;
  std::deque<InFlight> in_flight_;
  std::vector<DriverEvent> spare_events_;
  std::exception_ptr fault_;
  uint64_t fault_ticket_ = 0;
  std::atomic<uint64_t> last_{0}, completed_{0};
};

}  // namespace

Device* make_cuda_device(int index, int ordinal) { return new CudaDevice(index, ordinal); }

}  // namespace tiny
