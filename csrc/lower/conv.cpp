#include "lower/conv.h"

#include <fmt/format.h>

#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

struct Conv {
  Dims stride, padding, dilation, output_padding;
  int64_t groups;
  bool transposed;
  size_t n() const { return stride.size(); }
};

Dims spatial(const Tensor& x) { return Dims(x.sizes().begin() + 2, x.sizes().end()); }

Tensor multiply(const Tensor& a, const Tensor& b, DType acc) { return a.cast(acc) * b.cast(acc); }

/// Sum over the trailing `n` dimensions; an empty sum is 0.
Tensor sum_trailing(const Tensor& x, size_t n) {
  Dims axes, sizes;
  for (int64_t i = 0; i < x.dim(); ++i)
    i < x.dim() - static_cast<int64_t>(n) ? sizes.push_back(x.size(i)) : axes.push_back(i);
  return x.numel() == 0 ? zeros(sizes, x.dtype()) : x.sum(axes);
}

/// Windows that fit in a padded extent.
Dims window_counts(const Tensor& x, const Tensor& w, const Conv& c) {
  Dims out(c.n());
  for (size_t d = 0; d < c.n(); ++d)
    out[d] = (x.sizes()[d + 2] + 2 * c.padding[d] - c.dilation[d] * (w.sizes()[d + 2] - 1) - 1) / c.stride[d] + 1;
  return out;
}

/// out[n, (g, co), o..] = sum over ci, k.. of x[n, (g, ci), o*stride + k*dilation] * w[(g, co), ci, k..] for o below `counts`; x is padded
/// already.
Tensor windows_times_weight(const Tensor& x, const Tensor& w, const Conv& c, const Dims& counts, DType acc) {
  Dims xs = contiguous_strides(x.sizes()), ws = contiguous_strides(w.sizes());
  int64_t co = w.size(0) / c.groups, ci = w.size(1);
  Dims sizes{x.size(0), c.groups, co}, sx{xs[0], ci * xs[1], 0}, sw{0, co * ws[0], ws[0]}, out{x.size(0), w.size(0)};
  for (size_t d = 0; d < c.n(); ++d) {
    sizes.push_back(counts[d]), sx.push_back(c.stride[d] * xs[d + 2]), sw.push_back(0), out.push_back(counts[d]);
  }
  sizes.push_back(ci), sx.push_back(xs[1]), sw.push_back(ws[1]);
  for (size_t d = 0; d < c.n(); ++d)
    sizes.push_back(w.sizes()[d + 2]), sx.push_back(c.dilation[d] * xs[d + 2]), sw.push_back(ws[d + 2]);
  if (any_zero(sizes)) return zeros(out, acc);
  return sum_trailing(multiply(x.view(sizes, sx, 0), w.view(sizes, sw, 0), acc), c.n() + 1).reshape(out);
}

/// Zeros between the elements of spatial dimension d: size D becomes (D-1)*step + 1.
Tensor spread_dimension(const Tensor& x, size_t d, int64_t step) {
  Dims sizes = x.sizes(), lo(sizes.size() + 1, 0), hi(sizes.size() + 1, 0);
  hi[d + 3] = step - 1;
  Tensor y = x.unsqueeze(static_cast<int64_t>(d) + 3).pad(lo, hi);
  sizes[d + 2] *= step;
  return y.reshape(sizes).slice(static_cast<int64_t>(d) + 2, 0, sizes[d + 2] - step + 1);
}

