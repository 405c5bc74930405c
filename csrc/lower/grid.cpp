#include "lower/grid.h"

#include <fmt/format.h>

#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

enum Interpolation : int64_t { kBilinear, kNearest, kBicubic };
enum Padding : int64_t { kZeros, kBorder, kReflection };

/// Positions and weights are rounded to the input's type at every step, as the CPU's kernels do it. For images they have formulas of
/// their own, which round elsewhere.
struct Sampler {
  Tensor input, grid;         // grid in the computing type
  int64_t interpolation, padding;
  bool align_corners;
  Dims in, out;               // spatial sizes
  size_t n() const { return in.size(); }
  bool flat() const { return in.size() == 2; }
  Tensor step(const Tensor& t) const { return rounded(t, input.dtype()); }
  Tensor number(double x) const { return step(like(grid, x)); }
};

/// A coordinate and its derivative with respect to the grid's.
struct Place {
  Tensor at, slope;
};

/// One neighbour along a dimension: index (not yet bounded), weight, and the weight's derivative by the coordinate.
struct Tap {
  Tensor index, weight, slope;
};

/// Grid numbers -1 .. 1 as positions in 0 .. size-1: -1 and 1 are the middles of the outer elements, or their outer edges.
Place unnormalized(const Sampler& s, const Tensor& g, int64_t size) {
  const double n = static_cast<double>(s.align_corners ? size - 1 : size);
  Tensor from = s.step(g + 1.0), slope = full(g.sizes(), s.number(n / 2)), at;
  if (s.flat()) at = s.step(from * s.number(n / 2));
  else at = s.align_corners ? s.step(from * 0.5 * s.number(n)) : s.step(s.step(from * s.number(n)) - like(g, 1.0)) * 0.5;
  return {s.flat() && !s.align_corners ? s.step(at - like(g, 0.5)) : at, slope};
}

Place clipped(const Sampler& s, const Place& p, int64_t size) {
  Tensor lo = like(p.at, 0), hi = s.number(static_cast<double>(size - 1));
  // A NaN becomes the lower end, as in PyTorch.
  Tensor inside = lt(lo, p.at) & lt(p.at, hi), at = where(lt(lo, p.at), minimum(p.at, hi), lo);
  return {at, where(inside, p.slope, lo)};
}

/// Mirrored at the ends, as often as it takes.
Place reflected(const Sampler& s, const Place& p, int64_t size) {
  const double low = s.align_corners ? 0 : -0.5, span = static_cast<double>(s.align_corners ? size - 1 : size);
  if (span == 0) return {full(p.at.sizes(), like(p.at, 0)), full(p.at.sizes(), like(p.at, 0))};
  Tensor from = s.step(p.at - like(p.at, low)), apart = abs(from), negative = lt(from, like(from, 0)), odd, at;
  if (s.flat()) {
    Tensor there_and_back = s.number(2 * span), times = s.step(apart / there_and_back).unary(Op::TRUNC);
    Tensor extra = s.step(apart - s.step(times * there_and_back)), rest = s.step(there_and_back - extra);
    odd = lt(rest, extra), at = minimum(extra, rest);
  } else {
    Tensor extra = binary(Op::MOD, apart, s.number(span)), flips = s.step(apart / s.number(span)).unary(Op::FLOOR);
    odd = ne(binary(Op::MOD, flips, like(from, 2)), like(from, 0)), at = where(odd, s.step(s.number(span) - extra), extra);
  }
  return {s.step(at + low), where(ne(odd, negative), -p.slope, p.slope)};
}

Place bounded(const Sampler& s, const Place& p, int64_t size) {
  if (s.padding == kBorder) return clipped(s, p, size);
  if (s.padding == kReflection) return clipped(s, reflected(s, p, size), size);
  return p;
}

/// The neighbours of every place along dimension k of the image: [N, P, .., taps at 2 + k, ..]. Weights are undefined for one neighbour.
struct Taps {
  Tensor index, inside, weight;  // index within the image (0 where outside)
  Tensor slope, scale;           // of the weight by the position, of the position by the grid's number
};

