// The builtins of linear algebra against their definitions, computed in long double; and each set of vector loops that this processor has.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <random>

#include "runtime/builtin/builtin.h"
#include "runtime/builtin/gemm.h"
#include "runtime/builtin/triangular.h"
#include "runtime/builtin/vector_kernels.h"

namespace tiny {
namespace {

const bool kDevicesSet = setenv("TINY_DEVICE", "CPU,REF", 1) == 0;

/// In which a result is checked.
template <class T>
using Exact = std::conditional_t<is_complex<T>, std::complex<long double>, long double>;
template <class T>
Exact<T> exact(T x) { return Exact<T>(x); }

template <class T>
T nan() { return T(std::numeric_limits<Real<T>>::quiet_NaN()); }

/// A matrix that owns its elements, column by column or row by row.
template <class T>
struct Owned {
  std::vector<T> memory;
  int64_t rows, cols;
  bool by_rows;
  Owned(int64_t r, int64_t c, bool rows_first = false) : memory(static_cast<size_t>(r * c)), rows(r), cols(c), by_rows(rows_first) {}
  Matrix<T> view() { return matrix_of<T>(memory.data(), 0, rows, cols, by_rows); }
  T& operator()(int64_t i, int64_t j) { return view()(i, j); }
};

template <class T>
Owned<T> random(int64_t rows, int64_t cols, unsigned seed, bool by_rows = false) {
  std::mt19937 r(seed);
  std::uniform_real_distribution<double> d(-1, 1);
  Owned<T> m(rows, cols, by_rows);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      if constexpr (is_complex<T>) m(i, j) = T(static_cast<Real<T>>(d(r)), static_cast<Real<T>>(d(r)));
      else m(i, j) = static_cast<T>(d(r));
    }
  return m;
}

/// The sum over p < n of f(p).
template <class F>
auto sum(int64_t n, F f) {
  decltype(f(int64_t{})) s = 0;
  for (int64_t p = 0; p < n; ++p) s += f(p);
  return s;
}

template <class T>
void expect_near(Exact<T> have, Exact<T> want, long double scale, const char* what) {
  ASSERT_LE(std::abs(have - want), (1 + is_complex<T>) * scale * std::numeric_limits<Real<T>>::epsilon())
      << what << ": " << have << " for " << want;
}

template <class T>
int64_t code() {
  return static_cast<int64_t>(std::is_same_v<Real<T>, float> ? DType::f32 : DType::f64) | (is_complex<T> ? kComplexElement : 0);
}

template <class T>
class Loops : public ::testing::Test {};
using RealElements = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Loops, RealElements);
template <class T>
class Linalg : public ::testing::Test {};
using Elements = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Linalg, Elements);

// ---- loops and products

template <class T>
std::vector<const VectorKernels<T>*> sets() {
  std::vector<const VectorKernelSet*> all{&kKernelsAny};
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) all.push_back(&kKernelsAvx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    all.push_back(&kKernelsAvx512);
#endif
  std::vector<const VectorKernels<T>*> out;
  for (auto* s : all)
    if constexpr (std::is_same_v<T, float>) out.push_back(&s->f32);
    else out.push_back(&s->f64);
  return out;
}

