// Singular values and vectors: a tall matrix is first reduced to its R; Householder bidiagonalisation, then QR steps.
// Source: G. Golub, C. Van Loan, Matrix Computations, 4th ed., sections 5.4.8, 5.4.9 and 8.6.3.
#include <numeric>
#include <vector>

#include "runtime/builtin/bidiagonal.h"
#include "runtime/builtin/builtin.h"
#include "runtime/builtin/householder.h"
#include "runtime/builtin/loops.h"

namespace tiny {
namespace {

constexpr double kTall = 1.8;  // rows for each column from which QR first pays

template <class T>
Matrix<T> matrix_in(std::vector<T>& memory, int64_t rows, int64_t cols) {
  memory.assign(static_cast<size_t>(rows * cols), T{});
  return {memory.data(), rows, cols, 1, rows};
}

/// a [m, n], m >= n, becomes Q B P^H: d and e are the diagonals of B. The reflections of Q lie below a's diagonal, those of P below that of
/// right [n, n] from its row 1 on.
template <class T>
void bidiagonalise(Matrix<T> a, Real<T>* d, Real<T>* e, T* left_tau, Matrix<T> right, T* right_tau) {
  int64_t n = a.cols;
  std::vector<T> memory(static_cast<size_t>(2 * a.rows + 2 * n));
  T *v = memory.data(), *p = v + a.rows, *z = p + a.rows, *minus = z + n;  // p behind v: columns of one matrix
  for (int64_t k = 0; k < n; ++k) {
    int64_t m = a.rows - k, c = n - k - 1;
    T* column = &a(k, k);
    left_tau[k] = reflection(m, column);
    d[k] = real_part(column[0]);
    if (c == 0) break;
    v[0] = 1, std::copy(column + 1, column + m, v + 1);
    Matrix<T> rest = a.block(k, k + 1, m, c);
    inner_products(m, c, rest.data, rest.across, v, z);
    for (int64_t j = 0; j < c; ++j) z[j] *= conjugate(left_tau[k]);
    T* u = &right(k + 1, k);
    for (int64_t j = 0; j < c; ++j) u[j] = conjugate(rest(0, j) - z[j]);
    right_tau[k] = reflection(c, u);
    e[k] = real_part(u[0]);
    T one = u[0], across = 0;
    u[0] = 1;
    for (int64_t j = 0; j < c; ++j) minus[j] = -u[j], across -= z[j] * u[j];
    for (int64_t i = 0; i < m; ++i) p[i] = across * v[i];
    subtract_columns(m, c, rest.data, rest.across, minus, p);
    for (int64_t i = 0; i < m; ++i) p[i] *= right_tau[k];
    for (int64_t j = 0; j < c; ++j) {
      const T factors[] = {z[j], conjugate(u[j])};
      subtract_columns(m - 1, 2, v + 1, a.rows, factors, &rest(1, j));
    }
    u[0] = one;
  }
}

/// a [m, n], m >= n, of which nothing stays: its singular values, falling, and their vectors as columns; without them u.data is null.
template <class T>
bool decompose_tall(Device& device, Matrix<T> a, Real<T>* values, Matrix<T> u, Matrix<T> v) {
  using R = Real<T>;
  int64_t m = a.rows, n = a.cols;
  constexpr int64_t kParts = 1 + is_complex<T>;
  std::vector<T> first_tau, upper_memory, right_memory, tau(static_cast<size_t>(2 * n)), left_memory, vectors_memory;
  std::vector<R> d(static_cast<size_t>(n)), e(static_cast<size_t>(n));
  bool tall = static_cast<double>(m) > kTall * static_cast<double>(n);
  Matrix<T> core = a, right = matrix_in(right_memory, n, n);
  if (tall) {
    first_tau.resize(static_cast<size_t>(n));
    factor_qr(device, a, first_tau.data());
    core = matrix_in(upper_memory, n, n);
    for (int64_t j = 0; j < n; ++j) std::copy_n(&a(0, j), j + 1, &core(0, j));
  }
  bidiagonalise(core, d.data(), e.data(), tau.data(), right, tau.data() + n);
  bool vectors = u.data != nullptr;
  Matrix<T> left, q;
  if (vectors) {
    left = matrix_in(left_memory, m, u.cols), q = matrix_in(vectors_memory, n, n);
    for (int64_t i = 0; i < u.cols; ++i) left(i, i) = 1;
    for (int64_t i = 0; i < n; ++i) q(i, i) = 1;
    Matrix<T> block = tall ? left.block(0, 0, n, n) : left;
    apply_reflections(device, core, tau.data(), n, block, false, true);
    apply_reflections(device, right.block(1, 0, n - 1, n), tau.data() + n, n - 1, q.block(1, 1, n - 1, n - 1), false, true);
  }
  int64_t rows = vectors ? (tall ? n : m) : 0;
  Rotations<R> of_left(reinterpret_cast<R*>(left.data), rows * kParts, m * kParts);
  Rotations<R> of_right(reinterpret_cast<R*>(q.data), vectors ? n * kParts : 0, n * kParts);
  if (!diagonalise(n, d.data(), e.data(), of_left, of_right)) return false;
  if (vectors && tall) apply_reflections(device, a, first_tau.data(), n, left, false, false);
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return std::abs(d[i]) > std::abs(d[j]); });
  for (int64_t j = 0; j < n; ++j) {
    int64_t from = order[j];
    values[j] = std::abs(d[from]);
    if (!vectors) continue;
    std::copy_n(&left(0, from), m, &u(0, j));
    for (int64_t i = 0; i < n; ++i) v(i, j) = std::signbit(d[from]) ? -q(i, from) : q(i, from);
  }
  for (int64_t j = n; vectors && j < u.cols; ++j) std::copy_n(&left(0, j), m, &u(0, j));
  return true;
}

