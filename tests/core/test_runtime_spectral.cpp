// Eigenvalues and singular values against their definitions, computed in long double: what is decomposed is put together again.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <random>

#include "runtime/builtin/builtin.h"
#include "runtime/builtin/matrix.h"

namespace tiny {
namespace {

const bool kDevicesSet = setenv("TINY_DEVICE", "CPU,REF", 1) == 0;

using Wide = std::complex<long double>;

template <class T>
class Spectral : public ::testing::Test {};
using Elements = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Spectral, Elements);

template <class T>
int64_t code() {
  return static_cast<int64_t>(std::is_same_v<Real<T>, float> ? DType::f32 : DType::f64) | (is_complex<T> ? kComplexElement : 0);
}

template <class T>
std::vector<T> random(int64_t n, unsigned seed) {
  std::mt19937 r(seed);
  std::normal_distribution<double> d;
  std::vector<T> v(static_cast<size_t>(n));
  for (T& x : v) {
    if constexpr (is_complex<T>) x = T(static_cast<Real<T>>(d(r)), static_cast<Real<T>>(d(r)));
    else x = static_cast<T>(d(r));
  }
  return v;
}

/// The greatest difference from the unit matrix of m^H m.
template <class T>
long double not_orthogonal(Matrix<T> m) {
  long double most = 0;
  for (int64_t i = 0; i < m.cols; ++i)
    for (int64_t j = 0; j < m.cols; ++j) {
      Wide x = i == j ? -1 : 0;
      for (int64_t p = 0; p < m.rows; ++p) x += std::conj(Wide(m(p, i))) * Wide(m(p, j));
      most = std::max(most, std::abs(x));
    }
  return most;
}

/// left d right^H, element by element at most `bound` from a.
template <class T>
void expect_product(Matrix<T> left, const std::vector<Real<T>>& d, Matrix<T> right, Matrix<T> a, long double bound) {
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.cols; ++j) {
      Wide x = 0;
      for (size_t p = 0; p < d.size(); ++p) x += Wide(left(i, p)) * Wide(d[p]) * std::conj(Wide(right.get(j, p)));
      ASSERT_LE(std::abs(x - Wide(a(i, j))), bound) << i << ", " << j;
    }
}

template <class T>
constexpr long double kEps = std::numeric_limits<Real<T>>::epsilon();

/// The triangle that is not read holds NaN; `size`: of the matrix.
template <class T>
void check_eigh(std::vector<T> square, int64_t n, bool upper, bool by_rows, Real<T> size = 1) {
  using R = Real<T>;
  std::vector<T> from(square.size()), v(square.size());
  std::vector<R> w(static_cast<size_t>(n)), alone(static_cast<size_t>(n));
  Matrix<T> a = matrix_of<T>(square.data(), 0, n, n), given = matrix_of<T>(from.data(), 0, n, n, by_rows);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i <= j; ++i) {
      a(i, j) = i == j ? T(real_part(a(i, j)) * size) : a(i, j) * size, a(j, i) = conjugate(a(i, j));
      given(i, j) = upper || i == j ? a(i, j) : T(std::numeric_limits<R>::quiet_NaN());
      given(j, i) = !upper || i == j ? a(j, i) : T(std::numeric_limits<R>::quiet_NaN());
    }
  long double most = 0;
  for (T x : square) most = std::max<long double>(most, std::abs(x));
  int32_t info = -1;
  void* buffers[] = {w.data(), v.data(), &info, from.data()};
  int64_t ints[] = {1, n, code<T>(), upper, 1, by_rows};
  builtin_eigh(buffers, nullptr, ints, device(0));
  ASSERT_EQ(info, 0);
  Matrix<T> vectors = matrix_of<T>(v.data(), 0, n, n);
  ASSERT_LE(not_orthogonal(vectors), (8 + static_cast<long double>(n)) * kEps<T>);
  expect_product(vectors, w, vectors, a, (8 + 2 * static_cast<long double>(n)) * kEps<T> * most);
  for (int64_t i = 1; i < n; ++i) ASSERT_LE(w[i - 1], w[i]);
  void* values[] = {alone.data(), &info, from.data()};
  ints[4] = 0;
  builtin_eigh(values, nullptr, ints, device(0));
  ASSERT_EQ(alone, w);
}

