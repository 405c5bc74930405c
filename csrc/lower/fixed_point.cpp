#include "lower/fixed_point.h"

#include <algorithm>
#include <cmath>

#include "lower/nn_util.h"

namespace tiny::lower {

int fraction_bits(double greatest) {
  int bits = 0;
  while (bits < 22 && static_cast<int>(0.5 + greatest * (1 << (bits + 1))) < 1 << 15) ++bits;
  return bits;
}

Tensor fixed_weights(const Tensor& weights, int bits) {
  Tensor scaled = weights * static_cast<double>(1 << bits);
  return (scaled + where(lt(scaled, like(scaled, 0)), like(scaled, -0.5), like(scaled, 0.5))).cast(DType::i32);
}

Tensor byte_of(const Tensor& sum, int bits) {
  auto number = [&](int64_t v) { return constant(DType::i32, v); };
  return clip(binary(Op::SHR, sum + number(int64_t{1} << (bits - 1)), number(bits)), number(0), number(255));
}

namespace {

constexpr double A = -0.75;  // Keys's cubic convolution, https://en.wikipedia.org/wiki/Bicubic_interpolation

/// The weight of an element at distance x, for numbers and for tensors.
double weight_at(double x, bool cubic) {
  x = std::abs(x);
  if (!cubic) return x < 1 ? 1 - x : 0;
  if (x < 1) return ((A + 2) * x - (A + 3)) * x * x + 1;
  return x < 2 ? ((A * x - 5 * A) * x + 8 * A) * x - 4 * A : 0;
}
Tensor weight_at(const Tensor& given, bool cubic) {
  Tensor x = abs(given), zero = like(x, 0), inner = lt(x, like(x, 1));
  if (!cubic) return where(inner, like(x, 1) - x, zero);
  Tensor near = (x * (A + 2) - like(x, A + 3)) * x * x + 1.0, far = ((x * A - like(x, 5 * A)) * x + 8 * A) * x - like(x, 4 * A);
  return where(inner, near, where(lt(x, like(x, 2)), far, zero));
}

/// Where an output element lies: the index before it, rounded in f32, and the distance from there.
struct Place {
  int64_t index;
  double apart;
};
Place place_of(const ByteAxis& x, int64_t o) {
  double at = x.align_corners ? x.ratio * static_cast<double>(o) : x.ratio * (static_cast<double>(o) + 0.5) - 0.5;
  if (!x.align_corners && !x.cubic && at < 0) at = 0;
  int64_t index = std::min(static_cast<int64_t>(std::floor(static_cast<float>(at))), x.in - 1);
  return {index, std::clamp(at - static_cast<double>(index), 0.0, 1.0)};
}

/// The greatest weight, also of the parts of sums where elements beyond the ends add to those at the ends.
double greatest_weight(const ByteAxis& x) {
  const int64_t support = x.cubic ? 2 : 1;
  double greatest = 0;
  for (int64_t o = 0; o < x.out; ++o) {
    const Place p = place_of(x, o);
    double sum = 0;
    for (int64_t j = 0, last = -1; j < 2 * support; ++j) {
      int64_t at = std::clamp<int64_t>(p.index - support + 1 + j, 0, x.in - 1);
      sum = (at == last ? sum : 0) + weight_at(static_cast<double>(j + 1 - support) - p.apart, x.cubic);
      last = at, greatest = std::max(greatest, sum);
    }
  }
  return greatest;
}

}  // namespace

Tensor interpolated_bytes(const Tensor& x, const ByteAxis& axis) {
  const int64_t support = axis.cubic ? 2 : 1, taps = 2 * support;
  const int bits = fraction_bits(greatest_weight(axis));
  Tensor f = iota_along(3, 1, axis.out).cast(DType::f64);
  Tensor at = axis.align_corners ? f * axis.ratio : (f + 0.5) * axis.ratio - 0.5;
  if (!axis.align_corners && !axis.cubic) at = maximum(at, like(at, 0));
  Tensor index = minimum(at.cast(DType::f32).unary(Op::FLOOR).cast(DType::i64), index_constant(axis.in - 1));
  Tensor apart = clip(at - index.cast(DType::f64), like(at, 0), like(at, 1));
  std::vector<Tensor> place, weight;
  for (int64_t j = 0; j < taps; ++j) {
    place.push_back(clip(index + index_constant(j + 1 - support), index_constant(0), index_constant(axis.in - 1)));
    weight.push_back(weight_at(like(at, static_cast<double>(j + 1 - support)) - apart, axis.cubic));
  }
  int64_t rows = x.size(0), columns = x.size(2);
  Tensor base = iota_along(3, 0, rows, axis.in * columns) + iota_along(3, 2, columns), sum;
  for (int64_t j = 0; j < taps; ++j) {
    // An element that several taps meet gets the sum of their weights, at the first of them.
    Tensor total = weight[j];
    for (int64_t k = j + 1; k < taps; ++k) total = total + where(eq(place[k], place[j]), weight[k], like(total, 0));
    if (j > 0) total = where(eq(place[j - 1], place[j]), like(total, 0), total);
    Tensor part = gather_flat(x, base + place[j] * index_constant(columns)) * fixed_weights(total, bits);
    sum = sum.defined() ? sum + part : part;
  }
  return byte_of(sum, bits);
}

}  // namespace tiny::lower