TYPED_TEST(Loops, EverySet) {
  using T = TypeParam;
  for (const VectorKernels<T>* k : sets<T>()) {
    int64_t r = k->tile_rows, c = k->tile_cols, depth = 19;
    alignas(64) T a[64 * 19];
    Owned<T> b = random<T>(depth, c, 1, true), x = random<T>(r, c, 2), packed = random<T>(r, depth, 3), before = x;
    std::copy(packed.memory.begin(), packed.memory.end(), a);
    k->tile(depth, a, b.memory.data(), T(-1), x.memory.data(), r);
    for (int64_t i = 0; i < r; ++i)
      for (int64_t j = 0; j < c; ++j)
        expect_near<T>(x(i, j), before(i, j) - sum(depth, [&](int64_t p) { return exact(packed(i, p)) * exact(b(p, j)); }), 20, "tile");

    alignas(64) T systems[7 * 64], right[7 * 64];
    for (bool unit : {false, true}) {
      Owned<T> l = random<T>(7, 7, 4, true), values = random<T>(7, k->strip, 5, true);
      for (int i = 0; i < 7; ++i) l(i, i) += 2;
      std::copy(values.memory.begin(), values.memory.end(), systems);
      std::copy(values.memory.begin(), values.memory.end(), right);
      k->substitute(7, l.memory.data(), unit, systems);
      for (int64_t i = 0; i < 7; ++i)
        for (int64_t s = 0; s < k->strip; ++s)
          expect_near<T>(sum(i + 1, [&](int64_t p) { return (unit && p == i ? 1 : exact(l(i, p))) * systems[p * k->strip + s]; }),
                         right[i * k->strip + s], 100, "substitute");
    }

    for (int step : {1, -1}) {
      Owned<T> columns = random<T>(k->strip, 4, 12), turns = random<T>(2, 3, 13), want = columns;
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t r = 0, x = step > 0 ? i : 3 - i; r < k->strip; ++r) {
          T one = want(r, x), next = want(r, x + step), c = turns(0, i), s = turns(1, i);
          want(r, x) = s * next + c * one, want(r, x + step) = c * next - s * one;
        }
      k->rotate(3, turns.memory.data(), step * k->strip, &columns(0, step > 0 ? 0 : 3));
      for (int64_t i = 0; i < 4; ++i)
        for (int64_t r = 0; r < k->strip; ++r) expect_near<T>(columns(r, i), want(r, i), 8, "rotate");
    }

    for (int64_t n : {1, 3, 16, 37, 200}) {
      for (int64_t cols : {1, 2, 3, 4, 7}) {
        Owned<T> m = random<T>(n, cols, 6), u = random<T>(cols, 1, 7), y = random<T>(n, 1, 8), old = y;
        k->subtract_columns(n, cols, m.memory.data(), n, u.memory.data(), y.memory.data());
        for (int64_t i = 0; i < n; ++i)
          expect_near<T>(y(i, 0), old(i, 0) - sum(cols, [&](int64_t p) { return exact(m(i, p)) * exact(u(p, 0)); }), 8, "subtract_columns");
      }
      for (int64_t cols : {1, 4, 6}) {
        Owned<T> m = random<T>(n, cols, 10), y = random<T>(n, 1, 11), u(cols, 1);
        k->inner_products(n, cols, m.memory.data(), n, y.memory.data(), u.memory.data());
        for (int64_t p = 0; p < cols; ++p)
          expect_near<T>(u(p, 0), sum(n, [&](int64_t i) { return exact(m(i, p)) * exact(y(i, 0)); }), 8 + n / 2, "products");
      }
      for (int64_t at : {int64_t{0}, n / 2, n - 1}) {
        Owned<T> v = random<T>(n, 1, 9);
        v(at, 0) = T(-1.5);
        if (at + 1 < n) v(n - 1, 0) = T(1.5);  // as great, but later
        EXPECT_EQ(k->greatest(n, v.memory.data()), at);
        if (at > 0) v(at / 2, 0) = std::numeric_limits<T>::quiet_NaN();
        EXPECT_EQ(k->greatest(n, v.memory.data()), at > 0 && at / 2 == 0 ? 0 : at) << n;
      }
    }
  }
}

TYPED_TEST(Linalg, Products) {
  using T = TypeParam;
  for (auto [m, k, n] : {std::array<int64_t, 3>{1, 1, 1}, {5, 3, 7}, {40, 300, 3}, {65, 70, 66}, {200, 513, 99}, {97, 33, 201}})
    for (int layout = 0; layout < (is_complex<T> ? 32 : 8); ++layout) {
      Owned<T> a = random<T>(m, k, 1, layout & 1), b = random<T>(k, n, 2, layout & 2), c = random<T>(m, n, 3, layout & 4), old = c;
      Real<T> scale = layout % 3 ? 1 : -1;
      Matrix<T> left = layout & 8 ? a.view().conjugate_view() : a.view(), right = layout & 16 ? b.view().conjugate_view() : b.view();
      add_product(device(0), scale, left, right, c.view());
      std::mt19937 r(5);
      for (int check = 0; check < 300; ++check) {
        int64_t i = r() % m, j = r() % n;
        Exact<T> want = sum(k, [&](int64_t p) { return exact(left.get(i, p)) * exact(right.get(p, j)); });
        expect_near<T>(c(i, j), exact(old(i, j)) + exact(T(scale)) * want, 8 + static_cast<long double>(k) / 3, "product");
      }
    }
}

