// The builtin of attention with each set of vector loops that this processor has, against the definition in long double.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "runtime/builtin/attention.h"
#include "vector_sets.h"

namespace tiny {
namespace {

const bool kDevicesSet = setenv("TINY_DEVICE", "CPU", 1) == 0;

struct Case {
  int64_t batch, heads, queries, keys, depth, width;
  bool causal = false;
  int64_t bias[4] = {0, 0, 0, 0};
  bool rows_first[4] = {false, false, false, false};  // q and out, k, v, gradient
  double masked = 0;                                  // part of the bias that is -infinity
  bool first_query_blind = false;
};

template <class T>
std::vector<T> noise(int64_t n) {
  static std::mt19937 random(7);
  std::normal_distribution<double> normal;
  std::vector<T> v(static_cast<size_t>(n));
  for (T& x : v) x = static_cast<T>(normal(random));
  return v;
}

template <class T>
struct Run {
  const Case c;
  std::vector<T> q, k, v, grad, bias, out, sums, gq, gk, gv;
  double scale = 1 / std::sqrt(static_cast<double>(c.depth));
  std::vector<int64_t> ints;

  explicit Run(const Case& given) : c(given) {
    const int64_t bh = c.batch * c.heads;
    q = noise<T>(bh * c.queries * c.depth), k = noise<T>(bh * c.keys * c.depth), v = noise<T>(bh * c.keys * c.width);
    grad = noise<T>(bh * c.queries * c.width), bias = noise<T>(c.bias[0] * c.bias[1] * c.bias[2] * c.bias[3]);
    std::mt19937 random(3);
    for (T& x : bias)
      if (std::uniform_real_distribution<double>()(random) < c.masked) x = -INFINITY;
    if (c.first_query_blind)
      for (int64_t j = 0; j < c.bias[3]; ++j) bias[static_cast<size_t>(j)] = -INFINITY;
    out.resize(grad.size()), sums.resize(static_cast<size_t>(bh * c.queries));
    gq.resize(q.size()), gk.resize(k.size()), gv.resize(v.size());
    ints = {c.batch, c.heads, c.queries, c.keys, c.depth, c.width, 0, c.causal, std::bit_cast<int64_t>(scale)};
    ints.insert(ints.end(), c.bias, c.bias + 4), ints.insert(ints.end(), c.rows_first, c.rows_first + 4);
  }

  size_t at(bool first, int64_t head, int64_t row, int64_t n, int64_t elements, int64_t e) const {
    int64_t b = head / c.heads, h = head % c.heads;
    return static_cast<size_t>(first ? ((b * n + row) * c.heads + h) * elements + e : (head * n + row) * elements + e);
  }
  long double biased(int64_t head, int64_t i, int64_t j) const {
    if (bias.empty()) return 0;
    int64_t b = head / c.heads, h = head % c.heads, at[4] = {b, h, i, j}, flat = 0;
    for (int d = 0; d < 4; ++d) flat = flat * c.bias[d] + (c.bias[d] > 1 ? at[d] : 0);
    return bias[static_cast<size_t>(flat)];
  }

  void check(const AttentionKernels<T>& kernels) {
    Device& d = device(0);
    void* forward[] = {out.data(), sums.data(), q.data(), k.data(), v.data(), bias.data()};
    attention(kernels, forward, ints.data(), d);
    void* backward[] = {gq.data(), gk.data(), gv.data(), grad.data(), q.data(), k.data(), v.data(), out.data(), sums.data(), bias.data()};
    attention_backward(kernels, backward, ints.data(), d);
    for (int64_t head = 0; head < c.batch * c.heads; ++head) judge(head);
  }

  void judge(int64_t head) const {
    using Real = long double;
    std::vector<Real> wq(static_cast<size_t>(c.queries * c.depth)), wk(static_cast<size_t>(c.keys * c.depth)),
        wv(static_cast<size_t>(c.keys * c.width));
    auto Q = [&](int64_t i, int64_t e) { return Real(q[at(c.rows_first[0], head, i, c.queries, c.depth, e)]); };
    auto K = [&](int64_t j, int64_t e) { return Real(k[at(c.rows_first[1], head, j, c.keys, c.depth, e)]); };
    auto V = [&](int64_t j, int64_t e) { return Real(v[at(c.rows_first[2], head, j, c.keys, c.width, e)]); };
    auto G = [&](int64_t i, int64_t e) { return Real(grad[at(c.rows_first[3], head, i, c.queries, c.width, e)]); };
    for (int64_t i = 0; i < c.queries; ++i) {
      std::vector<Real> p(static_cast<size_t>(c.keys));
      Real top = -INFINITY, sum = 0;
      for (int64_t j = 0; j < c.keys; ++j) {
        Real s = biased(head, i, j);
        for (int64_t e = 0; e < c.depth; ++e) s += Real(scale) * Q(i, e) * K(j, e);
        p[j] = c.causal && j > i ? -INFINITY : s;
        top = std::max(top, p[j]);
      }
      for (Real& x : p) x = top == -INFINITY ? 0 : std::exp(x - top), sum += x;
      for (Real& x : p) x = sum == 0 ? 0 : x / sum;
      Real delta = 0;
      for (int64_t e = 0; e < c.width; ++e) {
        Real o = 0;
        for (int64_t j = 0; j < c.keys; ++j) o += p[j] * V(j, e);
        near(out[at(c.rows_first[0], head, i, c.queries, c.width, e)], o, "out");
        delta += o * G(i, e);
      }
      if (sum > 0) near(sums[static_cast<size_t>(head * c.queries + i)], top + std::log(sum), "log_sums");
      for (int64_t j = 0; j < c.keys; ++j) {
        Real g = -delta;
        for (int64_t e = 0; e < c.width; ++e) g += G(i, e) * V(j, e), wv[j * c.width + e] += p[j] * G(i, e);
        for (int64_t e = 0; e < c.depth; ++e)
          wq[i * c.depth + e] += Real(scale) * p[j] * g * K(j, e), wk[j * c.depth + e] += Real(scale) * p[j] * g * Q(i, e);
      }
    }
    for (int64_t i = 0; i < c.queries; ++i)
      for (int64_t e = 0; e < c.depth; ++e)
        near(gq[at(c.rows_first[0], head, i, c.queries, c.depth, e)], wq[i * c.depth + e], "gradient of q");
    for (int64_t j = 0; j < c.keys; ++j) {
      for (int64_t e = 0; e < c.depth; ++e)
        near(gk[at(c.rows_first[1], head, j, c.keys, c.depth, e)], wk[j * c.depth + e], "gradient of k");
      for (int64_t e = 0; e < c.width; ++e)
        near(gv[at(c.rows_first[2], head, j, c.keys, c.width, e)], wv[j * c.width + e], "gradient of v");
    }
  }

