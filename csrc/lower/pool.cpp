#include "lower/pool.h"

#include <fmt/format.h>

#include "lower/nn_util.h"
#include "lower/pointwise.h"

namespace tiny::lower {
namespace {

/// No flat index reaches this: marks elements that are padding.
constexpr int64_t kNowhere = int64_t{1} << 62;

struct Window {
  Dims kernel, stride, padding, dilation, in, out;
  size_t n() const { return kernel.size(); }
};

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a ^ b) < 0); }

/// Number of windows along a dimension. With ceil_mode the last window may hang over, but starts inside the input or its left padding.
int64_t pooled_size(int64_t in, int64_t kernel, int64_t padding, int64_t stride, int64_t dilation, bool ceil_mode) {
  int64_t out = floor_div(in + 2 * padding - dilation * (kernel - 1) - 1 + (ceil_mode ? stride - 1 : 0), stride) + 1;
  if (ceil_mode && (out - 1) * stride >= in + padding) --out;
  return out;
}

Window read_window(const Tensor& x, size_t n, const Dims& kernel, const Dims& stride, const Dims& padding, const Dims& dilation,
                   bool ceil_mode) {
  Window w;
  if (x.dim() != static_cast<int64_t>(n) + 1 && x.dim() != static_cast<int64_t>(n) + 2)
    fail(ErrorKind::Runtime,
         fmt::format("Expected {}D or {}D (batch mode) tensor, but got input of size: {}", n + 1, n + 2, sizes_text(x.sizes())));
  w.kernel = expand_ints(kernel, n, {}, "kernel_size");
  w.stride = expand_ints(stride, n, w.kernel, "stride");
  w.padding = expand_ints(padding, n, Dims(n, 0), "padding");
  w.dilation = expand_ints(dilation, n, Dims(n, 1), "dilation");
  w.in = Dims(x.sizes().end() - n, x.sizes().end());
  w.out = Dims(n);
  for (size_t d = 0; d < n; ++d) {
    if (w.kernel[d] <= 0) fail(ErrorKind::Runtime, "kernel size should be greater than zero");
    if (w.stride[d] <= 0) fail(ErrorKind::Runtime, "stride should be greater than zero");
    if (w.padding[d] < 0 || w.padding[d] > ((w.kernel[d] - 1) * w.dilation[d] + 1) / 2)
      fail(ErrorKind::Runtime, "pad should be at most half of effective kernel size");
    w.out[d] = pooled_size(w.in[d], w.kernel[d], w.padding[d], w.stride[d], w.dilation[d], ceil_mode);
    if (w.out[d] < 1)
      fail(ErrorKind::Runtime, fmt::format("Given input size: {}. Calculated output size: {}. Output size is too small",
                                           sizes_text(x.sizes()), sizes_text(w.out)));
  }
  return w;
}

/// Sizes of `x` with the trailing dimensions replaced.
Dims with_trailing(const Tensor& x, const Dims& trailing) {
  Dims s(x.sizes().begin(), x.sizes().end() - trailing.size());
  s.append(trailing.begin(), trailing.end());
  return s;
}

/// [N, C, D..] or [C, D..] as [L, D..].
Tensor planes(const Tensor& x, size_t n) {
  Dims s{product(std::span<const int64_t>(x.sizes().data(), x.sizes().size() - n))};
  s.append(x.sizes().end() - n, x.sizes().end());
  return x.reshape(s);
}

Dims trailing_axes(size_t first, size_t n) {
  Dims axes;
  for (size_t d = 0; d < n; ++d) axes.push_back(static_cast<int64_t>(first + d));
  return axes;
}

