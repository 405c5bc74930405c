// Discrete Fourier transforms on every device that a host has, against the definition in double.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numbers>
#include <random>

#include "base/env.h"
#include "engine/engine.h"
#include "graph_eval.h"

namespace tiny {
namespace {

using testing::GraphEval;
using testing::Value;
using testing::value_of;

const EnvScope devices(Env::TINY_DEVICE, "CPU,REF,REF");  // before anything opens one

/// CPU; the interpreter of kernels; the same with workgroups of lanes.
Device& open(int number) {
  EnvScope lanes(Env::TINY_REF_LOCAL, number == 2 ? "1" : "0");
  return device(number);
}

std::vector<double> noise(int64_t n) {
  static std::mt19937 random(3);
  std::normal_distribution<double> normal;
  std::vector<double> v(static_cast<size_t>(n));
  for (double& x : v) x = normal(random);
  return v;
}

/// A leaf on the device, with the same numbers as one of the judge's.
struct Pair {
  Tensor here, judged;
};
Pair leaf(GraphEval& judge, Device& device, DType d, const std::vector<double>& numbers) {
  Value v = value_of(d, numbers);
  std::string bytes(numbers.size() * static_cast<size_t>(itemsize(d)) + 1, '\0');
  testing::store_value(v, bytes.data());
  Buffer* b = device.alloc(bytes.size());
  device.copy_in(b, 0, bytes.data(), bytes.size());
  Dims sizes{v.numel()};
  Pair p{Tensor(make_buffer_node(b, d, v.numel()), sizes), judge.leaf(v, sizes)};
  b->release();
  return p;
}

Value computed(const Tensor& t, Device& device) {
  Storage s(device, static_cast<size_t>(t.numel() * itemsize(t.dtype())));
  s.write(t.sizes(), contiguous_strides(t.sizes()), 0, t);
  std::string bytes(s.nbytes(), '\0');
  s.copy_out(bytes.data(), 0, bytes.size());
  return testing::load_value(t.dtype(), t.numel(), bytes.data());
}

Dft shape_of(int64_t batch, int64_t n, int64_t inner, DftKind kind = DftKind::Numbers) {
  Dft d;
  d.batch = batch, d.n = n, d.inner = inner, d.kind = kind;
  d.inverse = kind == DftKind::FromHalf;
  d.radices = dft_radices(n);
  d.last = d.passes();
  return d;
}

/// The greatest error, in units of the type's precision times the root mean square of the results.
double error(const Dft& d, DType t, bool real_input, Device& device) {
  GraphLock lock;
  GraphEval judge;
  std::vector<double> roots(static_cast<size_t>(d.roots()));
  d.fill_roots(roots.data());
  Pair re = leaf(judge, device, t, noise(d.elements_in())), im = leaf(judge, device, t, noise(d.elements_in()));
  Pair table = leaf(judge, device, t, roots);
  Value want = judge.run(dft(re.judged, real_input ? Tensor() : im.judged, table.judged, d));
  Value got = computed(dft(re.here, real_input ? Tensor() : im.here, table.here, d), device);
  double worst = 0, square = 0;
  for (int64_t k = 0; k < want.numel(); ++k) {
    worst = std::max(worst, std::abs(got.number(k) - want.number(k)));
    square += want.number(k) * want.number(k);
    if (std::isnan(got.number(k))) return INFINITY;
  }
  double rms = std::sqrt(square / static_cast<double>(want.numel()));
  return worst / rms / (t == DType::f32 ? 0x1p-24 : 0x1p-53);
}

constexpr double kUnits = 16;

TEST(Dft, RootsOfUnity) {
  for (int64_t n : {1, 2, 3, 5, 8, 12, 360, 1000, 1 << 20, 3 * 5 * 7 * 11 * 13})
    for (int64_t k : {int64_t{0}, int64_t{1}, n / 8, n / 5, n / 4, n / 3, n / 2, n - 1, 7 * n + 3, -n / 6}) {
      long double angle = 2 * std::numbers::pi_v<long double> * static_cast<long double>(k % n) / static_cast<long double>(n);
      UnitRoot w = unit_root(k, n);
      EXPECT_NEAR(w.cos, static_cast<double>(std::cos(angle)), 0x1p-53) << k << "/" << n;
      EXPECT_NEAR(w.sin, static_cast<double>(std::sin(angle)), 0x1p-53) << k << "/" << n;
    }
  for (int64_t quarter = 0; quarter < 4; ++quarter) {
    UnitRoot w = unit_root(quarter * 250, 1000);
    EXPECT_EQ(std::abs(w.cos) + std::abs(w.sin), 1) << quarter;
  }
}

TEST(Dft, RadicesMultiplyToTheSize) {
  for (int64_t n = 1; n < 3000; ++n) {
    int64_t product = 1, rest = n;
    for (int64_t p : {2, 3, 5, 7, 11, 13})
      while (rest % p == 0) rest /= p;
    Dims r = dft_radices(n);
    for (int64_t x : r) product *= x;
    EXPECT_EQ(r.empty(), rest > 1) << n;
    if (rest == 1) {
      EXPECT_EQ(product, n);
    }
  }
}

class DftOn : public ::testing::TestWithParam<int> {};

TEST_P(DftOn, EverySmallSize) {
  Device& device = open(GetParam());
  for (int64_t n = 1; n <= (GetParam() == 0 ? 66 : 26); ++n) {
    Dft d = shape_of(n % 3 + 1, n, n % 4 == 1 ? 3 : 1);
    if (d.radices.empty()) continue;
    d.inverse = n % 2, d.result = static_cast<DftResult>(n % 3);
    EXPECT_LE(error(d, DType::f32, false, device), kUnits) << n;
  }
}

TEST_P(DftOn, ShapesResultsAndTypes) {
  Device& device = open(GetParam());
  int64_t turn = 0;
  for (auto [batch, n, inner] : {std::tuple<int64_t, int64_t, int64_t>{5, 128, 1}, {3, 400, 1}, {2, 375, 1}, {2, 64, 40}, {3, 120, 17},
                                 {1, 1024, 3}, {1, 300, 33}, {40, 12, 1}, {1, 2, 50}})
    for (bool real : {false, true})
      for (DType t : {DType::f32, DType::f64}) {
        Dft d = shape_of(batch, n, inner);
        ++turn;
        d.inverse = turn % 2, d.result = static_cast<DftResult>(turn % 3), d.scale = turn % 5 ? 1 : 0.125;
        EXPECT_LE(error(d, t, real, device), kUnits) << fmt::format("[{}, {}, {}], turn {}", batch, n, inner, turn);
      }
}

TEST_P(DftOn, Halves) {
  Device& device = open(GetParam());
  int64_t turn = 0;
  for (int64_t n : {1, 2, 3, 4, 5, 8, 9, 13, 16, 32, 60, 66, 128, 200})
    for (DftKind kind : {DftKind::ToHalf, DftKind::FromHalf})
      for (int64_t inner : {1, 6, 33}) {
        Dft d = shape_of(n % 3 + 1, n, inner, kind);
        d.result = ++turn % 3 ? DftResult::Pairs : DftResult::Planar, d.scale = turn % 4 ? 1 : 0.25;
        DType t = turn % 5 ? DType::f32 : DType::f64;
        EXPECT_LE(error(d, t, false, device), kUnits) << fmt::format("{}, inner {}, turn {}", n, inner, turn);
      }
}

INSTANTIATE_TEST_SUITE_P(Devices, DftOn, ::testing::Values(0, 1, 2),
                         [](const auto& i) { return std::string(i.param == 0 ? "cpu" : i.param == 1 ? "ref" : "ref_local"); });

/// More than fits local memory: several kernels, with and without whole blocks of columns.
TEST(Dft, LongTransforms) {
  for (auto [n, inner] : {std::pair<int64_t, int64_t>{8192, 1}, {5005, 1}, {9 * 11 * 13, 5}, {1024, 16}}) {
    Dft d = shape_of(1, n, inner);
    EXPECT_LE(error(d, DType::f32, false, open(0)), kUnits) << n;
    EXPECT_LE(error(d, DType::f64, true, open(0)), kUnits) << n;
  }
  for (DftKind kind : {DftKind::ToHalf, DftKind::FromHalf})
    for (int64_t n : {2500, 6144}) EXPECT_LE(error(shape_of(1, n, 1, kind), DType::f32, false, open(0)), kUnits) << n;
}

TEST(Dft, ReadsThroughViews) {
  GraphLock lock;
  Device& device = open(0);
  GraphEval judge;
  int64_t order[] = {2, 0, 1}, lo[] = {0, 0, 3}, hi[] = {0, 0, 1};
  Dft d = shape_of(6, 48, 5);
  std::vector<double> roots(static_cast<size_t>(d.roots()));
  d.fill_roots(roots.data());
  Pair x = leaf(judge, device, DType::f64, noise(44 * 5 * 6)), table = leaf(judge, device, DType::f64, roots);
  auto program = [&](const Tensor& x, const Tensor& roots) {
    Tensor t = x.reshape({5, 44, 6}).permute(order).pad(lo, hi).transpose(1, 2);
    return dft(t, t.flip(Dims{1}) * 0.5, roots, d);
  };
  Value want = judge.run(program(x.judged, table.judged)), got = computed(program(x.here, table.here), device);
  for (int64_t k = 0; k < want.numel(); ++k) ASSERT_NEAR(got.number(k), want.number(k), 1e-12) << k;
}

}  // namespace
}  // namespace tiny
