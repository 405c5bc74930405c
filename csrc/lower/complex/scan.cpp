// Running products and log-sum-exps. The core's scans know real operators only: these go in steps, after the one of distance s element i
// covers the 2s elements up to itself (Hillis and Steele, 1986). Each step is a cut: it reads the one before at two places.
#include <cmath>

#include "lower/complex/complex.h"
#include "lower/nn_util.h"

namespace tiny::lower::complex {
namespace {

/// `join` of all elements up to each along dimension d; `nothing` is its neutral element.
template <class F> Complex running(const Complex& x, int64_t d, const Complex& nothing, F join) {
  Complex v = both(x, [&](const Tensor& t) { return move_last(t, d); });
  const int64_t n = v.re.size(-1);
  Dims lo(v.re.sizes().size(), 0), hi(v.re.sizes().size(), 0);
  for (int64_t s = 1; s < n; s *= 2) {
    lo.back() = s, hi.back() = -s;
    v = join({v.re.pad(lo, hi, nothing.re), v.im.pad(lo, hi, nothing.im)}, v);
    v = both(v, [](const Tensor& t) { return t.contiguous(); });
  }
  return both(v, [&](const Tensor& t) { return move_from_last(t, d); });
}

Tensor within_half_turn(const Tensor& angle) { return angle - (angle * (0.5 / M_PI)).unary(Op::ROUND) * (2 * M_PI); }

/// Of sums that are known up to turns, along the last dimension. Where an element exceeds the sum before it, counting starts anew.
Tensor angles(const Complex& x, const Complex& sum) {
  const int64_t n = x.re.size(-1), last = x.re.dim() - 1;
  Dims lo(x.re.sizes().size(), 0), hi(x.re.sizes().size(), 0), shape(x.re.sizes().size(), 1);
  lo.back() = 1, hi.back() = -1, shape.back() = n;
  Tensor place = iota(n).reshape(shape), before = sum.re.pad(lo, hi, like(x.re, -INFINITY)), turned = sum.im.pad(lo, hi);
  Tensor start = lt(before, x.re) | eq(place, index_constant(0));
  Tensor base = where(start, x.im + within_half_turn(sum.im - x.im), like(x.re, 0));
  Tensor step = where(start, like(x.re, 0), within_half_turn(sum.im - turned)).scan(Op::ADD, last);
  Tensor since = where(start, place, index_constant(0)).scan(Op::MAX, last);
  Tensor row = iota(x.re.numel() / n).reshape({-1, 1}) * index_constant(n);
  Tensor at = since.reshape({-1, n}) + row;
  return (gather_flat(base, at) + step.reshape({-1, n}) - gather_flat(step, at)).reshape(x.re.sizes());
}

}  // namespace

Complex cumprod(Args& a) {
  DType d = a.dtype(2, a.out_dtype(0, a.tensor(0).dtype()));
  Complex x = a.complex_as(0, compute_dtype(d));
  const int64_t dim = wrap_dim(a.integer(1), x.re.dim());
  if (x.re.dim() == 0 || x.re.numel() == 0) return cast(x, d);
  return cast(running(x, dim, like(x, 1), [](const Complex& p, const Complex& q) { return p * q; }), d);
}

/// In f64, as for real numbers: the gradient takes differences of such sums. An angle is known up to turns; the CPU, which adds one element
/// after the other, counts it from the greater of the sum so far and the element.
Complex logcumsumexp(Args& a) {
  DType d = a.tensor(0).dtype();
  Complex x = a.complex_as(0, DType::f64);
  const int64_t dim = wrap_dim(a.integer(1), x.re.dim());
  if (x.re.dim() == 0 || x.re.numel() == 0) return a.complex(0);
  Complex sum = running(x, dim, like(x, -INFINITY), log_add_exp);
  auto last = [&](const Tensor& t) { return move_last(t, dim); };
  return cast({sum.re, move_from_last(angles(both(x, last), both(sum, last)), dim)}, d);
}

}  // namespace tiny::lower::complex