/// [L, D..] to its windows [L, O.., K..], `fill` in the padding.
Tensor windows_of(const Tensor& x, const Window& w, const Tensor& fill) {
  Dims lo = w.padding, hi(w.n());
  for (size_t d = 0; d < w.n(); ++d)
    hi[d] = std::max<int64_t>((w.out[d] - 1) * w.stride[d] + w.dilation[d] * (w.kernel[d] - 1) + 1 - w.in[d] - lo[d], 0);
  Tensor p = pad_trailing(x, lo, hi, &fill);
  Dims ps = contiguous_strides(p.sizes()), sizes{p.size(0)}, strides{ps[0]};
  for (size_t d = 0; d < w.n(); ++d) sizes.push_back(w.out[d]), strides.push_back(w.stride[d] * ps[d + 1]);
  for (size_t d = 0; d < w.n(); ++d) sizes.push_back(w.kernel[d]), strides.push_back(w.dilation[d] * ps[d + 1]);
  return p.view(sizes, strides, 0);
}

/// Greatest element of each window and its flat index. values [L, O.., K..]; where [1, O.., K..] holds the flat index of each element,
/// kNowhere for padding. Among NaNs the last wins, as in PyTorch's CPU kernel: negated, the least index is the last one.
Results greatest(const Tensor& values, const Tensor& where_is, size_t n, const Dims& sizes) {
  Dims axes = trailing_axes(1 + n, n);
  Tensor best = values.amax(axes, true);
  Tensor hit = eq(values, best), key = where_is;
  if (is_float(values.dtype())) {
    hit = binary(Op::OR, hit, ne(values, values));
    key = where(ne(best, best), -where_is, where_is);
  }
  Tensor inside = lt(where_is, index_constant(kNowhere));
  Tensor index = where(binary(Op::AND, hit, inside), key, index_constant(kNowhere)).amin(axes).unary(Op::ABS);
  return {best.reshape(sizes), index.reshape(sizes)};
}

Results max_pool(Args& a, size_t n) {
  const Tensor& x = a.tensor(0);
  Window w = read_window(x, n, a.ints(1), a.ints(2), a.ints(3), a.ints(4), a.flag(5));
  Dims sizes = with_trailing(x, w.out);
  if (any_zero(sizes)) return {zeros(sizes, x.dtype()), zeros(sizes, DType::i64)};
  Dims plane{1};
  plane.append(w.in.begin(), w.in.end());
  Tensor values = windows_of(planes(x, n), w, lowest(x.dtype()));
  Tensor index = windows_of(iota(product(w.in)).reshape(plane), w, index_constant(kNowhere));
  return greatest(values, index, n, sizes);
}

/// Adds each gradient at its flat index, in the gradient's own type as the CPU does. Planes are independent; within one, windows may share
/// an element.
Tensor scatter_gradient(const Tensor& g, const Tensor& x, const Tensor& indices, size_t n) {
  if (!(indices.sizes() == g.sizes()))
    fail(ErrorKind::Runtime, fmt::format("expected indices of size {}, but got {}", sizes_text(g.sizes()), sizes_text(indices.sizes())));
  if (x.numel() == 0 || g.numel() == 0) return zeros(x.sizes(), x.dtype());
  int64_t lead = planes(x, n).size(0), in = x.numel() / lead;
  Dims shape{lead, g.numel() / lead, 1};
  Tensor at = indices.reshape(shape) + iota_along(3, 0, lead, in);
  return scatter_flat(zeros({x.numel()}, x.dtype()), at, g.cast(x.dtype()).reshape(shape), Op::ADD).reshape(x.sizes());
}

/// Elements that window o averages over, along one dimension.
Dims counts_along(const Window& w, size_t d, bool count_padding) {
  Dims counts(static_cast<size_t>(w.out[d]));
  for (int64_t o = 0; o < w.out[d]; ++o) {
    int64_t start = o * w.stride[d] - w.padding[d], end = std::min(start + w.kernel[d], w.in[d] + w.padding[d]);
    if (!count_padding) start = std::max<int64_t>(start, 0), end = std::min(end, w.in[d]);
    counts[static_cast<size_t>(o)] = end - start;
  }
  return counts;
}

bool all_equal(const Dims& v) {
  for (int64_t x : v)
    if (x != v[0]) return false;
  return true;
}

