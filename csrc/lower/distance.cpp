#include "lower/distance.h"

#include <cmath>

#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

/// The p-norm of the last dimension.
Tensor norm_of(const Tensor& apart, double p) {
  int64_t last[] = {-1};
  Tensor size = abs(apart);
  if (p == 0) return ne(apart, like(apart, 0)).cast(apart.dtype()).sum(last);
  if (p == 1) return size.sum(last);
  if (p == 2) return sqrt((apart * apart).sum(last));
  if (std::isinf(p)) return size.amax(last);
  return binary(Op::POW, binary(Op::POW, size, like(size, p)).sum(last), like(size, 1 / p));
}

/// Derivative of the p-norm `dist` of `apart` (its sizes with 1 last) with respect to apart; 0 where dist is, for p > 1.
Tensor slope(const Tensor& apart, const Tensor& dist, double p) {
  Tensor zero = like(apart, 0), size = abs(apart);
  Tensor sign = lt(zero, apart).cast(apart.dtype()) - lt(apart, zero).cast(apart.dtype());
  if (p == 0) return full(apart.sizes(), zero);
  if (p == 1) return sign;
  if (std::isinf(p)) return where(eq(size, dist), sign, zero);
  if (p == 2) return where(eq(dist, zero), zero, apart / dist);
  Tensor rate = sign * binary(Op::POW, size / dist, like(size, p - 1));
  return where(eq(dist, zero) | eq(size, zero), zero, rate);
}

/// x1 [.., P, M] and x2 [.., R, M] with common leading sizes, as differences [.., P, R, M].
Tensor differences(const Tensor& x1, const Tensor& x2) { return x1.unsqueeze(-2) - x2.unsqueeze(x2.dim() - 2); }

Dims leading(const Tensor& x) { return Dims(x.sizes().begin(), x.sizes().end() - 2); }

/// Number of the pair (i, j), i < j, among the pairs of n rows.
Tensor pair_number(int64_t n) {
  Tensor i = iota_along(2, 0, n), j = iota_along(2, 1, n), low = minimum(i, j), high = maximum(i, j);
  Tensor before = low * (index_constant(2 * n - 1) - low) / index_constant(2);
  return where(eq(i, j), index_constant(0), before + high - low - index_constant(1));
}

}  // namespace

Tensor cdist(Args& a) {
  const Tensor &x1 = a.tensor(0), &x2 = a.tensor(1);
  if (!is_float(x1.dtype())) fail(ErrorKind::Runtime, std::string("cdist only supports floating-point dtypes, X1 got: ") +
      scalar_type_name(x1.dtype()));
  if (!is_float(x2.dtype())) fail(ErrorKind::Runtime, std::string("cdist only supports floating-point dtypes, X2 got: ") +
      scalar_type_name(x2.dtype()));
  if (x1.dtype() != x2.dtype() || x1.dim() < 2 || x2.dim() < 2 || x1.size(-1) != x2.size(-1))
    fail(ErrorKind::Runtime, "X1 and X2 must have the same dtype and number of columns. X1: " + std::to_string(x1.size(-1)) + " X2: " +
                               std::to_string(x2.size(-1)));
  double p = a.number(2);
  if (p < 0) fail(ErrorKind::Runtime, "cdist only supports non-negative p values");
  DType d = x1.dtype(), c = compute_dtype(d);
  Dims sizes = broadcast_sizes(leading(x1), leading(x2));
  sizes.push_back(x1.size(-2)), sizes.push_back(x2.size(-2));
  if (any_zero(sizes) || x1.size(-1) == 0) return zeros(sizes, d);
  return norm_of(differences(x1.cast(c), x2.cast(c)), p).cast(d);
}

/// Only for x1: PyTorch asks again, with the arguments exchanged, for x2.
Tensor cdist_backward(Args& a) {
  const Tensor &g = a.tensor(0), &x1 = a.tensor(1), &x2 = a.tensor(2), &dist = a.tensor(4);
  double p = a.number(3);
  DType d = x1.dtype(), c = compute_dtype(d);
  Dims sizes = broadcast_sizes(leading(x1), leading(x2)), full_sizes = sizes;
  full_sizes.push_back(x1.size(-2)), full_sizes.push_back(x1.size(-1));
  if (any_zero(full_sizes) || x2.size(-2) == 0) return zeros(x1.sizes(), d);
  int64_t others[] = {-2};
  Tensor rate = slope(differences(x1.cast(c), x2.cast(c)), dist.cast(c).unsqueeze(-1), p);
  return (rate * g.cast(c).unsqueeze(-1)).sum(others).expand(full_sizes).cast(d);
}

Tensor pdist(Args& a) {
  const Tensor& x = a.tensor(0);
  double p = a.number(1);
  DType d = x.dtype(), c = compute_dtype(d);
  int64_t n = x.size(0), m = x.size(1);
  if (n < 2) return zeros({0}, d);
  if (m == 0) return zeros({n * (n - 1) / 2}, d);
  // Each pair's number belongs to two places of the square; the one with i < j writes it.
  Tensor all = norm_of(differences(x.cast(c), x.cast(c)), p).reshape({n * n});
  Tensor above = lt(iota_along(2, 0, n), iota_along(2, 1, n)), at = where(above, pair_number(n), index_constant(-1)).reshape({n * n, 1});
  return scatter_rows(zeros({n * (n - 1) / 2, 1}, c), at.reshape({n * n}), all.reshape({n * n, 1}),
      Op::NOOP).reshape({n * (n - 1) / 2}).cast(d);
}

Tensor pdist_backward(Args& a) {
  const Tensor &g = a.tensor(0), &x = a.tensor(1), &dist = a.tensor(3);
  double p = a.number(2);
  DType d = x.dtype(), c = compute_dtype(d);
  int64_t n = x.size(0);
  if (n < 2 || x.size(1) == 0) return zeros(x.sizes(), d);
  Tensor pair = pair_number(n), same = eq(iota_along(2, 0, n), iota_along(2, 1, n)), zero = constant(c, 0.0);
  Tensor grads = where(same, zero, gather_flat(g.cast(c), pair)), dists = where(same, zero, gather_flat(dist.cast(c), pair));
  int64_t others[] = {1};
  Tensor rate = slope(differences(x.cast(c), x.cast(c)), dists.unsqueeze(-1), p);
  return where(same.unsqueeze(-1), zero, rate * grads.unsqueeze(-1)).sum(others).cast(d);
}

Tensor cross(Args& a) {
  DType d = a.common({0, 1}), c = compute_dtype(d);
  Tensor x = a.as(0, d), y = a.as(1, d);
  Dims sizes = broadcast_sizes(x.sizes(), y.sizes());
  int64_t k = wrap_dim(a.integer(2, -1), static_cast<int64_t>(sizes.size()));
  if (any_zero(sizes)) return zeros(sizes, d);
  x = x.expand(sizes).cast(c), y = y.expand(sizes).cast(c);
  auto part = [&](const Tensor& t, int64_t i) { return t.slice(k, i % 3, i % 3 + 1); };
  auto product = [&](int64_t i, int64_t j) { return rounded(part(x, i) * part(y, j), d); };  // as the CPU's
  Tensor parts[3];
  for (int64_t i = 0; i < 3; ++i) parts[i] = product(i + 1, i + 2) - product(i + 2, i + 1);
  return cat(parts, k).cast(d);
}

}  // namespace tiny::lower
