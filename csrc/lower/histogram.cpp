#include "lower/histogram.h"

#include <cmath>

#include <fmt/format.h>

#include "lower/nn_util.h"
#include "lower/sort.h"

namespace tiny::lower {
namespace {

struct Range {
  Tensor low, high;   // 0-d
};

/// A range of no length is widened: histc by 1 on each side, the others by 1/2.
Range widened_range(Range r, double by) {
  Tensor same = eq(r.low, r.high);
  return {where(same, r.low - by, r.low), where(same, r.high + by, r.high)};
}

Tensor checked_finite(const Tensor& x) {
  return check(x, lt(abs(x), like(x, INFINITY)), "histogram: range is not finite", 0);
}

Range range_of(const Tensor& x, double widening) {
  if (x.numel() == 0) return widening == 1 ? widened_range({like(x, 0), like(x, 0)}, 1) : Range{like(x, 0), like(x, 1)};
  return widened_range({checked_finite(x.amin()), checked_finite(x.amax())}, widening);
}

Range given_range(DType c, double low, double high, double widening) {
  if (!(std::isfinite(low) && std::isfinite(high))) fail(ErrorKind::Runtime,
      fmt::format("histogram: range of [{}, {}] is not finite", low, high));
  if (low > high) fail(ErrorKind::Runtime, "histogram: max must be larger than min");
  return widened_range({scalar(c, low), scalar(c, high)}, widening);
}

/// Adds each weight (1 without) to its bin; bin -1 counts nowhere.
Tensor fill_bins(const Tensor& bin, int64_t bins, const Tensor& weight, DType c) {
  int64_t n = bin.numel();
  if (n == 0) return zeros({bins}, c);
  if (weight.defined()) return scatter_rows(zeros({bins}, c), bin.reshape({n}), weight.reshape({n}), Op::ADD);
  return scatter_rows(zeros({bins}, DType::i64), bin.reshape({n}), full({n}, index_constant(1)), Op::ADD).cast(c);
}

/// Bins of equal width; the last one has its upper edge. Every step is rounded to d, as PyTorch does: it decides between neighbours.
Tensor linear_bins(const Tensor& x, const Range& r, int64_t bins, DType d) {
  auto rounded = [&](const Tensor& t) { return t.cast(d).cast(x.dtype()); };
  Tensor inside = le(r.low, x) & le(x, r.high), scaled = rounded(rounded(x - r.low) * rounded(like(x, static_cast<double>(bins))));
  Tensor position = rounded(scaled / rounded(r.high - r.low));
  Tensor i = where(inside, position, like(x, 0)).cast(DType::i64);
  return where(inside, minimum(i, index_constant(bins - 1)), index_constant(-1));
}

/// Bins between given edges; the last one has its upper edge.
Tensor searched_bins(const Tensor& x, const Tensor& edges) {
  int64_t bins = edges.size(0) - 1;
  Tensor first = edges.select(0, 0), last = edges.select(0, bins), inside = le(first, x) & le(x, last);
  Tensor i = count_before(edges.contiguous(), x, true) - index_constant(1);
  return where(inside, minimum(maximum(i, index_constant(0)), index_constant(bins - 1)), index_constant(-1));
}

/// As torch.linspace: counted from the nearer end.
Tensor edges_of(const Range& r, int64_t bins) {
  Tensor i = iota(bins + 1).cast(r.low.dtype()), step = (r.high - r.low) / static_cast<double>(bins);
  Tensor from_end = r.high - (like(i, static_cast<double>(bins)) - i) * step;
  return where(lt(i, like(i, static_cast<double>((bins + 1) / 2))), r.low + i * step, from_end);
}

void check_bins(int64_t bins) {
  if (bins <= 0) fail(ErrorKind::Runtime, fmt::format("torch.histogram(): bins must be > 0, but got {} for dimension 0", bins));
}

/// Points [P, N] of a histogram in N dimensions.
struct Points {
  Tensor x, weight;
  int64_t count, n;
};

Points points(const Args& a, int weight) {
  const Tensor& x = a.tensor(0);
  require_float(a, x.dtype());
  if (x.dim() < 2) fail(ErrorKind::Runtime, "torch.histogramdd: input tensor should have at least 2 dimensions");
  int64_t n = x.size(-1), count = n ? x.numel() / n : 0;
  DType c = compute_dtype(x.dtype());
  return {x.cast(c).reshape({count, n}), a.has(weight) ? a.tensor(weight).cast(c).reshape({count}) : Tensor(), count, n};
}

void check_weight(const Args& a, int weight) {
  if (!a.has(weight)) return;
  Dims sizes(a.tensor(0).sizes().begin(), a.tensor(0).sizes().end() - 1);
  if (!(a.tensor(weight).sizes() == sizes)) fail(ErrorKind::Runtime,
      "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding its innermost "
      "dimension");
  if (a.tensor(weight).dtype() != a.tensor(0).dtype()) fail(ErrorKind::Runtime,
      "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same dtype");
}

std::vector<Range> ranges(const Args& a, const Points& p, int at) {
  std::vector<Range> r;
  for (int64_t d = 0; d < p.n; ++d) {
    size_t k = static_cast<size_t>(2 * d);
    if (a.has(at)) r.push_back(given_range(p.x.dtype(), a.doubles(at)[k], a.doubles(at)[k + 1], 0.5));
    else r.push_back(range_of(p.x.select(1, d), 0.5));
  }
  return r;
}

Tensor density_of(const Tensor& hist, const std::vector<Tensor>& edges) {
  Tensor r = hist / hist.sum();
  for (size_t d = 0; d < edges.size(); ++d) {
    int64_t bins = edges[d].size(0) - 1;
    Dims shape(edges.size(), 1);
    shape[d] = bins;
    r = r / (edges[d].slice(0, 1, bins + 1) - edges[d].slice(0, 0, bins)).reshape(shape);
  }
  return r;
}

/// The histogram over all dimensions from each one's bins.
Tensor combined(const Points& p, const std::vector<Tensor>& bin, const Dims& bins) {
  Tensor at, outside;
  for (size_t d = 0; d < bin.size(); ++d) {
    Tensor out = lt(bin[d], index_constant(0));
    outside = outside.defined() ? outside | out : out;
    at = at.defined() ? at * index_constant(bins[d]) + bin[d] : bin[d];
  }
  return fill_bins(where(outside, index_constant(-1), at), product(bins), p.weight, p.x.dtype()).reshape(bins);
}

/// As the bins of equal width, put right by comparison with the edges themselves.
Tensor equal_bins(const Tensor& x, const Range& r, const Tensor& edges) {
  int64_t bins = edges.size(0) - 1;
  Tensor inside = le(r.low, x) & le(x, r.high);
  Tensor guess = where(inside, (x - r.low) * static_cast<double>(bins) / (r.high - r.low), like(x, 0)).cast(DType::i64);
  guess = minimum(guess, index_constant(bins - 1));
  Tensor e = edges.contiguous(), one = index_constant(1);
  Tensor lower = gather_flat(e, guess), upper = gather_flat(e, guess + one);
  Tensor i = where(lt(x, lower), guess - one, where(ge(x, upper), guess + one, guess));
  return where(inside, minimum(maximum(i, index_constant(0)), index_constant(bins - 1)), index_constant(-1));
}

Results histogram(const Args& a, const Tensor& edges, const Tensor& bin, bool density, int weight) {
  DType d = a.tensor(0).dtype(), c = compute_dtype(d);
  Tensor hist = fill_bins(bin, edges.size(0) - 1, a.has(weight) ? a.tensor(weight).cast(c) : Tensor(), c);
  if (density) hist = density_of(hist, {edges});
  return {hist.cast(d), edges.cast(d)};
}

/// Integers, whose bins are computed exactly. PyTorch's CPU has no such kernel, but its CUDA does, and programs (routers of mixtures of
/// experts) ask for it on whatever is not a CPU.
Tensor histc_of_integers(const Args& a, int64_t bins) {
  const Tensor& given = a.tensor(0);
  const auto least = static_cast<int64_t>(a.number(2, 0)), greatest = static_cast<int64_t>(a.number(3, 0));
  if (least > greatest) fail(ErrorKind::Runtime, "max must be larger than min");
  Tensor x = given.cast(DType::i64).reshape({given.numel()});
  Range r{scalar(DType::i64, least), scalar(DType::i64, greatest)};
  if (least == greatest && x.numel() > 0) r = {x.amin(), x.amax()};
  if (least == greatest) r = widened_range(r, 1);
  Tensor inside = le(r.low, x) & le(x, r.high);
  Tensor bin = where(inside, x - r.low, index_constant(0)) * index_constant(bins) / (r.high - r.low);
  return fill_bins(where(inside, minimum(bin, index_constant(bins - 1)), index_constant(-1)), bins, Tensor(), given.dtype());
}

}  // namespace

Tensor histc(Args& a) {
  const Tensor& given = a.tensor(0);
  DType d = given.dtype(), c = compute_dtype(d);
  int64_t bins = a.integer(1, 100);
  if (is_int(d)) {
    if (bins <= 0) fail(ErrorKind::Runtime, "bins must be > 0");
    return histc_of_integers(a, bins);
  }
  require_float(a, d);
  if (bins <= 0) fail(ErrorKind::Runtime, "bins must be > 0");
  double low = a.number(2, 0), high = a.number(3, 0);
  Tensor x = given.cast(c).reshape({given.numel()});
  Range r = low == high ? range_of(x, 1) : given_range(c, low, high, 1);
  if (low == high && low != 0 && x.numel() == 0) r = given_range(c, low, high, 1);
  return fill_bins(linear_bins(x, r, bins, d), bins, Tensor(), c).cast(d);
}

Results histogram_bins(Args& a) {
  const Tensor &x = a.tensor(0), &edges = a.tensor(1);
  require_float(a, x.dtype());
  if (edges.dim() != 1 || edges.numel() < 2) fail(ErrorKind::Runtime,
      "torch.histogramdd(): bins tensor should have one dimension and at least 2 elements");
  if (edges.dtype() != x.dtype()) fail(ErrorKind::Runtime, "torch.histogramdd(): input tensor and bins tensors should have the same dtype");
  DType c = compute_dtype(x.dtype());
  Tensor e = edges.cast(c);
  return histogram(a, e, searched_bins(x.cast(c).reshape({x.numel()}), e), a.flag(3), 2);
}

Results histogram_count(Args& a) {
  const Tensor& x = a.tensor(0);
  require_float(a, x.dtype());
  int64_t bins = a.integer(1, 100);
  check_bins(bins);
  DType c = compute_dtype(x.dtype());
  Tensor flat = x.cast(c).reshape({x.numel()});
  Range r = a.has(2) ? given_range(c, a.doubles(2)[0], a.doubles(2)[1], 0.5) : range_of(flat, 0.5);
  Tensor edges = edges_of(r, bins);
  return histogram(a, edges, equal_bins(flat, r, edges), a.flag(4), 3);
}

Results histogramdd_edges(Args& a) {
  Points p = points(a, 3);
  if (static_cast<int64_t>(a.ints(1).size()) != p.n)
    fail(ErrorKind::Runtime, fmt::format("histogramdd: The size of bins must be equal to the innermost dimension of the input."));
  Results edges;
  std::vector<Range> r = ranges(a, p, 2);
  for (size_t d = 0; d < r.size(); ++d) {
    check_bins(a.ints(1)[d]);
    edges.push_back(edges_of(r[d], a.ints(1)[d]).cast(a.tensor(0).dtype()));
  }
  return edges;
}

Tensor histogramdd_count(Args& a) {
  check_weight(a, 3);
  Points p = points(a, 3);
  std::vector<Range> r = ranges(a, p, 2);
  std::vector<Tensor> bin, edges;
  for (size_t d = 0; d < r.size(); ++d) {
    edges.push_back(edges_of(r[d], a.ints(1)[d]));
    bin.push_back(equal_bins(p.x.select(1, static_cast<int64_t>(d)), r[d], edges.back()));
  }
  Tensor hist = combined(p, bin, a.ints(1));
  return (a.flag(4) ? density_of(hist, edges) : hist).cast(a.tensor(0).dtype());
}

Tensor histogramdd_bins(Args& a) {
  check_weight(a, 2);
  Points p = points(a, 2);
  std::vector<Tensor> bin, edges;
  Dims bins;
  for (int64_t d = 0; d < p.n; ++d) {
    edges.push_back(a.tensors(1)[static_cast<size_t>(d)].cast(p.x.dtype()));
    bin.push_back(searched_bins(p.x.select(1, d), edges.back()));
    bins.push_back(edges.back().size(0) - 1);
  }
  Tensor hist = combined(p, bin, bins);
  return (a.flag(3) ? density_of(hist, edges) : hist).cast(a.tensor(0).dtype());
}

}  // namespace tiny::lower
