#include "lower/linalg_util.h"

#include <fmt/format.h>

#include "lower/complex/pairs.h"

namespace tiny::lower {

Matrices matrices(const Args& a, int i) { return a.is_complex(i) ? Matrices(join_pairs(a.complex(i)), true) : Matrices(a.tensor(i)); }

Complex parts(const Tensor& x, bool complex) { return complex ? Complex{x.select(-1, 0), x.select(-1, 1)} : Complex{x, {}}; }
Complex parts(const Matrices& m) { return parts(m.value, m.complex); }

void require_full_float(const Matrices& x, const char* kernel) {
  if (x.dtype() != DType::f32 && x.dtype() != DType::f64)
    fail(ErrorKind::NotImplemented,
         fmt::format("\"{}\" not implemented for '{}{}'", kernel, x.complex ? "Complex" : "", scalar_type_name(x.dtype())));
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

Matrices adjoint(const Matrices& x) {
  Matrices t = x.transposed();
  if (!x.complex) return t;
  Complex p = parts(t);
  return {join_pairs(conj(p)), true};
}

namespace {

/// Column minus row, of the shape of one of the matrices of x.
Tensor offsets(int64_t m, int64_t n, bool pairs) {
  Tensor t = iota(n).reshape({1, n}) - iota(m).reshape({m, 1});
  return pairs ? t.unsqueeze(-1) : t;
}
Matrices masked(const Matrices& x, const Tensor& keep) {
  return x.empty() ? x : Matrices(where(keep, x.value, constant(x.dtype(), int64_t{0})), x.complex);
}

}  // namespace

Matrices upper_triangle(const Matrices& x, int64_t d) { return masked(x, ge(offsets(x.rows(), x.cols(), x.complex), index_constant(d))); }
Matrices lower_triangle(const Matrices& x, int64_t d) { return masked(x, le(offsets(x.rows(), x.cols(), x.complex), index_constant(d))); }

Matrices unit_matrix(int64_t m, int64_t n, const Matrices& like) {
  Tensor unit = eq(offsets(m, n, false), index_constant(0)).cast(like.dtype());
  return like.complex ? Matrices(join_pairs({unit, zeros(unit.sizes(), unit.dtype())}), true) : Matrices(unit);
}

}  // namespace tiny::lower