/// The divisor of each window in `acc`: [1, O..], or 0-d where all are equal.
Tensor divisors(const Window& w, bool count_padding, int64_t divisor_override, DType acc) {
  if (divisor_override) return constant(acc, divisor_override);
  int64_t same = 1;
  Tensor varying;
  for (size_t d = 0; d < w.n(); ++d) {
    Dims counts = counts_along(w, d, count_padding);
    if (all_equal(counts)) {
      same *= counts[0];
      continue;
    }
    Tensor start = iota_along(w.n() + 1, d + 1, w.out[d], w.stride[d]) - index_constant(w.padding[d]);
    Tensor end = minimum(start + index_constant(w.kernel[d]), index_constant(w.in[d] + w.padding[d]));
    if (!count_padding) start = maximum(start, index_constant(0)), end = minimum(end, index_constant(w.in[d]));
    varying = varying.defined() ? varying * (end - start) : end - start;
  }
  return varying.defined() ? (varying * index_constant(same)).cast(acc) : constant(acc, same);
}

struct Average {
  Window window;
  Tensor divisor;
};

Average read_average(Args& a, int first, const Tensor& x, size_t n, DType acc) {
  Average v;
  v.window = read_window(x, n, a.ints(first), a.ints(first + 1), a.ints(first + 2), {}, a.flag(first + 3));
  if (a.has(first + 5) && a.integer(first + 5) == 0) fail(ErrorKind::Runtime, "divisor must be not zero");
  v.divisor = divisors(v.window, a.flag(first + 4), a.integer(first + 5, 0), acc);
  return v;
}

Tensor avg_pool(Args& a, size_t n) {
  const Tensor& x = a.tensor(0);
  DType acc = compute_dtype(x.dtype());
  Average v = read_average(a, 1, x, n, acc);
  Dims sizes = with_trailing(x, v.window.out);
  if (any_zero(sizes)) return zeros(sizes, x.dtype());
  Tensor windows = windows_of(planes(x, n), v.window, constant(x.dtype(), int64_t{0})).cast(acc);
  return (windows.sum(trailing_axes(1 + n, n)) / v.divisor).reshape(sizes).cast(x.dtype());
}

/// out[l, i..] = sum of g[l, o..] over the windows o that cover i, rounded to `step` after each. As in conv.cpp, a stride R splits the
/// outputs into R phases.
Tensor spread(Tensor g, const Window& w, DType step) {
  size_t n = w.n();
  Dims taps(n), counts(n), starts(n), lo(n), hi(n);
  for (size_t d = 0; d < n; ++d) {
    int64_t r = w.stride[d], first = w.padding[d] / r;
    taps[d] = (w.kernel[d] + r - 1) / r;
    starts[d] = w.padding[d] - first * r;
    counts[d] = (starts[d] + w.in[d] + r - 1) / r;
    lo[d] = taps[d] - 1 - first;
    hi[d] = counts[d] + taps[d] - 1 - lo[d] - w.out[d];
  }
  g = pad_trailing(g, lo, hi);
  Dims gs = contiguous_strides(g.sizes()), sizes{g.size(0)}, strides{gs[0]};
  for (size_t d = 0; d < n; ++d) sizes.push_back(w.stride[d]), strides.push_back(0);
  for (size_t d = 0; d < n; ++d) sizes.push_back(counts[d]), strides.push_back(gs[d + 1]);
  for (size_t d = 0; d < n; ++d) sizes.push_back(taps[d]), strides.push_back(gs[d + 1]);
  Tensor y = g.view(sizes, strides, 0);
  for (size_t d = 0; d < n; ++d) {
    if (w.kernel[d] % w.stride[d] == 0) continue;
    // Tap taps-1-t at phase r is element (taps-1-t)*stride + r of the kernel, if the kernel is that long.
    Tensor element = iota_along(1 + 3 * n, 1 + d, w.stride[d]) +
                     (index_constant(taps[d] - 1) - iota_along(1 + 3 * n, 1 + 2 * n + d, taps[d])) * index_constant(w.stride[d]);
    y = where(lt(element, index_constant(w.kernel[d])), y, constant(y.dtype(), int64_t{0}));
  }
  y = reduce_in_order(y, Op::ADD, trailing_axes(1 + 2 * n, n), step);
  Dims order{0}, merged{g.size(0)};
  for (size_t d = 0; d < n; ++d) {
    order.push_back(static_cast<int64_t>(1 + n + d)), order.push_back(static_cast<int64_t>(1 + d));
    merged.push_back(counts[d] * w.stride[d]);
  }
  y = y.permute(order).reshape(merged);
  for (size_t d = 0; d < n; ++d) y = y.slice(static_cast<int64_t>(d) + 1, starts[d], starts[d] + w.in[d]);
  return y;
}