// ---- decompositions; each checks itself by putting the matrix together again

template <class T>
void check_lu(int64_t m, int64_t n, bool by_rows, int64_t batch) {
  int64_t k = std::min(m, n);
  Owned<T> all = random<T>(m, n * batch, static_cast<unsigned>(m * 31 + n));
  std::vector<T> lu(all.memory.size()), from(all.memory.size());
  for (int64_t b = 0; b < batch; ++b)
    copy(device(0), matrix_of<T>(all.memory.data(), b, m, n), matrix_of<T>(from.data(), b, m, n, by_rows));
  std::vector<int32_t> pivots(static_cast<size_t>(k * batch)), info(static_cast<size_t>(batch), -1);
  void* buffers[] = {lu.data(), pivots.data(), info.data(), from.data()};
  int64_t ints[] = {batch, m, n, code<T>(), by_rows};
  builtin_lu(buffers, nullptr, ints, device(0));
  std::vector<int64_t> order(static_cast<size_t>(m * batch));
  void* more[] = {order.data(), pivots.data()};
  int64_t sizes[] = {batch, m, k};
  builtin_permutation(more, nullptr, sizes, device(0));
  for (int64_t b = 0; b < batch; ++b) {
    ASSERT_EQ(info[b], 0);
    Matrix<T> f = matrix_of<T>(lu.data(), b, m, n), a = matrix_of<T>(all.memory.data(), b, m, n);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        if (j < i) ASSERT_LE(std::abs(f(i, j)), is_complex<T> ? 1.5 : 1) << "a pivot was not the greatest";
        Exact<T> have = sum(std::min({i, j + 1, k}), [&](int64_t p) { return exact(f(i, p)) * exact(f(p, j)); });
        if (i <= j) have += exact(f(i, j));
        expect_near<T>(have, a(order[b * m + i], j), 4 * static_cast<long double>(k) + 4, "p l u");
      }
  }
}

TYPED_TEST(Linalg, Lu) {
  for (auto [m, n] : {std::pair<int64_t, int64_t>{1, 1}, {3, 3}, {8, 8}, {5, 9}, {9, 5}, {40, 40}, {33, 100}, {100, 33}, {150, 150}})
    for (bool by_rows : {false, true}) check_lu<TypeParam>(m, n, by_rows, n < 10 ? 20 : 2);
}

TYPED_TEST(Linalg, LuOfASingularMatrix) {
  using T = TypeParam;
  T a[9] = {1, 2, 4, 2, 4, 8, 1, 1, 1}, lu[9];  // by columns: the second is twice the first
  int32_t pivots[3], info;
  void* buffers[] = {lu, pivots, &info, a};
  int64_t ints[] = {1, 3, 3, code<T>(), 0};
  builtin_lu(buffers, nullptr, ints, device(0));
  EXPECT_EQ(info, 2);
  EXPECT_EQ(pivots[0], 3);
}