/// Keys's cubic convolution with A = -0.75 at a distance, and its derivative. Source: https://en.wikipedia.org/wiki/Bicubic_interpolation
Tensor cubic(const Sampler& s, const Tensor& t, const Tensor& far) {
  constexpr double A = -0.75;
  auto times = [&](const Tensor& x) { return s.step(x * t); };
  Tensor outer = s.step(times(s.step(times(s.step(s.step(t * A) - like(t, 5 * A))) + 8 * A)) - like(t, 4 * A));
  return where(far, outer, s.step(times(times(s.step(s.step(t * (A + 2)) - like(t, A + 3)))) + 1.0));
}
Tensor cubic_slope(const Sampler& s, const Tensor& t, const Tensor& far) {
  constexpr double A = -0.75;
  auto times = [&](const Tensor& x) { return s.step(x * t); };
  Tensor outer = s.step(times(s.step(s.step(t * (3 * A)) - like(t, 10 * A))) + 8 * A);
  return where(far, outer, times(s.step(s.step(t * (3 * (A + 2))) - like(t, 2 * (A + 3)))));
}

Taps taps_along(const Sampler& s, size_t k) {
  size_t ndim = 2 + s.n();
  Dims shape(ndim, 1);
  shape[0] = s.input.size(0), shape[1] = product(s.out);
  // The grid's last dimension counts from the innermost one of the image.
  Tensor g = s.grid.select(-1, static_cast<int64_t>(s.n() - 1 - k)).reshape(shape);
  Place p = unnormalized(s, g, s.in[k]);
  if (s.interpolation != kBicubic) p = bounded(s, p, s.in[k]);
  Taps r;
  Tensor low = p.at.unary(Op::FLOOR), t = s.step(p.at - low), index;
  if (s.interpolation == kNearest) {
    index = p.at.unary(Op::ROUND);
  } else if (s.interpolation == kBilinear) {
    Tensor i = iota_along(ndim, 2 + k, 2), first = eq(i, index_constant(0));
    index = low + i.cast(t.dtype());
    r.weight = where(first, s.step(like(t, 1) - t), t), r.slope = where(first, like(t, -1), like(t, 1));
  } else {
    Tensor i = iota_along(ndim, 2 + k, 4), offset = (i - index_constant(1)).cast(t.dtype()), apart = s.step(t - offset);
    Tensor before = lt(i, index_constant(2)), far = eq(i, index_constant(0)) | eq(i, index_constant(3));
    index = bounded(s, {s.step(low + offset), p.slope}, s.in[k]).at;
    Tensor distance = where(before, apart, -apart), slope = cubic_slope(s, distance, far);
    r.weight = cubic(s, distance, far), r.slope = where(before, slope, -slope);
  }
  r.scale = p.slope;
  Tensor zero = like(index, 0);
  r.inside = le(zero, index) & le(index, like(index, static_cast<double>(s.in[k] - 1)));
  r.index = where(r.inside, index, zero).cast(DType::i64);
  return r;
}

/// All combinations of neighbours, [N, P, taps..]: flat position in a plane, whether inside, weight.
struct Corners {
  Tensor position, inside, weight;
};

Corners corners(const Sampler& s, const std::vector<Taps>& taps) {
  Corners c;
  for (size_t k = 0; k < s.n(); ++k) {
    c.position = k ? c.position * index_constant(s.in[k]) + taps[k].index : taps[k].index;
    c.inside = k ? c.inside & taps[k].inside : taps[k].inside;
  }
  for (size_t k = s.n(); k-- > 0;)
    if (taps[k].weight.defined()) c.weight = c.weight.defined() ? s.step(c.weight * taps[k].weight) : taps[k].weight;
  return c;
}

std::vector<Taps> all_taps(const Sampler& s) {
  std::vector<Taps> taps;
  for (size_t k = 0; k < s.n(); ++k) taps.push_back(taps_along(s, k));
  return taps;
}