Tensor avg_pool_backward(Args& a, size_t n) {
  const Tensor &g = a.tensor(0), &x = a.tensor(1);
  DType acc = compute_dtype(x.dtype());
  Average v = read_average(a, 2, x, n, acc);
  if (!(g.sizes() == with_trailing(x, v.window.out)))
    fail(ErrorKind::Runtime,
         fmt::format("Expected grad_output of size {}, but got {}", sizes_text(with_trailing(x, v.window.out)), sizes_text(g.sizes())));
  if (x.numel() == 0) return zeros(x.sizes(), x.dtype());
  DType step = x.dtype();
  return spread(rounded(planes(g, n).cast(acc) / v.divisor, step), v.window, step).reshape(x.sizes()).cast(step);
}

// ---- adaptive: window o of O over an extent I covers floor(o*I/O) .. ceil((o+1)*I/O) - 1.

struct AdaptiveAxis {
  int64_t in, out, widest = 0;
  Tensor start, size;          // i64, `out` elements along one dimension, 1 elsewhere
  bool regular() const { return in % out == 0; }
};

AdaptiveAxis adaptive_axis(int64_t in, int64_t out, size_t ndim, size_t d) {
  AdaptiveAxis x{in, out, 0, {}, {}};
  for (int64_t o = 0; o < out; ++o) x.widest = std::max(x.widest, ((o + 1) * in + out - 1) / out - o * in / out);
  Tensor o = iota_along(ndim, d, out);
  x.start = o * index_constant(in) / index_constant(out);
  x.size = ((o + index_constant(1)) * index_constant(in) + index_constant(out - 1)) / index_constant(out) - x.start;
  return x;
}

/// Dimension d of [.., I, ..] summed over adaptive windows: [.., O, ..].
Tensor adaptive_sum(const Tensor& x, size_t d, int64_t out) {
  int64_t in = x.sizes()[d];
  Dims lead(x.sizes().begin(), x.sizes().begin() + d), rest(x.sizes().begin() + d + 1, x.sizes().end());
  int64_t before = product(lead), after = product(rest);
  Dims sizes = lead;
  sizes.push_back(out);
  sizes.append(rest.begin(), rest.end());
  if (in == out) return x;
  if (in % out == 0) return x.reshape({before, out, in / out, after}).sum(Dims{2}).reshape(sizes);
  AdaptiveAxis axis = adaptive_axis(in, out, 4, 1);
  Tensor step = iota_along(4, 3, axis.widest);
  Tensor at = minimum(axis.start + step, index_constant(in - 1));
  Tensor flat = iota_along(4, 0, before, in * after) + at * index_constant(after) + iota_along(4, 2, after);
  Tensor picked = where(lt(step, axis.size), gather_flat(x, flat), constant(x.dtype(), int64_t{0}));
  return picked.sum(Dims{3}).reshape(sizes);
}