TYPED_TEST(Linalg, TriangularSystems) {
  using T = TypeParam;
  for (int64_t n : {1, 7, 32, 33, 80})
    for (int64_t others : {1, 2, 5, 70})
      for (int flags = 0; flags < 32; ++flags) {
        bool left = flags & 1, upper = flags & 2, unit = flags & 4, a_rows = flags & 8, b_rows = flags & 16;
        int64_t rows = left ? n : others, cols = left ? others : n;
        Owned<T> a = random<T>(n, n, 1, a_rows), b = random<T>(rows, cols, 2, b_rows), x(rows, cols);
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < n; ++j) {
            if (i == j) a(i, j) = unit ? nan<T>() : T(2) + a(i, j);
            else if (upper ? i > j : i < j) a(i, j) = nan<T>();
            else a(i, j) /= static_cast<Real<T>>(n);
          }
        void* buffers[] = {x.memory.data(), a.memory.data(), b.memory.data()};
        int64_t ints[] = {1, n, rows, cols, code<T>(), left, upper, unit, a_rows, b_rows};
        builtin_triangular_solve(buffers, nullptr, ints, device(0));
        auto element = [&](int64_t i, int64_t j) -> Exact<T> {
          return i == j && unit ? Exact<T>(1) : (upper ? i > j : i < j) ? Exact<T>(0) : exact(a(i, j));
        };
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < cols; ++j) {
            Exact<T> have = sum(n, [&](int64_t p) { return left ? element(i, p) * exact(x(p, j)) : exact(x(i, p)) * element(p, j); });
            expect_near<T>(have, b(i, j), 30, "a x");
          }
      }
}

TYPED_TEST(Linalg, SystemsFromLu) {
  using T = TypeParam;
  for (int64_t n : {1, 9, 75})
    for (int flags = 0; flags < 4; ++flags) {
      bool adjoint = flags & 1, b_rows = flags & 2;
      Owned<T> a = random<T>(n, n, 3), lu(n, n), b = random<T>(n, 4, 4, b_rows), x(n, 4);
      for (int64_t i = 0; i < n; ++i) a((i + 2) % n, i) += 3;  // far from singular, and its rows trade places
      std::vector<int32_t> pivots(static_cast<size_t>(n));
      int32_t info;
      void* first[] = {lu.memory.data(), pivots.data(), &info, a.memory.data()};
      int64_t sizes[] = {1, n, n, code<T>(), 0};
      builtin_lu(first, nullptr, sizes, device(0));
      void* buffers[] = {x.memory.data(), lu.memory.data(), pivots.data(), b.memory.data()};
      int64_t ints[] = {1, n, 4, code<T>(), adjoint, 0, b_rows};
      builtin_lu_solve(buffers, nullptr, ints, device(0));
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < 4; ++j)
          expect_near<T>(sum(n, [&](int64_t p) { return exact(adjoint ? conjugate(a(p, i)) : a(i, p)) * exact(x(p, j)); }), b(i, j),
                         20 * static_cast<long double>(n), "a x");
    }
}

TYPED_TEST(Linalg, Cholesky) {
  using T = TypeParam;
  for (int64_t n : {1, 4, 32, 33, 150})
    for (int flags = 0; flags < 4; ++flags) {
      bool upper = flags & 1, by_rows = flags & 2;
      Owned<T> m = random<T>(n, n, 5), a(n, n, by_rows), l(n, n);
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) {
          Exact<T> square = sum(n, [&](int64_t p) { return exact(m(i, p)) * exact(conjugate(m(j, p))); });
          a(i, j) = static_cast<T>(square / static_cast<long double>(n) + static_cast<long double>(i == j));
          if (upper ? i > j : i < j) a(i, j) = nan<T>();  // not read
        }
      int32_t info = -1;
      void* buffers[] = {l.memory.data(), &info, a.memory.data()};
      int64_t ints[] = {1, n, code<T>(), upper, by_rows};
      builtin_cholesky(buffers, nullptr, ints, device(0));
      ASSERT_EQ(info, 0);
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) {
          if (upper ? i > j : i < j) {
            ASSERT_EQ(l(i, j), T(0));
            continue;
          }
          Exact<T> have = sum(std::min(i, j) + 1, [&](int64_t p) {
            return upper ? exact(conjugate(l(p, i))) * exact(l(p, j)) : exact(l(i, p)) * exact(conjugate(l(j, p)));
          });
          expect_near<T>(have, a(i, j), 60, "l l^H");
        }
      if (int64_t bad = n / 2; n > 1) {
        a(bad, bad) = -1;
        builtin_cholesky(buffers, nullptr, ints, device(0));
        EXPECT_EQ(info, bad + 1);
      }
    }
}

