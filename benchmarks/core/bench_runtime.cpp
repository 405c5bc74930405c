// Host cost of the runtime: allocation, submission, waiting, parallel regions. Budgets: a cached allocation 50 ns, a submission run inline
// 1 us beyond its kernel, one run by the queue's thread 10 us.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>

#include "base/log.h"
#include "runtime/builtin/builtin.h"
#include "runtime/cpu/pool.h"
#include "runtime/device.h"

namespace tiny {
namespace {

const bool kDevicesSet = setenv("TINY_DEVICE", "CPU", 1) == 0;

void alloc_hit(benchmark::State& state) {
  Device& d = device(0);
  size_t n = static_cast<size_t>(state.range(0));
  for (auto _ : state) d.alloc(n)->release();
}
BENCHMARK(alloc_hit)->Arg(64)->Arg(4096)->Arg(1 << 20)->Arg(64 << 20);

void alloc_many(benchmark::State& state) {
  Device& d = device(0);
  Buffer* held[64];
  for (auto _ : state) {
    for (int i = 0; i < 64; ++i) held[i] = d.alloc(static_cast<size_t>(100 + 1000 * (i % 7) + (i % 5 == 0 ? 300000 : 0)));
    for (Buffer* b : held) b->release();
  }
  state.SetItemsProcessed(state.iterations() * 64);
}
BENCHMARK(alloc_many);

Builtin kNothing = [](void* const*, const uint64_t*, const int64_t*, Device&) {};

void submit_and_wait(benchmark::State& state) {
  Device& d = device(0);
  auto launches = std::make_shared<std::vector<Launch>>(1, Launch{.builtin = kNothing});
  for (auto _ : state) {
    auto s = std::make_unique<Submission>();
    s->launches = launches.get();
    s->keep = launches;
    d.wait(d.submit(std::move(s), state.range(0) != 0));
  }
}
BENCHMARK(submit_and_wait)->ArgName("inline")->Arg(1)->Arg(0)->UseRealTime();

/// The queue's thread does the work while this one goes on submitting.
void submit_stream(benchmark::State& state) {
  Device& d = device(0);
  auto launches = std::make_shared<std::vector<Launch>>(1, Launch{.builtin = kNothing});
  for (auto _ : state) {
    auto s = std::make_unique<Submission>();
    s->launches = launches.get();
    s->keep = launches;
    benchmark::DoNotOptimize(d.submit(std::move(s), false));
  }
  d.wait(d.last_ticket());
}
BENCHMARK(submit_stream)->UseRealTime();

void parallel_region(benchmark::State& state) {
  static Pool* pool = new Pool(2, 5);
  for (auto _ : state) pool->run(2, 1, [](void*, int64_t, int) {}, nullptr);
}
BENCHMARK(parallel_region)->UseRealTime();

void log_off(benchmark::State& state) {
  set_log("");
  int64_t x = 0;
  for (auto _ : state) {
    TINY_LOG(1, flush, "{}", x);
    benchmark::DoNotOptimize(++x);
  }
}
BENCHMARK(log_off);

void argsort(benchmark::State& state) {
  int64_t rows = state.range(0), columns = state.range(1);
  std::vector<float> from(static_cast<size_t>(rows * columns));
  std::vector<int64_t> to(from.size());
  for (float& x : from) x = static_cast<float>(std::rand());
  void* buffers[2] = {to.data(), from.data()};
  int64_t ints[4] = {rows, columns, 0, static_cast<int64_t>(DType::f32)};
  for (auto _ : state) builtin_argsort(buffers, nullptr, ints, device(0));
  state.SetItemsProcessed(state.iterations() * rows * columns);
}
BENCHMARK(argsort)->Args({1, 1 << 20})->Args({1024, 1024})->Args({65536, 16})->UseRealTime();

}  // namespace
}  // namespace tiny
