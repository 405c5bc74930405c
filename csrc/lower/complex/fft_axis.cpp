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

Tensor dft_of(Args& a, const Complex& x, const FftAxis& axis, DftResult result, DftKind kind = DftKind::Numbers) {
  Dft shape;
  Dims sizes = three(x.re, axis.dim);
  shape.batch = sizes[0], shape.n = sizes[1] - (kind == DftKind::FromHalf), shape.inner = sizes[2];
  shape.radices = dft_radices(shape.n);
  shape.kind = kind, shape.inverse = axis.inverse, shape.result = result, shape.scale = axis.scale;
  shape.last = shape.passes();
  return dft(x.re, x.im, a.table(dft_table(shape), x.re.dtype()), shape);
}

/// By a DFT node.
Complex by_passes(Args& a, const Complex& x, const FftAxis& axis, DftKind kind = DftKind::Numbers) {
  Dims sizes = x.re.sizes();
  sizes[axis.dim] += kind == DftKind::ToHalf ? 1 : kind == DftKind::FromHalf ? -1 : 0;
  Tensor y = dft_of(a, x, axis, axis.pairs ? DftResult::Pairs : DftResult::Planar, kind);
  Dims strides = contiguous_strides(sizes);
  if (axis.pairs)
    for (int64_t& s : strides) s *= 2;
  return {y.view(sizes, strides, 0), y.view(sizes, strides, axis.pairs ? 1 : product(sizes))};
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

/// x, of numbers 0 .. n/2 of a half, without the imaginary parts that do not matter.
Complex without_parts(const Complex& x, int64_t d, int64_t n) {
  Dims along(x.re.sizes().size(), 1);
  along[d] = n / 2 + 1;
  Tensor at = iota(n / 2 + 1).reshape(along), ends = eq(at, index_constant(0));
  if (n % 2 == 0) ends = ends | eq(at, index_constant(n / 2));
  return {x.re, where(ends, like(x.im, 0), x.im)};
}

/// The conjugates of all but the first, from the last.
Complex mirrored(const Complex& x, int64_t d) {
  const int64_t dims[] = {d};
  return conj(both(x, [&](const Tensor& p) { return p.slice(d, 1, p.size(d)).flip(dims); }));
}

/// The parts of each number along d, one after the other.
Tensor in_turn(const Complex& x, int64_t d) {
  Dims order;
  for (int64_t k = 0; k < x.re.dim(); ++k) {
    order.push_back(k);
    if (k == d) order.push_back(x.re.dim());
  }
  return join_pairs(x).permute(order);
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
  Complex z{x.slice(d, 0, n, 2), x.slice(d, 1, n, 2)};
  if (has_passes(half)) return by_passes(a, z, axis, DftKind::ToHalf);
  z = fft_axis(a, z, {d, false, axis.scale / 2, false});
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
  Dims out = x.re.sizes();
  out[d] = n;
  Complex y = cut(x, d, half + 1);
  if (n % 2) {
    y = without_parts(y, d, n);
    Complex rest = mirrored(y, d);
    const Tensor re[] = {y.re, rest.re}, im[] = {y.im, rest.im};
    y = {cat(re, d), cat(im, d)};
    return has_passes(n) ? dft_of(a, y, axis, DftResult::Real).reshape(out) : fft_axis(a, y, axis).re;
  }
  if (has_passes(half)) return in_turn(by_passes(a, y, axis, DftKind::FromHalf), d).reshape(out);
  y = without_parts(y, d, n);
  Dims along(x.re.sizes().size(), 1);
  along[d] = half + 1;
  Complex rest = mirrored(y, d), turn = conj(cut(table_parts(a, circle_table(n), x.re.dtype(), along), d, half));
  y = cut(y, d, half);
  return in_turn(fft_axis(a, y + rest + times_i((y - rest) * turn), axis), d).reshape(out);
}

}  // namespace tiny::lower::complex
