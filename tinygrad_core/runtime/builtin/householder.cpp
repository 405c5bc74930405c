// Householder reflections H = I - tau v v^H, v with 1 in its first place, as LAPACK's geqrf leaves them: v below the diagonal of column
// after column. Blocks of kBlock reflections are applied at once, as I - V T V^H.
// Source: R. Schreiber, C. Van Loan, A storage-efficient WY representation for products of Householder transformations,
// SIAM J. Sci. Stat. Comput. 10 (1989); signs as LAPACK's larfg.
#include <limits>
#include <vector>

#include "runtime/builtin/builtin.h"
#include "runtime/builtin/gemm.h"
#include "runtime/builtin/householder.h"
#include "runtime/builtin/loops.h"

namespace tiny {
namespace {

constexpr int64_t kBlock = 32;

/// The length of x, also where squares would overflow or vanish.
template <class R>
R real_length(int64_t n, const R* x) {
  R sum = std::sqrt(dot(n, x, 1, x, 1));
  if (n == 0 || (sum > std::sqrt(std::numeric_limits<R>::min()) * 1024 && sum <= std::numeric_limits<R>::max()) || sum != sum) return sum;
  R most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, std::abs(x[i]));
  if (most == 0 || most > std::numeric_limits<R>::max()) return most;
  sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += (x[i] / most) * (x[i] / most);
  return most * std::sqrt(sum);
}
template <class T>
Real<T> length(int64_t n, const T* x) {
  return real_length(n * (1 + is_complex<T>), reinterpret_cast<const Real<T>*>(x));
}

/// tau of the reflection that takes alpha, above the rest of its column, to the real number beta.
template <class T>
T tau_of(T alpha, Real<T> beta) {
  if constexpr (is_complex<T>) return {(beta - alpha.real()) / beta, -alpha.imag() / beta};
  else return (beta - alpha) / beta;
}

}  // namespace

template <class T>
T reflection(int64_t n, T* x) {
  using R = Real<T>;
  R rest = length(n - 1, x + 1);
  if (rest == 0 && conjugate(x[0]) == x[0]) return 0;
  auto beta_of = [&] { return -std::copysign(length(n, x), real_part(x[0])); };
  R beta = beta_of();
  const R least = std::numeric_limits<R>::min() / std::numeric_limits<R>::epsilon();
  int times = 0;
  for (; std::abs(beta) < least && times < 20; ++times) {  // so small that 1 / (alpha - beta) would overflow
    for (int64_t i = 0; i < n; ++i) x[i] /= least;
    beta /= least;
  }
  if (times) beta = beta_of();
  T alpha = x[0], scale = T(1) / (alpha - beta);
  for (int64_t i = 1; i < n; ++i) x[i] *= scale;
  T tau = tau_of(alpha, beta);
  for (; times > 0; --times) beta *= least;
  x[0] = beta;
  return tau;
}

namespace {

/// The sum of conj(x[i]) * y[i].
template <class T>
T inner(int64_t n, const T* x, const T* y, int64_t y_step) {
  if constexpr (is_complex<T>) {
    T sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::conj(x[i]) * y[i * y_step];
    return sum;
  } else {
    return dot(n, x, 1, y, y_step);
  }
}

/// c = H c.
template <class T>
void reflect(const T* v_rest, T tau, Matrix<T> c) {
  for (int64_t j = 0; j < c.cols; ++j) {
    T sum = tau * (c(0, j) + inner(c.rows - 1, v_rest, &c(1, j), c.down));
    c(0, j) -= sum;
    for (int64_t i = 1; i < c.rows; ++i) c(i, j) -= v_rest[i - 1] * sum;
  }
}

/// The reflections in the columns of `v` as I - V T V^H, V with its ones and zeros written out.
template <class T>
struct Block {
  std::vector<T> v_memory, t_memory;
  Matrix<T> v, t;

  Block(Device& device, Matrix<T> columns, const T* tau) : v_memory(columns.rows * columns.cols), t_memory(columns.cols * columns.cols) {
    int64_t rows = columns.rows, n = columns.cols;
    v = {v_memory.data(), rows, n, 1, rows}, t = {t_memory.data(), n, n, 1, n};
    for (int64_t j = 0; j < n; ++j) {
      v(j, j) = 1;
      for (int64_t i = j + 1; i < rows; ++i) v(i, j) = columns(i, j);
    }
    std::vector<T> products(n * n);  // V^H V
    Matrix<T> p{products.data(), n, n, 1, n};
    add_product(device, Real<T>(1), v.adjoint(), v, p);
    for (int64_t j = 0; j < n; ++j) {
      t(j, j) = tau[j];
      for (int64_t i = 0; i < j; ++i) {
        T sum = 0;
        for (int64_t k = i; k < j; ++k) sum += t(i, k) * p(k, j);
        t(i, j) = -tau[j] * sum;
      }
    }
  }

  /// c = (H1 H2 ...) c, or the same with its adjoint.
  void apply(Device& device, Matrix<T> c, bool adjoint) const {
    if (c.cols == 0) return;
    std::vector<T> memory(2 * static_cast<size_t>(v.cols * c.cols));
    Matrix<T> w{memory.data(), v.cols, c.cols, 1, v.cols}, tw{memory.data() + v.cols * c.cols, v.cols, c.cols, 1, v.cols};
    add_product(device, Real<T>(1), v.adjoint(), c, w);
    add_product(device, Real<T>(1), adjoint ? t.adjoint() : t, w, tw);
    add_product(device, Real<T>(-1), v, tw, c);
  }
};

}  // namespace

