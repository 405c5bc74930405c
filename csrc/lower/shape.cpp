#include "lower/shape.h"

#include <fmt/format.h>

#include <cmath>

#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

/// Column minus row at each place of the last two dimensions of `x`.
Tensor distance_from_diagonal(int64_t rows, int64_t columns) { return iota(columns) - iota(rows).reshape({rows, 1}); }

Tensor triangle(Args& a, bool lower) {
  const Tensor& x = a.tensor(0);
  if (x.dim() < 2) fail(ErrorKind::Runtime, fmt::format("{}: input tensor must have at least 2 "
                                                        "dimensions", lower ? "tril" : "triu"));
  Tensor distance = distance_from_diagonal(x.size(-2), x.size(-1)), k = index_constant(a.integer(1, 0));
  return where(lower ? le(distance, k) : ge(distance, k), x, like(x, 0));
}

bool all_integers(const Args& a, std::initializer_list<int> positions) {
  for (int i : positions)
    if (a.values[i].kind == ArgKind::Double) return false;
  return true;
}

/// i-th of `steps` numbers: counted from the nearer end, so that both ends are exact. The CPU does all of it in type d.
Tensor even_steps(int64_t steps, const Tensor& start, const Tensor& end, const Tensor& step, DType d) {
  Tensor i = iota(steps), from_end = index_constant(steps - 1) - i;
  auto times = [&](const Tensor& n) { return rounded(step * rounded(n.cast(start.dtype()), d), d); };
  return where(lt(i, index_constant(steps / 2)), start + times(i), end - times(from_end));
}

/// In the type `compute`; `step`: the type to which every step is rounded.
Tensor spaced(Args& a, DType compute, DType step) {
  int64_t steps = a.integer(2);
  if (steps < 0) fail(ErrorKind::Runtime, "number of steps must be non-negative");
  Tensor start = rounded(a.as(0, compute), step), end = rounded(a.as(1, compute), step);
  if (steps == 1) return start.reshape({1});
  if (steps == 0) return empty_value({0}, compute);
  Tensor count = rounded(scalar(compute, static_cast<double>(steps - 1)), step);
  return even_steps(steps, start, end, rounded(rounded(end - start, step) / count, step), step);
}

/// An end of a sequence of integers is an integer.
ArgValue truncated(const Args& a, int i) {
  ArgValue v;
  v.kind = ArgKind::Int;
  v.i = a.integer(i);
  return v;
}

Tensor spaced_of_dtype(Args& a, DType d, bool exact) {
  DType c = compute_dtype(d);
  if (is_float(d)) return spaced(a, c, exact ? c : d);
  a.values[0] = truncated(a, 0), a.values[1] = truncated(a, 1);
  return spaced(a, DType::f64, DType::f64);
}

}  // namespace

Tensor arange(Args& a) {
  bool integral = all_integers(a, {0, 1, 2});
  DType d = a.out_dtype(0, integral ? DType::i64 : a.default_float);
  integral |= d == DType::i64;  // then the ends and the step are truncated
  double start = a.number(0), end = a.number(1), step = a.number(2, 1);
  if (step == 0) fail(ErrorKind::Runtime, "step must be nonzero");
  if (integral && a.integer(2, 1) == 0) fail(ErrorKind::Argument, "step must be nonzero");
  if (!std::isfinite(start) || !std::isfinite(end)) fail(ErrorKind::Runtime, fmt::format("unsupported range: {} -> {}", start, end));
  if ((step > 0 && end < start) || (step < 0 && end > start))
    fail(ErrorKind::Runtime, "upper bound and lower bound inconsistent with step sign");
  if (integral) {
    int64_t s = a.integer(0), e = a.integer(1), by = a.integer(2, 1);
    int64_t n = e == s ? 0 : static_cast<int64_t>((static_cast<__int128>(e) - s + by + (by > 0 ? -1 : 1)) / by);
    Tensor i = iota(n);
    if (by != 1) i = i * scalar(DType::i64, by);
    return (s ? i + scalar(DType::i64, s) : i).cast(d);
  }
  int64_t n = static_cast<int64_t>(std::ceil((end - start) / step));
  if (is_int(d)) {  // integers advance by the truncated step
    int64_t s = static_cast<int64_t>(start), by = static_cast<int64_t>(step);
    return (iota(n) * scalar(DType::i64, by) + scalar(DType::i64, s)).cast(d);
  }
  return (iota(n).cast(DType::f64) * scalar(DType::f64, step) + scalar(DType::f64, start)).cast(d);
}

