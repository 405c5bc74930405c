#include "lower/quantize.h"

#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

/// The grid's value next to x, and whether x was within the grid.
Results on_grid(const Tensor& given, const Tensor& scale, const Tensor& zero_point, int64_t low, int64_t high) {
  if (low > high) fail(ErrorKind::Runtime, "`quant_min` should be less than or equal to `quant_max`.");
  DType c = compute_dtype(given.dtype());
  Tensor x = given.cast(c), q = (x * recip(scale)).unary(Op::ROUND) + zero_point;
  Tensor lo = like(x, static_cast<double>(low)), hi = like(x, static_cast<double>(high));
  return {((clip(q, lo, hi) - zero_point) * scale).cast(given.dtype()), ge(q, lo) & le(q, hi)};
}

}  // namespace

Results fake_quantize_tensor(Args& a) {
  DType c = compute_dtype(a.tensor(0).dtype());
  return on_grid(a.tensor(0), scalar(c, a.number(1)), scalar(c, a.number(2)), a.integer(3), a.integer(4));
}

Results fake_quantize_tensor_qparams(Args& a) {
  const Tensor& x = a.tensor(0);
  DType c = compute_dtype(x.dtype());
  Results r = on_grid(x, a.tensor(1).cast(c).reshape({}), a.tensor(2).cast(c).reshape({}), a.integer(4), a.integer(5));
  Tensor enabled = ne(a.tensor(3).reshape({}), constant(a.tensor(3).dtype(), int64_t{0}));
  return {where(enabled, r[0], x), r[1] | !enabled};
}

Results fake_quantize_channel(Args& a) {
  const Tensor& x = a.tensor(0);
  DType c = compute_dtype(x.dtype());
  int64_t axis = wrap_dim(a.integer(3), x.dim());
  if (a.tensor(1).numel() != x.size(axis) || a.tensor(2).numel() != x.size(axis))
    fail(ErrorKind::Runtime, "dimensions of scale and zero-point are not consistent with input tensor");
  Dims shape(x.sizes().size(), 1);
  shape[axis] = x.size(axis);
  return on_grid(x, a.tensor(1).cast(c).reshape(shape), a.tensor(2).cast(c).reshape(shape), a.integer(4), a.integer(5));
}

}  // namespace tiny::lower
