#include "lower/matmul.h"

#include <fmt/format.h>

#include "lower/nn_util.h"
#include "lower/pointwise.h"

namespace tiny::lower {
namespace {

/// The C++ type that PyTorch names in its message.
const char* meta_name(DType d) {
  switch (d) {
    case DType::bool_: return "bool";
    case DType::u8: return "unsigned char";
    case DType::i8: return "signed char";
    case DType::i16: return "short int";
    case DType::i32: return "int";
    case DType::i64: return "long int";
    case DType::bf16: return "c10::BFloat16";
    case DType::f16: return "c10::Half";
    case DType::f32: return "float";
    case DType::f64: return "double";
    default: return info(d).name;
  }
}

void check_same_dtype(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype())
    fail(ErrorKind::Runtime,
         fmt::format("expected m1 and m2 to have the same dtype, but got: {} != {}", meta_name(a.dtype()), meta_name(b.dtype())));
  if (is_bool(a.dtype())) fail(ErrorKind::NotImplemented, "\"addmm_impl_cpu_\" not implemented for 'Bool'");
}

void check_inner(const Tensor& a, const Tensor& b) {
  if (a.size(-1) != b.size(-2))
    fail(ErrorKind::Runtime, fmt::format("mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})", a.size(-2), a.size(-1),
                                         b.size(-2), b.size(-1)));
}

void check_matrices(const Tensor& a, const Tensor& b) {
  if (a.dim() != 2) fail(ErrorKind::Runtime, "self must be a matrix");
  if (b.dim() != 2) fail(ErrorKind::Runtime, "mat2 must be a matrix");
  check_same_dtype(a, b);
  check_inner(a, b);
}

void check_batches(const Tensor& a, const Tensor& b) {
  if (a.dim() != 3) fail(ErrorKind::Runtime, "batch1 must be a 3D tensor");
  if (b.dim() != 3) fail(ErrorKind::Runtime, "batch2 must be a 3D tensor");
  check_same_dtype(a, b);
  if (a.size(0) != b.size(0) || a.size(2) != b.size(1))
    fail(ErrorKind::Runtime, fmt::format("Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].",
                                         a.size(0), a.size(2), b.size(0), b.size(1)));
}

/// a [..., M, K] @ b [..., K, N] in the compute dtype; an empty sum is 0.
Tensor product_of(const Tensor& a, const Tensor& b) {
  DType acc = compute_dtype(a.dtype());
  if (a.size(-1) != 0 && a.numel() != 0 && b.numel() != 0) return matmul(a, b, acc);
  Dims sizes = a.sizes();
  sizes.back() = b.size(-1);
  return zeros(sizes, acc);
}

/// As Tensor.expand: the last size that does not fit is named.
void check_expands(const Dims& from, const Dims& to) {
  const int64_t n = static_cast<int64_t>(to.size()), missing = n - static_cast<int64_t>(from.size());
  if (missing < 0)
    fail(ErrorKind::Runtime, fmt::format("The number of sizes provided ({}) must be greater or equal to the number of dimensions in the "
                                         "tensor ({})", n, from.size()));
  for (int64_t d = n - 1; d >= missing; --d)
    if (from[d - missing] != 1 && from[d - missing] != to[d])
      fail(ErrorKind::Runtime, fmt::format("The expanded size of the tensor ({}) must match the existing size ({}) at non-singleton "
                                           "dimension {}.  Target sizes: {}.  Tensor sizes: {}",
                                           to[d], from[d - missing], d, sizes_text(to), sizes_text(from)));
}

/// alpha*product + beta*self, rounded once to `dtype`. Arguments `beta` and `alpha` are positions of numbers.
Tensor blend(Args& a, const Tensor& product, const Tensor& self, int beta, int alpha, DType dtype) {
  DType acc = product.dtype();
  Tensor r = product;
  if (a.number(alpha, 1) != 1) r = r * a.as(alpha, acc);
  if (a.number(beta, 1) == 0) return r.cast(dtype);
  check_expands(self.sizes(), r.sizes());
  Tensor s = self.cast(acc);
  if (a.number(beta, 1) != 1) s = s * a.as(beta, acc);
  return (r + s).cast(dtype);
}

/// The CPU adds one batch after the other, and in 16 bits rounds after each.
Tensor addbmm_by_batch(Args& a, const Tensor& x, const Tensor& y) {
  auto batch = [](const Tensor& t, int64_t b) { return t.slice(0, b, b + 1).reshape({t.size(1), t.size(2)}); };
  Tensor r = blend(a, product_of(batch(x, 0), batch(y, 0)), a.tensor(0), 3, 4, x.dtype());
  for (int64_t b = 1; b < x.size(0); ++b) {
    Tensor product = product_of(batch(x, b), batch(y, b));
    if (a.number(4, 1) != 1) product = product * a.as(4, product.dtype());
    r = (r.cast(product.dtype()) + product).cast(x.dtype());
  }
  return r;
}

}  // namespace

