#include "lower/scan.h"

#include <cmath>

#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

/// f32 is accumulated in f64, as PyTorch does.
Tensor cumulative(Args& a, Op op) {
  const Tensor& x = a.tensor(0);
  DType own = is_float(x.dtype()) ? x.dtype() : DType::i64;
  DType d = a.dtype(2, a.out_dtype(0, own));
  int64_t dim = wrap_dim(a.integer(1), x.dim());
  Tensor v = x.cast(d);
  return x.dim() == 0 ? v : v.cast(d == DType::f32 ? DType::f64 : compute_dtype(d)).scan(op, dim).cast(d);
}

/// A running extreme and where it was last met; NaN stays once it was met, and each NaN counts as meeting it.
Results running(Args& a, Op op) {
  const Tensor& x = a.tensor(0);
  int64_t d = wrap_dim(a.integer(1), x.dim());
  if (x.dim() == 0) return {x, zeros({}, DType::i64)};
  if (x.numel() == 0) return {x, zeros(x.sizes(), DType::i64)};
  Tensor values = x.scan(op, d), met = eq(x, values);
  if (is_float(x.dtype())) met = binary(Op::OR, met, ne(x, x));
  Tensor index = where(met, iota_along(x.sizes().size(), static_cast<size_t>(d), x.size(d)), index_constant(0));
  return {values, index.scan(Op::MAX, d)};
}

/// log(exp(a) + exp(b)); equal infinities stay what they are, NaN stays NaN.
Tensor log_add_exp(const Tensor& a, const Tensor& b) {
  Tensor high = maximum(a, b), low = minimum(a, b);
  Tensor infinite = eq(high.unary(Op::ABS), constant(high.dtype(), HUGE_VAL));
  return where(infinite, high, high + (low - high).unary(Op::EXP).unary(Op::LOG1P));
}

}  // namespace

Tensor cumsum(Args& a) { return cumulative(a, Op::ADD); }
Tensor cumprod(Args& a) { return cumulative(a, Op::MUL); }
Results cummax(Args& a) { return running(a, Op::MAX); }
Results cummin(Args& a) { return running(a, Op::MIN); }

/// Hillis and Steele's scan: after the step of distance s, element i covers the 2s elements up to itself. Each step is a cut: it reads
/// the one before at two places. In f64, as PyTorch: the gradient takes differences of such sums.
Tensor logcumsumexp(Args& a) {
  const Tensor& x = a.tensor(0);
  int64_t d = wrap_dim(a.integer(1), x.dim());
  if (!is_float(x.dtype()))
    fail(ErrorKind::NotImplemented, std::string("\"logcumsumexp_out_cpu\" not implemented for '") + scalar_type_name(x.dtype()) + "'");
  if (x.dim() == 0 || x.numel() == 0) return x;
  Tensor v = move_last(x, d).cast(DType::f64);
  int64_t n = v.size(-1);
  Dims lo(v.sizes().size(), 0), hi(v.sizes().size(), 0);
  Tensor nothing = lowest(v.dtype());
  for (int64_t s = 1; s < n; s *= 2) {
    lo.back() = s, hi.back() = -s;
    v = log_add_exp(v.pad(lo, hi, nothing), v).contiguous();
  }
  return move_from_last(v, d).cast(x.dtype());
}

}  // namespace tiny::lower