Dims adaptive_output(const Tensor& x, const Dims& given, size_t n, const char* name) {
  if (given.size() != n) fail(ErrorKind::Runtime, fmt::format("{}: output_size must be {}", name, n));
  if (x.dim() != static_cast<int64_t>(n) + 1 && x.dim() != static_cast<int64_t>(n) + 2)
    fail(ErrorKind::Runtime, fmt::format("{}(): Expected {}D or {}D tensor, but got {}", name, n + 1, n + 2, sizes_text(x.sizes())));
  for (int64_t s : given)
    if (s < 0)
      fail(ErrorKind::Runtime,
           fmt::format("{}: elements of output_size must be greater than or equal to 0 but received {}", name, sizes_text(given)));
  for (int64_t d = x.dim() - static_cast<int64_t>(n); d < x.dim(); ++d)
    if (x.size(d) == 0)
      fail(ErrorKind::Runtime,
           fmt::format(
               "{}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {} with dimension {} being empty",
               name, sizes_text(x.sizes()), d));
  return given;
}

/// Product over the dimensions of the window sizes, [1, O..], in `acc`.
Tensor adaptive_counts(const Dims& in, const Dims& out, DType acc) {
  Tensor count = index_constant(1);
  for (size_t d = 0; d < in.size(); ++d) {
    AdaptiveAxis axis = adaptive_axis(in[d], out[d], in.size() + 1, d + 1);
    count = count * (axis.regular() ? index_constant(in[d] / out[d]) : axis.size);
  }
  return count.cast(acc);
}

/// x [L, I..] summed over the adaptive windows of `out`, one element of each after the other, rounded to `step` after each.
Tensor adaptive_sum_in_order(const Tensor& x, const Dims& out, DType step) {
  size_t n = out.size(), ndim = 1 + 2 * n;
  Tensor flat = iota_along(ndim, 0, x.size(0), x.numel() / x.size(0)), inside = constant(DType::bool_, int64_t{1});
  Dims strides = contiguous_strides(x.sizes());
  for (size_t d = 0; d < n; ++d) {
    int64_t in = x.sizes()[d + 1];
    AdaptiveAxis axis = adaptive_axis(in, out[d], ndim, 1 + d);
    Tensor at = iota_along(ndim, 1 + n + d, axis.widest);
    flat = flat + minimum(axis.start + at, index_constant(in - 1)) * index_constant(strides[d + 1]);
    if (!axis.regular()) inside = binary(Op::AND, inside, lt(at, axis.size));
  }
  Tensor picked = where(inside, gather_flat(x, flat), constant(x.dtype(), 0.0));
  return reduce_in_order(picked, Op::ADD, trailing_axes(1 + n, n), step);
}

/// x divided by the extents of the adaptive windows that make [1, O..] of [1, I..]; as the CPU does, by one dimension's after the other in
/// a reduced float.
Tensor over_extents(Tensor x, const Dims& in, const Dims& out, DType step) {
  if (step == x.dtype()) return x / adaptive_counts(in, out, x.dtype());
  for (size_t d = 0; d < in.size(); ++d) {
    AdaptiveAxis axis = adaptive_axis(in[d], out[d], in.size() + 1, d + 1);
    x = rounded(x / (axis.regular() ? index_constant(in[d] / out[d]) : axis.size).cast(x.dtype()), step);
  }
  return x;
}

Tensor adaptive_avg_pool(Args& a, size_t n, const char* name) {
  const Tensor& x = a.tensor(0);
  Dims out = adaptive_output(x, a.ints(1), n, name), sizes = with_trailing(x, out);
  if (any_zero(sizes)) return zeros(sizes, x.dtype());
  DType acc = compute_dtype(x.dtype());
  Tensor sum = planes(x, n).cast(acc);
  if (n == 3 && acc != x.dtype()) {  // in three dimensions the CPU sums and divides in the reduced float
    sum = adaptive_sum_in_order(sum, out, x.dtype());
    return over_extents(sum, Dims(x.sizes().end() - n, x.sizes().end()), out, x.dtype()).reshape(sizes).cast(x.dtype());
  }
  Dims in(sum.sizes().begin() + 1, sum.sizes().end());
  for (size_t d = 0; d < n; ++d) sum = adaptive_sum(sum, d + 1, out[d]);
  return (sum / adaptive_counts(in, out, acc)).reshape(sizes).cast(x.dtype());
}

