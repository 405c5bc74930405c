// Everything between a graph and its numbers: scheduler, codegen, renderer, runtime and engine, judged by the interpreter of graphs.
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/engine.h"
#include "graph_eval.h"
#include "random_graph.h"

namespace tiny {
namespace {

using testing::GraphEval;
using testing::RandomGraph;
using testing::Value;

/// The values of `tensors`, all computed in one flush.
std::vector<Value> run(const std::vector<Tensor>& tensors, Device& device) {
  std::vector<std::unique_ptr<Storage>> storages;
  {
    GraphLock lock;
    for (const Tensor& t : tensors) {
      storages.push_back(std::make_unique<Storage>(device, static_cast<size_t>(t.numel() * itemsize(t.dtype()))));
      storages.back()->write(t.sizes(), contiguous_strides(t.sizes()), 0, t);
    }
  }
  std::vector<Value> out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::string bytes(storages[i]->nbytes(), '\0');
    storages[i]->copy_out(bytes.data(), 0, bytes.size());
    out.push_back(testing::load_value(tensors[i].dtype(), tensors[i].numel(), bytes.data()));
  }
  return out;
}

void expect_close(const Value& got, const Value& want, const std::string& what) {
  ASSERT_EQ(got.numel(), want.numel()) << what;
  for (int64_t k = 0; k < want.numel(); ++k) {
    double g = got.number(k), w = want.number(k);
    if (std::isnan(w) || !is_float(want.dtype)) {
      ASSERT_TRUE((std::isnan(w) && std::isnan(g)) || g == w) << what << ", element " << k << ": " << g << " instead of " << w;
    } else {
      ASSERT_NEAR(g, w, 2e-5 * std::max(1.0, std::abs(w))) << what << ", element " << k;
    }
  }
}

int64_t programs() {
  const char* n = std::getenv("TINY_TEST_GRAPHS");
  return n ? std::atoll(n) : 300;
}

TEST(Engine, RandomProgramsEqualTheInterpreter) {
  Device& cpu = device(0);
  for (int64_t seed = 0; seed < programs(); ++seed) {
    GraphLock lock;
    RandomGraph draw(static_cast<uint64_t>(seed), cpu);
    std::vector<Tensor> tensors = draw.draw(4 + static_cast<int>(seed % 24));
    GraphEval judge;
    std::vector<Value> want;
    for (const Tensor& t : tensors) want.push_back(judge.run(t));
    std::vector<Value> got = run(tensors, cpu);
    for (size_t i = 0; i < tensors.size(); ++i) {
      expect_close(got[i], want[i], "seed " + std::to_string(seed) + ", result " + std::to_string(i));
      if (HasFatalFailure()) {
        UOp* roots[] = {tensors[i].node()};
        std::printf("%s\n", print(roots).c_str());
        return;
      }
    }
  }
}

TEST(Engine, AllocatesWhatItNeedsAndGivesItBack) {
  Device& cpu = device(0);
  GraphLock lock;
  int64_t nodes = live_nodes();
  {
    Storage s(cpu, 4096);
    s.write(Dims{1024}, Dims{1}, 0, full(Dims{1024}, scalar(DType::f32, 3.25)));
    std::vector<float> v(1024);
    s.copy_out(v.data(), 0, 4096);
    for (float x : v) ASSERT_EQ(x, 3.25f);
    EXPECT_FALSE(s.is_pending());
  }
  EXPECT_EQ(live_nodes(), nodes);
}

TEST(Engine, ChangingScalarsHitTheCache) {
  Device& cpu = device(0);
  Engine& e = Engine::of(cpu);
  float last = 0;
  for (int i = 0; i < 5; ++i) {
    int64_t misses = e.stats().misses;
    Storage s(cpu, 64);
    {
      GraphLock lock;
      s.write(Dims{16}, Dims{1}, 0, full(Dims{16}, scalar(DType::f32, 0.11 * (i + 1))) * 3.0);
    }
    s.copy_out(&last, 0, 4);
    EXPECT_FLOAT_EQ(last, 0.11f * static_cast<float>(i + 1) * 3.0f);
    if (i > 0) EXPECT_EQ(e.stats().misses, misses) << "step " << i;
  }
}

TEST(Engine, WritesThroughViewsKeepWhatOthersRead) {
  Device& cpu = device(0);
  Storage a(cpu, 32), b(cpu, 32);
  {
    GraphLock lock;
    Dims eight{8}, one{1};
    a.write(eight, one, 0, iota(8).cast(DType::f32));
    Tensor old = a.read(DType::f32, eight, one, 0);
    a.write(Dims{3}, Dims{2}, 1, full(Dims{3}, constant(DType::f32, 9.0)));  // elements 1, 3, 5
    b.write(eight, one, 0, old + a.read(DType::f32, eight, one, 0));
  }
  float va[8], vb[8];
  b.copy_out(vb, 0, 32);
  a.copy_out(va, 0, 32);
  for (int i = 0; i < 8; ++i) {
    float now = i == 1 || i == 3 || i == 5 ? 9.0f : static_cast<float>(i);
    EXPECT_EQ(va[i], now);
    EXPECT_EQ(vb[i], static_cast<float>(i) + now);
  }
}

TEST(Engine, AnIndexOutOfBoundsPoisonsWhatDependsOnIt) {
  Device& cpu = device(0);
  Storage good(cpu, 16), bad(cpu, 16);
  {
    GraphLock lock;
    Tensor table = iota(5).cast(DType::f32), index = iota(4) + 3.0;
    bad.write(Dims{4}, Dims{1}, 0, gather_flat(table, checked_index(index, 5, "take")));
    good.write(Dims{4}, Dims{1}, 0, iota(4).cast(DType::f32));
  }
  float v[4];
  for (int i = 0; i < 2; ++i) {
    try {
      bad.copy_out(v, 0, 16);
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::Index);
      EXPECT_NE(std::string(e.what()).find("take"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("5"), std::string::npos) << e.what();
    }
  }
  good.copy_out(v, 0, 16);
  EXPECT_EQ(v[3], 3.0f);
}

TEST(Engine, ALongChainNeitherOverflowsNorSlowsDown) {
  Device& cpu = device(0);
  Engine::of(cpu).set_node_bound(0);
  Storage s(cpu, 64);
  constexpr int kSteps = 20000;
  {
    GraphLock lock;
    Dims n{16}, one{1};
    s.write(n, one, 0, full(n, constant(DType::f32, 0.0)));
    for (int i = 0; i < kSteps; ++i) s.write(n, one, 0, s.read(DType::f32, n, one, 0) + 1.0);
  }
  float v[16];
  s.copy_out(v, 0, 64);
  EXPECT_EQ(v[7], static_cast<float>(kSteps));
  Engine::of(cpu).set_node_bound(4096);
}

}  // namespace
}  // namespace tiny
