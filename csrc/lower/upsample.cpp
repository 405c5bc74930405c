#include "lower/upsample.h"

#include <fmt/format.h>

#include "lower/fixed_point.h"
#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

enum class Kind { Nearest, NearestExact, Linear, Cubic };

/// One input of an interpolated element along one dimension: its index and its weight, `out` long at `at`, 1 elsewhere.
struct Tap {
  Tensor index, weight;
};

struct Axis {
  int64_t in, out;
  double scale;      // given by the user; 0: none
};

/// Input elements per output element. Source: PyTorch's area_pixel_compute_scale.
double ratio(const Axis& x, bool align_corners) {
  if (align_corners) return x.out > 1 ? static_cast<double>(x.in - 1) / static_cast<double>(x.out - 1) : 0;
  return x.scale > 0 ? 1 / x.scale : static_cast<double>(x.in) / static_cast<double>(x.out);
}

Tensor clamp_index(const Tensor& i, int64_t n) { return minimum(maximum(i, index_constant(0)), index_constant(n - 1)); }

std::vector<Tap> nearest_taps(const Axis& x, bool exact, size_t ndim, size_t at, DType acc) {
  Tensor o = iota_along(ndim, at, x.out);
  if (x.in == x.out) return {{o, Tensor()}};
  if (x.out == 2 * x.in) return {{o / index_constant(2), Tensor()}};
  Tensor f = o.cast(acc);
  if (exact) f = f + 0.5;
  Tensor i = (f * constant(acc, ratio(x, false))).unary(Op::FLOOR).cast(DType::i64);
  return {{minimum(i, index_constant(x.in - 1)), Tensor()}};
}

/// Keys's cubic convolution with A = -0.75. Source: https://en.wikipedia.org/wiki/Bicubic_interpolation
Tensor cubic_near(const Tensor& t) {
  constexpr double A = -0.75;
  return ((t * (A + 2) - constant(t.dtype(), A + 3)) * t) * t + 1.0;
}
Tensor cubic_far(const Tensor& t) {
  constexpr double A = -0.75;
  return ((t * A - constant(t.dtype(), 5 * A)) * t + 8 * A) * t - constant(t.dtype(), 4 * A);
}

/// Weights are kept in type `kept`.
std::vector<Tap> smooth_taps(const Axis& x, bool cubic, bool align_corners, size_t ndim, size_t at, DType acc, DType kept) {
  Tensor o = iota_along(ndim, at, x.out);
  if (x.in == x.out && (!cubic || align_corners || x.scale <= 0 || x.scale == 1)) return {{o, Tensor()}};
  Tensor scale = constant(acc, ratio(x, align_corners)), f = o.cast(acc);
  Tensor source = align_corners ? f * scale : (f + 0.5) * scale - constant(acc, 0.5);
  if (!cubic) source = maximum(source, constant(acc, 0.0));
  Tensor low = source.unary(Op::FLOOR), i = low.cast(DType::i64), t = source - low;
  Tensor one = constant(acc, 1.0);
  if (!cubic) {
    Tensor first = clamp_index(i, x.in), second = minimum(first + index_constant(1), index_constant(x.in - 1));
    t = rounded(minimum(maximum(source - first.cast(acc), constant(acc, 0.0)), one), kept);
    return {{first, rounded(one - t, kept)}, {second, t}};
  }
  Tensor weights[] = {cubic_far(t + 1.0), cubic_near(t), cubic_near(one - t), cubic_far(constant(acc, 2.0) - t)};
  std::vector<Tap> taps;
  for (int k = 0; k < 4; ++k) taps.push_back({clamp_index(i + index_constant(k - 1), x.in), rounded(weights[k], kept)});
  return taps;
}

