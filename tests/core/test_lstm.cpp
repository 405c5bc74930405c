// The builtins of an LSTM's layer with each set of vector loops that this processor has, against the definition in long double.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "runtime/builtin/lstm.h"
#include "vector_sets.h"

namespace tiny {
namespace {

const bool kDevicesSet = setenv("TINY_DEVICE", "CPU", 1) == 0;

using Real = long double;
using Reals = std::vector<Real>;

struct Case {
  int64_t steps, rows, width;
  bool reverse = false, grad_out = true, grad_h = true, grad_c = true;
};

template <class T>
struct Run {
  const Case c;
  std::vector<T> inputs, weights, h, cell, grad_out, grad_h, grad_c, out, kept, to_inputs, to_h, to_c;
  Reals want_out, want_kept, want_inputs, want_h, want_c;

  explicit Run(const Case& given) : c(given) {
    const int64_t states = c.rows * c.width;
    inputs = noise(c.steps * 4 * states, 2), weights = noise(4 * c.width * c.width, 1 / std::sqrt(static_cast<double>(c.width)));
    h = noise(states, 1), cell = noise(states, 1);
    grad_out = noise(c.steps * states, 1), grad_h = noise(states, 1), grad_c = noise(states, 1);
    inputs[0] = 200, inputs[1] = -200;  // saturated
    out.resize(grad_out.size()), kept.resize(5 * out.size()), to_inputs.resize(inputs.size()), to_h.resize(h.size()), to_c.resize(h.size());
  }

  static std::vector<T> noise(int64_t n, double scale) {
    static std::mt19937 random(11);
    std::normal_distribution<double> normal(0, scale);
    std::vector<T> v(static_cast<size_t>(n));
    for (T& x : v) x = static_cast<T>(normal(random));
    return v;
  }

  Real weight(int64_t gate, int64_t unit) const { return weights[static_cast<size_t>(gate * c.width + unit)]; }
  int64_t at(int64_t k) const { return c.reverse ? c.steps - 1 - k : k; }

  void define() {
    const int64_t w = c.width, states = c.rows * w, cells = c.steps * 4 * states;
    auto sigmoid = [](Real x) { return 1 / (1 + std::exp(-x)); };
    want_out.assign(out.size(), 0), want_kept.assign(kept.size(), 0), want_inputs.assign(inputs.size(), 0);
    Reals now_h(h.begin(), h.end()), now_c(cell.begin(), cell.end());
    for (int64_t k = 0; k < c.steps; ++k) {
      const int64_t t = at(k);
      Reals before = now_h;
      for (int64_t r = 0; r < c.rows; ++r)
        for (int64_t u = 0; u < w; ++u) {
          Real* g = &want_kept[static_cast<size_t>((t * c.rows + r) * 4 * w + u)];
          for (int64_t q = 0; q < 4; ++q) {
            Real sum = inputs[static_cast<size_t>((t * c.rows + r) * 4 * w + q * w + u)];
            for (int64_t p = 0; p < w; ++p) sum += weight(q * w + u, p) * before[static_cast<size_t>(r * w + p)];
            g[q * w] = q == 2 ? std::tanh(sum) : sigmoid(sum);
          }
          const size_t i = static_cast<size_t>(r * w + u), all = static_cast<size_t>(t * states) + i;
          now_c[i] = g[w] * now_c[i] + g[0] * g[2 * w];
          now_h[i] = g[3 * w] * std::tanh(now_c[i]);
          want_out[all] = now_h[i], want_kept[static_cast<size_t>(cells) + all] = now_c[i];
        }
    }
    Reals dh(h.size(), 0), dc(h.size(), 0);
    for (size_t i = 0; i < h.size(); ++i) dh[i] = c.grad_h ? Real(grad_h[i]) : 0, dc[i] = c.grad_c ? Real(grad_c[i]) : 0;
    for (int64_t k = c.steps; k-- > 0;) {
      const int64_t t = at(k);
      Reals next(h.size(), 0);
      for (int64_t r = 0; r < c.rows; ++r)
        for (int64_t u = 0; u < w; ++u) {
          const size_t i = static_cast<size_t>(r * w + u), all = static_cast<size_t>(t * states) + i;
          const Real* g = &want_kept[static_cast<size_t>((t * c.rows + r) * 4 * w + u)];
          const Real d = dh[i] + (c.grad_out ? Real(grad_out[all]) : 0), tc = std::tanh(want_kept[static_cast<size_t>(cells) + all]);
          const Real before = k ? want_kept[static_cast<size_t>(cells + at(k - 1) * states) + i] : Real(cell[i]);
          dc[i] += d * g[3 * w] * (1 - tc * tc);
          const Real to[4] = {dc[i] * g[2 * w] * (1 - g[0]) * g[0], dc[i] * before * (1 - g[w]) * g[w],
                              dc[i] * g[0] * (1 - g[2 * w] * g[2 * w]), d * tc * (1 - g[3 * w]) * g[3 * w]};
          for (int64_t q = 0; q < 4; ++q) {
            want_inputs[static_cast<size_t>((t * c.rows + r) * 4 * w + q * w + u)] = to[q];
            for (int64_t p = 0; p < w; ++p) next[static_cast<size_t>(r * w + p)] += to[q] * weight(q * w + u, p);
          }
          dc[i] *= g[w];
        }
      dh = next;
    }
    want_h = dh, want_c = dc;
  }

