#include "lower/antialias.h"

#include <cmath>

#include "lower/fixed_point.h"
#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

enum class Filter { Linear, Cubic, Lanczos };

double width_of(Filter f) { return f == Filter::Linear ? 2 : f == Filter::Cubic ? 4 : 6; }

/// sin(pi x) / (pi x)
Tensor sinc_pi(const Tensor& x) {
  Tensor t = x * M_PI;
  return where(eq(x, like(x, 0)), like(x, 1), t.unary(Op::SIN) / t);
}

/// Keys's cubic has A = -0.5 here. Source: https://en.wikipedia.org/wiki/Bicubic_interpolation
Tensor filtered(Filter f, const Tensor& given) {
  Tensor x = abs(given), zero = like(x, 0), one = like(x, 1), inside = lt(x, like(x, width_of(f) / 2));
  if (f == Filter::Linear) return where(inside, one - x, zero);
  if (f == Filter::Lanczos) return where(inside, sinc_pi(x) * sinc_pi(x / 3.0), zero);
  constexpr double A = -0.5;
  Tensor near = ((x * (A + 2) - like(x, A + 3)) * x) * x + 1.0, far = ((x * A - like(x, 5 * A)) * x + 8 * A) * x - like(x, 4 * A);
  return where(inside, where(lt(x, one), near, far), zero);
}

double filtered(Filter f, double x) {
  x = std::abs(x);
  auto sinc = [](double t) { return t == 0 ? 1 : std::sin(t * M_PI) / (t * M_PI); };
  if (x >= width_of(f) / 2) return 0;
  if (f == Filter::Linear) return 1 - x;
  if (f == Filter::Lanczos) return sinc(x) * sinc(x / 3);
  constexpr double A = -0.5;
  return x < 1 ? ((A + 2) * x - (A + 3)) * x * x + 1 : ((A * x - 5 * A) * x + 8 * A) * x - 4 * A;
}

double scale_of(int64_t in, int64_t out, bool align_corners, double given_scale) {
  if (align_corners) return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  return given_scale > 0 ? 1 / given_scale : static_cast<double>(in) / static_cast<double>(out);
}

/// What each input element gives to each output element of one dimension: [out, in].
Tensor weights(Filter f, int64_t in, int64_t out, bool align_corners, double given_scale, DType acc) {
  double scale = scale_of(in, out, align_corners, given_scale);
  double support = width_of(f) / 2 * std::max(scale, 1.0);
  int64_t along[] = {1};
  Tensor center = (iota_along(2, 0, out).cast(acc) + 0.5) * scale, i = iota_along(2, 1, in), zero = index_constant(0);
  Tensor first = maximum((center - support + 0.5).cast(DType::i64), zero);
  Tensor end = minimum((center + support + 0.5).cast(DType::i64), index_constant(in));
  Tensor w = filtered(f, (i.cast(acc) - center + 0.5) * (1 / std::max(scale, 1.0)));
  w = where(ge(i, first) & lt(i, end), w, constant(acc, 0.0));
  Tensor total = w.sum(along, true);
  return where(eq(total, like(total, 0)), w, w / total);
}

/// The greatest weight, as weights() has it.
double greatest_weight(Filter f, int64_t in, int64_t out, bool align_corners, double given_scale) {
  double scale = scale_of(in, out, align_corners, given_scale), support = width_of(f) / 2 * std::max(scale, 1.0), greatest = 0;
  for (int64_t o = 0; o < out; ++o) {
    double center = scale * (static_cast<double>(o) + 0.5), total = 0, most = 0;
    int64_t first = std::max(static_cast<int64_t>(center - support + 0.5), int64_t{0});
    int64_t end = std::min(static_cast<int64_t>(center + support + 0.5), in);
    for (int64_t i = first; i < end; ++i) {
      double w = filtered(f, (static_cast<double>(i) - center + 0.5) / std::max(scale, 1.0));
      total += w, most = std::max(most, w);
    }
    if (total != 0) greatest = std::max(greatest, most / total);
  }
  return greatest;
}

