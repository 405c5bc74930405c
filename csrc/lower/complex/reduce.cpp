#include <algorithm>
#include <cmath>

#include "lower/complex/complex.h"
#include "lower/complex/parts.h"
#include "lower/nn_util.h"
#include "lower/reduce.h"

namespace tiny::lower::complex {

/// Product along the last dimension: halves are multiplied with each other, so that rounding errors grow as the logarithm.
Complex product_of_rows(Complex x) {
  if (x.re.size(-1) == 0) {
    Dims sizes(x.re.sizes().begin(), x.re.sizes().end() - 1);
    return {full(sizes, like(x.re, 1)), zeros(sizes, x.re.dtype())};
  }
  while (x.re.size(-1) > 1) {
    const int64_t n = x.re.size(-1), half = n / 2;
    auto part = [&](int64_t from, int64_t to) { return both(x, [&](const Tensor& t) { return t.slice(-1, from, to); }); };
    Complex y = part(0, half) * part(half, 2 * half);
    if (n % 2) {
      auto joined = [](const Tensor& a, const Tensor& b) {
        Tensor ab[] = {a, b};
        return cat(ab, -1);
      };
      Complex last = part(n - 1, n);
      y = {joined(y.re, last.re), joined(y.im, last.im)};
    }
    x = half > 1 ? both(y, [](const Tensor& t) { return t.contiguous(); }) : y;
  }
  return both(x, [](const Tensor& t) { return t.squeeze(-1); });
}

namespace {

/// Argument 0, dtype argument i and that of an output say in which parts' type a product is computed.
Complex factors(const Args& a, int dtype, DType* d) {
  *d = a.dtype(dtype, a.out_dtype(0, a.tensor(0).dtype()));
  return a.complex_as(0, compute_dtype(*d));
}

Complex product_over(const Complex& x, const Dims& axes, bool keepdim) {
  Dims order, kept, sizes;
  int64_t columns = 1;
  for (int64_t k = 0; k < x.re.dim(); ++k) {
    const bool reduced = std::find(axes.begin(), axes.end(), k) != axes.end();
    if (reduced) columns *= x.re.size(k);
    else order.push_back(k), kept.push_back(x.re.size(k));
    if (!reduced || keepdim) sizes.push_back(reduced ? 1 : x.re.size(k));
  }
  if (columns == 0) return {full(sizes, like(x.re, 1)), zeros(sizes, x.re.dtype())};
  if (any_zero(sizes)) return both(x, [&](const Tensor& t) { return empty_value(sizes, t.dtype()); });
  for (int64_t k : axes) order.push_back(k);
  kept.push_back(columns);
  Complex rows = both(x, [&](const Tensor& t) { return t.permute(order).reshape(kept); });
  return both(product_of_rows(rows), [&](const Tensor& t) { return t.reshape(sizes); });
}

/// Argument 0 as a real one: what F makes of it.
template <class F> void replace(Args& a, F f) {
  if (!a.is_complex(0)) return;
  a.values[0].tensor = f(a.complex(0));
  a.values[0].imaginary = {};
}

Tensor size_of(const Complex& x) { return lower::abs(cast(x, compute_dtype(x.re.dtype()))).cast(x.re.dtype()); }

/// A variance is the sum of the parts' variances.
Results variances(Args& a, LoweringN f) {
  const int self[] = {0};
  ComplexResults parts = on_parts(a, nullptr, f, self);
  return {parts[0].re + parts[0].im, parts[1].re, parts[1].im};
}

Tensor root(const Tensor& x) { return lower::sqrt(x.cast(compute_dtype(x.dtype()))).cast(x.dtype()); }

}  // namespace

Complex prod(Args& a) {
  DType d;
  Complex x = factors(a, 1, &d);
  Dims axes;
  for (int64_t k = 0; k < x.re.dim(); ++k) axes.push_back(k);
  return cast(product_over(x, axes, false), d);
}

Complex prod_dim(Args& a) {
  DType d;
  Complex x = factors(a, 3, &d);
  return cast(product_over(x, reduced_axes(a, 1, x.re.dim()), a.integer(2, 0)), d);
}

void replace_by_nonzero(Args& a) {
  replace(a, [](const Complex& x) { return nonzero(x); });
}
Complex all(Args& a) {
  replace_by_nonzero(a);
  return {lower::all(a), {}};
}
Complex any(Args& a) {
  replace_by_nonzero(a);
  return {lower::any(a), {}};
}
Complex count_nonzero(Args& a) {
  replace_by_nonzero(a);
  return {lower::count_nonzero(a), {}};
}

Complex norm(Args& a) {
  replace(a, size_of);
  return {lower::norm(a), {}};
}
Complex vector_norm(Args& a) {
  replace(a, size_of);
  return {lower::vector_norm(a), {}};
}

Complex var_correction(Args& a) {
  const int self[] = {0};
  ComplexResults parts = on_parts(a, lower::var_correction, nullptr, self);
  return {parts[0].re + parts[0].im, {}};
}
Complex std_correction(Args& a) { return {root(complex::var_correction(a).re), {}}; }
ComplexResults var_mean_correction(Args& a) {
  Results r = variances(a, lower::var_mean_correction);
  return {{r[0], {}}, {r[1], r[2]}};
}
ComplexResults std_mean_correction(Args& a) {
  Results r = variances(a, lower::var_mean_correction);
  return {{root(r[0]), {}}, {r[1], r[2]}};
}

Complex logsumexp(Args& a) {
  DType d = a.tensor(0).dtype();
  Complex x = complex_operand(a, 0, d);
  Dims axes = reduced_axes(a, 1, x.re.dim());
  const bool keepdim = a.integer(2, 0);
  auto fold = [&](const Tensor& t, bool keep) { return t.dim() == 0 ? t : t.sum(axes, keep); };
  auto total = [&](const Complex& e) { return log(both(e, [&](const Tensor& t) { return fold(t, keepdim); })); };
  if (x.re.numel() == 0) return cast(total(x), d);
  Tensor top = x.re.dim() == 0 ? x.re : x.re.amax(axes, true);
  top = where(eq(lower::abs(top), like(top, INFINITY)), like(top, 0), top);
  Complex sum = total(exp({x.re - top, x.im}));
  return cast({sum.re + top.reshape(sum.re.sizes()), sum.im}, d);
}

Complex renorm(Args& a) {
  DType d = a.tensor(0).dtype();
  Complex x = complex_operand(a, 0, d);
  ArgValue& self = a.values[0];
  self.tensor = lower::abs(x), self.imaginary = {};
  Tensor size = self.tensor, shrunk = lower::renorm(a);  // every size becomes factor * size
  Tensor factor = where(eq(size, like(size, 0)), like(size, 1), shrunk / size);
  return cast(x * factor, d);
}

}  // namespace tiny::lower::complex