Tensor mm(Args& a) {
  const Tensor &x = a.tensor(0), &y = a.tensor(1);
  check_matrices(x, y);
  return product_of(x, y).cast(x.dtype());
}

Tensor bmm(Args& a) {
  const Tensor &x = a.tensor(0), &y = a.tensor(1);
  check_batches(x, y);
  return product_of(x, y).cast(x.dtype());
}

Tensor addmm(Args& a) {
  const Tensor &x = a.tensor(1), &y = a.tensor(2);
  check_matrices(x, y);
  return blend(a, product_of(x, y), a.tensor(0), 3, 4, x.dtype());
}

Tensor baddbmm(Args& a) {
  const Tensor &x = a.tensor(1), &y = a.tensor(2);
  check_batches(x, y);
  return blend(a, product_of(x, y), a.tensor(0), 3, 4, x.dtype());
}

Tensor addmv(Args& a) {
  const Tensor &m = a.tensor(1), &v = a.tensor(2);
  if (m.dim() != 2 || v.dim() != 1)
    fail(ErrorKind::Runtime, fmt::format("vector + matrix @ vector expected, got {}, {}, {}", a.tensor(0).dim(), m.dim(), v.dim()));
  if (m.size(1) != v.size(0))
    fail(ErrorKind::Runtime,
         fmt::format("size mismatch, got input ({}), mat ({}x{}), vec ({})", m.size(0), m.size(0), m.size(1), v.size(0)));
  check_same_dtype(m, v);
  Tensor product = product_of(m, v.reshape({v.size(0), 1})).reshape({m.size(0)});
  return blend(a, product, a.tensor(0), 3, 4, m.dtype());
}

Tensor addbmm(Args& a) {
  const Tensor &x = a.tensor(1), &y = a.tensor(2);
  check_batches(x, y);
  int64_t b = x.size(0), m = x.size(1), k = x.size(2), n = y.size(2);
  if (is_reduced_float(x.dtype()) && b > 0) return addbmm_by_batch(a, x, y);
  Tensor rows = x.permute(Dims{1, 0, 2}).reshape({m, b * k});
  return blend(a, product_of(rows, y.reshape({b * k, n})), a.tensor(0), 3, 4, x.dtype());
}

Tensor addr(Args& a) {
  const Tensor &u = a.tensor(1), &v = a.tensor(2);
  if (u.dim() != 1) fail(ErrorKind::Runtime, fmt::format("addr: Expected 1-D argument vec1, but got {}-D", u.dim()));
  if (v.dim() != 1) fail(ErrorKind::Runtime, fmt::format("addr: Expected 1-D argument vec2, but got {}-D", v.dim()));
  DType d = a.common({0, 1, 2}), acc = compute_dtype(d);
  if (!is_float(d))
    for (int i : {3, 4})
      if (a.has(i) && a.values[i].kind == ArgKind::Double)
        fail(ErrorKind::Runtime,
             fmt::format("For integral input tensors, argument {} must not be a floating point number.", i == 3 ? "beta" : "alpha"));
  // In 16 bits the CPU rounds after every step.
  auto number = [&](int i) { return rounded(a.as(i, acc), d); };
  Tensor column = u.cast(acc).reshape({u.size(0), 1}), row = v.cast(acc).reshape({1, v.size(0)});
  if (a.number(4, 1) != 1) column = rounded(column * number(4), d);
  Tensor product = rounded(column * row, d);
  if (a.number(3, 1) == 0) return product.cast(d);
  check_expands(a.tensor(0).sizes(), product.sizes());
  Tensor self = a.as(0, d).cast(acc);
  if (a.number(3, 1) != 1) self = rounded(self * number(3), d);
  return (self + product).cast(d);
}

Tensor dot(Args& a) {
  const Tensor &x = a.tensor(0), &y = a.tensor(1);
  if (x.dim() != 1 || y.dim() != 1)
    fail(ErrorKind::Runtime, fmt::format("1D tensors expected, but got {}D and {}D tensors", x.dim(), y.dim()));
  if (x.dtype() != y.dtype())
    fail(ErrorKind::Runtime, fmt::format("dot : expected both vectors to have same dtype, but found {} and {}", scalar_type_name(x.dtype()),
                                         scalar_type_name(y.dtype())));
  if (x.numel() != y.numel())
    fail(ErrorKind::Runtime,
         fmt::format("inconsistent tensor size, expected tensor {0} and src {1} to have the same number of elements, but got "
                     "{2} and {3} elements respectively",
                     sizes_text(x.sizes()), sizes_text(y.sizes()), x.numel(), y.numel()));
  if (is_bool(x.dtype())) fail(ErrorKind::NotImplemented, "\"dot\" not implemented for 'Bool'");
  DType acc = compute_dtype(x.dtype());
  if (x.numel() == 0) return zeros({}, x.dtype());
  return (x.cast(acc) * y.cast(acc)).sum().cast(x.dtype());
}

}  // namespace tiny::lower