/// For every combination of taps: flat position in a plane and weight (undefined: 1), both [1, O..].
std::vector<Tap> combined_taps(const std::vector<Axis>& axes, Kind kind, bool align_corners, DType acc, DType kept) {
  std::vector<Tap> all{{Tensor(), Tensor()}};
  int64_t stride = 1;
  for (size_t d = axes.size(); d-- > 0;) {
    size_t ndim = axes.size() + 1;
    bool nearest = kind == Kind::Nearest || kind == Kind::NearestExact;
    std::vector<Tap> taps = nearest ? nearest_taps(axes[d], kind == Kind::NearestExact, ndim, d + 1, acc)
                                    : smooth_taps(axes[d], kind == Kind::Cubic, align_corners, ndim, d + 1, acc, kept);
    std::vector<Tap> next;
    for (const Tap& t : taps)
      for (const Tap& x : all) {
        Tensor index = t.index * index_constant(stride);
        next.push_back({x.index.defined() ? index + x.index : index,
                        !t.weight.defined() ? x.weight : x.weight.defined() ? t.weight * x.weight : t.weight});
      }
    all = std::move(next);
    stride *= axes[d].in;
  }
  return all;
}

std::vector<Axis> read_axes(Args& a, const Dims& in, const Dims& out, int scales) {
  std::vector<Axis> axes;
  for (size_t d = 0; d < out.size(); ++d) {
    if (in[d] <= 0 || out[d] <= 0)
      fail(ErrorKind::Runtime,
           fmt::format("Input and output sizes should be greater than 0, but got input {} output {}", sizes_text(in), sizes_text(out)));
    axes.push_back({in[d], out[d], a.number(scales + static_cast<int>(d), 0)});
  }
  return axes;
}

/// The CPU keeps weights in the input's type, but those of small bilinear results, for which it has a kernel of its own.
DType weights_dtype(DType d, Kind kind, const Dims& out) {
  bool small = kind == Kind::Linear && out.size() == 2 && out[0] + out[1] <= 128;
  return small ? compute_dtype(d) : d;
}

/// The last dimension first, each to bytes.
Tensor upsample_bytes(const Tensor& x, const std::vector<Axis>& axes, bool cubic, bool align_corners, const Dims& sizes) {
  Tensor y = x.cast(DType::i32);
  int64_t rows = x.size(0) * x.size(1), columns = 1;
  for (size_t d = 0; d < axes.size(); ++d) rows *= axes[d].in;
  for (size_t d = axes.size(); d-- > 0;) {
    const Axis& axis = axes[d];
    rows /= axis.in;
    const ByteAxis bytes{axis.in, axis.out, ratio(axis, align_corners), align_corners, cubic};
    if (axis.in != axis.out) y = interpolated_bytes(y.reshape({rows, axis.in, columns}), bytes);
    columns *= axis.out;
  }
  return y.cast(DType::u8).reshape(sizes);
}

Tensor upsample(Args& a, Kind kind, bool align_corners, int scales) {
  const Tensor& x = a.tensor(0);
  const Dims& out = a.ints(1);
  size_t n = out.size();
  if (x.dim() != static_cast<int64_t>(n) + 2)
    fail(ErrorKind::Runtime, fmt::format("It is expected input_size equals to {}, but got size {}", n + 2, x.dim()));
  Dims in(x.sizes().begin() + 2, x.sizes().end()), sizes{x.size(0), x.size(1)};
  sizes.append(out.begin(), out.end());
  bool smooth = kind == Kind::Linear || kind == Kind::Cubic;
  if (x.dtype() != DType::u8 || (smooth && n != 2)) require_float(a, x.dtype());
  if (x.size(0) * x.size(1) == 0) return zeros(sizes, x.dtype());
  DType acc = is_float(x.dtype()) ? compute_dtype(x.dtype()) : DType::f32;
  std::vector<Axis> axes = read_axes(a, in, out, scales);
  if (smooth && is_int(x.dtype())) return upsample_bytes(x, axes, kind == Kind::Cubic, align_corners, sizes);
  Tensor plane = iota_along(n + 1, 0, x.size(0) * x.size(1), product(in)), y;
  for (const Tap& t : combined_taps(axes, kind, align_corners, acc, weights_dtype(x.dtype(), kind, out))) {
    Tensor v = gather_flat(x, plane + t.index);
    if (!t.weight.defined()) return v.reshape(sizes);  // the only tap
    v = v.cast(acc) * t.weight;
    y = y.defined() ? y + v : v;
  }
  return y.cast(x.dtype()).reshape(sizes);
}