/// Output o covers input i exactly where o lies in the adaptive window i of I over O: the same sum with the extents exchanged.
Tensor adaptive_avg_pool_backward(Args& a, size_t n) {
  const Tensor &g = a.tensor(0), &x = a.tensor(1);
  if (x.dim() != g.dim())
    fail(ErrorKind::Runtime, fmt::format("expected dimensions {} for grad_output, but got {}", x.dim(), g.dim()));
  if (x.numel() == 0 || g.numel() == 0) return zeros(x.sizes(), x.dtype());
  DType acc = compute_dtype(x.dtype());
  Dims in(x.sizes().end() - n, x.sizes().end()), out(g.sizes().end() - n, g.sizes().end());
  Tensor sum = over_extents(planes(g, n).cast(acc), in, out, x.dtype());
  if (acc != x.dtype()) return adaptive_sum_in_order(sum, in, x.dtype()).reshape(x.sizes()).cast(x.dtype());
  for (size_t d = 0; d < n; ++d) {
    if (in[d] % out[d] == 0 && in[d] != out[d]) {
      Dims repeated = sum.sizes();
      repeated.insert(d + 2, in[d] / out[d]);
      Dims merged = sum.sizes();
      merged[d + 1] = in[d];
      sum = sum.unsqueeze(static_cast<int64_t>(d) + 2).expand(repeated).reshape(merged);
    } else {
      sum = adaptive_sum(sum, d + 1, in[d]);
    }
  }
  return sum.reshape(x.sizes()).cast(x.dtype());
}

Results adaptive_max_pool(Args& a, size_t n, const char* name) {
  const Tensor& x = a.tensor(0);
  Dims out = adaptive_output(x, a.ints(1), n, name), sizes = with_trailing(x, out);
  if (any_zero(sizes)) return {zeros(sizes, x.dtype()), zeros(sizes, DType::i64)};
  Tensor p = planes(x, n), flat = index_constant(0), inside = constant(DType::bool_, int64_t{1});
  Dims in(p.sizes().begin() + 1, p.sizes().end()), strides = contiguous_strides(in), shape{1};
  size_t ndim = 1 + 2 * n;
  for (size_t d = 0; d < n; ++d) {
    AdaptiveAxis axis = adaptive_axis(in[d], out[d], ndim, 1 + d);
    Tensor step = iota_along(ndim, 1 + n + d, axis.widest);
    flat = flat + minimum(axis.start + step, index_constant(in[d] - 1)) * index_constant(strides[d]);
    if (!axis.regular()) inside = binary(Op::AND, inside, lt(step, axis.size));
    shape.push_back(out[d]);
  }
  for (size_t d = 0; d < n; ++d) shape.push_back(flat.sizes()[1 + n + d]);
  Tensor values = gather_flat(p, flat + iota_along(ndim, 0, p.size(0), product(in)));
  values = where(inside, values, lowest(x.dtype()));
  return greatest(values, where(inside, flat, index_constant(kNowhere)), n, sizes);
}

/// Where the windows of a fractional pooling begin along dimension d, [L, O]: steps of equal mean length, shifted by a random number.
Tensor random_starts(const Tensor& sample, int64_t in, int64_t out, int64_t kernel) {
  Tensor last = index_constant(in - kernel), o = iota_along(2, 1, out);
  if (out == 1) return last.expand({sample.numel(), 1});
  Tensor u = sample.reshape({sample.numel(), 1}), alpha = constant(u.dtype(),
      static_cast<double>(in - kernel)) / static_cast<double>(out - 1);
  Tensor start = ((o.cast(u.dtype()) + u) * alpha).cast(DType::i64) - (u * alpha).cast(DType::i64);
  return where(eq(o, index_constant(out - 1)), last, start);
}

