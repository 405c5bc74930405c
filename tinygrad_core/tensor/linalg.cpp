#include "tensor/linalg.h"

#include "base/error.h"
#include "tensor/detail.h"

namespace tiny::linalg {
namespace {

using detail::call;

/// Matrices as a builtin gets them: a dense value, and whether they lie in it row by row. Those that a transposition makes dense lie column
/// by column; all others are dense as they are, or are made so.
struct Operand {
  Tensor value;
  bool by_rows;
};
Operand operand(const Tensor& x) {
  Tensor t = x.transpose(-2, -1);
  bool by_rows = !(x.node()->is(Op::VIEW) && !t.node()->is(Op::VIEW));
  return {by_rows ? x : t, by_rows};
}

/// Sizes of `x` with other ones for its last `dropped` dimensions.
Dims sizes_like(const Tensor& x, int64_t dropped, std::initializer_list<int64_t> last) {
  Dims d(x.sizes().begin(), x.sizes().end() - dropped);
  for (int64_t n : last) d.push_back(n);
  return d;
}

int64_t batch_of(const Tensor& x) { return x.numel() / (x.size(-1) * x.size(-2)); }
int64_t code(const Tensor& x) { return static_cast<int64_t>(x.dtype()); }

void check(const Tensor& x) { TINY_ASSERT(x.dim() >= 2 && (x.dtype() == DType::f32 || x.dtype() == DType::f64), "matrices of f32 or f64"); }

/// Where a result of [.., m, n] lies column by column.
Dims columns(const Tensor& x, int64_t m, int64_t n) { return sizes_like(x, 2, {n, m}); }
Tensor from_columns(const Tensor& t) { return t.transpose(-2, -1); }

}  // namespace

Lu lu(const Tensor& a) {
  check(a);
  int64_t m = a.size(-2), n = a.size(-1);
  Dims pivots = sizes_like(a, 2, {std::min(m, n)}), info = sizes_like(a, 2, {});
  if (a.numel() == 0) return {zeros(a.sizes(), a.dtype()), zeros(pivots, DType::i32), zeros(info, DType::i32)};
  Operand x = operand(a);
  auto r = call(BuiltinName::lu, {x.value}, {batch_of(a), m, n, code(a), x.by_rows},
                {{a.dtype(), columns(a, m, n)}, {DType::i32, pivots}, {DType::i32, info}});
  return {from_columns(r[0]), r[1], r[2]};
}

Tensor lu_solve(const Tensor& factors, const Tensor& pivots, const Tensor& b, bool adjoint) {
  check(factors);
  int64_t n = b.size(-2), cols = b.size(-1);
  if (b.numel() == 0) return zeros(b.sizes(), b.dtype());
  Operand a = operand(factors), y = operand(b);
  Dims ints{batch_of(b), n, cols, code(b), adjoint, a.by_rows, y.by_rows};
  return from_columns(call(BuiltinName::lu_solve, {a.value, pivots, y.value}, ints, {{b.dtype(), columns(b, n, cols)}})[0]);
}

Tensor permutation(const Tensor& pivots, int64_t rows) {
  Dims sizes = sizes_like(pivots, 1, {rows});
  if (product(sizes) == 0) return zeros(sizes, DType::i64);
  if (pivots.numel() == 0) return iota(rows).expand(sizes);
  return call(BuiltinName::permutation, {pivots}, {pivots.numel() / pivots.size(-1), rows, pivots.size(-1)}, {{DType::i64, sizes}})[0];
}

Tensor solve_triangular(const Tensor& a, const Tensor& b, Triangle t, bool left) {
  check(a);
  int64_t m = b.size(-2), n = b.size(-1);
  if (b.numel() == 0) return zeros(b.sizes(), b.dtype());
  Operand x = operand(a), y = operand(b);
  Dims ints{batch_of(b), a.size(-1), m, n, code(b), left, t.upper, t.unit, x.by_rows, y.by_rows};
  return from_columns(call(BuiltinName::triangular_solve, {x.value, y.value}, ints, {{b.dtype(), columns(b, m, n)}})[0]);
}

Cholesky cholesky(const Tensor& a, bool upper) {
  check(a);
  int64_t n = a.size(-1);
  Dims info = sizes_like(a, 2, {});
  if (a.numel() == 0) return {zeros(a.sizes(), a.dtype()), zeros(info, DType::i32)};
  Operand x = operand(a);
  auto r = call(BuiltinName::cholesky, {x.value}, {batch_of(a), n, code(a), upper, x.by_rows},
                {{a.dtype(), columns(a, n, n)}, {DType::i32, info}});
  return {from_columns(r[0]), r[1]};
}

Ldl ldl(const Tensor& a) {
  check(a);
  int64_t n = a.size(-1);
  Dims pivots = sizes_like(a, 2, {n}), info = sizes_like(a, 2, {});
  if (a.numel() == 0) return {zeros(a.sizes(), a.dtype()), zeros(pivots, DType::i32), zeros(info, DType::i32)};
  Operand x = operand(a);
  auto r = call(BuiltinName::ldl, {x.value}, {batch_of(a), n, code(a), x.by_rows},
                {{a.dtype(), columns(a, n, n)}, {DType::i32, pivots}, {DType::i32, info}});
  return {from_columns(r[0]), r[1], r[2]};
}

Tensor ldl_solve(const Tensor& factors, const Tensor& pivots, const Tensor& b) {
  check(factors);
  int64_t n = b.size(-2), cols = b.size(-1);
  if (b.numel() == 0) return zeros(b.sizes(), b.dtype());
  Operand a = operand(factors), y = operand(b);
  Dims ints{batch_of(b), n, cols, code(b), a.by_rows, y.by_rows};
  return from_columns(call(BuiltinName::ldl_solve, {a.value, pivots, y.value}, ints, {{b.dtype(), columns(b, n, cols)}})[0]);
}

Qr qr(const Tensor& a) {
  check(a);
  int64_t m = a.size(-2), n = a.size(-1);
  Dims tau = sizes_like(a, 2, {std::min(m, n)});
  if (a.numel() == 0) return {zeros(a.sizes(), a.dtype()), zeros(tau, a.dtype())};
  Operand x = operand(a);
  auto r = call(BuiltinName::qr, {x.value}, {batch_of(a), m, n, code(a), x.by_rows}, {{a.dtype(), columns(a, m, n)}, {a.dtype(), tau}});
  return {from_columns(r[0]), r[1]};
}

Tensor householder_product(const Tensor& factors, const Tensor& tau, int64_t wanted) {
  check(factors);
  int64_t m = factors.size(-2), n = factors.size(-1), reflections = tau.size(-1);
  Dims sizes = sizes_like(factors, 2, {m, wanted});
  if (product(sizes) == 0) return zeros(sizes, factors.dtype());
  if (tau.numel() == 0) {
    Tensor row = iota(m).reshape({m, 1}), col = iota(wanted).reshape({1, wanted});
    return eq(row, col).cast(factors.dtype()).expand(sizes);
  }
  Dims ints{batch_of(factors), m, n, wanted, reflections, code(factors)};
  return from_columns(call(BuiltinName::householder_product, {factors.transpose(-2, -1), tau}, ints,
                           {{factors.dtype(), columns(factors, m, wanted)}})[0]);
}

Tensor householder_apply(const Tensor& factors, const Tensor& tau, const Tensor& c, bool left, bool transpose) {
  check(factors);
  int64_t m = c.size(-2), n = c.size(-1);
  if (c.numel() == 0 || tau.numel() == 0) return c;
  Operand y = operand(c);
  Dims ints{batch_of(c), factors.size(-2), factors.size(-1), tau.size(-1), m, n, code(c), left, transpose, y.by_rows};
  auto r = call(BuiltinName::householder_apply, {factors.transpose(-2, -1), tau, y.value}, ints, {{c.dtype(), columns(c, m, n)}});
  return from_columns(r[0]);
}

}  // namespace tiny::linalg
