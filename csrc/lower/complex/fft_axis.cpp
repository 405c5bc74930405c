#include "lower/complex/fft_axis.h"

#include <algorithm>

#include "lower/complex/fft_tables.h"
#include "lower/complex/math.h"
#include "lower/complex/pairs.h"
#include "lower/nn_util.h"

namespace tiny::lower::complex {
namespace {

constexpr int64_t kMatrix = 64;  // sizes up to this that have a great prime factor are a product with a matrix

Complex cut(const Complex& x, int64_t d, int64_t n) {
  return both(x, [&](const Tensor& t) { return t.slice(d, 0, n); });
}

/// [.., n at d, ..] as [batch, n, inner].
Dims three(const Tensor& x, int64_t d) {
  Dims s{1, x.size(d), 1};
  for (int64_t k = 0; k < x.dim(); ++k)
    if (k != d) s[k < d ? 0 : 2] *= x.size(k);
  return s;
}

Tensor dft_of(Args& a, const Complex& x, const FftAxis& axis, DftResult result) {
  Dft shape;
  Dims sizes = three(x.re, axis.dim);
  shape.batch = sizes[0], shape.n = sizes[1], shape.inner = sizes[2];
  shape.radices = dft_radices(shape.n);
  shape.last = shape.radices.size();
  shape.inverse = axis.inverse, shape.result = result, shape.scale = axis.scale;
  return dft(x.re, x.im, a.table(dft_table(shape), x.re.dtype()), shape);
}

/// By a DFT node.
Complex by_passes(Args& a, const Complex& x, const FftAxis& axis) {
  const Dims& sizes = x.re.sizes();
  Tensor y = dft_of(a, x, axis, axis.pairs ? DftResult::Pairs : DftResult::Planar);
  Dims strides = contiguous_strides(sizes);
  if (axis.pairs)
    for (int64_t& s : strides) s *= 2;
  return {y.view(sizes, strides, 0), y.view(sizes, strides, axis.pairs ? 1 : x.re.numel())};
}

/// The first `wanted` results, by the matrix of the transform.
Complex by_matrix(Args& a, const Complex& x, const FftAxis& axis, int64_t wanted) {
  Dims sizes = three(x.re, axis.dim), out = x.re.sizes();
  int64_t n = sizes[1];
  out[axis.dim] = wanted;
  DType d = x.re.dtype();
  Complex m = cut(table_parts(a, matrix_table(n), d, {n, n}), 0, wanted);
  if (axis.inverse) m = conj(m);
  auto product = [&](const Tensor& w, const Tensor& t) { return matmul(w, t.reshape(sizes), d); };
  Complex y = x.is_complex() ? Complex{product(m.re, x.re) - product(m.im, x.im), product(m.re, x.im) + product(m.im, x.re)}
                             : Complex{product(m.re, x.re), product(m.im, x.re)};
  if (axis.scale != 1) y = y * axis.scale;
  return both(y, [&](const Tensor& t) { return t.reshape(out); });
}

/// jk = (j^2 + k^2 - (j-k)^2) / 2: a convolution with a chirp, made cyclic by padding. Source: L. Bluestein, 1970.
Complex by_convolution(Args& a, const Complex& x, const FftAxis& axis) {
  Dims sizes = three(x.re, axis.dim);
  int64_t n = sizes[1], m = chirp_period(n), lo[] = {0, 0, 0}, hi[] = {0, m - n, 0};
  DType d = x.re.dtype();
  Complex chirp = table_parts(a, chirp_table(n), d, {n, 1}), spectrum = table_parts(a, chirp_spectrum_table(n), d, {m, 1});
  if (axis.inverse) chirp = conj(chirp), spectrum = conj(spectrum);
  Complex t = both(x, [&](const Tensor& p) { return p.defined() ? p.reshape(sizes) : p; });
  t = t.is_complex() ? t * chirp : Complex{t.re * chirp.re, t.re * chirp.im};
  t = both(t, [&](const Tensor& p) { return p.pad(lo, hi); });
  t = by_passes(a, t, {1, false});
  t = by_passes(a, t * spectrum, {1, true});
  t = cut(t, 1, n) * chirp;
  if (axis.scale != 1) t = t * axis.scale;
  return both(t, [&](const Tensor& p) { return p.reshape(x.re.sizes()); });
}

bool has_passes(int64_t n) { return !dft_radices(n).empty(); }

}  // namespace

Complex fft_axis(Args& a, const Complex& x, const FftAxis& axis) {
  int64_t n = x.re.size(axis.dim);
  if (has_passes(n)) return by_passes(a, x, axis);
  return n <= kMatrix ? by_matrix(a, x, axis, n) : by_convolution(a, x, axis);
}

/// Of an even n: even elements are taken as real parts and odd ones as imaginary parts of a transform of half the size, whose results
/// number k and n/2 - k together make the wanted ones. Source: W. Press et al., Numerical Recipes, 12.3.
Complex fft_axis_half(Args& a, const Tensor& x, const FftAxis& axis) {
  int64_t d = axis.dim, n = x.size(d), half = n / 2;
  DType t = x.dtype();
  if (!has_passes(n) && n <= kMatrix) return by_matrix(a, {x, {}}, axis, half + 1);
  if (n % 2) return cut(fft_axis(a, {x, {}}, axis), d, half + 1);
  Complex z = fft_axis(a, {x.slice(d, 0, n, 2), x.slice(d, 1, n, 2)}, {d, false, axis.scale / 2, false});
  z = both(z, [&](const Tensor& p) {  // element `half` is element 0 again
    const Tensor parts[] = {p, p.slice(d, 0, 1)};
    return cat(parts, d);
  });
  const int64_t dims[] = {d};
  Complex mirror = conj(both(z, [&](const Tensor& p) { return p.flip(dims); }));
  Dims along(x.sizes().size(), 1);
  along[d] = half + 1;
  return z + mirror + over_i((z - mirror) * table_parts(a, circle_table(n), t, along));
}

Tensor fft_axis_real(Args& a, const Complex& x, int64_t n, const FftAxis& axis) {
  int64_t d = axis.dim, half = n / 2;
  const int64_t dims[] = {d};
  Dims along(x.re.sizes().size(), 1), out = x.re.sizes();
  along[d] = half + 1, out[d] = n;
  Complex y = cut(x, d, half + 1);
  Tensor at = iota(half + 1).reshape(along), ends = eq(at, index_constant(0));
  if (n % 2 == 0) ends = ends | eq(at, index_constant(half));
  y.im = where(ends, like(y.im, 0), y.im);
  Complex mirror = conj(both(y, [&](const Tensor& p) { return p.slice(d, 1, half + 1).flip(dims); }));
  if (n % 2) {
    const Tensor re[] = {y.re, mirror.re}, im[] = {y.im, mirror.im};
    y = {cat(re, d), cat(im, d)};
    return has_passes(n) ? dft_of(a, y, axis, DftResult::Real).reshape(out) : fft_axis(a, y, axis).re;
  }
  Complex turn = conj(cut(table_parts(a, circle_table(n), x.re.dtype(), along), d, half));
  y = cut(y, d, half);
  Complex z = fft_axis(a, y + mirror + times_i((y - mirror) * turn), axis);
  Tensor pairs = join_pairs(z);  // elements 2k and 2k + 1 are the parts of z[k]
  Dims order;
  for (int64_t k = 0; k < z.re.dim(); ++k) {
    order.push_back(k);
    if (k == d) order.push_back(z.re.dim());
  }
  return pairs.permute(order).reshape(out);
}

}  // namespace tiny::lower::complex
