#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <mutex>
#include <shared_mutex>
#include <system_error>
#include <thread>
#include <unordered_dense/unordered_dense.h>

#include <algorithm>
#include <vector>

#include "base/env.h"
#include "base/log.h"
#include "engine/plan.h"
#include "runtime/open.h"

namespace tiny {
namespace {

using Clock = std::chrono::steady_clock;

/// A line on a terminal that shows how far a long compilation is; nothing elsewhere.
class Progress {
 public:
  explicit Progress(size_t total) : total_(total), tty_(isatty(2)) {}
  void show(size_t done) {
    if (!tty_ || Clock::now() - start_ < std::chrono::seconds(2)) return;
    std::fprintf(stderr, "\rtiny: compiling kernels, %zu of %zu ", done, total_);
    shown_ = true;
  }
  ~Progress() {
    if (shown_) std::fprintf(stderr, "\r\033[K");
  }

 private:
  size_t total_;
  bool tty_, shown_ = false;
  Clock::time_point start_ = Clock::now();
};

/// A copy of a kernel in an arena of its own: arenas belong to one thread.
UOp* clone(UOp* sink, Arena& arena) {
  UOp* roots[] = {sink};
  std::vector<UOp*> order = toposort(roots);
  ankerl::unordered_dense::map<UOp*, UOp*> made;
  std::vector<UOp*> src;
  for (UOp* u : order) {
    src.clear();
    for (UOp* s : u->sources()) src.push_back(made[s]);
    made[u] = arena.make(u->op, u->dtype, u->numel, u->arg, src);
  }
  return made[sink];
}

}  // namespace

struct KernelCache::Impl {
  std::mutex mutex;
  ankerl::unordered_dense::map<Hash128, std::weak_ptr<Executable>, Hash128Hasher> loaded;  // programs own them
  size_t sweep_at = 1024;

  void add(const Hash128& key, const std::shared_ptr<Executable>& kernel) {
    loaded[key] = kernel;
    if (loaded.size() < sweep_at) return;
    std::erase_if(loaded, [](const auto& entry) { return entry.second.expired(); });
    sweep_at = std::max<size_t>(1024, 2 * loaded.size());
  }
};

KernelCache::KernelCache(Device& device) : device_(device), impl_(std::make_shared<Impl>()) {}

std::vector<std::shared_ptr<Executable>> KernelCache::get(const std::vector<const ScheduledItem*>& kernels, int* compiled) {
  std::vector<std::shared_ptr<Executable>> result(kernels.size());
  std::vector<Hash128> keys(kernels.size());
  std::vector<size_t> missing;
  ankerl::unordered_dense::map<Hash128, size_t, Hash128Hasher> first;
  for (size_t i = 0; i < kernels.size(); ++i) {
    keys[i] = kernel_key(kernels[i]->sink);
    std::lock_guard lock(impl_->mutex);
    auto it = impl_->loaded.find(keys[i]);
    if (it != impl_->loaded.end()) result[i] = it->second.lock();
    if (!result[i] && first.try_emplace(keys[i], i).second) missing.push_back(i);
  }
  *compiled = static_cast<int>(missing.size());
  if (!missing.empty()) {
    std::shared_lock no_fork(compiling());
    Progress progress(missing.size());
    std::atomic<size_t> next{0}, done{0};
    std::exception_ptr fault;
    std::mutex fault_mutex;
    std::vector<std::unique_ptr<Arena>> arenas;
    std::vector<UOp*> sinks;
    for (size_t i : missing) {
      arenas.push_back(std::make_unique<Arena>());
      sinks.push_back(clone(kernels[i]->sink, *arenas.back()));
    }
    bool plain = env_flag(Env::TINY_NOOPT);
    auto work = [&] {
      for (size_t k; (k = next.fetch_add(1)) < missing.size();) {
        size_t i = missing[k];
        UOp* sink = sinks[k];
        try {
          IrScope scope(*arenas[k]);
          result[i] = compile_cached(device_, keys[i],
                                     [&] { return lower_kernel(sink, device_.caps(), kernels[i]->name, plain ? kNoOptions : 0); });
        } catch (...) {
          std::lock_guard lock(fault_mutex);
          if (!fault) fault = std::current_exception();
        }
        arenas[k].reset();
        done.fetch_add(1);
      }
    };
    size_t jobs = static_cast<size_t>(env_int(Env::TINY_COMPILE_JOBS));
    if (jobs == 0) jobs = static_cast<size_t>(device_.caps().threads);
    std::vector<std::thread> helpers;
    auto help = [&] {
      try {
        helpers.emplace_back(work);
        return true;
      } catch (const std::system_error&) {  // the system has no threads left: those that run do it
        return false;
      }
    };
    for (size_t t = 1; t < std::min(jobs, missing.size()); ++t) help();
    if (helpers.empty() || missing.size() < 4 || !help()) {
      work();
    } else {
      while (done.load() < missing.size()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        progress.show(done.load());
      }
    }
    for (std::thread& t : helpers) t.join();
    if (fault) std::rethrow_exception(fault);
    std::lock_guard lock(impl_->mutex);
    for (size_t i : missing) impl_->add(keys[i], result[i]);
  }
  for (size_t i = 0; i < kernels.size(); ++i)
    if (!result[i]) result[i] = result[first[keys[i]]];
  return result;
}

}  // namespace tiny