Tensor upsample_backward(Args& a, Kind kind, bool align_corners, int scales) {
  const Tensor& g = a.tensor(0);
  const Dims &out = a.ints(1), &sizes = a.ints(2);
  Dims in(sizes.begin() + 2, sizes.end());
  int64_t planes = sizes[0] * sizes[1], inside = product(in);
  if (planes == 0) return zeros(sizes, g.dtype());
  DType acc = compute_dtype(g.dtype());
  std::vector<Axis> axes = read_axes(a, in, out, scales);
  Dims shape{planes, product(out), 1}, full_shape{planes};
  full_shape.append(out.begin(), out.end());
  if (g.numel() != product(full_shape))
    fail(ErrorKind::Runtime,
         fmt::format("Expected grad_output to have size {} behind batch and channels, got {}", sizes_text(out), sizes_text(g.sizes())));
  Tensor plane = iota_along(out.size() + 1, 0, planes, inside), grad = g.cast(acc).reshape(full_shape), r = zeros({planes * inside}, acc);
  for (const Tap& t : combined_taps(axes, kind, align_corners, acc, acc)) {
    Tensor source = t.weight.defined() ? grad * t.weight : grad;
    r = scatter_flat(r, (plane + t.index).expand(full_shape).reshape(shape), source.reshape(shape), Op::ADD);
  }
  return r.reshape(sizes).cast(g.dtype());
}

struct Unfold {
  Dims kernel, dilation, padding, stride, in, out;
};

Unfold read_unfold(Args& a, int first, const Dims& in) {
  Unfold u{expand_ints(a.ints(first), 2, {}, "kernel_size"), expand_ints(a.ints(first + 1), 2, {}, "dilation"),
           expand_ints(a.ints(first + 2), 2, {}, "padding"), expand_ints(a.ints(first + 3), 2, {}, "stride"), in, {0, 0}};
  for (size_t d = 0; d < 2; ++d) {
    if (u.kernel[d] <= 0)
      fail(ErrorKind::Runtime, "kernel size should be greater than zero, but got kernel_height: " + std::to_string(u.kernel[0]) +
                                   " kernel_width: " + std::to_string(u.kernel[1]));
    if (u.dilation[d] <= 0)
      fail(ErrorKind::Runtime, "dilation should be greater than zero, but got dilation_height: " + std::to_string(u.dilation[0]) +
                                   " dilation_width: " + std::to_string(u.dilation[1]));
    if (u.padding[d] < 0)
      fail(ErrorKind::Runtime, "padding should be non-negative, but got pad_height: " + std::to_string(u.padding[0]) +
                                   " pad_width: " + std::to_string(u.padding[1]));
    if (u.stride[d] <= 0)
      fail(ErrorKind::Runtime, "stride should be greater than zero, but got stride_height: " + std::to_string(u.stride[0]) +
                                   " stride_width: " + std::to_string(u.stride[1]));
    int64_t span = in[d] + 2 * u.padding[d] - u.dilation[d] * (u.kernel[d] - 1) - 1;
    u.out[d] = span < 0 ? 0 : span / u.stride[d] + 1;
    if (u.out[d] < 1)
      fail(ErrorKind::Runtime,
           fmt::format("Given input with spatial size ({}, {}), kernel_size=({}, {}), dilation=({}, {}), padding=({}, {}), "
                       "calculated shape of the array of sliding blocks as ({}, {}), but its components must be at least one.",
                       in[0], in[1], u.kernel[0], u.kernel[1], u.dilation[0], u.dilation[1], u.padding[0], u.padding[1], u.out[0],
                       u.out[1]));
  }
  return u;
}

}  // namespace

Tensor upsample_nearest(Args& a) { return upsample(a, Kind::Nearest, false, 2); }
Tensor upsample_nearest_exact(Args& a) { return upsample(a, Kind::NearestExact, false, 2); }
Tensor upsample_linear(Args& a) { return upsample(a, Kind::Linear, a.flag(2), 3); }
Tensor upsample_cubic(Args& a) { return upsample(a, Kind::Cubic, a.flag(2), 3); }
Tensor upsample_nearest_backward(Args& a) { return upsample_backward(a, Kind::Nearest, false, 3); }
Tensor upsample_nearest_exact_backward(Args& a) { return upsample_backward(a, Kind::NearestExact, false, 3); }
Tensor upsample_linear_backward(Args& a) { return upsample_backward(a, Kind::Linear, a.flag(3), 4); }
Tensor upsample_cubic_backward(Args& a) { return upsample_backward(a, Kind::Cubic, a.flag(3), 4); }

