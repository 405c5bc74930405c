#include "lower/rejection.h"

#include <cmath>
#include <limits>

#include "lower/nn_util.h"
#include "lower/random.h"

namespace tiny::lower {
namespace {

/// Each round is accepted with a probability of 0.9 at least: that all fail is as likely as 1e-16.
constexpr int64_t kRounds = 16;
/// Terms of a distribution of mean below 10 after which nothing is left in f64.
constexpr int kTerms = 64;
constexpr double kSmallMean = 10;

Tensor number(double v) { return constant(DType::f64, v); }
Tensor log_factorial(const Tensor& k) { return (k + 1.0).unary(Op::LGAMMA); }

Dims rounds_of(const Dims& sizes) {
  Dims r{kRounds};
  r.append(sizes.begin(), sizes.end());
  return r;
}

Tensor uniforms(Args& a, int generator, const Dims& sizes) { return uniform_open(bits_for(a, generator, sizes), DType::f64); }

/// The proposal of the first round that was accepted; proposals and acceptance [rounds, ..].
Tensor first_accepted(const Tensor& proposals, const Tensor& accepted) {
  Dims sizes(proposals.sizes().begin() + 1, proposals.sizes().end());
  int64_t n = product(std::span<const int64_t>(sizes));
  Tensor round = accepted.cast(DType::i32).reshape({kRounds, n}).argmax(0);
  return gather_flat(proposals.contiguous(), round * index_constant(n) + iota(n)).reshape(sizes);
}

/// Gamma numbers of shape `alpha` (f64). Source: Marsaglia and Tsang, ACM TOMS 26 (2000); shapes below 1 by u^(1/alpha).
Tensor gamma_numbers(Args& a, int generator, const Tensor& alpha) {
  Dims sizes = alpha.sizes(), many = rounds_of(sizes);
  Tensor small = lt(alpha, number(1)), shape = where(small, alpha + 1.0, alpha), d = shape - 1.0 / 3, c = recip(sqrt(d * 9.0));
  Tensor x = standard_normal(a, generator, many, DType::f64), u = uniforms(a, generator, many), root = x * c + 1.0;
  Tensor v = root * root * root, positive = gt(v, number(0)), safe = where(positive, v, number(1));
  Tensor accepted = positive & lt(log(u), x * x * 0.5 + d - d * safe + d * log(safe));
  Tensor r = d * first_accepted(safe, accepted), boost = exp(log(uniforms(a, generator, sizes)) / alpha);
  return where(small, r * boost, r);
}

/// How many steps up the distribution function u is: term(j, p) makes the next probability.
template <class F> Tensor by_inversion(const Tensor& u, Tensor p, F next) {
  Tensor sum = p, k = number(0);
  for (int j = 0; j < kTerms; ++j) {
    k = k + gt(u, sum).cast(DType::f64);
    p = next(j, p), sum = sum + p;
  }
  return k;
}

/// A proposal of the transformed rejection method, [rounds, ..].
struct Proposal {
  Tensor k, distance, v;
};
Proposal transformed(Args& a, int generator, const Dims& sizes, const Tensor& slope, const Tensor& width, const Tensor& center) {
  Dims many = rounds_of(sizes);
  Tensor u = uniforms(a, generator, many) - 0.5, v = uniforms(a, generator, many), distance = number(0.5) - abs(u);
  return {((slope * 2.0 / distance + width) * u + center).unary(Op::FLOOR), distance, v};
}

}  // namespace

Tensor standard_gamma(Args& a) {
  DType d = a.tensor(0).dtype();
  require_float(a, d);
  if (a.tensor(0).numel() == 0) return zeros(a.tensor(0).sizes(), d);
  double least = d == DType::f64 ? std::numeric_limits<double>::min() : d == DType::f16 ? 0x1p-14 : std::numeric_limits<float>::min();
  return maximum(gamma_numbers(a, 1, a.tensor(0).cast(DType::f64)), number(least)).cast(d);
}

Tensor sample_dirichlet(Args& a) {
  DType d = a.tensor(0).dtype();
  require_float(a, d);
  if (a.tensor(0).numel() == 0) return zeros(a.tensor(0).sizes(), d);
  int64_t last[] = {-1};
  double least = d == DType::f64 ? std::numeric_limits<double>::min() : d == DType::f16 ? 0x1p-14 : std::numeric_limits<float>::min();
  Tensor g = maximum(gamma_numbers(a, 1, a.tensor(0).cast(DType::f64)), number(std::numeric_limits<double>::min()));
  return maximum(a.tensor(0).dim() ? g / g.sum(last, true) : full({}, number(1)), number(least)).cast(d);
}

/// Means below 10 by inversion, others by PTRS. Source: Hoermann, Insurance: Mathematics and Economics 12 (1993).
Tensor poisson(Args& a) {
  const Tensor& rate = a.tensor(0);
  DType d = rate.dtype();
  require_float(a, d);
  if (rate.numel() == 0) return zeros(rate.sizes(), d);
  Tensor known = check(rate, ge(rate, like(rate, 0)), "invalid Poisson rate, expected rate to be non-negative", 0),
      mean = known.cast(DType::f64);
  Tensor low = lt(mean, number(kSmallMean)), few = where(low, mean, number(1)), great = where(low, number(kSmallMean), mean);
  Tensor k = by_inversion(uniforms(a, 1, rate.sizes()), exp(-few), [&](int j, const Tensor& p) { return p * few * (1.0 / (j + 1)); });
  Tensor b = sqrt(great) * 2.53 + 0.931, slope = b * 0.02483 - 0.059, quick = number(0.9277) - number(3.6224) / (b - 2.0);
  Proposal x = transformed(a, 1, rate.sizes(), slope, b, great + 0.43);
  Tensor scale = number(1.1239) + number(1.1328) / (b - 3.4), weight = log(x.v * scale / (slope / (x.distance * x.distance) + b));
  Tensor inside = ge(x.k, number(0)), at = maximum(x.k, number(0));
  Tensor accepted = inside & ((ge(x.distance, number(0.07)) & le(x.v, quick)) |
                              ((ge(x.distance, number(0.013)) | le(x.v, x.distance)) &
                                  le(weight, at * log(great) - great - log_factorial(at))));
  return where(low, k, first_accepted(at, accepted)).cast(d);
}

/// Means below 10 by inversion, others by BTRS. Source: Hoermann, Journal of Statistical Computation and Simulation 46 (1993).
Tensor binomial(Args& a) {
  DType d = a.tensor(0).dtype();
  require_float(a, d);
  Dims sizes = broadcast_sizes(a.tensor(0).sizes(), a.tensor(1).sizes());
  if (any_zero(sizes)) return zeros(sizes, d);
  Tensor count = a.tensor(0).cast(DType::f64).expand(sizes), prob = a.tensor(1).cast(DType::f64).expand(sizes), zero = number(0),
      one = number(1);
  Tensor turned = gt(prob, number(0.5)), p = clip(where(turned, one - prob, prob), zero, number(0.5)), q = one - p, odds = p / q;
  Tensor low = lt(count * p, number(kSmallMean)), few = where(low, count, one), n = where(low, number(4 * kSmallMean), count);
  Tensor k = by_inversion(uniforms(a, 2, sizes), exp(few * log(q)),
                          [&](int j, const Tensor& t) { return t * odds * maximum(few - static_cast<double>(j), zero) / (j + 1.0); });
  Tensor p2 = where(low, number(0.5), p), q2 = one - p2, spread = sqrt(n * p2 * q2), b = spread * 2.53 + 1.15;
  Tensor slope = b * 0.0248 + p2 * 0.01 - 0.0873, quick = number(0.92) - number(4.2) / b, mode = ((n + 1.0) * p2).unary(Op::FLOOR);
  Proposal x = transformed(a, 2, sizes, slope, b, n * p2 + 0.5);
  Tensor inside = ge(x.k, zero) & le(x.k, n), at = clip(x.k, zero, n);
  Tensor weight = log(x.v * (number(2.83) + number(5.1) / b) * spread / (slope / (x.distance * x.distance) + b));
  Tensor bound = log_factorial(mode) + log_factorial(n - mode) - log_factorial(at) - log_factorial(n - at) + (at - mode) * log(p2 / q2);
  Tensor accepted = inside & ((ge(x.distance, number(0.07)) & le(x.v, quick)) | le(weight, bound));
  Tensor r = where(low, minimum(k, count), first_accepted(at, accepted));
  r = where(turned, count - r, r);
  r = where(le(count, zero) | le(prob, zero), zero, where(ge(prob, one), count, r));
  return where(ne(count, count) | ne(prob, prob), number(NAN), r).cast(d);
}

}  // namespace tiny::lower