TYPED_TEST(Linalg, Qr) {
  using T = TypeParam;
  for (auto [m, n] : {std::pair<int64_t, int64_t>{1, 1}, {4, 4}, {7, 3}, {3, 7}, {50, 40}, {40, 90}, {130, 100}})
    for (bool by_rows : {false, true}) {
      int64_t k = std::min(m, n);
      Owned<T> a = random<T>(m, n, 6, by_rows), v(m, n), q(m, m), x(m, n), back(n, m);
      std::vector<T> tau(static_cast<size_t>(k));
      void* buffers[] = {v.memory.data(), tau.data(), a.memory.data()};
      int64_t ints[] = {1, m, n, code<T>(), by_rows};
      builtin_qr(buffers, nullptr, ints, device(0));
      EXPECT_TRUE(m == 1 || std::signbit(real_part(v(0, 0))) != std::signbit(real_part(a(0, 0)))) << "the diagonal of R has the other sign";
      void* product[] = {q.memory.data(), v.memory.data(), tau.data()};
      int64_t sizes[] = {1, m, n, m, k, code<T>()};
      builtin_householder_product(product, nullptr, sizes, device(0));
      long double scale = 8 + 2 * static_cast<long double>(m);
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < m; ++j)
          expect_near<T>(sum(m, [&](int64_t p) { return exact(conjugate(q(p, i))) * exact(q(p, j)); }), T(i == j), scale, "q^H q");
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j)
          expect_near<T>(sum(std::min(j + 1, k), [&](int64_t p) { return exact(q(i, p)) * exact(v(p, j)); }), a(i, j), scale, "q r");
      // The same product, applied: q^H a = r, from the left, and (a^H q)^H = r from the right.
      Owned<T> at(n, m, !by_rows);
      at.memory = a.memory;
      conjugate_all(at.view());
      void* left[] = {x.memory.data(), v.memory.data(), tau.data(), a.memory.data()};
      int64_t left_ints[] = {1, m, n, k, m, n, code<T>(), 1, 1, by_rows};
      builtin_householder_apply(left, nullptr, left_ints, device(0));
      void* right[] = {back.memory.data(), v.memory.data(), tau.data(), at.memory.data()};
      int64_t right_ints[] = {1, m, n, k, n, m, code<T>(), 0, 0, !by_rows};
      builtin_householder_apply(right, nullptr, right_ints, device(0));
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          expect_near<T>(x(i, j), i <= j ? v(i, j) : T(0), scale, "q^H a");
          expect_near<T>(conjugate(back(j, i)), i <= j ? v(i, j) : T(0), scale, "a^H q");
        }
    }
}

/// The matrix that P1 L1 P2 L2 .. D .. L2^T P2^T L1^T P1^T stands for, put together from its last pivot to its first; or with adjoints.
template <class T>
Owned<Exact<T>> undo_ldl(Owned<T>& ld, const std::vector<int32_t>& pivots, bool hermitian) {
  using E = Exact<T>;
  auto across = [&](E x) { return hermitian ? conjugate(x) : x; };
  int64_t n = ld.rows;
  Owned<E> a(n, n);
  for (int64_t end = n; end > 0;) {
    bool two = pivots[end - 1] < 0;
    int64_t k = end - 1 - two, other = std::abs(pivots[end - 1]) - 1;
    E below = two ? exact(ld(k + 1, k)) : E(0);
    E d[2][2] = {{exact(ld(k, k)), across(below)}, {below, two ? exact(ld(k + 1, k + 1)) : E(0)}};
    auto l = [&](int64_t i, int64_t p) { return i == k + p ? E(1) : i >= end ? exact(ld(i, k + p)) : E(0); };
    for (int64_t i = k; i < n; ++i)
      for (int64_t j = k; j < n; ++j)
        for (int p = 0; p <= two; ++p)
          for (int q = 0; q <= two; ++q) a(i, j) += l(i, p) * d[p][q] * across(l(j, q));
    for (int64_t i = 0; i < n; ++i) std::swap(a(i, k + two), a(i, other));
    for (int64_t i = 0; i < n; ++i) std::swap(a(k + two, i), a(other, i));
    end = k;
  }
  return a;
}