/// u s v^H = from, with as many columns of u and v as these have.
template <class T>
bool decompose(Device& device, Matrix<T> from, Real<T>* values, Matrix<T> u, Matrix<T> vh) {
  if (from.rows < from.cols) return decompose(device, from.adjoint(), values, vh.adjoint(), u.adjoint());
  std::vector<T> a_memory, u_memory, v_memory;
  Matrix<T> a = matrix_in(a_memory, from.rows, from.cols);
  copy(device, Matrix<T>{from.data, from.rows, from.cols, from.down, from.across}, a);
  if (from.conjugated) conjugate_all(a);
  Real<T> scale = scale_of(a);
  if (scale == 0) return false;
  for (T& x : a_memory) x *= scale;
  Matrix<T> left, right;
  if (u.data) left = matrix_in(u_memory, u.rows, u.cols), right = matrix_in(v_memory, from.cols, from.cols);
  if (!decompose_tall(device, a, values, left, right)) return false;
  for (int64_t i = 0; i < from.cols; ++i) values[i] /= scale;
  if (!u.data) return true;
  if (u.conjugated) conjugate_all(left);
  if (!vh.conjugated) conjugate_all(right);
  copy(device, left, u), copy(device, right.transposed(), vh);
  return true;
}

template <class T>
void svd(void* const* buffers, const int64_t* ints, Device& device) {
  using R = Real<T>;
  int64_t batch = ints[0], rows = ints[1], cols = ints[2], least = std::min(rows, cols);
  bool full = ints[4], vectors = ints[5], by_rows = ints[6];
  int64_t u_cols = full ? rows : least, v_rows = full ? cols : least;
  void *values = buffers[0], *infos = buffers[1 + 2 * vectors], *from = buffers[2 + 2 * vectors];
  double work = (vectors ? 20.0 : 3.0) * static_cast<double>(rows * cols) * static_cast<double>(least);
  for_each_matrix(device, batch, work, [&](int64_t i) {
    Matrix<T> u, vh;
    if (vectors) u = matrix_of<T>(buffers[1], i, rows, u_cols), vh = matrix_of<T>(buffers[2], i, v_rows, cols);
    R* s = static_cast<R*>(values) + i * least;
    bool good = decompose(device, matrix_of<T>(from, i, rows, cols, by_rows), s, u, vh);
    static_cast<int32_t*>(infos)[i] = !good;
    if (good) return;
    const R nan = std::numeric_limits<R>::quiet_NaN();
    std::fill_n(s, least, nan);
    if (vectors) std::fill_n(u.data, rows * u_cols, T(nan)), std::fill_n(vh.data, v_rows * cols, T(nan));
  });
}

}  // namespace

void builtin_svd(void* const* buffers, const uint64_t*, const int64_t* ints, Device& device) {
  with_element(ints[3], [&](auto zero) { svd<decltype(zero)>(buffers, ints, device); });
}

}  // namespace tiny
