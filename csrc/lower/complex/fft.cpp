#include "lower/complex/fft.h"

#include <cmath>

#include "lower/complex/fft_axis.h"
#include "lower/complex/math.h"
#include "lower/nn_util.h"

namespace tiny::lower::complex {
namespace {

Dims wrapped(const Dims& dims, int64_t ndim) {
  Dims out;
  for (int64_t d : dims) out.push_back(wrap_dim(d, ndim));
  return out;
}

double scale_of(int64_t normalization, double count) {
  return normalization == 0 ? 1 : normalization == 1 ? 1 / std::sqrt(count) : 1 / count;
}

double count_of(const Tensor& x, std::span<const int64_t> dims) {
  double count = 1;
  for (int64_t d : dims) count *= static_cast<double>(x.size(d));
  return count;
}

/// Along all of `dims`, the last first: its elements mostly lie side by side.
Complex along(Args& a, Complex x, std::span<const int64_t> dims, bool inverse, double scale) {
  for (size_t k = dims.size(); k-- > 0;) {
    FftAxis axis{dims[k], inverse, k == 0 ? scale : 1, k == 0};
    x = fft_axis(a, x, axis);
  }
  return x;
}

}  // namespace

Complex fft_c2c(Args& a) {
  Complex x = a.complex(0);
  Dims dims = wrapped(a.ints(1), x.re.dim());
  if (dims.empty() || x.re.numel() == 0) return x;
  return along(a, std::move(x), dims, !a.flag(3), scale_of(a.integer(2), count_of(x.re, dims)));
}

Complex fft_r2c(Args& a) {
  const Tensor& x = a.tensor(0);
  Dims dims = wrapped(a.ints(1), x.dim());
  require(!dims.empty(), ErrorKind::Runtime, "_fft_r2c: no dimension to transform");
  int64_t last = dims.back();
  double scale = scale_of(a.integer(2), count_of(x, dims));
  dims.pop_back();
  FftAxis axis{last, false, dims.empty() ? scale : 1, dims.empty()};
  Complex y = a.flag(3) ? fft_axis_half(a, x, axis) : fft_axis(a, {x, {}}, axis);
  return along(a, std::move(y), dims, false, scale);
}

Complex fft_c2r(Args& a) {
  Complex x = a.complex(0);
  Dims dims = wrapped(a.ints(1), x.re.dim());
  require(!dims.empty(), ErrorKind::Runtime, "_fft_c2r: no dimension to transform");
  int64_t last = dims.back(), n = a.integer(3);
  dims.pop_back();
  double scale = scale_of(a.integer(2), count_of(x.re, dims) * static_cast<double>(n));
  x = along(a, std::move(x), dims, true, 1);
  return {fft_axis_real(a, x, n, {last, true, scale, true}), {}};
}

}  // namespace tiny::lower::complex
