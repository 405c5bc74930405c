#include "lower/composite.h"

#include <cmath>

#include "lower/pointwise.h"
#include "lower/reduce.h"

namespace tiny::lower {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const DType d = x.dtype(), acc = compute_dtype(d);
  Dims sizes = x.sizes();
  const int64_t depth = sizes.back(), rows = x.numel() / depth;
  sizes.back() = weight.size(0);
  const Dims all{rows, sizes.back(), depth};
  const int64_t last[] = {2};
  Tensor r = (x.reshape({rows, 1, depth}).expand(all).cast(acc) * weight.reshape({1, sizes.back(), depth}).expand(all).cast(acc)).sum(last);
  if (bias.defined()) r = r + bias.cast(acc);
  return r.cast(d).reshape(std::move(sizes));
}

Tensor rms_norm(const Tensor& x, int64_t dims, const Tensor& weight, double eps) {
  const DType d = x.dtype(), acc = compute_dtype(d);
  const Tensor wide = x.cast(acc);
  Dims axes;
  for (int64_t k = x.dim() - dims; k < x.dim(); ++k) axes.push_back(k);
  Tensor r = wide * recip(sqrt(mean_of(wide * wide, axes) + scalar(acc, eps)));
  if (weight.defined()) r = r * weight.cast(acc);
  return r.cast(d);
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, double scale) {
  const DType d = q.dtype(), acc = compute_dtype(d);
  const Tensor root = scalar(acc, std::sqrt(scale));
  Tensor scores = matmul(q.cast(acc) * root, k.cast(acc).transpose(-2, -1) * root, acc);
  const Tensor hidden = like(scores, -INFINITY);
  if (mask.defined()) scores = scores + (is_bool(mask.dtype()) ? where(mask, like(scores, 0), hidden) : mask.cast(acc));
  const int64_t last[] = {scores.dim() - 1};
  const Tensor most = scores.amax(last, true), e = exp(scores - most), p = e / e.sum(last, true);
  return matmul(where(eq(most, hidden), like(p, 0), p), v.cast(acc), acc).cast(d);
}

}  // namespace tiny::lower
