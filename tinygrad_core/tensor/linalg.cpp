#include "tensor/linalg.h"

#include "base/error.h"
#include "tensor/detail.h"
#include "tensor/spectral.h"

namespace tiny::linalg {
namespace {

using detail::call;

/// Matrices as a builtin gets them: a dense value, and whether they lie in it row by row. Those that a transposition makes dense lie column
/// by column; all others are dense as they are, or are made so.
struct Operand {
  Tensor value;
  bool by_rows;
};
Operand operand(const Matrices& x) {
  Tensor t = x.transposed().value;
  bool by_rows = !(x.value.node()->is(Op::VIEW) && !t.node()->is(Op::VIEW));
  return {by_rows ? x.value : t, by_rows};
}

int64_t batch_of(const Matrices& x) { return product(x.sizes({})); }
int64_t element(const Matrices& x) { return static_cast<int64_t>(x.dtype()) | (x.complex ? kComplexElement : 0); }

/// Sizes behind those of the batch of x, of pairs where its elements are.
Dims with_pairs(const Matrices& x, Dims sizes) {
  if (x.complex) sizes.push_back(2);
  return sizes;
}
/// Where a result of [.., m, n] lies column by column, and that result.
Dims columns(const Matrices& x, int64_t m, int64_t n) { return with_pairs(x, x.sizes({n, m})); }
Matrices from_columns(const Tensor& t, const Matrices& like) { return Matrices(t, like.complex).transposed(); }

Matrices nothing(const Matrices& x, int64_t m, int64_t n) { return {zeros(with_pairs(x, x.sizes({m, n})), x.dtype()), x.complex}; }

/// Ones on the diagonals of [.., m, n], of the batch and the elements of x.
Matrices unit(const Matrices& x, int64_t m, int64_t n) {
  Dims sizes = with_pairs(x, x.sizes({m, n}));
  if (product(sizes) == 0) return nothing(x, m, n);
  Tensor t = eq(iota(m).reshape({m, 1}), iota(n).reshape({1, n})).cast(x.dtype());
  if (x.complex) t = t.unsqueeze(-1) * eq(iota(2), constant(DType::i64, int64_t{0})).cast(x.dtype());
  return {t.expand(sizes), x.complex};
}

void check(const Matrices& x) { TINY_ASSERT(x.dtype() == DType::f32 || x.dtype() == DType::f64, "matrices of f32 or f64"); }

}  // namespace

Dims Matrices::sizes(std::initializer_list<int64_t> last) const {
  Dims d(value.sizes().begin(), value.sizes().end() - 2 - complex);
  for (int64_t n : last) d.push_back(n);
  return d;
}

Lu lu(const Matrices& a) {
  check(a);
  int64_t m = a.rows(), n = a.cols();
  Dims pivots = a.sizes({std::min(m, n)}), info = a.sizes({});
  if (a.empty()) return {a, zeros(pivots, DType::i32), zeros(info, DType::i32)};
  Operand x = operand(a);
  auto r = call(BuiltinName::lu, {x.value}, {batch_of(a), m, n, element(a), x.by_rows},
                {{a.dtype(), columns(a, m, n)}, {DType::i32, pivots}, {DType::i32, info}});
  return {from_columns(r[0], a), r[1], r[2]};
}

Matrices lu_solve(const Matrices& factors, const Tensor& pivots, const Matrices& b, bool adjoint) {
  check(factors);
  int64_t n = b.rows(), cols = b.cols();
  if (b.empty()) return nothing(b, n, cols);
  Operand a = operand(factors), y = operand(b);
  Dims ints{batch_of(b), n, cols, element(b), adjoint, a.by_rows, y.by_rows};
  return from_columns(call(BuiltinName::lu_solve, {a.value, pivots, y.value}, ints, {{b.dtype(), columns(b, n, cols)}})[0], b);
}

Tensor permutation(const Tensor& pivots, int64_t rows) {
  Dims sizes = pivots.sizes();
  int64_t n = sizes.back();
  sizes.back() = rows;
  if (product(sizes) == 0) return zeros(sizes, DType::i64);
  if (n == 0) return iota(rows).expand(sizes);
  return call(BuiltinName::permutation, {pivots}, {pivots.numel() / n, rows, n}, {{DType::i64, sizes}})[0];
}

Matrices solve_triangular(const Matrices& a, const Matrices& b, Triangle t, bool left) {
  check(a);
  int64_t m = b.rows(), n = b.cols();
  if (b.empty()) return nothing(b, m, n);
  Operand x = operand(a), y = operand(b);
  Dims ints{batch_of(b), a.cols(), m, n, element(b), left, t.upper, t.unit, x.by_rows, y.by_rows};
  return from_columns(call(BuiltinName::triangular_solve, {x.value, y.value}, ints, {{b.dtype(), columns(b, m, n)}})[0], b);
}

Cholesky cholesky(const Matrices& a, bool upper) {
  check(a);
  int64_t n = a.cols();
  Dims info = a.sizes({});
  if (a.empty()) return {a, zeros(info, DType::i32)};
  Operand x = operand(a);
  auto r = call(BuiltinName::cholesky, {x.value}, {batch_of(a), n, element(a), upper, x.by_rows},
                {{a.dtype(), columns(a, n, n)}, {DType::i32, info}});
  return {from_columns(r[0], a), r[1]};
}

Ldl ldl(const Matrices& a, bool hermitian) {
  check(a);
  int64_t n = a.cols();
  Dims pivots = a.sizes({n}), info = a.sizes({});
  if (a.empty()) return {a, zeros(pivots, DType::i32), zeros(info, DType::i32)};
  Operand x = operand(a);
  auto r = call(BuiltinName::ldl, {x.value}, {batch_of(a), n, element(a), hermitian, x.by_rows},
                {{a.dtype(), columns(a, n, n)}, {DType::i32, pivots}, {DType::i32, info}});
  return {from_columns(r[0], a), r[1], r[2]};
}

Matrices ldl_solve(const Matrices& factors, const Tensor& pivots, const Matrices& b, bool hermitian) {
  check(factors);
  int64_t n = b.rows(), cols = b.cols();
  if (b.empty()) return b;
  Operand a = operand(factors), y = operand(b);
  Dims ints{batch_of(b), n, cols, element(b), hermitian, a.by_rows, y.by_rows};
  return from_columns(call(BuiltinName::ldl_solve, {a.value, pivots, y.value}, ints, {{b.dtype(), columns(b, n, cols)}})[0], b);
}

Qr qr(const Matrices& a) {
  check(a);
  int64_t m = a.rows(), n = a.cols();
  Dims tau = with_pairs(a, a.sizes({std::min(m, n)}));
  if (a.empty()) return {a, zeros(tau, a.dtype())};
  Operand x = operand(a);
  auto r = call(BuiltinName::qr, {x.value}, {batch_of(a), m, n, element(a), x.by_rows}, {{a.dtype(), columns(a, m, n)}, {a.dtype(), tau}});
  return {from_columns(r[0], a), r[1]};
}

Matrices householder_product(const Matrices& factors, const Tensor& tau, int64_t n, int64_t wanted) {
  check(factors);
  int64_t m = factors.rows(), cols = factors.cols();
  if (n == 0 || m == 0 || wanted == 0 || batch_of(factors) == 0) return unit(factors, m, wanted);
  Dims ints{batch_of(factors), m, cols, wanted, n, element(factors)};
  return from_columns(call(BuiltinName::householder_product, {factors.transposed().value, tau}, ints,
                           {{factors.dtype(), columns(factors, m, wanted)}})[0], factors);
}

Matrices householder_apply(const Matrices& factors, const Tensor& tau, int64_t reflections, const Matrices& c, bool left, bool adjoint) {
  check(factors);
  int64_t m = c.rows(), n = c.cols();
  if (c.empty() || reflections == 0) return c;
  Operand y = operand(c);
  Dims ints{batch_of(c), factors.rows(), factors.cols(), reflections, m, n, element(c), left, adjoint, y.by_rows};
  return from_columns(call(BuiltinName::householder_apply, {factors.transposed().value, tau, y.value}, ints,
                           {{c.dtype(), columns(c, m, n)}})[0], c);
}

Eigh eigh(const Matrices& a, bool upper, bool vectors) {
  check(a);
  int64_t n = a.cols();
  Dims values = a.sizes({n}), info = a.sizes({});
  if (a.empty()) return {zeros(values, a.dtype()), a, zeros(info, DType::i32)};
  Operand x = operand(a);
  Dims ints{batch_of(a), n, element(a), upper, vectors, x.by_rows};
  if (!vectors) {
    auto r = call(BuiltinName::eigh, {x.value}, ints, {{a.dtype(), values}, {DType::i32, info}});
    return {r[0], {}, r[1]};
  }
  auto r = call(BuiltinName::eigh, {x.value}, ints, {{a.dtype(), values}, {a.dtype(), columns(a, n, n)}, {DType::i32, info}});
  return {r[0], from_columns(r[1], a), r[2]};
}

Svd svd(const Matrices& a, bool full, bool vectors) {
  check(a);
  int64_t m = a.rows(), n = a.cols(), k = std::min(m, n), u_cols = full ? m : k, v_rows = full ? n : k;
  Dims values = a.sizes({k}), info = a.sizes({});
  if (a.empty()) return {zeros(values, a.dtype()), unit(a, m, u_cols), unit(a, v_rows, n), zeros(info, DType::i32)};
  Operand x = operand(a);
  Dims ints{batch_of(a), m, n, element(a), full, vectors, x.by_rows};
  if (!vectors) {
    auto r = call(BuiltinName::svd, {x.value}, ints, {{a.dtype(), values}, {DType::i32, info}});
    return {r[0], {}, {}, r[1]};
  }
  auto r = call(BuiltinName::svd, {x.value}, ints,
                {{a.dtype(), values}, {a.dtype(), columns(a, m, u_cols)}, {a.dtype(), columns(a, v_rows, n)}, {DType::i32, info}});
  return {r[0], from_columns(r[1], a), from_columns(r[2], a), r[3]};
}

}  // namespace tiny::linalg
