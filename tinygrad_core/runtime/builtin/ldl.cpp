// Symmetric and Hermitian indefinite matrices: L D L^T or L D L^H with pivots of one or two rows, from the lower triangle, in the form of
// LAPACK's sytrf and hetrf.
// Source: J. Bunch, L. Kaufman, Some stable methods for calculating inertia and solving symmetric linear systems, Math. Comp. 31 (1977).
#include "runtime/builtin/builtin.h"
#include "runtime/builtin/matrix.h"

namespace tiny {
namespace {

/// What stands on the other side of the diagonal for x.
template <bool Hermitian, class T>
T across(T x) {
  if constexpr (Hermitian) return conjugate(x);
  else return x;
}
/// An element of the diagonal: of Hermitian matrices its imaginary part is not read.
template <bool Hermitian, class T>
T on_diagonal(T x) {
  if constexpr (Hermitian) return real_part(x);
  else return x;
}

/// Row and column i trade places with j > i in what is left of the lower triangle from column k on.
template <bool Hermitian, class T>
void exchange(Matrix<T> a, int64_t k, int64_t i, int64_t j) {
  for (int64_t r = j + 1; r < a.rows; ++r) std::swap(a(r, i), a(r, j));
  for (int64_t r = i + 1; r < j; ++r) {
    T x = across<Hermitian>(a(r, i));
    a(r, i) = across<Hermitian>(a(j, r)), a(j, r) = x;
  }
  a(j, i) = across<Hermitian>(a(j, i));
  std::swap(a(i, i), a(j, j));
  if (k < i) std::swap(a(i, k), a(j, k));
}

/// A pivot of rows k and k + 1 is taken out of the rest.
template <bool Hermitian, class T>
void eliminate_two(Matrix<T> a, int64_t k) {
  if (k + 2 >= a.rows) return;
  T between = a(k + 1, k), size = between, turn = 1;
  if constexpr (Hermitian) size = std::abs(between), turn = between / size;
  T last = a(k + 1, k + 1) / size, first = a(k, k) / size, scale = T(1) / (last * first - T(1)) / size;
  for (int64_t j = k + 2; j < a.rows; ++j) {
    T x = scale * (last * a(j, k) - turn * a(j, k + 1)), y = scale * (first * a(j, k + 1) - across<Hermitian>(turn) * a(j, k));
    const T u = across<Hermitian>(x), v = across<Hermitian>(y);
    for (int64_t i = j; i < a.rows; ++i) a(i, j) -= a(i, k) * u + a(i, k + 1) * v;
    a(j, k) = x, a(j, k + 1) = y, a(j, j) = on_diagonal<Hermitian>(a(j, j));
  }
}

template <bool Hermitian, class T>
void eliminate_one(Matrix<T> a, int64_t k) {
  T scale = T(1) / a(k, k);
  for (int64_t j = k + 1; j < a.rows; ++j) {
    T x = scale * across<Hermitian>(a(j, k));
    for (int64_t i = j; i < a.rows; ++i) a(i, j) -= a(i, k) * x;
    a(j, j) = on_diagonal<Hermitian>(a(j, j));
  }
  for (int64_t i = k + 1; i < a.rows; ++i) a(i, k) *= scale;
}

struct Choice {
  int64_t row;
  bool two;
};

/// The row that comes to the pivot of column k, or to the second place of a pivot of two rows; -1: the column is 0.
template <class T>
Choice choose(Matrix<T> a, int64_t k) {
  using R = Real<T>;
  const R alpha = (1 + std::sqrt(R(17))) / 8;
  R own = magnitude(a(k, k)), in_column = 0, in_row = 0;
  int64_t best = k;
  for (int64_t i = k + 1; i < a.rows; ++i)
    if (R v = magnitude(a(i, k)); v > in_column || (i == k + 1)) in_column = v, best = i;
  if (std::max(own, in_column) == 0 || own != own) return {-1, false};
  if (own >= alpha * in_column) return {k, false};
  for (int64_t j = k; j < best; ++j) in_row = std::max(in_row, magnitude(a(best, j)));
  for (int64_t i = best + 1; i < a.rows; ++i) in_row = std::max(in_row, magnitude(a(i, best)));
  if (own >= alpha * in_column * (in_column / in_row)) return {k, false};
  return {best, !(magnitude(a(best, best)) >= alpha * in_row)};
}

template <bool Hermitian, class T>
int32_t factor(Matrix<T> a, int32_t* pivots) {
  int64_t info = 0;
  for (int64_t k = 0; k < a.rows; ++k) a(k, k) = on_diagonal<Hermitian>(a(k, k));
  for (int64_t k = 0; k < a.rows;) {
    Choice c = choose(a, k);
    if (c.row < 0) {
      info = info ? info : k + 1;
      pivots[k] = static_cast<int32_t>(k + 1);
      ++k;
      continue;
    }
    int64_t place = k + c.two;
    if (c.row != place) exchange<Hermitian>(a, k, place, c.row);
    c.two ? eliminate_two<Hermitian>(a, k) : eliminate_one<Hermitian>(a, k);
    pivots[k] = static_cast<int32_t>(c.two ? -c.row - 1 : c.row + 1);
    if (c.two) pivots[k + 1] = pivots[k];
    k = place + 1;
  }
  return static_cast<int32_t>(info);
}

template <bool Hermitian, class T>
void solve(Matrix<T> a, const int32_t* pivots, Matrix<T> b) {
  int64_t n = a.rows;
  auto row_of = [&](int64_t k) { return std::clamp<int64_t>(std::abs(static_cast<int64_t>(pivots[k])) - 1, 0, n - 1); };
  auto trade = [&](int64_t i, int64_t j) {
    for (int64_t c = 0; c < b.cols && i != j; ++c) std::swap(b(i, c), b(j, c));
  };
  for (int64_t k = 0; k < n;) {
    bool two = pivots[k] < 0 && k + 1 < n;
    trade(k + two, row_of(k));
    for (int64_t c = 0; c < b.cols; ++c) {
      T x = b(k, c), y = two ? b(k + 1, c) : T(0);
      if (two) {
        for (int64_t i = k + 2; i < n; ++i) b(i, c) -= a(i, k) * x + a(i, k + 1) * y;
        T below = a(k + 1, k), above = across<Hermitian>(below);
        T first = on_diagonal<Hermitian>(a(k, k)) / above, last = on_diagonal<Hermitian>(a(k + 1, k + 1)) / below, d = first * last - T(1);
        x /= above, y /= below;
        b(k, c) = (last * x - y) / d, b(k + 1, c) = (first * y - x) / d;
      } else {
        for (int64_t i = k + 1; i < n; ++i) b(i, c) -= a(i, k) * x;
        b(k, c) = x / on_diagonal<Hermitian>(a(k, k));
      }
    }
    k += 1 + two;
  }
  for (int64_t k = n - 1; k >= 0;) {
    bool two = pivots[k] < 0 && k > 0;
    for (int64_t c = 0; c < b.cols; ++c)
      for (int64_t i = k + 1; i < n; ++i) {
        b(k, c) -= across<Hermitian>(a(i, k)) * b(i, c);
        if (two) b(k - 1, c) -= across<Hermitian>(a(i, k - 1)) * b(i, c);
      }
    trade(k, row_of(k));
    k -= 1 + two;
  }
}

/// f(std::true_type) for Hermitian matrices, f(std::false_type) for symmetric ones.
template <class T, class F>
void with_form(bool hermitian, F f) {
  if constexpr (is_complex<T>) {
    if (hermitian) return f(std::true_type{});
  }
  f(std::false_type{});
}

template <class T>
void ldl(void* const* buffers, const int64_t* ints, Device& device) {
  int64_t batch = ints[0], n = ints[1];
  bool hermitian = ints[3], by_rows = ints[4];
  for_each_matrix(device, batch, static_cast<double>(n * n) * static_cast<double>(n) / 3, [&](int64_t i) {
    Matrix<T> a = matrix_of<T>(buffers[0], i, n, n);
    copy(device, matrix_of<T>(buffers[3], i, n, n, by_rows), a);
    with_form<T>(hermitian, [&](auto form) {
      static_cast<int32_t*>(buffers[2])[i] = factor<form()>(a, static_cast<int32_t*>(buffers[1]) + i * n);
    });
  });
}

template <class T>
void ldl_solve(void* const* buffers, const int64_t* ints, Device& device) {
  int64_t batch = ints[0], n = ints[1], cols = ints[2];
  bool hermitian = ints[4], a_by_rows = ints[5], b_by_rows = ints[6];
  for_each_matrix(device, batch, 2.0 * static_cast<double>(n * n) * static_cast<double>(cols), [&](int64_t i) {
    Matrix<T> x = matrix_of<T>(buffers[0], i, n, cols);
    copy(device, matrix_of<T>(buffers[3], i, n, cols, b_by_rows), x);
    with_form<T>(hermitian, [&](auto form) {
      solve<form()>(matrix_of<T>(buffers[1], i, n, n, a_by_rows), static_cast<const int32_t*>(buffers[2]) + i * n, x);
    });
  });
}

}  // namespace

void builtin_ldl(void* const* buffers, const uint64_t*, const int64_t* ints, Device& device) {
  with_element(ints[2], [&](auto zero) { ldl<decltype(zero)>(buffers, ints, device); });
}

void builtin_ldl_solve(void* const* buffers, const uint64_t*, const int64_t* ints, Device& device) {
  with_element(ints[3], [&](auto zero) { ldl_solve<decltype(zero)>(buffers, ints, device); });
}

}  // namespace tiny