template <class T>
void factor_qr(Device& device, Matrix<T> a, T* tau) {
  int64_t least = std::min(a.rows, a.cols);
  for (int64_t k = 0; k < least; k += kBlock) {
    int64_t n = std::min(kBlock, least - k), after = std::min(k + n, a.cols);
    for (int64_t j = k; j < k + n; ++j) {
      tau[j] = reflection(a.rows - j, &a(j, j));
      reflect(&a(j, j) + 1, conjugate(tau[j]), a.block(j, j + 1, a.rows - j, after - j - 1));
    }
    if (after < a.cols)
      Block<T>(device, a.block(k, k, a.rows - k, n), tau + k).apply(device, a.block(k, after, a.rows - k, a.cols - after), true);
  }
}

template <class T>
void apply_reflections(Device& device, Matrix<T> columns, const T* tau, int64_t n, Matrix<T> c, bool adjoint, bool from_diagonal) {
  int64_t width = n <= 8 ? 1 : kBlock, blocks = (n + width - 1) / width;
  for (int64_t b = 0; b < blocks; ++b) {
    int64_t k = (adjoint ? b : blocks - 1 - b) * width, some = std::min(width, n - k), left = from_diagonal ? k : 0;
    Matrix<T> target = c.block(k, left, c.rows - k, c.cols - left);
    if (width == 1) reflect(&columns(k, k) + 1, adjoint ? conjugate(tau[k]) : tau[k], target);
    else Block<T>(device, columns.block(k, k, columns.rows - k, some), tau + k).apply(device, target, adjoint);
  }
}

#define FOR_ELEMENT(T)                                                                                    \
  template T reflection<T>(int64_t, T*);                                                                  \
  template void apply_reflections<T>(Device&, Matrix<T>, const T*, int64_t, Matrix<T>, bool, bool);        \
  template void factor_qr<T>(Device&, Matrix<T>, T*);
FOR_ELEMENT(float)
FOR_ELEMENT(double)
FOR_ELEMENT(std::complex<float>)
FOR_ELEMENT(std::complex<double>)
#undef FOR_ELEMENT

namespace {

template <class T>
void qr(void* const* buffers, const int64_t* ints, Device& device) {
  int64_t batch = ints[0], rows = ints[1], cols = ints[2], least = std::min(rows, cols);
  bool by_rows = ints[4];
  for_each_matrix(device, batch, 2.0 * static_cast<double>(rows * cols) * static_cast<double>(least), [&](int64_t i) {
    Matrix<T> a = matrix_of<T>(buffers[0], i, rows, cols);
    copy(device, matrix_of<T>(buffers[2], i, rows, cols, by_rows), a);
    factor_qr(device, a, static_cast<T*>(buffers[1]) + i * least);
  });
}

template <class T>
void householder_product(void* const* buffers, const int64_t* ints, Device& device) {
  int64_t batch = ints[0], rows = ints[1], cols = ints[2], wanted = ints[3], n = ints[4];
  for_each_matrix(device, batch, 4.0 * static_cast<double>(rows * wanted) * static_cast<double>(n), [&](int64_t i) {
    Matrix<T> q = matrix_of<T>(buffers[0], i, rows, wanted);
    for (int64_t c = 0; c < wanted; ++c) {
      std::fill_n(&q(0, c), rows, T{});
      if (c < rows) q(c, c) = 1;
    }
    apply_reflections(device, matrix_of<T>(buffers[1], i, rows, cols), static_cast<const T*>(buffers[2]) + i * n, n, q, false, true);
  });
}

template <class T>
void householder_apply(void* const* buffers, const int64_t* ints, Device& device) {
  int64_t batch = ints[0], order = ints[1], cols = ints[2], n = ints[3], c_rows = ints[4], c_cols = ints[5];
  bool left = ints[7], transpose = ints[8], by_rows = ints[9];
  for_each_matrix(device, batch, 4.0 * static_cast<double>(c_rows * c_cols) * static_cast<double>(n), [&](int64_t i) {
    Matrix<T> c = matrix_of<T>(buffers[0], i, c_rows, c_cols);
    copy(device, matrix_of<T>(buffers[3], i, c_rows, c_cols, by_rows), c);
    if (!left) c = c.transposed(), conjugate_all(c);  // (c q)^H = q^H c^H
    const T* tau = static_cast<const T*>(buffers[2]) + i * n;
    apply_reflections(device, matrix_of<T>(buffers[1], i, order, cols), tau, n, c, left == transpose, false);
    if (!left) conjugate_all(c);
  });
}

}  // namespace

void builtin_qr(void* const* buffers, const uint64_t*, const int64_t* ints, Device& device) {
  with_element(ints[3], [&](auto zero) { qr<decltype(zero)>(buffers, ints, device); });
}

void builtin_householder_product(void* const* buffers, const uint64_t*, const int64_t* ints, Device& device) {
  with_element(ints[5], [&](auto zero) { householder_product<decltype(zero)>(buffers, ints, device); });
}

void builtin_householder_apply(void* const* buffers, const uint64_t*, const int64_t* ints, Device& device) {
  with_element(ints[6], [&](auto zero) { householder_apply<decltype(zero)>(buffers, ints, device); });
}

}  // namespace tiny
