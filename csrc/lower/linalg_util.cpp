#include "lower/linalg_util.h"

#include <fmt/format.h>

#include "lower/pointwise.h"

namespace tiny::lower {

void require_full_float(const Tensor& x, const char* kernel) {
  if (x.dtype() != DType::f32 && x.dtype() != DType::f64)
    fail(ErrorKind::NotImplemented, fmt::format("\"{}\" not implemented for '{}'", kernel, scalar_type_name(x.dtype())));
}

void require_matrix(const Tensor& x, const char* function, const char* name) {
  if (x.dim() < 2) fail(ErrorKind::Runtime, fmt::format("{}: The input tensor {} must have at least 2 dimensions.", function, name));
}

void require_square(const Tensor& x, const char* function, const char* name) {
  require_matrix(x, function, name);
  if (x.size(-1) != x.size(-2))
    fail(ErrorKind::Runtime, fmt::format("{}: {} must be batches of square matrices, but they are {} by {} matrices", function, name,
                                         x.size(-2), x.size(-1)));
}

Tensor expand_batch(const Tensor& x, const Dims& batch, int64_t n) {
  Dims sizes = batch;
  for (int64_t d = -n; d < 0; ++d) sizes.push_back(x.size(d));
  return sizes == x.sizes() ? x : x.expand(sizes);
}

namespace {

/// Column minus row, [m, n].
Tensor offsets(int64_t m, int64_t n) { return iota(n).reshape({1, n}) - iota(m).reshape({m, 1}); }
Tensor masked(const Tensor& x, const Tensor& keep) { return x.numel() == 0 ? x : where(keep, x, constant(x.dtype(), int64_t{0})); }

}  // namespace

Tensor upper_triangle(const Tensor& x, int64_t d) { return masked(x, ge(offsets(x.size(-2), x.size(-1)), index_constant(d))); }
Tensor lower_triangle(const Tensor& x, int64_t d) { return masked(x, le(offsets(x.size(-2), x.size(-1)), index_constant(d))); }
Tensor unit_matrix(int64_t m, int64_t n, DType d) { return eq(offsets(m, n), index_constant(0)).cast(d); }

}  // namespace tiny::lower
