// Host cost of the graph: making a node (target: at most 100 ns), and a flush that hits the cache (target for its key: at most 50 ns a
// node). Runs on the NULL device unless TINY_DEVICE says otherwise: kernels are compiled and not run.
#include <benchmark/benchmark.h>

#include <cstdlib>

#include "api.h"
#include "runtime/device.h"
#include "uop/graph.h"

using namespace tiny;

namespace {

const bool kNullDevice = setenv("TINY_DEVICE", "NULL", 0) == 0;

Dims row(int64_t n) { return Dims{n}; }

/// A chain of elementwise nodes, made and freed.
void node_chain(benchmark::State& state) {
  GraphLock lock;
  const int64_t count = state.range(0);
  Tensor x = zeros(row(16), DType::f32), y = constant(DType::f32, 3.0);
  for (auto _ : state) {
    Ref node = x.ref();
    for (int64_t i = 0; i < count; ++i) {
      UOp* sources[] = {node.get(), y.node()};
      node = make_node(Op::ADD, DType::f32, 16, Arg(), sources);
    }
    benchmark::DoNotOptimize(node.get());
  }
  state.SetItemsProcessed(state.iterations() * count);
}
BENCHMARK(node_chain)->Arg(1000)->Arg(100000);

/// The same through the tensor API: shapes checked, broadcast rules applied.
void tensor_chain(benchmark::State& state) {
  GraphLock lock;
  const int64_t count = state.range(0);
  Tensor x = zeros(row(16), DType::f32), y = full(row(16), constant(DType::f32, 3.0));
  for (auto _ : state) {
    Tensor z = x;
    for (int64_t i = 0; i < count; ++i) z = z + y;
    benchmark::DoNotOptimize(z.node());
  }
  state.SetItemsProcessed(state.iterations() * count);
}
BENCHMARK(tensor_chain)->Arg(1000);

/// A flush whose program is cached. Only the flush is timed: key, binding, submission. The slope over the number of nodes is the key's
/// cost.
void flush_hit(benchmark::State& state) {
  const int64_t count = state.range(0);
  Device& dev = device(0);
  Storage in(dev, 64), out(dev, 64);
  const float bytes[16] = {};
  Dims sizes = row(16), strides{1};
  {
    GraphLock lock;
    in.copy_in(0, bytes, sizeof bytes);
  }
  auto build = [&] {
    GraphLock lock;
    Tensor x = in.read(DType::f32, sizes, strides, 0), z = x;
    for (int64_t i = 0; i < count; ++i) z = i % 2 ? z * x : z + x;
    out.write(sizes, strides, 0, z);
  };
  Engine& engine = Engine::of(dev);
  engine.set_node_bound(0);
  for (int i = 0; i < 3; ++i) build(), engine.flush("bench");
  for (auto _ : state) {
    state.PauseTiming();
    build();
    state.ResumeTiming();
    engine.flush("bench");
  }
  engine.synchronize();
  state.SetItemsProcessed(state.iterations() * count);
}
BENCHMARK(flush_hit)->Arg(16)->Arg(256)->Arg(2048)->Iterations(2000);

}  // namespace