Tensor cat(Args& a) {
  DType d = DType::count;
  bool dimensioned = false;
  std::vector<Tensor> parts;
  for (const Tensor& t : a.tensors(0)) {
    // Tensors with dimensions decide, as in every promotion; empty 1-d ones take part in the dtype only.
    bool wide = t.dim() > 0;
    if (d == DType::count || (wide && !dimensioned)) d = t.dtype();
    else if (wide == dimensioned) d = promote(d, t.dtype());
    dimensioned |= wide;
    if (t.dim() == 1 && t.numel() == 0) continue;
    parts.push_back(t);
  }
  d = a.out_dtype(0, d);
  if (parts.empty()) return empty_value({0}, d);
  for (Tensor& t : parts) t = t.cast(d);
  return cat(parts, a.integer(1));
}

Tensor channel_shuffle(Args& a) {
  const Tensor& x = a.tensor(0);
  int64_t groups = a.integer(1);
  if (x.dim() < 3) fail(ErrorKind::Runtime, fmt::format("channel_shuffle expects input with > 2 dims, but got input with "
                                                        "sizes {}", sizes_text(x.sizes())));
  if (groups <= 0) fail(ErrorKind::Runtime, fmt::format("Number of groups to divide channels in must be positive. Value of "
                                                        "groups:{}", groups));
  if (x.size(1) % groups) fail(ErrorKind::Runtime, fmt::format("Number of channels must be divisible by groups. Got {} "
                                                               "channels and {} groups.", x.size(1), groups));
  if (x.numel() == 0) return x;
  return x.reshape({x.size(0), groups, x.size(1) / groups, -1}).transpose(1, 2).reshape(x.sizes());
}

Tensor constant_pad(Args& a) {
  const Tensor& x = a.tensor(0);
  const Dims& pad = a.ints(1);
  int64_t n = static_cast<int64_t>(pad.size()) / 2;
  if (pad.size() % 2) fail(ErrorKind::Runtime, fmt::format("Length of pad must be even but instead it equals {}", pad.size()));
  if (n > x.dim())
    fail(ErrorKind::Runtime, fmt::format("Length of pad should be no more than twice the number of dimensions of the input. "
                                         "Pad length is {} while the input has {} dimensions.",
                                         pad.size(), x.dim()));
  Dims lo(x.dim()), hi(x.dim());
  for (int64_t k = 0; k < n; ++k) {
    int64_t d = x.dim() - 1 - k;
    lo[d] = pad[2 * k], hi[d] = pad[2 * k + 1];
    if (x.size(d) + lo[d] + hi[d] < 0)
      fail(ErrorKind::Runtime, fmt::format("The input size {}, plus negative padding {} and {} resulted in a negative "
                                           "output size, which is invalid. Check dimension {} of your input.",
                                           x.size(d), lo[d], hi[d], d));
  }
  if (x.numel() == 0) {
    Dims sizes = x.sizes();
    for (int64_t d = 0; d < x.dim(); ++d) sizes[d] += lo[d] + hi[d];
    return full(sizes, a.as(2, x.dtype()));
  }
  if (!a.has(2) || a.number(2) == 0) return x.pad(lo, hi);
  return x.pad(lo, hi, a.as(2, x.dtype()));
}

Tensor eye(Args& a) {
  if (a.integer(0) < 0) fail(ErrorKind::Runtime, fmt::format("n must be greater or equal to 0, got {}", a.integer(0)));
  return eq(distance_from_diagonal(a.integer(0), a.integer(0)), index_constant(0)).cast(a.out_dtype(0, a.default_float));
}
Tensor eye_m(Args& a) {
  if (a.integer(0) < 0) fail(ErrorKind::Runtime, fmt::format("n must be greater or equal to 0, got {}", a.integer(0)));
  if (a.integer(1) < 0) fail(ErrorKind::Runtime, fmt::format("m must be greater or equal to 0, got {}", a.integer(1)));
  return eq(distance_from_diagonal(a.integer(0), a.integer(1)), index_constant(0)).cast(a.out_dtype(0, a.default_float));
}

Tensor flip(Args& a) {
  const Tensor& x = a.tensor(0);
  uint64_t seen = 0;
  for (int64_t d : a.ints(1)) {
    d = wrap_dim(d, x.dim());
    if (seen >> d & 1) fail(ErrorKind::Runtime, fmt::format("dim {} appears multiple times in the list of dims", d));
    seen |= 1ull << d;
  }
  return x.numel() == 0 ? x : x.flip(a.ints(1));
}