Results fractional_max_pool(Args& a, size_t n) {
  const Tensor &x = a.tensor(0), &samples = a.tensor(3);
  Dims kernel = a.ints(1), out = a.ints(2), sizes = with_trailing(x, out), in(x.sizes().end() - n, x.sizes().end());
  if (any_zero(sizes)) return {zeros(sizes, x.dtype()), zeros(sizes, DType::i64)};
  int64_t lead = product(std::span<const int64_t>(x.sizes().data(), x.sizes().size() - n));
  const auto count = static_cast<int64_t>(n), batch = x.dim() == count + 1 ? 1 : x.size(0), channels = x.size(-count - 1);
  if (samples.dim() != 3) fail(ErrorKind::Runtime, fmt::format("Expect _random_samples to have 3 dimensions, got {}", samples.dim()));
  if (samples.size(0) < batch) fail(ErrorKind::Runtime, "Expect _random_samples.size(0) no less then input batch size.");
  if (samples.size(1) != channels) fail(ErrorKind::Runtime, "Expect _random_samples.size(1) equals to input channel size.");
  if (samples.size(2) != count)
    fail(ErrorKind::Runtime, fmt::format("Expect _random_samples.size(2) equals to {}; got {}.", n, samples.size(2)));
  // Samples of more batches than there are go unused.
  Tensor u = samples.slice(0, 0, batch).cast(compute_dtype(samples.dtype())).reshape({lead, count}), where_is;
  for (size_t d = 0; d < n; ++d) {
    // In two dimensions the first random number is for the width.
    Tensor start = random_starts(u.select(1, static_cast<int64_t>(n == 2 ? 1 - d : d)), in[d], out[d], kernel[d]);
    Dims shape(1 + 2 * n, 1);
    shape[0] = lead, shape[1 + d] = out[d];
    Tensor at = start.reshape(shape) + iota_along(1 + 2 * n, 1 + n + d, kernel[d]);
    where_is = where_is.defined() ? where_is * index_constant(in[d]) + at : at;
  }
  Tensor values = gather_flat(x, where_is + iota_along(1 + 2 * n, 0, lead, product(in)));
  return greatest(values, where_is, n, sizes);
}

/// Elements at the places that a pooling took them from, zeros elsewhere; of several the last.
Tensor max_unpool(Args& a, size_t n) {
  const Tensor &x = a.tensor(0), &indices = a.tensor(1);
  const Dims& out = a.ints(2);
  if (indices.dtype() != DType::i64)
    fail(ErrorKind::Runtime, fmt::format("elements in indices should be type int64 but got: {}", scalar_type_name(indices.dtype())));
  if (out.size() != n) fail(ErrorKind::Runtime, fmt::format("There should be exactly {} elements in output_size, but got {} elements.",
      n, out.size()));
  if (x.dim() != static_cast<int64_t>(n) + 1 && x.dim() != static_cast<int64_t>(n) + 2)
    fail(ErrorKind::Runtime, fmt::format("Input to max_unpooling{}d should be a {}d or {}d Tensor, but got a tensor with {} dimensions",
        n, n + 1, n + 2, x.dim()));
  if (!(indices.sizes() == x.sizes()))
    fail(ErrorKind::Runtime, fmt::format("Expected shape of indices to be same as that of the input tensor ({}) but got indices "
        "tensor with shape: {}",
                                         sizes_text(x.sizes()), sizes_text(indices.sizes())));
  for (int64_t d = x.dim() - static_cast<int64_t>(n) - 1; d < x.dim(); ++d)
    if (x.size(d) == 0)
      fail(ErrorKind::Runtime, fmt::format("max_unpooling{}d(): Expected input to have non-zero size for non-batch dimensions, but "
          "got {}", n, sizes_text(x.sizes())));
  if (n == 3)
    for (int64_t s : a.ints(3))
      if (s <= 0) fail(ErrorKind::Runtime, "strides should be greater than zero, but got stride: " + sizes_text(a.ints(3)));
  Dims sizes = with_trailing(x, out);
  if (any_zero(sizes) || x.numel() == 0) return zeros(sizes, x.dtype());
  int64_t volume = product(out), lead = product(sizes) / volume, each = x.numel() / lead;
  Tensor ok = binary(Op::AND, ge(indices, index_constant(0)), lt(indices, index_constant(volume)));
  std::string volume_text = fmt::format("{}", fmt::join(out.begin(), out.end(), "x"));
  std::string text = "Found an invalid max index: {} (output volumes are of size " + volume_text + ")";
  Tensor at = check(indices, ok, std::move(text), volume).reshape({lead, each, 1});
  Tensor place = at + iota_along(3, 0, lead, volume);
  return scatter_flat(zeros({product(sizes)}, x.dtype()), place, x.reshape({lead, each, 1}), Op::NOOP).reshape(sizes);
}

}  // namespace