/// The adjoint of windows_times_weight in x: out[n, (g, ci), i..] = sum over co, o, k with o*stride + k*dilation - padding == i of
/// g[n, (g, co), o..] * w[(g, co), ci, k..]. A stride R splits the outputs into R phases r: with i + padding = q*R + r and k = t*R + r
/// only o = q - t remains, so no product with an inserted zero is computed.
Tensor spread_times_weight(Tensor g, Tensor w, Conv c, const Dims& out_spatial, DType acc) {
  size_t n = c.n();
  Dims taps(n), steps(n), counts(n), starts(n), lo(n), hi(n), whi(n), zero(n, 0);
  for (size_t d = 0; d < n; ++d) {
    if (c.stride[d] > 1 && c.dilation[d] > 1) g = spread_dimension(g, d, c.stride[d]), c.stride[d] = 1;
    int64_t r = c.stride[d], k = w.sizes()[d + 2], first = c.padding[d] / r;
    steps[d] = c.dilation[d];
    taps[d] = (k + r - 1) / r;
    whi[d] = taps[d] * r - k;
    starts[d] = c.padding[d] - first * r;
    counts[d] = (starts[d] + out_spatial[d] + r - 1) / r;
    lo[d] = (taps[d] - 1) * steps[d] - first;
    hi[d] = counts[d] + (taps[d] - 1) * steps[d] - lo[d] - g.sizes()[d + 2];
  }
  int64_t co = w.size(0) / c.groups, ci = w.size(1), batch = g.size(0);
  Dims out{batch, c.groups * ci};
  out.append(out_spatial.begin(), out_spatial.end());
  if (any_zero(out) || g.numel() == 0 || w.numel() == 0) return zeros(out, acc);
  g = pad_trailing(g, lo, hi);
  w = pad_trailing(w, zero, whi);
  Dims gs = contiguous_strides(g.sizes()), ws = contiguous_strides(w.sizes());
  Dims sizes{batch, c.groups, ci}, sg{gs[0], co * gs[1], 0}, sw{0, co * ws[0], ws[1]};
  int64_t woffset = 0;
  for (size_t d = 0; d < n; ++d) sizes.push_back(c.stride[d]), sg.push_back(0), sw.push_back(ws[d + 2]);
  for (size_t d = 0; d < n; ++d) sizes.push_back(counts[d]), sg.push_back(gs[d + 2]), sw.push_back(0);
  sizes.push_back(co), sg.push_back(gs[1]), sw.push_back(ws[0]);
  for (size_t d = 0; d < n; ++d) {
    sizes.push_back(taps[d]), sg.push_back(steps[d] * gs[d + 2]), sw.push_back(-c.stride[d] * ws[d + 2]);
    woffset += (taps[d] - 1) * c.stride[d] * ws[d + 2];
  }
  Tensor y = sum_trailing(multiply(g.view(sizes, sg, 0), w.view(sizes, sw, woffset), acc), n + 1);
  Dims order{0, 1, 2}, merged{batch, c.groups * ci};
  for (size_t d = 0; d < n; ++d) {
    order.push_back(static_cast<int64_t>(3 + n + d)), order.push_back(static_cast<int64_t>(3 + d));
    merged.push_back(counts[d] * c.stride[d]);
  }
  y = y.permute(order).reshape(merged);
  for (size_t d = 0; d < n; ++d) y = y.slice(static_cast<int64_t>(d) + 2, starts[d], starts[d] + out_spatial[d]);
  return y;
}

/// out[(g, co), ci, k..] = sum over n, o.. of g[n, (g, co), o..] * x[n, (g, ci), o*stride + k*dilation]; x is padded already.
Tensor windows_times_gradient(const Tensor& g, const Tensor& x, const Dims& weight_sizes, const Conv& c, DType acc) {
  Dims gs = contiguous_strides(g.sizes()), xs = contiguous_strides(x.sizes());
  int64_t co = weight_sizes[0] / c.groups, ci = weight_sizes[1];
  Dims sizes{c.groups, co, ci}, sg{co * gs[1], gs[1], 0}, sx{ci * xs[1], 0, xs[1]};
  for (size_t d = 0; d < c.n(); ++d)
    sizes.push_back(weight_sizes[d + 2]), sg.push_back(0), sx.push_back(c.dilation[d] * xs[d + 2]);
  sizes.push_back(g.size(0)), sg.push_back(gs[0]), sx.push_back(xs[0]);
  for (size_t d = 0; d < c.n(); ++d)
    sizes.push_back(g.sizes()[d + 2]), sg.push_back(gs[d + 2]), sx.push_back(c.stride[d] * xs[d + 2]);
  if (any_zero(sizes)) return zeros(weight_sizes, acc);
  return sum_trailing(multiply(g.view(sizes, sg, 0), x.view(sizes, sx, 0), acc), c.n() + 1).reshape(weight_sizes);
}

Conv read_conv(Args& a, int first, const Tensor& input, const Tensor& weight) {
  if (weight.dim() < 3) fail(ErrorKind::Runtime, "weight should have at least three dimensions");
  size_t n = static_cast<size_t>(weight.dim()) - 2;
  if (input.dim() != weight.dim())
    fail(ErrorKind::Runtime,
         fmt::format("Expected {0}-dimensional input for {0}-dimensional weight {1}, but got {2}-dimensional input of size {3} instead",
                     weight.dim(), sizes_text(weight.sizes()), input.dim(), sizes_text(input.sizes())));
  if (input.dtype() != weight.dtype())
    fail(ErrorKind::Runtime, fmt::format("Input type ({}) and weight type ({}) should be the same", scalar_type_name(input.dtype()),
                                         scalar_type_name(weight.dtype())));
  Conv c;
  c.stride = expand_ints(a.ints(first), n, {}, "stride");
  c.padding = expand_ints(a.ints(first + 1), n, {}, "padding");
  c.dilation = expand_ints(a.ints(first + 2), n, {}, "dilation");
  c.transposed = a.flag(first + 3);
  c.output_padding = expand_ints(a.ints(first + 4), n, {}, "output_padding");
  c.groups = a.integer(first + 5);
  return c;
}