/// A product with a matrix along each of the last two dimensions.
Tensor apply(const Tensor& x, const Tensor& rows, const Tensor& columns) {
  DType acc = rows.dtype();
  int64_t planes = x.size(0) * x.size(1), h = x.size(2), w = x.size(3);
  Tensor y = matmul(x.cast(acc).reshape({planes * h, w}), columns.transpose(0, 1), acc);
  y = matmul(rows, y.reshape({planes, h, columns.size(0)}), acc);
  return y.reshape({x.size(0), x.size(1), rows.size(0), columns.size(0)});
}

void check_sizes(const Dims& in, const Dims& out) {
  for (size_t d = 0; d < 2; ++d)
    if (in[d] <= 0 || out[d] <= 0)
      fail(ErrorKind::Runtime, "Input and output sizes should be greater than 0, but got input " + sizes_text(in) + " output " +
          sizes_text(out));
}

/// The last dimension first, each to bytes.
Tensor upsample_bytes(Args& a, Filter f, const Dims& in, const Dims& out, bool align) {
  const Tensor& x = a.tensor(0);
  int64_t planes = x.size(0) * x.size(1);
  Tensor y = x.cast(DType::i32).reshape({planes, in[0], in[1]});
  for (int d : {1, 0}) {
    if (in[d] == out[d]) continue;
    double scale = a.number(3 + d, 0);
    int bits = fraction_bits(greatest_weight(f, in[d], out[d], align, scale));
    Tensor w = fixed_weights(weights(f, in[d], out[d], align, scale, DType::f64), bits);
    y = d == 1 ? matmul(y.reshape({planes * in[0], in[1]}), w.transpose(0, 1), DType::i32) : matmul(w, y, DType::i32);
    y = byte_of(y, bits).reshape({planes, d == 1 ? in[0] : out[0], out[1]});
  }
  return y.cast(DType::u8).reshape({x.size(0), x.size(1), out[0], out[1]});
}

Tensor upsample_aa(Args& a, Filter f) {
  const Tensor& x = a.tensor(0);
  const Dims& out = a.ints(1);
  Dims in{x.size(2), x.size(3)};
  check_sizes(in, out);
  if (x.size(0) * x.size(1) == 0) return zeros({x.size(0), x.size(1), out[0], out[1]}, x.dtype());
  bool align = a.flag(2);
  if (x.dtype() == DType::u8) return upsample_bytes(a, f, in, out, align);
  DType acc = compute_dtype(x.dtype());
  Tensor y = apply(x, weights(f, in[0], out[0], align, a.number(3, 0), acc), weights(f, in[1], out[1], align, a.number(4, 0), acc));
  return y.cast(x.dtype());
}

Tensor upsample_aa_backward(Args& a, Filter f) {
  const Tensor& g = a.tensor(0);
  const Dims &out = a.ints(1), &sizes = a.ints(2);
  Dims in{sizes[2], sizes[3]};
  check_sizes(in, out);
  if (sizes[0] * sizes[1] == 0) return zeros(sizes, g.dtype());
  bool align = a.flag(3);
  DType acc = compute_dtype(g.dtype());
  Tensor rows = weights(f, in[0], out[0], align, a.number(4, 0), acc), columns = weights(f, in[1], out[1], align, a.number(5, 0), acc);
  return apply(g, rows.transpose(0, 1), columns.transpose(0, 1)).cast(g.dtype());
}

}  // namespace

Tensor upsample_linear_aa(Args& a) { return upsample_aa(a, Filter::Linear); }
Tensor upsample_cubic_aa(Args& a) { return upsample_aa(a, Filter::Cubic); }
Tensor upsample_lanczos_aa(Args& a) { return upsample_aa(a, Filter::Lanczos); }
Tensor upsample_linear_aa_backward(Args& a) { return upsample_aa_backward(a, Filter::Linear); }
Tensor upsample_cubic_aa_backward(Args& a) { return upsample_aa_backward(a, Filter::Cubic); }
Tensor upsample_lanczos_aa_backward(Args& a) { return upsample_aa_backward(a, Filter::Lanczos); }

}  // namespace tiny::lower