  static void near(T have, long double want, const char* what) {
    const long double bound = (std::abs(want) + 4) * 32 * std::numeric_limits<T>::epsilon();
    ASSERT_LE(std::abs(have - want), bound) << what << ": " << have << " for " << static_cast<double>(want);
  }
};

template <class T>
class AttentionTest : public ::testing::Test {};
using Elements = ::testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionTest, Elements);

template <class T>
void check_all(const Case& c) {
  for (const VectorKernelSet* s : testing::usable_vector_sets()) {
    SCOPED_TRACE(s->f32.tile_rows);
    if constexpr (std::is_same_v<T, float>) Run<T>(c).check(s->attention_f32);
    else Run<T>(c).check(s->attention_f64);
  }
}

TYPED_TEST(AttentionTest, AllKeys) { check_all<TypeParam>({.batch = 2, .heads = 3, .queries = 64, .keys = 96, .depth = 32, .width = 32}); }
TYPED_TEST(AttentionTest, OddSizes) {
  check_all<TypeParam>({.batch = 1, .heads = 2, .queries = 67, .keys = 203, .depth = 37, .width = 41});
}
TYPED_TEST(AttentionTest, OneOfEach) { check_all<TypeParam>({.batch = 1, .heads = 1, .queries = 1, .keys = 1, .depth = 1, .width = 1}); }
TYPED_TEST(AttentionTest, WidestHead) {
  check_all<TypeParam>({.batch = 1, .heads = 1, .queries = 35, .keys = 100, .depth = 256, .width = 250});
}
TYPED_TEST(AttentionTest, Causal) {
  for (int64_t n : {31, 130, 257})
    check_all<TypeParam>({.batch = 1, .heads = 2, .queries = n, .keys = n, .depth = 33, .width = 20, .causal = true});
  check_all<TypeParam>({.batch = 1, .heads = 1, .queries = 40, .keys = 150, .depth = 16, .width = 16, .causal = true});
  check_all<TypeParam>({.batch = 1, .heads = 1, .queries = 150, .keys = 40, .depth = 16, .width = 16, .causal = true});
}
TYPED_TEST(AttentionTest, Bias) {
  for (const auto& sizes : {std::array<int64_t, 4>{2, 3, 45, 110}, {1, 1, 45, 110}, {2, 1, 1, 110}, {1, 3, 45, 1}, {1, 1, 1, 1}}) {
    Case c{.batch = 2, .heads = 3, .queries = 45, .keys = 110, .depth = 16, .width = 24};
    std::copy(sizes.begin(), sizes.end(), c.bias);
    check_all<TypeParam>(c);
  }
}
TYPED_TEST(AttentionTest, MaskedBlocksAndBlindQueries) {
  check_all<TypeParam>({.batch = 1, .heads = 1, .queries = 50, .keys = 300, .depth = 8, .width = 8, .bias = {1, 1, 50, 300}, .masked = 0.97,
                        .first_query_blind = true});
}
TYPED_TEST(AttentionTest, Layouts) {
  for (int flags = 0; flags < 16; ++flags)
    check_all<TypeParam>({.batch = 2, .heads = 2, .queries = 20, .keys = 33, .depth = 12, .width = 9,
                          .rows_first = {(flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0, (flags & 8) != 0}});
}
TYPED_TEST(AttentionTest, NotANumberStaysInItsRow) {
  Run<TypeParam> r({.batch = 1, .heads = 1, .queries = 40, .keys = 40, .depth = 8, .width = 8});
  r.q[8 * 7] = NAN;
  void* buffers[] = {r.out.data(), r.sums.data(), r.q.data(), r.k.data(), r.v.data(), nullptr};
  attention(attention_kernels<TypeParam>(), buffers, r.ints.data(), device(0));
  for (int64_t i = 0; i < 40; ++i)
    for (int64_t e = 0; e < 8; ++e) ASSERT_EQ(std::isnan(r.out[static_cast<size_t>(i * 8 + e)]), i == 7);
}

}  // namespace
}  // namespace tiny