Tensor linspace(Args& a) {
  DType d = a.out_dtype(0, a.default_float);
  return spaced_of_dtype(a, d, false).cast(d);
}

Tensor logspace(Args& a) {
  DType d = a.out_dtype(0, a.default_float);
  Tensor e = spaced_of_dtype(a, d, true), base = scalar(e.dtype(), a.number(3));
  if (e.numel() == 0) return e.cast(d);
  return binary(Op::POW, base, e).cast(d);
}

Tensor pixel_shuffle(Args& a) {
  const Tensor& x = a.tensor(0);
  int64_t r = a.integer(1), n = x.dim();
  if (n < 3) fail(ErrorKind::Runtime, fmt::format("pixel_shuffle expects input to have at least 3 dimensions, but got input "
                                                  "with {} dimension(s)", n));
  if (r <= 0) fail(ErrorKind::Runtime, fmt::format("pixel_shuffle expects a positive upscale_factor, but got {}", r));
  if (x.size(-3) % (r * r))
    fail(ErrorKind::Runtime, fmt::format("pixel_shuffle expects its input's 'channel' dimension to be divisible by the "
                                         "square of upscale_factor, but input.size(-3)={} is not divisible by {}",
                                         x.size(-3), r * r));
  Dims lead(x.sizes().begin(), x.sizes().end() - 3), out = lead;
  int64_t c = x.size(-3) / (r * r), h = x.size(-2), w = x.size(-1);
  for (int64_t s : {c, h * r, w * r}) out.push_back(s);
  if (x.numel() == 0) return empty_value(out, x.dtype());
  int64_t order[] = {0, 1, 4, 2, 5, 3};
  return x.reshape({product(lead), c, r, r, h, w}).permute(order).reshape(out);
}

Tensor pixel_unshuffle(Args& a) {
  const Tensor& x = a.tensor(0);
  int64_t r = a.integer(1), n = x.dim();
  if (n < 3) fail(ErrorKind::Runtime, fmt::format("pixel_unshuffle expects input to have at least 3 dimensions, but got "
                                                  "input with {} dimension(s)", n));
  if (r <= 0) fail(ErrorKind::Runtime, fmt::format("pixel_unshuffle expects a positive downscale_factor, but got {}", r));
  if (x.size(-2) % r || x.size(-1) % r)
    fail(ErrorKind::Runtime, fmt::format("pixel_unshuffle expects height and width to be divisible by downscale_factor, but "
                                         "input.size(-2)={} or input.size(-1)={} is not divisible by {}",
                                         x.size(-2), x.size(-1), r));
  Dims lead(x.sizes().begin(), x.sizes().end() - 3), out = lead;
  int64_t c = x.size(-3), h = x.size(-2) / r, w = x.size(-1) / r;
  for (int64_t s : {c * r * r, h, w}) out.push_back(s);
  if (x.numel() == 0) return empty_value(out, x.dtype());
  int64_t order[] = {0, 1, 3, 5, 2, 4};
  return x.reshape({product(lead), c, h, r, w, r}).permute(order).reshape(out);
}

Tensor roll(Args& a) {
  Tensor x = a.tensor(0);
  const Dims &shifts = a.ints(1), &dims = a.ints(2);
  if (x.numel() == 0) return x;
  if (shifts.empty()) fail(ErrorKind::Runtime, "`shifts` required");
  if (dims.empty() && shifts.size() == 1) {
    Dims sizes = x.sizes();
    Tensor flat = x.reshape({-1});
    int64_t n = flat.numel(), by = ((shifts[0] % n) + n) % n;
    Tensor parts[] = {flat.slice(0, n - by, n), flat.slice(0, 0, n - by)};
    return cat(parts, 0).reshape(sizes);
  }
  if (shifts.size() != dims.size())
    fail(ErrorKind::Runtime, fmt::format("shifts and dimensions must align. shifts: {}, dims:{}", shifts.size(), dims.size()));
  if (x.dim() == 0) fail(ErrorKind::Index, fmt::format("Dimension specified as {} but tensor has no dimensions", dims[0]));
  for (size_t k = 0; k < dims.size(); ++k) {
    int64_t d = wrap_dim(dims[k], x.dim()), n = x.size(d), by = ((shifts[k] % n) + n) % n;
    if (by == 0) continue;
    Tensor parts[] = {x.slice(d, n - by, n), x.slice(d, 0, n - by)};
    x = cat(parts, d);
  }
  return x;
}

Tensor tril(Args& a) { return triangle(a, true); }
Tensor triu(Args& a) { return triangle(a, false); }

}  // namespace tiny::lower