TYPED_TEST(Spectral, Eigenvalues) {
  for (int64_t n : {1, 2, 3, 9, 40, 101})
    for (int flags = 0; flags < 4; ++flags) check_eigh<TypeParam>(random<TypeParam>(n * n, 3), n, flags & 1, flags & 2);
}

TYPED_TEST(Spectral, EigenvaluesOfSpecialMatrices) {
  using T = TypeParam;
  using R = Real<T>;
  const int64_t n = 12;
  std::vector<T> zero(n * n), ones(n * n, T(1)), unit(n * n), graded(n * n), split = random<T>(n * n, 5);
  for (int64_t i = 0; i < n; ++i) {
    unit[i * n + i] = 3;
    for (int64_t j = 0; j < n; ++j) graded[i * n + j] = std::pow(R(0.1), static_cast<R>(std::max(i, j)));
    split[i * n + 6] = split[6 * n + i] = 0;
  }
  for (auto& m : {zero, ones, unit, graded, split}) check_eigh<T>(m, n, false, false);
  std::reverse(graded.begin(), graded.end());
  check_eigh<T>(graded, n, false, false);
  for (R size : {std::numeric_limits<R>::min() * 64, std::numeric_limits<R>::max() / 256})
    check_eigh<T>(random<T>(n * n, 6), n, true, false, size);
}

TYPED_TEST(Spectral, WhatIsNotFiniteIsNaN) {
  using T = TypeParam;
  using R = Real<T>;
  std::vector<T> a(8, T(1)), v(8), u(8), vh(8);  // two matrices
  a[5] = T(std::numeric_limits<R>::infinity());
  R w[4] = {}, s[4] = {};
  int32_t info[2] = {-1, -1};
  void* buffers[] = {w, v.data(), info, a.data()};
  int64_t ints[] = {2, 2, code<T>(), 0, 1, 0};
  builtin_eigh(buffers, nullptr, ints, device(0));
  EXPECT_EQ(info[0], 0);
  EXPECT_EQ(info[1], 1);
  EXPECT_NEAR(w[1], 2, 1e-5);
  EXPECT_TRUE(std::isnan(w[2]) && std::isnan(w[3]) && std::isnan(real_part(v[7])));
  void* more[] = {s, u.data(), vh.data(), info, a.data()};
  int64_t sizes[] = {2, 2, 2, code<T>(), 0, 1, 0};
  builtin_svd(more, nullptr, sizes, device(0));
  EXPECT_EQ(info[0], 0);
  EXPECT_EQ(info[1], 1);
  EXPECT_NEAR(s[0], 2, 1e-5);
  EXPECT_TRUE(std::isnan(s[2]) && std::isnan(s[3]) && std::isnan(real_part(u[4])) && std::isnan(real_part(vh[4])));
}

