// The engine: what is pending is computed when it must be, once, and in the right order.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "tensor/linalg.h"

namespace tiny {
namespace {

std::string out_of_bounds(const char* op) {
  return std::string("IndexError: ") + op + ": index {} is out of bounds for dimension with size {}";
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

/// The kernels of two chains of three that do not depend on each other, in the order in which they are launched.
std::vector<std::string> launched(int64_t first, int64_t second) {
  Device& cpu = device(0);
  Storage a(cpu, static_cast<size_t>(4 * first)), b(cpu, static_cast<size_t>(4 * second));
  {
    GraphLock lock;
    for (Storage* s : {&a, &b}) {
      const int64_t n = static_cast<int64_t>(s->nbytes() / 4);
      Tensor x = iota(n).cast(DType::f32);
      for (int k = 0; k < 3; ++k) x = (x + 1.5).contiguous();
      s->write(Dims{n}, Dims{1}, 0, x);
    }
  }
  float v = 0;
  b.copy_out(&v, 4, 4);
  EXPECT_EQ(v, 5.5f);
  return *Engine::of(cpu).history().back().kernel_names;
}

TEST(Engine, ShortKernelsOfTwoChainsRunSideBySide) {
  const auto small = launched(77, 91);
  ASSERT_EQ(small.size(), 6u);
  EXPECT_NE(small[0], small[1]);
  for (size_t k = 2; k < 6; ++k) EXPECT_EQ(small[k], small[k - 2]);
  const auto large = launched(7777, 9191);  // whose results take room: one chain, then the other
  ASSERT_EQ(large.size(), 6u);
  EXPECT_EQ(large[0], large[1]);
  EXPECT_NE(large[0], large[5]);
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
    bad.write(Dims{4}, Dims{1}, 0, gather_flat(table, checked_index(index, 5, out_of_bounds("take"))));
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

TEST(Engine, FaultsOfTwoChecksAreNotMixed) {
  Device& cpu = device(0);
  constexpr int64_t kMany = 1 << 16;
  Storage s(cpu, kMany * 4);
  int64_t huge = int64_t{1} << 40, seen[3] = {};
  for (int turn = 0; turn < 60; ++turn) {
    {
      GraphLock lock;
      Tensor i = iota(kMany), table = iota(5).cast(DType::f32), other = iota(7).cast(DType::f32) * 2.0;
      Tensor a = gather_flat(table, checked_index(i + 5.0, 5, out_of_bounds("first")));
      Tensor b = gather_flat(other, checked_index(i + 200000.0, 7, out_of_bounds("second")));
      Tensor third = turn % 2 ? i + constant(kIndex, huge) : binary(Op::MOD, i, constant(kIndex, int64_t{5}));
      Tensor c = gather_flat(table, checked_index(third, 5, out_of_bounds("third")));
      s.write(Dims{kMany}, Dims{1}, 0, turn % 3 ? a + b + c : b + a + c);
    }
    std::string what;
    try {
      std::vector<float> v(kMany);
      s.copy_out(v.data(), 0, kMany * 4);
    } catch (const Error& e) {
      what = e.what();
    }
    long long value = 0, size = 0;
    char name[16] = "";
    int read = std::sscanf(what.c_str(), "%15[a-z]: index %lld is out of bounds for dimension with size %lld", name, &value, &size);
    ASSERT_EQ(read, 3) << what;
    int k = name == std::string("first") ? 0 : name == std::string("second") ? 1 : 2;
    int64_t start = k == 0 ? 5 : k == 1 ? 200000 : huge;
    EXPECT_EQ(size, k == 1 ? 7 : 5) << what;
    EXPECT_TRUE(value >= start && value < start + kMany) << what;
    ++seen[k];
  }
  EXPECT_GT(seen[0] + seen[1], 0);
}

TEST(Engine, ACheckStaysWhenWhatNeededItsValueFoldsAway) {
  Device& cpu = device(0);
  auto raises = [&cpu](const Tensor& index, Tensor (*form)(const Tensor&)) {
    Storage s(cpu, 16);
    {
      GraphLock lock;
      Tensor value = form(checked_index(index, 5, out_of_bounds("take")));
      s.write(value.sizes(), contiguous_strides(value.sizes()), 0, value);
    }
    float v[4];
    try {
      s.copy_out(v, 0, 16);
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("take: index 6 is out of bounds for dimension with size 5"), std::string::npos) << e.what();
      return true;
    }
    return false;
  };
  static auto table = [] { return full(Dims{5}, constant(DType::f32, 1.0)); };
  Tensor (*forms[])(const Tensor&) = {
      [](const Tensor& i) { return gather_flat(table(), i); },
      [](const Tensor& i) { return gather_flat(table(), i).sum(Dims{0}, true); },
      [](const Tensor& i) { return (i * constant(kIndex, int64_t{0})).cast(DType::f32); },
      [](const Tensor& i) { return gather_flat(table(), gather_flat(full(Dims{5}, constant(kIndex, int64_t{2})), i)); },
  };
  for (auto form : forms) {
    EXPECT_TRUE(raises(iota(4) + 3.0, form));
    EXPECT_FALSE(raises(iota(4) + 1.0, form));
  }
}

/// [[1, 2], [3, 1]] - 1 = [[0, 1], [2, 0]]: its rows trade places, and its factors are [[2, 0], [0, 1]].
linalg::Lu decomposed_antidiagonal() {
  Tensor m = iota(2).reshape({2, 1}), n = iota(2).reshape({1, 2});
  Tensor a = where(eq(m, n), constant(DType::i64, int64_t{1}), m + constant(DType::i64, int64_t{2})).cast(DType::f64);
  return linalg::lu(a - 1.0);
}

TEST(Engine, ABuiltinGivesSeveralResults) {
  Device& cpu = device(0);
  Storage factors(cpu, 32), again(cpu, 32), pivots(cpu, 8), twice(cpu, 32);
  {
    GraphLock lock;
    linalg::Lu r = decomposed_antidiagonal();
    factors.write(Dims{2, 2}, Dims{1, 2}, 0, r.factors.value);  // column by column, as they are
    again.write(Dims{2, 2}, Dims{2, 1}, 0, r.factors.value);
    twice.write(Dims{2, 2}, Dims{2, 1}, 0, r.factors.value * 2.0 + r.pivots.reshape({2, 1}).cast(DType::f64));
    pivots.write(Dims{2}, Dims{1}, 0, r.pivots);
    factors.write(Dims{1}, Dims{1}, 3, full(Dims{1}, constant(DType::f64, 7.0)));  // over its last element
  }
  double f[4];
  int32_t p[2];
  factors.copy_out(f, 0, 32);
  EXPECT_EQ(std::vector<double>(f, f + 4), (std::vector<double>{2, 0, 0, 7}));
  again.copy_out(f, 0, 32);
  EXPECT_EQ(std::vector<double>(f, f + 4), (std::vector<double>{2, 0, 0, 1}));
  twice.copy_out(f, 0, 32);
  EXPECT_EQ(std::vector<double>(f, f + 4), (std::vector<double>{6, 2, 2, 4}));
  pivots.copy_out(p, 0, 8);
  EXPECT_EQ(p[0], 2);
  EXPECT_EQ(p[1], 2);
}

TEST(Engine, ResultsOfABuiltinThatNobodyReadsNeedNoStorage) {
  Device& cpu = device(0);
  Storage info(cpu, 4), pivots(cpu, 8);
  {
    GraphLock lock;
    info.write(Dims{}, Dims{}, 0, decomposed_antidiagonal().info);
    pivots.write(Dims{2}, Dims{1}, 0, decomposed_antidiagonal().pivots + constant(DType::i32, int64_t{1}));
  }
  int32_t i = -1, p[2];
  info.copy_out(&i, 0, 4);
  pivots.copy_out(p, 0, 8);
  EXPECT_EQ(i, 0);
  EXPECT_EQ(p[0], 3);
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
