#include <algorithm>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_dense/unordered_dense.h>
#include <vector>

#include <fmt/format.h>

#include "base/env.h"
#include "base/log.h"
#include "codegen/symbolic_kernel.h"
#include "engine/jobs.h"
#include "engine/plan.h"
#include "engine/search.h"
#include "runtime/open.h"

namespace tiny {
struct KernelCache::Impl {
  using Numbers = std::vector<KernelNumbers::Number>;
  struct Symbolic {
    SymbolicKernel kernel;
    std::shared_ptr<Executable> executable;
  };
  /// Kernels of one form: what their numbers were, and the programs that serve several of them.
  struct Family {
    std::vector<Numbers> examples;   // the last kExamples
    uint64_t flush = 0;              // the last that brought new ones
    int64_t flushes = 0;             // so far
    bool never = false;              // a symbolic kernel of this form did not compile
    std::vector<Symbolic> made;
  };
  static constexpr size_t kExamples = 8, kMade = 4, kFamilies = 4096;

  std::mutex mutex;
  ankerl::unordered_dense::map<Hash128, std::weak_ptr<Executable>, Hash128Hasher> loaded;  // programs own them
  ankerl::unordered_dense::map<Hash128, Family, Hash128Hasher> families;
  size_t sweep_at = 1024;
  uint64_t flushes = 0;

  void add(const Hash128& key, const std::shared_ptr<Executable>& kernel) {
    loaded[key] = kernel;
    if (loaded.size() < sweep_at) return;
    std::erase_if(loaded, [](const auto& entry) { return entry.second.expired(); });
    sweep_at = std::max<size_t>(1024, 2 * loaded.size());
  }

  /// A symbolic kernel that serves these numbers, if it is time for one; the examples include them then. `after`: TINY_SYMBOLIC.
  std::optional<SymbolicKernel> generalise(const Hash128& form, const Numbers& numbers, int64_t after) {
    if (families.size() >= kFamilies && !families.contains(form)) families.clear();  // programs keep the kernels that they use
    Family& f = families[form];
    if (std::find(f.examples.begin(), f.examples.end(), numbers) == f.examples.end()) {
      if (f.examples.size() == kExamples) f.examples.erase(f.examples.begin());
      f.examples.push_back(numbers);
      if (f.flush != flushes) ++f.flushes, f.flush = flushes;
    }
    if (f.flushes < after || f.never) return {};
    SymbolicKernel k(f.examples, after == 1);
    return k.has_arguments() && k.arguments(numbers) ? std::optional(std::move(k)) : std::nullopt;
  }

  std::optional<CompiledKernel> find_symbolic(const Hash128& form, const Numbers& numbers) {
    auto it = families.find(form);
    if (it == families.end()) return {};
    for (const Symbolic& s : it->second.made)
      if (auto arguments = s.kernel.arguments(numbers)) return CompiledKernel{s.executable, std::move(*arguments)};
    return {};
  }