Tensor im2col(Args& a) {
  const Tensor& given = a.tensor(0);
  if (given.dim() < 3) wrap_dim(2, given.dim());  // in these words, as PyTorch
  if (given.dim() != 3 && given.dim() != 4)
    fail(ErrorKind::Runtime,
         "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: " +
             sizes_text(given.sizes()));
  bool batched = given.dim() == 4;
  Tensor x = batched ? given : given.unsqueeze(0);
  Unfold u = read_unfold(a, 1, Dims{x.size(2), x.size(3)});
  int64_t n = x.size(0), c = x.size(1), rows = c * u.kernel[0] * u.kernel[1], columns = u.out[0] * u.out[1];
  Tensor p = pad_trailing(x, u.padding, u.padding);
  Dims s = contiguous_strides(p.sizes());
  Dims sizes{n, c, u.kernel[0], u.kernel[1], u.out[0], u.out[1]};
  Dims strides{s[0], s[1], u.dilation[0] * s[2], u.dilation[1] * s[3], u.stride[0] * s[2], u.stride[1] * s[3]};
  Tensor r = p.view(sizes, strides, 0);
  return batched ? r.reshape({n, rows, columns}) : r.reshape({rows, columns});
}

Tensor col2im(Args& a) {
  const Tensor& given = a.tensor(0);
  if (given.dim() != 2 && given.dim() != 3)
    fail(ErrorKind::Runtime,
         "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, but got: " +
             sizes_text(given.sizes()));
  Dims plane = expand_ints(a.ints(1), 2, {}, "output_size");
  Unfold u = read_unfold(a, 2, plane);
  bool batched = given.dim() == 3;
  int64_t n = batched ? given.size(0) : 1, block = u.kernel[0] * u.kernel[1], columns = u.out[0] * u.out[1];
  if (given.size(-2) % block != 0)
    fail(ErrorKind::Runtime,
         fmt::format("Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)={} and "
                     "kernel_size=({}, {}).",
                     given.size(-2), u.kernel[0], u.kernel[1]));
  if (given.size(-1) != columns)
    fail(ErrorKind::Runtime,
         fmt::format(
             "Given output_size=({}, {}), kernel_size=({}, {}), dilation=({}, {}), padding=({}, {}), stride=({}, {}), expected size of "
             "input's dimension 2 to match the calculated number of sliding blocks {} * {} = {}, but got input.size(2)={}.",
             plane[0], plane[1], u.kernel[0], u.kernel[1], u.dilation[0], u.dilation[1], u.padding[0], u.padding[1], u.stride[0],
             u.stride[1], u.out[0], u.out[1], columns, given.size(-1)));
  int64_t c = given.size(-2) / block;
  Dims out{n, c, plane[0], plane[1]}, single{c, plane[0], plane[1]};
  DType d = given.dtype();
  if (n * c == 0) return zeros(batched ? out : single, d);
  // [plane, kh, kw, oh, ow]
  Tensor y = iota_along(5, 1, u.kernel[0], u.dilation[0]) + iota_along(5, 3, u.out[0], u.stride[0]) - index_constant(u.padding[0]);
  Tensor x = iota_along(5, 2, u.kernel[1], u.dilation[1]) + iota_along(5, 4, u.out[1], u.stride[1]) - index_constant(u.padding[1]);
  Tensor zero = index_constant(0), inside = binary(Op::AND, binary(Op::AND, ge(y, zero), lt(y, index_constant(plane[0]))),
                                                   binary(Op::AND, ge(x, zero), lt(x, index_constant(plane[1]))));
  Tensor flat = iota_along(5, 0, n * c, plane[0] * plane[1]) + y * index_constant(plane[1]) + x;
  Dims shape{n * c, block * columns, 1};
  Tensor at = where(inside, flat, index_constant(-1)).reshape(shape);
  Tensor r = scatter_flat(zeros({n * c * plane[0] * plane[1]}, d), at, given.reshape(shape), Op::ADD);
  return r.reshape(batched ? out : single);
}

}  // namespace tiny::lower