/// Returns how many rows had pivots of two.
template <class T>
int check_ldl(int64_t n, bool by_rows, bool hermitian) {
  Owned<T> a = random<T>(n, n, 11, by_rows), ld(n, n), b = random<T>(n, 3, 12), x(n, 3);
  auto element = [&](int64_t i, int64_t j) {
    T e = i >= j ? a(i, j) : hermitian ? conjugate(a(j, i)) : a(j, i);
    return exact(i == j && hermitian ? T(real_part(e)) : e);  // the diagonal's imaginary part is not read
  };
  for (int64_t i = 0; i < n; ++i) a(i, i) /= 8;
  std::vector<int32_t> pivots(static_cast<size_t>(n));
  int32_t info = -1, two_rows = 0;
  void* buffers[] = {ld.memory.data(), pivots.data(), &info, a.memory.data()};
  int64_t ints[] = {1, n, code<T>(), hermitian, by_rows};
  builtin_ldl(buffers, nullptr, ints, device(0));
  EXPECT_EQ(info, 0);
  for (int32_t p : pivots) two_rows += p < 0;
  Owned<Exact<T>> back = undo_ldl(ld, pivots, hermitian);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j) expect_near<T>(back(i, j), element(i, j), 20 * static_cast<long double>(n), "l d l^T");
  void* system[] = {x.memory.data(), ld.memory.data(), pivots.data(), b.memory.data()};
  int64_t sizes[] = {1, n, 3, code<T>(), hermitian, 0, 0};
  builtin_ldl_solve(system, nullptr, sizes, device(0));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < 3; ++c) {
      long double most = 1;
      for (int64_t p = 0; p < n; ++p) most = std::max(most, std::abs(exact(x(p, c))));
      Exact<T> have = sum(n, [&](int64_t p) { return element(i, p) * exact(x(p, c)); });
      expect_near<T>(have, b(i, c), 40 * static_cast<long double>(n) * most, "a x");
    }
  return two_rows;
}

TYPED_TEST(Linalg, Ldl) {
  for (bool hermitian : {false, true}) {
    int two_rows = 0;
    for (int64_t n : {1, 2, 5, 30})
      for (bool by_rows : {false, true}) two_rows += check_ldl<TypeParam>(n, by_rows, hermitian);
    EXPECT_GT(two_rows, 4);
  }
}

TYPED_TEST(Linalg, ReflectionsOfTinyAndHugeColumns) {
  using T = TypeParam;
  using R = Real<T>;
  for (R size : {std::numeric_limits<R>::denorm_min() * 64, std::numeric_limits<R>::min(), std::numeric_limits<R>::max() / 16}) {
    T a[3] = {size * 2, size * 3, size * 6}, v[3], tau;
    void* buffers[] = {v, &tau, a};
    int64_t ints[] = {1, 3, 1, code<T>(), 0};
    builtin_qr(buffers, nullptr, ints, device(0));
    EXPECT_NEAR(real_part(v[0]) / size, R(-7), 7e-2) << size;
    EXPECT_NEAR(real_part(tau), R(9) / 7, 2e-2);
  }
  T a[3] = {5, 0, 0}, v[3], tau = 9;
  void* buffers[] = {v, &tau, a};
  int64_t ints[] = {1, 3, 1, code<T>(), 0};
  builtin_qr(buffers, nullptr, ints, device(0));
  EXPECT_EQ(v[0], T(5));
  EXPECT_EQ(tau, T(0)) << "nothing to reflect";
}

TYPED_TEST(Linalg, AReflectionMakesTheDiagonalReal) {
  using T = TypeParam;
  if constexpr (is_complex<T>) {
    T a[2] = {{0, 2}, {0, 0}}, v[2], tau;
    void* buffers[] = {v, &tau, a};
    int64_t ints[] = {1, 2, 1, code<T>(), 0};
    builtin_qr(buffers, nullptr, ints, device(0));
    EXPECT_EQ(v[0], T(-2));
    EXPECT_EQ(tau, T(1, 1)) << "conj(tau) 2i = 2i + 2";
  }
}

}  // namespace
}  // namespace tiny