Sampler read_sampler(const Args& a, int first) {
  const Tensor &x = a.tensor(first), &grid = a.tensor(first + 1);
  if (x.dtype() != grid.dtype())
    fail(ErrorKind::Runtime, fmt::format("grid_sampler(): expected input and grid to have same dtype, but input has {} and grid has {}",
                                         scalar_type_name(x.dtype()), scalar_type_name(grid.dtype())));
  require_float(a, x.dtype());
  Sampler s{x, grid.cast(compute_dtype(x.dtype())), a.integer(first + 2), a.integer(first + 3), a.flag(first + 4), {}, {}};
  s.in = Dims(x.sizes().begin() + 2, x.sizes().end());
  s.out = Dims(grid.sizes().begin() + 1, grid.sizes().end() - 1);
  if (any_zero(s.in)) fail(ErrorKind::Runtime, fmt::format("grid_sampler(): expected input to have non-empty spatial dimensions, but "
      "input has sizes {}", sizes_text(x.sizes())));
  return s;
}

/// Flat positions in the input, [N, C, P, taps..].
Tensor flat_position(const Tensor& position, const Sampler& s) {
  int64_t n = s.input.size(0), channels = s.input.size(1), plane = product(s.in);
  size_t ndim = position.sizes().size() + 1;
  return position.unsqueeze(1) + iota_along(ndim, 0, n, channels * plane) + iota_along(ndim, 1, channels, plane);
}

Dims axes_from(size_t first, size_t n) {
  Dims axes;
  for (size_t d = 0; d < n; ++d) axes.push_back(static_cast<int64_t>(first + d));
  return axes;
}

/// Sum of each row of x, added up element by element.
Tensor row_sums(const Sampler& s, const Tensor& x) {
  const DType d = s.input.dtype();
  if (x.dtype() == d) return x.sum(Dims{1});
  Dims shape{x.size(0), x.size(1), 1};
  Tensor position = iota_along(3, 0, x.size(0)).expand(shape);
  return scatter_flat(zeros({x.size(0)}, d), position, x.cast(d).reshape(shape), Op::ADD).cast(x.dtype());
}

/// x [N, C, P, taps..] in the order in which the CPU adds to the input's gradient: of images one vector register (of 32 bytes) of places
/// after the other, and of each one neighbour after the other. Places that fill the last register are `rest`.
Tensor in_registers(const Sampler& s, const Tensor& x, const Tensor& rest) {
  if (!s.flat()) return x;
  const int64_t lanes = 32 / itemsize(s.input.dtype()), places = x.size(2), blocks = (places + lanes - 1) / lanes;
  Dims shape{x.size(0), x.size(1), blocks, lanes, x.size(3), x.size(4)};
  Tensor full_blocks = x.pad(Dims(5), Dims{0, 0, blocks * lanes - places, 0, 0}, rest).reshape(shape);
  return full_blocks.permute(s.interpolation == kBicubic ? Dims{0, 1, 2, 5, 4, 3} : Dims{0, 1, 2, 4, 5, 3});
}

/// Gradient [N, P] by the position along dimension k. `value` [N, C, P, taps..]: of the input; g [N, C, P, 1..]: of the result.
Tensor position_gradient(const Sampler& s, const std::vector<Taps>& taps, const Tensor& value, const Tensor& g, size_t k) {
  const int64_t n = value.size(0), c = value.size(1), p = value.size(2);
  auto weight = [&](const Tensor& w) { return w.unsqueeze(1); };
  Tensor terms;  // [N, P, what is added up]
  if (s.interpolation == kBicubic) {
    terms = s.step(s.step(s.step(value * g) * weight(taps[k].slope)) * weight(taps[1 - k].weight));
    terms = terms.permute(Dims{0, 2, 1, 4, 3});
  } else if (s.flat()) {
    const auto axis = static_cast<int64_t>(3 + k);
    Tensor apart = s.step(value.slice(axis, 1, 2) - value.slice(axis, 0, 1));
    Tensor parts = s.step(apart * weight(taps[1 - k].weight)).reshape({n, c, p, 2});
    terms = s.step(s.step(parts.select(3, 0) + parts.select(3, 1)) * g.reshape({n, c, p})).permute(Dims{0, 2, 1});
  } else {
    terms = value;
    for (size_t j = s.n(); j-- > 0;)
      if (j != k) terms = s.step(terms * weight(taps[j].weight));
    terms = (s.step(terms * g) * weight(taps[k].slope)).permute(Dims{0, 2, 1, 3, 4, 5});
  }
  return row_sums(s, terms.reshape({n * p, terms.numel() / (n * p)})).reshape({n, p});
}

}  // namespace