/// PyTorch's check_shape_forward, same words.
void check_forward(const Tensor& x, const Tensor& w, const Conv& c) {
  for (size_t d = 0; d < c.n(); ++d) {
    if (c.dilation[d] <= 0) fail(ErrorKind::Runtime, "dilation should be greater than zero, but got " + sizes_text(c.dilation));
    if (c.transposed && c.output_padding[d] >= c.stride[d] && c.output_padding[d] >= c.dilation[d]) {
      auto named = [&](const char* what, const Dims& v) {
        static const char* const axes[] = {"depth", "height", "width"};
        std::string s;
        for (size_t k = 0; k < c.n(); ++k) s += fmt::format(" {}_{}: {}", what, axes[3 - c.n() + k], v[k]);
        return s;
      };
      fail(ErrorKind::Runtime, "output padding must be smaller than either stride or dilation, but got" +
                                   named("output_padding", c.output_padding) + named("stride", c.stride) + named("dilation", c.dilation));
    }
  }
  int64_t channels = c.transposed ? w.size(0) : w.size(1) * c.groups;
  if (!c.transposed && w.size(0) % c.groups != 0)
    fail(ErrorKind::Runtime,
         fmt::format("Given groups={}, expected weight to be divisible by {} at dimension 0, but got weight of size {} instead", c.groups,
                     c.groups, sizes_text(w.sizes())));
  if (x.size(1) != channels)
    fail(
        ErrorKind::Runtime,
        fmt::format("Given {}groups={}, {}weight of size {}, expected input{} to have {} channels, but got {} channels instead",
                    c.transposed ? "transposed=1, " : "", c.groups, "", sizes_text(w.sizes()), sizes_text(x.sizes()), channels, x.size(1)));
  if (c.transposed) return;
  std::string padded, kernel;
  bool too_large = false;
  for (size_t d = 0; d < c.n(); ++d) {
    int64_t in = x.sizes()[d + 2] + 2 * c.padding[d], k = c.dilation[d] * (w.sizes()[d + 2] - 1) + 1;
    padded += (d ? " x " : "") + std::to_string(in);
    kernel += (d ? " x " : "") + std::to_string(k);
    too_large = too_large || k > in;
  }
  if (too_large)
    fail(ErrorKind::Runtime,
         fmt::format("Calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't be greater than "
                     "actual input size",
                     padded, kernel));
}

std::string joined(std::span<const int64_t> v) {
  std::string s;
  for (size_t i = 0; i < v.size(); ++i) s += (i ? " x " : "") + std::to_string(v[i]);
  return s;
}

Dims transposed_sizes(const Tensor& x, const Tensor& w, const Conv& c) {
  Dims out(c.n());
  bool too_small = false;
  for (size_t d = 0; d < c.n(); ++d) {
    out[d] = (x.sizes()[d + 2] - 1) * c.stride[d] - 2 * c.padding[d] + c.dilation[d] * (w.sizes()[d + 2] - 1) + c.output_padding[d] + 1;
    too_small = too_small || out[d] < 1;
  }
  if (too_small)
    fail(ErrorKind::Runtime,
         fmt::format("Given input size per channel: ({}). Calculated output size per channel: ({}). Output size is too small",
                     joined(spatial(x)), joined(out)));
  return out;
}

}  // namespace

Tensor convolution(Args& a) {
  const Tensor &x = a.tensor(0), &w = a.tensor(1);
  Conv c = read_conv(a, 3, x, w);
  check_forward(x, w, c);
  DType acc = compute_dtype(x.dtype());
  Tensor y = c.transposed ? spread_times_weight(x, w, c, transposed_sizes(x, w, c), acc)
                          : windows_times_weight(pad_trailing(x, c.padding, c.padding), w, c, window_counts(x, w, c), acc);
  if (a.has(2)) {
    const Tensor& bias = a.tensor(2);
    if (bias.dim() != 1 || bias.size(0) != y.size(1))
      fail(
          ErrorKind::Runtime,
          fmt::format(
              "Given transposed={}, weight of size {}, expected bias to be 1-dimensional with {} elements, but got bias of size {} instead",
              c.transposed ? 1 : 0, sizes_text(w.sizes()), y.size(1), sizes_text(bias.sizes())));
    Dims sizes(y.sizes().size(), 1);
    sizes[1] = bias.size(0);
    y = y + bias.cast(acc).reshape(sizes);
  }
  return y.cast(x.dtype());
}

Results convolution_backward(Args& a) {
  const Tensor &g = a.tensor(0), &x = a.tensor(1), &w = a.tensor(2);
  Conv c = read_conv(a, 3, x, w);
  const Dims& mask = a.ints(9);
  DType acc = compute_dtype(x.dtype());
  Tensor grad_input, grad_weight, grad_bias;
  if (mask[0])
    grad_input = (c.transposed ? windows_times_weight(pad_trailing(g, c.padding, c.padding), w, c, spatial(x), acc)
                               : spread_times_weight(g, w, c, spatial(x), acc)).cast(x.dtype());
  if (mask[1]) {
    const Tensor &values = c.transposed ? x : g, &slid = c.transposed ? g : x;
    grad_weight = windows_times_gradient(values, pad_trailing(slid, c.padding, c.padding), w.sizes(), c, acc).cast(w.dtype());
  }
  if (mask[2]) {
    Dims axes{0};
    for (int64_t d = 2; d < g.dim(); ++d) axes.push_back(d);
    grad_bias = g.numel() == 0 ? zeros({g.size(1)}, g.dtype()) : g.cast(acc).sum(axes).cast(g.dtype());
  }
  return {grad_input, grad_weight, grad_bias};
}

}  // namespace tiny::lower