template <class T>
void check_svd(std::vector<T> values, int64_t m, int64_t n, bool full, bool by_rows) {
  using R = Real<T>;
  int64_t k = std::min(m, n), u_cols = full ? m : k, v_rows = full ? n : k;
  std::vector<T> from(values.size()), u(static_cast<size_t>(m * u_cols)), vh(static_cast<size_t>(v_rows * n));
  Matrix<T> a = matrix_of<T>(values.data(), 0, m, n);
  copy(device(0), a, matrix_of<T>(from.data(), 0, m, n, by_rows));
  std::vector<R> s(static_cast<size_t>(k)), alone(static_cast<size_t>(k));
  long double most = 0;
  for (T x : values) most = std::max<long double>(most, std::abs(x));
  int32_t info = -1;
  void* buffers[] = {s.data(), u.data(), vh.data(), &info, from.data()};
  int64_t ints[] = {1, m, n, code<T>(), full, 1, by_rows};
  builtin_svd(buffers, nullptr, ints, device(0));
  ASSERT_EQ(info, 0);
  Matrix<T> left = matrix_of<T>(u.data(), 0, m, u_cols), right = matrix_of<T>(vh.data(), 0, v_rows, n).adjoint();
  long double size = static_cast<long double>(std::max(m, n));
  ASSERT_LE(not_orthogonal(left), (8 + size) * kEps<T>);
  ASSERT_LE(not_orthogonal(right), (8 + size) * kEps<T>);
  expect_product(left, s, right, a, (8 + 2 * size) * kEps<T> * most);
  for (int64_t i = 0; i < k; ++i) ASSERT_TRUE(s[i] >= 0 && (i == 0 || s[i] <= s[i - 1]));
  void* only[] = {alone.data(), &info, from.data()};
  ints[5] = 0;
  builtin_svd(only, nullptr, ints, device(0));
  for (int64_t i = 0; i < k; ++i) ASSERT_LE(std::abs(alone[i] - s[i]), 8 * kEps<T> * s[0]);
}

TYPED_TEST(Spectral, SingularValues) {
  using T = TypeParam;
  using Size = std::pair<int64_t, int64_t>;
  for (auto [m, n] : {Size{1, 1}, {2, 2}, {3, 3}, {9, 9}, {5, 3}, {3, 5}, {1, 6}, {60, 45}, {45, 60}, {90, 20}, {20, 90}})
    for (int flags = 0; flags < 4; ++flags) check_svd<T>(random<T>(m * n, 4), m, n, flags & 1, flags & 2);
}

TYPED_TEST(Spectral, SingularValuesOfSpecialMatrices) {
  using T = TypeParam;
  using R = Real<T>;
  const int64_t n = 12;
  std::vector<T> zero(n * n), ones(n * n, T(1)), unit(n * n), graded(n * n);
  std::vector<T> low = random<T>(n * n, 7), tiny = random<T>(n * n, 8), huge = tiny;
  for (int64_t i = 0; i < n; ++i) {
    unit[i * n + n - 1 - i] = 3;
    for (int64_t j = 0; j < n; ++j) graded[i * n + j] = std::pow(R(0.1), static_cast<R>(i + j));
    low[i * n + 3] = low[i * n + 5], low[7 * n + i] = 0;
  }
  for (T& x : tiny) x *= std::numeric_limits<R>::min() * 64;
  for (T& x : huge) x *= std::numeric_limits<R>::max() / 256;
  for (auto& m : {zero, ones, unit, graded, low, tiny, huge}) check_svd<T>(m, n, n, false, false);
  std::reverse(graded.begin(), graded.end());
  check_svd<T>(graded, n, n, false, false);
}

/// Small singular values of bidiagonal matrices keep their digits.
TYPED_TEST(Spectral, SmallSingularValues) {
  using T = TypeParam;
  using R = Real<T>;
  const int64_t n = 6;
  std::vector<T> a(n * n);
  for (int64_t i = 0; i < n; ++i) {
    a[i * n + i] = std::pow(R(10), -static_cast<R>(3 * i));
    if (i + 1 < n) a[(i + 1) * n + i] = a[i * n + i];
  }
  R s[n];
  int32_t info = -1;
  void* buffers[] = {s, &info, a.data()};
  int64_t ints[] = {1, n, n, code<T>(), 0, 0, 0};
  builtin_svd(buffers, nullptr, ints, device(0));
  ASSERT_EQ(info, 0);
  double ratio = 1;
  for (int64_t i = 0; i < n; ++i) ratio *= static_cast<double>(s[i]) / static_cast<double>(real_part(a[i * n + i]));
  EXPECT_NEAR(ratio, 1, 200 * static_cast<double>(std::numeric_limits<R>::epsilon())) << "the determinant";
}

}  // namespace
}  // namespace tiny
