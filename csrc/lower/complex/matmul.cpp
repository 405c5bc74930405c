#include "lower/complex/complex.h"
#include "lower/complex/parts.h"
#include "lower/distance.h"
#include "lower/matmul.h"
#include "lower/nn_util.h"

namespace tiny::lower::complex {
namespace {

Tensor joined(const Tensor& a, const Tensor& b, int64_t d) {
  Tensor ab[] = {a, b};
  return cat(ab, d);
}

/// a [..., M, K] @ b [..., K, N] as one real product: [[re, -im], [im, re]] of a times [re, im] of b, one above the other.
Complex product_of(const Complex& a, const Complex& b) {
  const DType acc = compute_dtype(a.re.dtype());
  Dims sizes = a.re.sizes();
  sizes.back() = b.re.size(-1);
  if (a.re.numel() == 0 || b.re.numel() == 0) return {zeros(sizes, acc), zeros(sizes, acc)};
  const int64_t m = a.re.size(-2);
  Tensor left = joined(joined(a.re, -a.im, -1), joined(a.im, a.re, -1), -2);
  Tensor r = matmul(left, joined(b.re, b.im, -2), acc);
  return {r.slice(-2, 0, m), r.slice(-2, m, 2 * m)};
}

bool is_number(const Args& a, int i, double v) { return !a.has(i) || (!a.is_complex(i) && a.number(i) == v); }

/// alpha * product + beta * argument 0, rounded once; beta = 0 ignores the argument, NaN included.
Complex blend(Args& a, Complex r, DType d) {
  const DType acc = r.re.dtype();
  if (!is_number(a, 4, 1)) r = a.complex_as(4, acc) * r;
  if (is_number(a, 3, 0)) return cast(r, d);
  Complex s = a.complex_as(0, acc);
  if (!is_number(a, 3, 1)) s = a.complex_as(3, acc) * s;
  return cast(r + s, d);
}

}  // namespace

Complex mm(Args& a) { return cast(product_of(a.complex(0), a.complex(1)), a.tensor(0).dtype()); }
Complex addmm(Args& a) { return blend(a, product_of(a.complex(1), a.complex(2)), a.tensor(1).dtype()); }

Complex addmv(Args& a) {
  Complex v = both(a.complex(2), [](const Tensor& t) { return t.reshape({t.size(0), 1}); });
  Complex r = product_of(a.complex(1), v);
  return blend(a, both(r, [](const Tensor& t) { return t.reshape({t.size(0)}); }), a.tensor(1).dtype());
}

/// The batches lie side by side in one product.
Complex addbmm(Args& a) {
  const Complex x = a.complex(1), y = a.complex(2);
  const int64_t b = x.re.size(0), m = x.re.size(1), k = x.re.size(2), n = y.re.size(2);
  Complex rows = both(x, [&](const Tensor& t) { return t.permute(Dims{1, 0, 2}).reshape({m, b * k}); });
  return blend(a, product_of(rows, both(y, [&](const Tensor& t) { return t.reshape({b * k, n}); })), a.tensor(1).dtype());
}

Complex addr(Args& a) {
  DType d = parts_dtype(a, {0, 1, 2}), acc = compute_dtype(d);
  Complex u = both(a.complex_as(1, acc), [](const Tensor& t) { return t.reshape({t.numel(), 1}); });
  Complex v = both(a.complex_as(2, acc), [](const Tensor& t) { return t.reshape({1, t.numel()}); });
  return blend(a, u * v, d);
}

Complex dot(Args& a) { return bilinear(a, lower::dot, 0, 1); }
Complex vdot(Args& a) {
  if (a.is_complex(0)) a.values[0].imaginary = -a.values[0].imaginary;
  return bilinear(a, lower::dot, 0, 1);
}
Complex cross(Args& a) { return bilinear(a, lower::cross, 0, 1); }

}  // namespace tiny::lower::complex