  void add_symbolic(const Hash128& form, SymbolicKernel kernel, std::shared_ptr<Executable> executable) {
    std::vector<Symbolic>& made = families[form].made;
    if (made.size() == kMade) made.erase(made.begin());
    made.push_back({std::move(kernel), std::move(executable)});
  }
};

namespace {

/// A kernel to compile, in an arena of its own: arenas belong to one thread.
struct Job {
  size_t item;
  Hash128 key, form;
  std::optional<SymbolicKernel> symbolic;
  std::unique_ptr<Arena> arena = std::make_unique<Arena>();
  UOp* sink = nullptr;
  std::string name;
  std::shared_ptr<Executable> result;
  std::string fault;  // of a symbolic kernel
};

}  // namespace

KernelCache::KernelCache(Device& device) : device_(device), impl_(std::make_shared<Impl>()) {}

std::vector<CompiledKernel> KernelCache::get(const std::vector<const ScheduledItem*>& kernels, int* compiled) {
  const bool plain = env_flag(Env::TINY_NOOPT);
  const int64_t after = device_.caps().symbolic && !plain ? env_int(Env::TINY_SYMBOLIC) : 0;
  std::vector<CompiledKernel> result(kernels.size());
  std::vector<std::unique_ptr<Job>> jobs;
  std::vector<std::pair<size_t, size_t>> waiting;  // items and the jobs that make their kernels
  ankerl::unordered_dense::map<Hash128, size_t, Hash128Hasher> first;
  auto add_job = [&](size_t i, const Hash128& key) {
    auto job = std::make_unique<Job>();
    job->item = i, job->key = key, job->name = kernels[i]->name;
    IrScope scope(*job->arena);
    job->sink = import_graph(kernels[i]->sink);
    waiting.emplace_back(i, jobs.size());
    jobs.push_back(std::move(job));
    return jobs.back().get();
  };
  std::shared_lock no_fork(compiling());
  {
    std::lock_guard lock(impl_->mutex);
    ++impl_->flushes;
    for (size_t i = 0; i < kernels.size(); ++i) {
      Hash128 key = kernel_key(kernels[i]->sink);
      auto it = impl_->loaded.find(key);
      if (it != impl_->loaded.end()) result[i].executable = it->second.lock();
      if (result[i].executable) continue;
      if (auto same = first.find(key); same != first.end()) {
        waiting.emplace_back(i, same->second);
        if (jobs[same->second]->symbolic) result[i].numbers = result[jobs[same->second]->item].numbers;
        continue;
      }
      if (after > 0) {
        const int vars = static_cast<int>(kernels[i]->scalars.size());
        KernelNumbers k = numbers_of(kernels[i]->sink, vars);
        if (auto known = impl_->find_symbolic(k.form, k.numbers)) {
          result[i] = std::move(*known);
          continue;
        }
        auto pending = std::find_if(jobs.begin(), jobs.end(), [&](const auto& j) {
          return j->symbolic && j->form == k.form && j->symbolic->arguments(k.numbers);
        });
        if (pending != jobs.end()) {
          result[i].numbers = *(*pending)->symbolic->arguments(k.numbers);
          waiting.emplace_back(i, static_cast<size_t>(pending - jobs.begin()));
          continue;
        }
        if (auto symbolic = impl_->generalise(k.form, k.numbers, after)) {
          result[i].numbers = *symbolic->arguments(k.numbers);
          Job* job = add_job(i, {});
          IrScope scope(*job->arena);
          job->sink = symbolic->rewrite(job->sink, vars);
          job->key = kernel_key(job->sink), job->form = k.form, job->symbolic = std::move(symbolic);
          job->name = kernel_name(job->sink) + "_n";
          continue;
        }
      }
      first.emplace(key, jobs.size());
      add_job(i, key);
    }
  }
  *compiled = static_cast<int>(jobs.size());
  if (!jobs.empty()) {
    size_t threads = static_cast<size_t>(env_int(Env::TINY_COMPILE_JOBS));
    if (threads == 0) threads = static_cast<size_t>(device_.caps().threads);
    run_jobs("compiling", jobs.size(), threads, [&](size_t k) {
      Job& job = *jobs[k];
      IrScope scope(*job.arena);
      try {
        job.result =
            compile_cached(device_, job.key, [&] { return lower_kernel(job.sink, device_.caps(), job.name, plain ? kNoOptions : 0); });
      } catch (const std::exception& e) {
        if (!job.symbolic || after == 1) throw;
        job.fault = e.what();
      }
    });
    if (const int64_t ways = plain ? 0 : env_int(Env::TINY_BEAM); ways > 0)
      run_jobs("searching", jobs.size(), 1, [&](size_t k) {  // one at a time: they are timed
        Job& job = *jobs[k];
        if (!job.symbolic) job.result = search_kernel(device_, job.key, job.sink, job.name, std::move(job.result), ways, threads);
      });
    bool again = false;
    std::unique_lock lock(impl_->mutex);
    for (auto& job : jobs) {
      if (!job->fault.empty()) {
        TINY_LOG(1, kernel, "{}: not as a symbolic kernel: {}", job->name, job->fault);
        again = impl_->families[job->form].never = true;
      } else if (job->symbolic) {
        impl_->add_symbolic(job->form, std::move(*job->symbolic), job->result);
      } else {
        impl_->add(job->key, job->result);
      }
    }
    lock.unlock();
    no_fork.unlock();
    if (again) return get(kernels, compiled);  // with kernels of fixed sizes for those that failed
  }
  for (auto [i, j] : waiting) result[i].executable = jobs[j]->result;
  return result;
}

std::vector<CompiledKernel> KernelCache::builtins(const std::vector<const ScheduledItem*>& items, int* compiled) {
  std::vector<CompiledKernel> result(items.size());
  std::vector<BuiltinKernel> jobs;
  std::vector<Hash128> keys;
  std::vector<std::pair<size_t, size_t>> waiting;
  std::shared_lock no_fork(compiling());
  {
    std::lock_guard lock(impl_->mutex);
    for (size_t i = 0; i < items.size(); ++i) {
      std::optional<BuiltinKernel> made = device_.builtin_kernel(items[i]->builtin, items[i]->ints.data());
      if (!made) continue;
      result[i].numbers = made->scalars;
      const ProgramInfo& info = made->program.info;
      Hash128 key = hash128(fmt::format("{} {} {} {}", info.name, info.groups, info.flops, info.bytes));
      auto it = impl_->loaded.find(key);
      if (it != impl_->loaded.end()) result[i].executable = it->second.lock();
      if (result[i].executable) continue;
      size_t j = static_cast<size_t>(std::find(keys.begin(), keys.end(), key) - keys.begin());
      if (j == keys.size()) keys.push_back(key), jobs.push_back(std::move(*made));
      waiting.emplace_back(i, j);
    }
  }
  *compiled += static_cast<int>(jobs.size());
  std::vector<std::shared_ptr<Executable>> executables(jobs.size());
  run_jobs("compiling", jobs.size(), jobs.size(), [&](size_t j) {
    const Program& p = jobs[j].program;
    executables[j] = compile_cached(device_, hash128(p.info.name), [&] { return p; });
    executables[j]->info = p.info;  // what lies on the disk may be of another size
  });
  for (auto [i, j] : waiting) result[i].executable = executables[j];
  std::lock_guard lock(impl_->mutex);
  for (size_t j = 0; j < jobs.size(); ++j) impl_->add(keys[j], executables[j]);
  return result;
}

}  // namespace tiny