Tensor grid_sampler(Args& a) {
  Sampler s = read_sampler(a, 0);
  DType d = s.input.dtype(), c = s.grid.dtype();
  Dims sizes{s.input.size(0), s.input.size(1)};
  sizes.append(s.out.begin(), s.out.end());
  if (any_zero(sizes)) return zeros(sizes, d);
  std::vector<Taps> taps = all_taps(s);
  Corners all = corners(s, taps);
  Tensor v = where(all.inside.unsqueeze(1), gather_flat(s.input, flat_position(all.position, s)).cast(c), constant(c, 0.0));
  // A NaN in the grid stays one.
  if (s.interpolation == kBicubic) {  // row by row
    for (int64_t k : {1, 0}) {
      Dims shape = v.sizes();
      Tensor weight = taps[k].weight.reshape(k ? Dims{shape[0], 1, shape[2], 1, 4} : Dims{shape[0], 1, shape[2], 4});
      v = reduce_in_order(s.step(v * weight), Op::ADD, {3 + k}, d);
    }
  } else {
    if (all.weight.defined()) v = s.step(v * all.weight.unsqueeze(1));
    v = reduce_in_order(v, Op::ADD, axes_from(3, s.n()), d);
  }
  return v.reshape(sizes).cast(d);
}

Results grid_sampler_backward(Args& a) {
  Sampler s = read_sampler(a, 1);
  DType d = s.input.dtype(), c = s.grid.dtype();
  bool want_input = a.ints(6)[0] != 0, want_grid = a.ints(6)[1] != 0;
  int64_t n = s.input.size(0), channels = s.input.size(1), places = product(s.out);
  Results r{want_input ? zeros(s.input.sizes(), d) : Tensor(), want_grid ? zeros(s.grid.sizes(), d) : Tensor()};
  if (n * channels * places == 0) return r;
  std::vector<Taps> taps = all_taps(s);
  Corners all = corners(s, taps);
  Dims shape(3 + s.n(), 1);
  shape[0] = n, shape[1] = channels, shape[2] = places;
  Tensor g = a.tensor(0).cast(c).reshape(shape), at = flat_position(all.position, s), inside = all.inside.unsqueeze(1);
  if (want_input) {
    Tensor source = g;
    if (s.interpolation == kBicubic) source = s.step(s.step(g * taps[1].weight.unsqueeze(1)) * taps[0].weight.unsqueeze(1));
    else if (all.weight.defined()) source = s.step(g * all.weight.unsqueeze(1));
    Tensor place = in_registers(s, where(inside, at, index_constant(-1)), index_constant(-1));
    source = in_registers(s, source.expand(at.sizes()).cast(d), constant(d, 0.0));
    Dims planes{n * channels, place.numel() / (n * channels), 1};
    r[0] = scatter_flat(zeros({s.input.numel()}, d), place.reshape(planes), source.reshape(planes), Op::ADD).reshape(s.input.sizes());
  }
  if (!want_grid || s.interpolation == kNearest) return r;
  Tensor value = where(inside, gather_flat(s.input, at).cast(c), constant(c, 0.0));
  std::vector<Tensor> parts;
  for (size_t k = s.n(); k-- > 0;) {
    Tensor by_position = position_gradient(s, taps, value, g, k);
    parts.push_back((by_position * taps[k].scale.reshape({n, places})).unsqueeze(-1));
  }
  r[1] = cat(parts, 2).reshape(s.grid.sizes()).cast(d);
  return r;
}

}  // namespace tiny::lower
