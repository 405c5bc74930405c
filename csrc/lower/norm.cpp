#include "lower/norm.h"

#include <fmt/format.h>

#include <limits>

#include "lower/nn_util.h"
#include "lower/reduce.h"

namespace tiny::lower {
namespace {

Dims trailing_axes(int64_t ndim, int64_t count) {
  Dims axes;
  for (int64_t d = ndim - count; d < ndim; ++d) axes.push_back(d);
  return axes;
}

/// Axes of x [N, C, ...] but C.
Dims all_but_channels(const Tensor& x) {
  Dims axes;
  for (int64_t d = 0; d < x.dim(); ++d)
    if (d != 1) axes.push_back(d);
  return axes;
}

/// v [C] so that it broadcasts against x [N, C, ...].
Tensor per_channel(const Tensor& v, const Tensor& x) {
  Dims shape(x.dim(), 1);
  shape[1] = x.size(1);
  return v.reshape(shape);
}

/// Argument i in type c, undefined if it is missing.
Tensor optional(const Args& a, int i, DType c) { return a.has(i) ? a.as(i, c) : Tensor(); }

/// The type in which the CPU keeps what it computes for each row or channel: the first given parameter's, else the input's.
DType statistics_dtype(const Args& a, DType d, std::initializer_list<int> parameters) {
  for (int i : parameters)
    if (a.has(i)) return a.tensor(i).dtype() == d ? d : DType::f32;
  return d;
}

/// x * w + b with either missing.
Tensor scaled(Tensor x, const Tensor& w, const Tensor& b) {
  if (w.defined()) x = x * w;
  return b.defined() ? x + b : x;
}

struct Stats {
  Tensor mean, var;  // dimensions kept
};
Stats stats(const Tensor& x, const Dims& axes) {
  Tensor mean = mean_of(x, axes), apart = x - mean;
  return {mean, mean_of(apart * apart, axes)};
}
Tensor inverse_std(const Tensor& var, double eps) { return recip(sqrt(var + scalar(var.dtype(), eps))); }

/// Gradient of (x - mean(x)) * rstd(x) with respect to x, for grad g and normalised value n: rstd * (g - mean(g) - n * mean(g * n)).
Tensor normalised_gradient(const Tensor& g, const Tensor& n, const Tensor& rstd, const Dims& axes) {
  return rstd * (g - mean_of(g, axes) - n * mean_of(g * n, axes));
}

int64_t checked_normalized(const Args& a, const Tensor& x, int shape) {
  const Dims& want = a.ints(shape);
  if (want.empty())
    fail(ErrorKind::Runtime, "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
                             "normalized_shape = []");
  bool fits = x.dim() >= static_cast<int64_t>(want.size());
  for (size_t k = 0; fits && k < want.size(); ++k) fits = x.size(x.dim() - want.size() + k) == want[k];
  if (!fits)
    fail(ErrorKind::Runtime, fmt::format("Given normalized_shape={}, expected input with shape [*, {}], but got input of "
                                         "size{}", sizes_text(want),
                                         fmt::join(want.begin(), want.end(), ", "), sizes_text(x.sizes())));
  return static_cast<int64_t>(want.size());
}

/// Weight or bias, which have the sizes that are normalised.
Tensor affine(Args& a, int position, const char* name, DType d) {
  if (a.has(position) && !(a.tensor(position).sizes() == a.ints(1)))
    fail(ErrorKind::Runtime, fmt::format("Expected {0} to be of same shape as normalized_shape, but got {0} of shape {1} and "
                                         "normalized_shape = {2}", name, sizes_text(a.tensor(position).sizes()), sizes_text(a.ints(1))));
  return optional(a, position, d);
}

/// Sum over the leading axes, in the shape of the trailing ones and of type d.
Tensor sum_leading(const Tensor& x, int64_t trailing, DType d) {
  Dims axes;
  for (int64_t k = 0; k < x.dim() - trailing; ++k) axes.push_back(k);
  return (axes.empty() ? x : reduce_in_order(x, Op::ADD, axes, d)).cast(d);
}

bool wanted(const Args& a, int mask, size_t k) { return a.ints(mask)[k] != 0; }

}  // namespace

Results layer_norm(Args& a) {
  DType d = a.tensor(0).dtype();
  require_float(a, d);
  Tensor x = widened(a, 0);
  Dims axes = trailing_axes(x.dim(), checked_normalized(a, x, 1));
  Stats s = stats(x, axes);
  Tensor rstd = inverse_std(s.var, a.number(4));
  Tensor y = scaled((x - s.mean) * rstd, affine(a, 2, "weight", x.dtype()), affine(a, 3, "bias", x.dtype()));
  DType kept = statistics_dtype(a, d, {2, 3});
  return {y.cast(d), s.mean.cast(kept), rstd.cast(kept)};
}

Results layer_norm_backward(Args& a) {
  DType d = a.tensor(1).dtype();
  Tensor g = widened(a, 0), x = widened(a, 1), rstd = a.as(4, x.dtype()), w = optional(a, 5, x.dtype());
  int64_t count = static_cast<int64_t>(a.ints(2).size());
  Tensor n = (x - a.as(3, x.dtype())) * rstd;
  Results r(3);
  if (wanted(a, 7, 0)) r[0] = normalised_gradient(w.defined() ? g * w : g, n, rstd, trailing_axes(x.dim(), count)).cast(d);
  if (wanted(a, 7, 1) && a.has(5)) r[1] = sum_leading(g * n, count, a.tensor(5).dtype());
  if (wanted(a, 7, 2) && a.has(6)) r[2] = sum_leading(g, count, a.tensor(6).dtype());
  return r;
}

Results group_norm(Args& a) {
  const Tensor& input = a.tensor(0);
  require_float(a, input.dtype());
  int64_t n = a.integer(3), c = a.integer(4), area = a.integer(5), groups = a.integer(6);
  Tensor x = widened(a, 0).reshape({n, groups, c / groups, area});
  Dims axes{2, 3};
  Stats s = stats(x, axes);
  Tensor rstd = inverse_std(s.var, a.number(7)), w = optional(a, 1, x.dtype()), b = optional(a, 2, x.dtype());
  Dims channels{groups, c / groups, 1};
  Tensor y = scaled((x - s.mean) * rstd, w.defined() ? w.reshape(channels) : w, b.defined() ? b.reshape(channels) : b);
  DType kept = statistics_dtype(a, input.dtype(), {1, 2});
  return {y.reshape(input.sizes()).cast(input.dtype()), s.mean.reshape({n, groups}).cast(kept), rstd.reshape({n, groups}).cast(kept)};
}

Results group_norm_backward(Args& a) {
  const Tensor& input = a.tensor(1);
  int64_t n = a.integer(5), c = a.integer(6), area = a.integer(7), groups = a.integer(8);
  Dims shape{n, groups, c / groups, area}, row{n, groups, 1, 1};
  Tensor g = widened(a, 0).reshape(shape), x = widened(a, 1).reshape(shape), w = optional(a, 4, x.dtype());
  Tensor rstd = a.as(3, x.dtype()).reshape(row), normal = (x - a.as(2, x.dtype()).reshape(row)) * rstd;
  Results r(3);
  Dims axes{2, 3}, others{0, 3};
  DType wd = a.has(4) ? a.tensor(4).dtype() : input.dtype();
  Tensor gw = w.defined() ? g * w.reshape({groups, c / groups, 1}) : g;
  if (wanted(a, 9, 0)) r[0] = normalised_gradient(gw, normal, rstd, axes).reshape(input.sizes()).cast(input.dtype());
  if (wanted(a, 9, 1)) r[1] = (g * normal).sum(others).reshape({c}).cast(wd);
  if (wanted(a, 9, 2)) r[2] = g.sum(others).reshape({c}).cast(wd);
  return r;
}

namespace {

/// old * (1 - momentum) + batch * momentum, in the running statistic's own dtype, in steps of type `step`.
Tensor running(const Args& a, int i, const Tensor& batch, int momentum, DType step) {
  if (!a.has(i)) return {};
  DType d = a.tensor(i).dtype(), c = compute_dtype(d);
  Tensor m = rounded(scalar(c, a.number(momentum)), step), rest = rounded(like(m, 1) - m, step);
  return (rounded(a.as(i, c) * rest, step) + batch.cast(c) * m).cast(d);
}

/// Of n elements; the running variance is the unbiased one.
double elements_per_channel(const Tensor& x) { return static_cast<double>(x.size(1) ? x.numel() / x.size(1) : 0); }
Tensor unbiased(const Tensor& var, double n) { return var * (n / (n - 1)); }

void check_batch_norm_input(const Tensor& x) {
  if (x.dim() < 2) fail(ErrorKind::Runtime, fmt::format("batch_norm: expected at least 2 dimensions, got {}", x.dim()));
}

/// Whether the CPU takes its loop over memory that is not dense. It rounds there after every step, if the parameters are of the
/// elements' type.
bool strided(const Args& a, std::initializer_list<int> parameters) {
  if (!a.values[0].contiguous && !a.values[0].channels_last) return true;
  return std::any_of(parameters.begin(), parameters.end(), [&](int i) { return i >= 0 && a.has(i) && !a.values[i].contiguous; });
}

/// (x - mean) * rstd * w + b in steps of type `step`.
Tensor normalised(const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& w, const Tensor& b, DType step) {
  Tensor y = rounded(rounded(x - per_channel(mean, x), step) * per_channel(rstd, x), step);
  if (w.defined()) y = rounded(y * per_channel(w, x), step);
  return b.defined() ? y + per_channel(b, x) : y;
}

Results batch_norm_training(Args& a, int mean, int var, int momentum, int eps) {
  DType d = a.tensor(0).dtype();
  Tensor x = widened(a, 0), w = optional(a, 1, x.dtype()), b = optional(a, 2, x.dtype());
  Stats s = stats(x, all_but_channels(x));
  // The elements are normalised with the statistics as they are kept. Of dense memory in bfloat16, the variance is a quotient of rounded
  // numbers, and running statistics are rounded at every step.
  DType kept = mean < 0 ? statistics_dtype(a, d, {1, 2}) : statistics_dtype(a, d, {1, 2, mean, var}), step = x.dtype();
  const bool gaps = strided(a, {1, 2, mean, var});
  if (kept == DType::bf16 && !gaps) step = kept;
  const double n = elements_per_channel(x);
  Tensor squares = rounded(s.var * n, step);
  auto divided = [&](double by) { return rounded(squares / rounded(constant(x.dtype(), by), step), step); };
  if (step == DType::bf16) s.var = divided(n);
  Tensor rstd = rounded(inverse_std(s.var, a.number(eps)), kept), center = rounded(s.mean, kept);
  const DType each = kept == d && gaps ? d : x.dtype();
  Dims c{x.size(1)};
  Tensor y = normalised(x, center.reshape(c), rstd.reshape(c), w, b, each);
  Results r{y.cast(d), center.reshape(c).cast(kept), rstd.reshape(c).cast(kept)};
  if (mean < 0) return r;
  r.push_back(running(a, mean, rounded(s.mean, gaps ? kept : step).reshape(c), momentum, step));
  r.push_back(running(a, var, (step == DType::bf16 ? divided(n - 1) : unbiased(s.var, n)).reshape(c), momentum, step));
  return r;
}

}  // namespace

Results batch_norm(Args& a) {
  require_float(a, a.tensor(0).dtype());
  check_batch_norm_input(a.tensor(0));
  if (a.flag(5)) return batch_norm_training(a, 3, 4, 6, 7);
  DType d = a.tensor(0).dtype();
  Tensor x = widened(a, 0), w = optional(a, 1, x.dtype()), b = optional(a, 2, x.dtype());
  Tensor mean = a.as(3, x.dtype()), var = a.as(4, x.dtype()), y;
  DType kept = statistics_dtype(a, d, {1, 2, 3, 4});
  if (strided(a, {1, 2, 3, 4})) {
    const DType each = kept == d ? d : x.dtype();
    Tensor std = rounded(sqrt(rounded(var + rounded(scalar(x.dtype(), a.number(7)), each), each)), each);
    y = normalised(x, mean, rounded(recip(std), each), w, b, each);
  } else {
    // One multiplication and one addition for each element: the factors are computed for each channel.
    Tensor rstd = inverse_std(var, a.number(7));
    y = normalised(x, mean, w.defined() ? rstd * w : rstd, {}, b, x.dtype());
  }
  return {y.cast(d), no_elements(kept), no_elements(kept), Tensor(), Tensor()};
}

Results batch_norm_with_update(Args& a) {
  check_batch_norm_input(a.tensor(0));
  Results r = batch_norm_training(a, 3, 4, 5, 6);
  r.insert(r.begin() + 3, no_elements(DType::u8));
  return r;
}

Results batch_norm_no_stats(Args& a) {
  check_batch_norm_input(a.tensor(0));
  return batch_norm_training(a, -1, -1, 4, 5);
}

Results batch_norm_backward(Args& a) {
  DType d = a.tensor(1).dtype();
  Tensor g = widened(a, 0), x = widened(a, 1), w = optional(a, 2, x.dtype());
  bool train = a.flag(7);
  Dims axes = all_but_channels(x);
  Tensor mean = per_channel(a.as(train ? 5 : 3, x.dtype()), x);
  Tensor rstd = per_channel(train ? a.as(6, x.dtype()) : inverse_std(a.as(4, x.dtype()), a.number(8)), x);
  Tensor n = (x - mean) * rstd, gw = w.defined() ? g * per_channel(w, x) : g;
  Results r(3);
  DType wd = a.has(2) ? a.tensor(2).dtype() : d;
  if (wanted(a, 9, 0)) r[0] = (train ? normalised_gradient(gw, n, rstd, axes) : gw * rstd).cast(d);
  if (wanted(a, 9, 1)) r[1] = (g * n).sum(axes).cast(wd);
  if (wanted(a, 9, 2)) r[2] = g.sum(axes).cast(wd);
  return r;
}

Results batch_norm_stats(Args& a) {
  Tensor x = widened(a, 0);
  Stats s = stats(x, all_but_channels(x));
  Dims c{x.size(1)};
  return {s.mean.reshape(c), inverse_std(s.var, a.number(1)).reshape(c)};
}

Tensor batch_norm_elemt(Args& a) {
  Tensor x = widened(a, 0), w = optional(a, 1, x.dtype()), b = optional(a, 2, x.dtype());
  Tensor n = (x - per_channel(a.as(3, x.dtype()), x)) * per_channel(a.as(4, x.dtype()), x);
  return scaled(n, w.defined() ? per_channel(w, x) : w, b.defined() ? per_channel(b, x) : b).cast(a.tensor(0).dtype());
}

Results batch_norm_update_stats(Args& a) {
  Tensor x = widened(a, 0);
  Stats s = stats(x, all_but_channels(x));
  Dims c{x.size(1)};
  Tensor mean = s.mean.reshape(c), var = s.var.reshape(c);
  const DType step = a.has(1) && a.tensor(1).dtype() == DType::bf16 ? DType::bf16 : x.dtype();
  return {mean, var, running(a, 1, mean, 3, step), running(a, 2, unbiased(var, elements_per_channel(x)), 3, step)};
}

namespace {

/// All dimensions but `dim`.
Dims other_axes(const Tensor& x, int64_t dim) {
  Dims axes;
  int64_t kept = wrap_dim(dim, x.dim());
  for (int64_t d = 0; d < x.dim(); ++d)
    if (d != kept) axes.push_back(d);
  return axes;
}

/// A sum over these axes, dimensions kept; no axes: the value itself.
Tensor sum_over(const Tensor& x, const Dims& axes) { return axes.empty() ? x : x.sum(axes, true); }

}  // namespace

Results weight_norm(Args& a) {
  const Tensor& v = a.tensor(0);
  DType d = v.dtype(), c = compute_dtype(d);
  Tensor x = v.cast(c), norms = sqrt(sum_over(x * x, other_axes(v, a.integer(2, 0))));
  return {(x * (a.tensor(1).cast(c) / norms)).cast(d), norms.cast(c == d ? d : DType::f32)};
}

Results weight_norm_backward(Args& a) {
  const Tensor& v = a.tensor(1);
  DType d = v.dtype(), c = compute_dtype(d);
  Tensor grad = a.tensor(0).cast(c), x = v.cast(c), g = a.tensor(2).cast(c), norms = a.tensor(3).cast(c);
  Tensor along = sum_over(grad * x, other_axes(v, a.integer(4)));
  Tensor grad_v = g / norms * (grad - x * (along / (norms * norms)));
  return {grad_v.cast(d), (along / norms).cast(a.tensor(2).dtype())};
}

}  // namespace tiny::lower