  void check(const LstmKernels<T>& kernels) {
    Device& d = device(0);
    const int64_t ints[] = {c.steps, c.rows, c.width, 0, c.reverse, c.grad_out, c.grad_h, c.grad_c};
    void* forward[] = {out.data(), kept.data(), inputs.data(), weights.data(), h.data(), cell.data()};
    lstm(kernels, forward, ints, d);
    std::vector<void*> backward{to_inputs.data(), to_h.data(), to_c.data(), weights.data(), cell.data(), kept.data()};
    if (c.grad_out) backward.push_back(grad_out.data());
    if (c.grad_h) backward.push_back(grad_h.data());
    if (c.grad_c) backward.push_back(grad_c.data());
    lstm_backward(kernels, backward.data(), ints, d);
    define();
    near(out, want_out, "out"), near(kept, want_kept, "kept");
    near(to_inputs, want_inputs, "gradient of inputs"), near(to_h, want_h, "gradient of h"), near(to_c, want_c, "gradient of c");
  }

  static void near(const std::vector<T>& have, const Reals& want, const char* what) {
    for (size_t i = 0; i < want.size(); ++i) {
      const Real bound = (std::abs(want[i]) + 2) * 64 * std::numeric_limits<T>::epsilon();
      ASSERT_LE(std::abs(have[i] - want[i]), bound) << what << " " << i << ": " << have[i] << " for " << static_cast<double>(want[i]);
    }
  }
};

template <class T>
void check_all(const Case& c) {
  for (const VectorKernelSet* s : testing::usable_vector_sets()) {
    SCOPED_TRACE(s->f32.tile_rows);
    if constexpr (std::is_same_v<T, float>) Run<T>(c).check(s->lstm_f32);
    else Run<T>(c).check(s->lstm_f64);
  }
}

template <class T>
class LstmTest : public ::testing::Test {};
using Elements = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LstmTest, Elements);

TYPED_TEST(LstmTest, WholeVectors) { check_all<TypeParam>({.steps = 5, .rows = 8, .width = 64}); }
TYPED_TEST(LstmTest, OddSizes) { check_all<TypeParam>({.steps = 4, .rows = 13, .width = 37}); }
TYPED_TEST(LstmTest, OneOfEach) { check_all<TypeParam>({.steps = 1, .rows = 1, .width = 1}); }
TYPED_TEST(LstmTest, FromTheEnd) { check_all<TypeParam>({.steps = 6, .rows = 3, .width = 20, .reverse = true}); }
TYPED_TEST(LstmTest, NoGradientOfStates) { check_all<TypeParam>({.steps = 3, .rows = 5, .width = 18, .grad_h = false, .grad_c = false}); }
TYPED_TEST(LstmTest, GradientsOfStatesAlone) { check_all<TypeParam>({.steps = 3, .rows = 5, .width = 18, .grad_out = false}); }
/// Many rows: parts of them for all steps. Many units: parts of these, step by step.
TYPED_TEST(LstmTest, ManyRows) { check_all<TypeParam>({.steps = 12, .rows = 61, .width = 48}); }
TYPED_TEST(LstmTest, ManyUnits) { check_all<TypeParam>({.steps = 3, .rows = 7, .width = 300, .reverse = true}); }

}  // namespace
}  // namespace tiny
