#include "lower/pad.h"

#include <fmt/format.h>

#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

/// Dimension d of the input and the k-th pair of the padding belong together.
struct Padded {
  int64_t d, n, lo, hi;
};
SmallVec<Padded, 3> padded_dims(const Dims& sizes, const Dims& padding, bool reflects) {
  SmallVec<Padded, 3> out;
  int64_t ndim = static_cast<int64_t>(sizes.size());
  for (int64_t k = 0; k < static_cast<int64_t>(padding.size()) / 2; ++k) {
    int64_t d = ndim - 1 - k;
    if (d < 0) fail(ErrorKind::Runtime, fmt::format("padding of {} numbers for an input with sizes "
                                                    "{}", padding.size(), sizes_text(sizes)));
    Padded p{d, sizes[d], padding[2 * k], padding[2 * k + 1]};
    if (reflects && (p.lo >= p.n || p.hi >= p.n))
      fail(ErrorKind::Runtime, fmt::format("Argument #4: Padding size should be less than the corresponding input dimension, "
                                           "but got: padding ({}, {}) at dimension {} of input {}",
                                           p.lo, p.hi, d, sizes_text(sizes)));
    if (p.n + p.lo + p.hi < 1)
      fail(ErrorKind::Runtime, fmt::format("input (size {} at dimension {}) is too small for padding ({}, "
                                           "{})", p.n, d, p.lo, p.hi));
    out.push_back(p);
  }
  return out;
}

/// The source of each place of the padded dimension.
Tensor source(const Padded& p, bool reflects) {
  Tensor i = iota(p.n + p.lo + p.hi) - index_constant(p.lo), last = index_constant(p.n - 1);
  if (!reflects) return clip(i, index_constant(0), last);
  return last - abs(last - abs(i));
}

/// The flat position in a tensor of these sizes from which each element of the padded one comes.
template <class Dimensions> Tensor flat_source(const Dims& sizes, const Dimensions& dims, bool reflects) {
  const int64_t ndim = static_cast<int64_t>(sizes.size());
  Dims strides = contiguous_strides(sizes), out = sizes;
  SmallVec<uint8_t, 8> moved(ndim);
  Tensor at = index_constant(0);
  auto add = [&](int64_t d, const Tensor& place) {
    Dims shape(ndim, 1);
    shape[d] = place.numel();
    at = at + (place * index_constant(strides[d])).reshape(shape);
  };
  for (const Padded& p : dims) moved[p.d] = 1, out[p.d] = p.n + p.lo + p.hi, add(p.d, source(p, reflects));
  for (int64_t d = 0; d < ndim; ++d)
    if (!moved[d]) add(d, iota(sizes[d]));
  return at.expand(out);
}

Tensor pad_by_index(Args& a, bool reflects) {
  const Tensor& x = a.tensor(0);
  Dims out = x.sizes();
  auto dims = padded_dims(x.sizes(), a.ints(1), reflects);
  for (const Padded& p : dims) out[p.d] = p.n + p.lo + p.hi;
  if (product(out) == 0) return empty_value(out, x.dtype());
  if (x.numel() == 0) fail(ErrorKind::Runtime, fmt::format("Expected an input with elements to pad, but got sizes "
                                                           "{}", sizes_text(x.sizes())));
  return gather_flat(x, flat_source(x.sizes(), dims, reflects));
}

/// g with `before` and `after` zeros around dimension d (negative: cropped).
Tensor place(const Tensor& g, int64_t d, int64_t before, int64_t after) {
  Dims lo(g.dim()), hi(g.dim());
  lo[d] = before, hi[d] = after;
  return g.pad(lo, hi);
}

/// Gradient along one dimension: what fell on the inside, and on either border what was copied there.
Tensor fold_back(const Tensor& g, const Padded& p, bool reflects) {
  int64_t total = g.size(p.d), lo = std::max<int64_t>(p.lo, 0), hi = std::max<int64_t>(p.hi, 0), dims[] = {p.d};
  Tensor sum = place(g.slice(p.d, lo, total - hi), p.d, std::max<int64_t>(-p.lo, 0), std::max<int64_t>(-p.hi, 0));
  if (lo > 0) {
    Tensor left = g.slice(p.d, 0, lo);
    sum = sum + (reflects ? place(left.flip(dims), p.d, 1, p.n - 1 - lo) : place(left.sum(dims, true), p.d, 0, p.n - 1));
  }
  if (hi > 0) {
    Tensor right = g.slice(p.d, total - hi, total);
    sum = sum + (reflects ? place(right.flip(dims), p.d, p.n - 1 - hi, 1) : place(right.sum(dims, true), p.d, p.n - 1, 0));
  }
  return sum;
}

Tensor pad_gradient(Args& a, bool reflects) {
  const Tensor& x = a.tensor(1);
  Tensor g = widened(a, 0);
  if (x.numel() == 0) return full(x.sizes(), like(x, 0));
  auto dims = padded_dims(x.sizes(), a.ints(2), reflects);
  DType d = a.tensor(0).dtype();
  if (is_reduced_float(d)) {  // as the CPU, which adds up in the gradient's own type: one element of a plane after the other
    int64_t lead = product(std::span<const int64_t>(x.sizes().data(), x.sizes().size() - dims.size()));
    Dims shape{lead, g.numel() / lead, 1};
    Tensor at = flat_source(x.sizes(), dims, reflects).reshape(shape);
    return scatter_flat(zeros({x.numel()}, d), at, a.tensor(0).reshape(shape), Op::ADD).reshape(x.sizes());
  }
  for (const Padded& p : dims) g = fold_back(g, p, reflects);
  return g.cast(d);
}

}  // namespace

Tensor reflection_pad(Args& a) { return pad_by_index(a, true); }
Tensor reflection_pad_backward(Args& a) { return pad_gradient(a, true); }
Tensor replication_pad(Args& a) { return pad_by_index(a, false); }
Tensor replication_pad_backward(Args& a) { return pad_gradient(a, false); }

Tensor unfold_backward(Args& a) {
  const Tensor& grad = a.tensor(0);
  const Dims& sizes = a.ints(1);
  DType dtype = grad.dtype();
  if (sizes.empty()) return grad.reshape({}).cast(dtype);
  int64_t ndim = static_cast<int64_t>(sizes.size()), d = wrap_dim(a.integer(2), ndim), size = a.integer(3), step = a.integer(4);
  Tensor zero = full(sizes, constant(dtype, 0.0));
  if (grad.numel() == 0) return zero;
  // [outer, windows, inner.., size] to [outer, windows * size, inner]
  int64_t outer = 1, inner = 1, windows = grad.size(d), n = sizes[d];
  for (int64_t k = 0; k < ndim; ++k) (k < d ? outer : k > d ? inner : n) *= k == d ? 1 : sizes[k];
  int64_t order[] = {0, 1, 3, 2};
  Tensor src = grad.reshape({outer, windows, inner, size}).permute(order).reshape({outer, windows * size, inner});
  Tensor within = iota(windows).reshape({windows, 1}) * index_constant(step) + iota(size);
  Tensor row = iota(outer).reshape({outer, 1, 1}) * index_constant(n) + within.reshape({1, windows * size, 1});
  Tensor at = row * index_constant(inner) + iota(inner);
  return scatter_flat(zero, at, src, Op::ADD);
}

}  // namespace tiny::lower