Results max_pool2d(Args& a) { return max_pool(a, 2); }
Results max_pool3d(Args& a) {
  const Tensor& x = a.tensor(0);
  for (int64_t d = x.dim() == 5 ? 1 : 0; d < x.dim(); ++d)
    if (x.size(d) == 0)
      fail(ErrorKind::Runtime,
           fmt::format("max_pool3d_with_indices: Expected input's non-batch dimensions to have positive length, but input has a shape of "
                       "{} and non-batch dimension {} has length zero!",
                       sizes_text(x.sizes()), d));
  return max_pool(a, 3);
}
Tensor max_pool2d_backward(Args& a) { return scatter_gradient(a.tensor(0), a.tensor(1), a.tensor(7), 2); }
Tensor max_pool3d_backward(Args& a) { return scatter_gradient(a.tensor(0), a.tensor(1), a.tensor(7), 3); }
Tensor avg_pool2d(Args& a) { return avg_pool(a, 2); }
Tensor avg_pool3d(Args& a) { return avg_pool(a, 3); }
Tensor avg_pool2d_backward(Args& a) { return avg_pool_backward(a, 2); }
Tensor avg_pool3d_backward(Args& a) { return avg_pool_backward(a, 3); }
Tensor adaptive_avg_pool2d(Args& a) { return adaptive_avg_pool(a, 2, "adaptive_avg_pool2d"); }
Tensor adaptive_avg_pool3d(Args& a) { return adaptive_avg_pool(a, 3, "adaptive_avg_pool3d"); }
Tensor adaptive_avg_pool2d_backward(Args& a) { return adaptive_avg_pool_backward(a, 2); }
Tensor adaptive_avg_pool3d_backward(Args& a) { return adaptive_avg_pool_backward(a, 3); }
Results adaptive_max_pool2d(Args& a) { return adaptive_max_pool(a, 2, "adaptive_max_pool2d"); }
Results adaptive_max_pool3d(Args& a) { return adaptive_max_pool(a, 3, "adaptive_max_pool3d"); }
Tensor adaptive_max_pool2d_backward(Args& a) { return scatter_gradient(a.tensor(0), a.tensor(1), a.tensor(2), 2); }
Tensor adaptive_max_pool3d_backward(Args& a) { return scatter_gradient(a.tensor(0), a.tensor(1), a.tensor(2), 3); }

Results fractional_max_pool2d(Args& a) { return fractional_max_pool(a, 2); }
Results fractional_max_pool3d(Args& a) { return fractional_max_pool(a, 3); }
Tensor fractional_max_pool2d_backward(Args& a) { return scatter_gradient(a.tensor(0), a.tensor(1), a.tensor(4), 2); }
Tensor fractional_max_pool3d_backward(Args& a) { return scatter_gradient(a.tensor(0), a.tensor(1), a.tensor(4), 3); }
Tensor max_unpool2d(Args& a) { return max_unpool(a, 2); }
Tensor max_unpool3d(Args& a) { return max_unpool(a, 3); }

}  // namespace tiny::lower
