#include "engine/search.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <unordered_dense/unordered_dense.h>

#include "base/error.h"
#include "base/log.h"
#include "engine/jobs.h"
#include "runtime/open.h"

namespace tiny {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kRoundMicros = 500;                 // of one measurement: launches are repeated until it takes so long
constexpr int kRounds = 5;                           // the least of which counts
constexpr double kHopeless = 1.5;                    // times the best: not measured again
constexpr std::chrono::seconds kTimeOfAKernel{4};    // compiling and timing
constexpr double kGain = 0.97;                       // of the heuristics' time, above which their way stays: timing is not exact
constexpr int kLaunchesMost = 1000;
constexpr double kLongMicros = 1e5;
constexpr double kNever = 1e300;

double micros_since(Clock::time_point t) { return std::chrono::duration<double, std::micro>(Clock::now() - t).count(); }

/// Memory for a kernel's arguments: floats of modest size, so that nothing overflows or is a denormal (bytes of 0x3f: 0.75 in float32 and
/// bfloat16, 1.8 in float16, 5e-4 in float64); else zeros, which are valid indices.
class Arguments {
 public:
  Arguments(Device& device, const ProgramInfo& info) : device_(device), scalars_(static_cast<size_t>(info.scalars)) {
    for (const ParamInfo& p : info.params) {
      const size_t n = std::max<size_t>(static_cast<size_t>(p.numel * itemsize(p.dtype)), 1);
      buffers_.emplace_back(device.alloc(n), [](Buffer* b) { b->release(); });
      const std::string content(std::min<size_t>(n, 1 << 20), is_float(p.dtype) ? '\x3f' : '\0');
      for (size_t at = 0; at < n; at += content.size())
        device.copy_in(buffers_.back().get(), at, content.data(), std::min(content.size(), n - at));
    }
  }

  /// Microseconds of `count` launches, one after the other.
  double run(Executable& kernel, int count) {
    auto launches = std::make_shared<std::vector<Launch>>(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) (*launches)[static_cast<size_t>(i)].kernel = &kernel, (*launches)[static_cast<size_t>(i)].batch = i;
    auto work = std::make_unique<Submission>();
    work->launches = launches.get();
    work->keep = launches;
    for (const auto& b : buffers_) work->buffers.push_back(b->ptr);
    work->scalars = scalars_;
    const Clock::time_point begin = Clock::now();
    device_.wait(device_.submit(std::move(work), true));
    return micros_since(begin);
  }

  /// Microseconds of one launch; kNever once it is clear that it takes much longer than `best`. A launch that takes long is timed once.
  double time(Executable& kernel, double best) {
    double least = run(kernel, 1);  // touches memory and code
    if (least > kLongMicros) return least > kHopeless * best ? kNever : least;
    int count = 1;
    double took = run(kernel, count);
    for (; took < kRoundMicros && count < kLaunchesMost; took = run(kernel, count))
      count = std::clamp(static_cast<int>(1.2 * count * kRoundMicros / std::max(took, 1.0)), count + 1, kLaunchesMost);
    least = took / count;
    if (least > kHopeless * best) return kNever;
    for (int i = 1; i < kRounds; ++i) least = std::min(least, run(kernel, count) / count);
    return least;
  }

 private:
  Device& device_;
  std::vector<std::unique_ptr<Buffer, void (*)(Buffer*)>> buffers_;
  std::vector<uint64_t> scalars_;
};

/// One way to split the kernel's axes.
struct Way {
  int number;
  std::unique_ptr<Arena> arena = std::make_unique<Arena>();
  Program program;
  std::shared_ptr<Executable> executable;
};

Hash128 way_key(const Hash128& kernel, int number) { return {mix(kernel.lo, static_cast<uint64_t>(number) + 0x7ee1), kernel.hi}; }

std::shared_ptr<Executable> compile_way(Device& device, const Hash128& key, UOp* sink, const std::string& name, int number) {
  Arena arena;
  IrScope scope(arena);
  return compile_cached(device, way_key(key, number), [&] { return lower_kernel(import_graph(sink), device.caps(), name, 0, number); });
}

/// The ways that differ from each other, not compiled yet; the first is the heuristics'.
std::vector<Way> different_ways(Device& device, UOp* sink, const std::string& name, int64_t most) {
  std::vector<Way> ways;
  ankerl::unordered_dense::set<std::string> seen;
  int64_t choices = 1;
  for (int64_t n = 0; n < choices && static_cast<int64_t>(ways.size()) < most; ++n) {
    Way way{static_cast<int>(n)};
    IrScope scope(*way.arena);
    way.program = lower_kernel(import_graph(sink), device.caps(), name, 0, way.number);
    choices = way.program.choices;
    if (seen.insert(device.compiler().render(way.program)).second) ways.push_back(std::move(way));
  }
  return ways;
}

}  // namespace

std::shared_ptr<Executable> search_kernel(Device& device, const Hash128& key, UOp* sink, const std::string& name,
                                          std::shared_ptr<Executable> first, int64_t ways, size_t threads) {
  const Clock::time_point started = Clock::now();
  const Hash128 found = hash128(fmt::format("{:x} {:x} best of {} by {} threads", key.hi, key.lo, ways, device.caps().threads));
  if (std::optional<std::string> text = cached_text(device, found)) {
    int number = 0;
    std::from_chars(text->data(), text->data() + text->size(), number);
    return number ? compile_way(device, key, sink, name, number) : first;
  }
  device.wait(device.last_ticket());
  int best = 0;
  std::shared_ptr<Executable> result = first;
  try {
    std::vector<Way> all = different_ways(device, sink, name, ways);
    if (all.size() == 1) return cache_text(device, found, "0"), first;
    Arguments arguments(device, first->info);
    const double heuristic = arguments.time(*first, kNever);
    double least = heuristic;
    size_t tried = 1;
    for (size_t at = 1; at < all.size() && Clock::now() - started < kTimeOfAKernel; at += threads) {
      const size_t count = std::min(threads, all.size() - at);
      run_jobs("searching", count, threads, [&](size_t k) {
        Way& way = all[at + k];
        IrScope scope(*way.arena);
        try {
          way.executable = compile_cached(device, way_key(key, way.number), [&] { return std::move(way.program); });
        } catch (const std::exception& e) {  // the heuristics' way is there
          TINY_LOG(1, kernel, "{}: way {} does not compile: {}", name, way.number, e.what());
        }
      });
      for (size_t k = at; k < at + count; ++k) {
        if (!all[k].executable) continue;
        ++tried;
        const double took = arguments.time(*all[k].executable, least);
        TINY_LOG(2, kernel, "{}: way {}: {}", name, all[k].number, took < kNever ? fmt::format("{:.2f} us", took) : "much longer");
        if (took < std::min(least, kGain * heuristic)) least = took, best = all[k].number, result = all[k].executable;
        all[k].executable = nullptr;
      }
    }
    TINY_LOG(1, kernel, "{}: way {} of {} takes {:.2f} us, the heuristics' {:.2f} us", name, best, tried, least, heuristic);
  } catch (const Error& e) {
    if (e.kind != ErrorKind::OutOfMemory) throw;
    TINY_LOG(1, kernel, "{}: no memory to search for a faster kernel", name);
    device.empty_cache();
    return first;
  }
  cache_text(device, found, std::to_string(best));
  return result;
}

}  // namespace tiny
