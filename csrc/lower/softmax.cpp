#include "lower/softmax.h"

#include <cmath>

#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

/// f over the rows of x along `dim`; a 0-d tensor is one row.
template <class F> Tensor along(const Tensor& x, int64_t dim, F f) {
  int64_t d = wrap_dim(dim, x.dim());
  if (x.numel() == 0) return x;
  return f(at_least_1d(x), d).reshape(x.sizes());
}

Tensor row(const Tensor& x, Op op, int64_t d) {
  int64_t axes[] = {d};
  return x.reduce(op, axes, true);
}

Tensor softmax_of(const Tensor& x, int64_t dim) {
  return along(x, dim, [](const Tensor& t, int64_t d) {
    Tensor e = exp(t - row(t, Op::MAX, d));
    return e / row(e, Op::ADD, d);
  });
}

DType result_dtype(const Args& a) {
  DType d = a.tensor(0).dtype();
  return a.flag(2) && d == DType::f16 ? DType::f32 : d;
}

Tensor softmax_gradient(const Tensor& g, const Tensor& y, int64_t dim) {
  if (g.numel() == 0) return g;
  int64_t d = wrap_dim(dim, g.dim());
  Tensor p = at_least_1d(g) * at_least_1d(y);
  return ((at_least_1d(g) - row(p, Op::ADD, d)) * at_least_1d(y)).reshape(g.sizes());
}

/// _masked_softmax's mask as one that broadcasts against x [B, H, L, L']: type 0 is [L, L'], type 1 is [B, L'], type 2 has x's sizes.
Tensor wide_mask(const Args& a, const Tensor& x, int mask, int type) {
  Tensor m = a.as(mask, DType::bool_);
  bool padding = a.has(type) && a.integer(type) == 1;
  if (padding && x.dim() == 4 && m.dim() == 2) m = m.reshape({m.size(0), 1, 1, m.size(1)});
  return m;
}

}  // namespace

Tensor softmax(Args& a) {
  require_float(a, a.tensor(0).dtype());
  return softmax_of(widened(a, 0), a.integer(1)).cast(result_dtype(a));
}

Tensor log_softmax(Args& a) {
  DType given = a.tensor(0).dtype();
  require_float(a, given);
  return along(widened(a, 0), a.integer(1), [&](const Tensor& x, int64_t d) {
    // Along the last dimension the CPU keeps each row's sum and its logarithm in the input's type.
    DType kept = d == x.dim() - 1 ? given : x.dtype();
    Tensor apart = x - row(x, Op::MAX, d);
    return apart - rounded(log(rounded(row(exp(apart), Op::ADD, d), kept)), kept);
  }).cast(result_dtype(a));
}

Tensor softmax_backward(Args& a) {
  return softmax_gradient(widened(a, 0), widened(a, 1), a.integer(2)).cast(a.dtype(3, a.tensor(0).dtype()));
}

Tensor log_softmax_backward(Args& a) {
  Tensor g = widened(a, 0), y = widened(a, 1);
  DType d = a.dtype(3, a.tensor(0).dtype());
  if (g.numel() == 0) return g.cast(d);
  int64_t dim = wrap_dim(a.integer(2), g.dim());
  Tensor g1 = at_least_1d(g), total = row(g1, Op::ADD, dim);
  return (g1 - exp(at_least_1d(y)) * total).reshape(g.sizes()).cast(d);
}

Tensor masked_softmax(Args& a) {
  Tensor x = widened(a, 0), out = wide_mask(a, x, 1, 3);
  Tensor kept = where(out, like(x, -INFINITY), x);
  Tensor y = softmax_of(kept, a.integer(2, -1));
  return where(ne(y, y) & out, like(y, 0), y).cast(a.tensor(0).dtype());
}

Tensor masked_softmax_backward(Args& a) {
  Tensor g = widened(a, 0), y = widened(a, 1), out = a.as(2, DType::bool_);
  Tensor zero = like(g, 0), kept = softmax_gradient(where(out, zero, g), where(out, zero, y), a.integer(3, -1));
  return where(out, zero, kept).cast(a.tensor(0).dtype());
}

}  // namespace tiny::lower
