// Operators of linear algebra that look at their results before they return: they raise for a matrix that cannot be decomposed, or need to
// know how large it is.
#include <ATen/native/LinearAlgebraUtils.h>

#include <array>

#include "tensor.h"

namespace tiny::glue {
namespace {

at::Tensor checked_cholesky(const at::Tensor& self, bool upper) {
  TORCH_WARN_ONCE("torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a future PyTorch release.\n"
                  "L = torch.cholesky(A)\nshould be replaced with\nL = torch.linalg.cholesky(A)\nand\n"
                  "U = torch.cholesky(A, upper=True)\nshould be replaced with\nU = torch.linalg.cholesky(A).mH\n"
                  "This transform will produce equivalent results for all valid (symmetric positive definite) inputs.");
  if (self.numel() == 0) return at::empty_like(self, at::MemoryFormat::Contiguous);
  at::native::squareCheckInputs(self, "cholesky");
  TORCH_CHECK_NOT_IMPLEMENTED(self.is_floating_point() || self.is_complex(), "\"cholesky_cpu\" not implemented for '",
                              c10::toString(self.scalar_type()), "'");
  auto [factor, info] = at::linalg_cholesky_ex(self, upper);
  at::_linalg_check_errors(info, "cholesky", self.dim() == 2);
  return factor;
}

/// (l l^T)^-1 by two triangular systems.
at::Tensor checked_cholesky_inverse(const at::Tensor& self, bool upper) {
  at::native::squareCheckInputs(self, "cholesky_inverse");
  const auto type = self.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(type == c10::kFloat || type == c10::kDouble || c10::isComplexType(type),
                              "\"cholesky_inverse_out_cpu\" not implemented for '", c10::toString(type), "'");
  const at::Tensor missing = self.diagonal(0, -2, -1).eq(0);
  const at::Tensor info = self.size(-1) == 0 ? at::zeros(missing.sizes().slice(0, missing.dim() - 1), self.options().dtype(c10::kInt))
                                             : (missing.to(c10::kInt).argmax(-1) + 1).mul(missing.any(-1)).to(c10::kInt);
  at::_linalg_check_errors(info, "cholesky_inverse", self.dim() == 2);
  const at::Tensor l = upper ? self.mH() : self;
  const at::Tensor unit = at::eye(self.size(-1), self.options()).expand_as(self);
  return at::linalg_solve_triangular(l.mH(), at::linalg_solve_triangular(l, unit, /*upper=*/false), /*upper=*/true);
}

/// The result in an out= argument; where that is empty and is resized, matrices come to lie column by column if they do `by_columns`.
at::Tensor& deliver(const char* function, const at::Tensor& result, at::Tensor& out, at::ScalarType from, bool by_columns) {
  TORCH_CHECK(c10::canCast(from, out.scalar_type()), function, ": Expected result to be safely castable from ", from,
              " dtype, but got result with dtype ", out.scalar_type());
  const bool empty = out.numel() == 0;
  if (at::native::resize_output(out, result.sizes()) && empty && by_columns)
    out.as_strided_(result.sizes(), at::native::batched_matrix_contiguous_strides(result.sizes(), /*f_contig=*/true));
  return out.copy_(result);
}

at::Tensor& cholesky_out(const at::Tensor& self, bool upper, at::Tensor& out) {
  at::native::checkSameDevice("cholesky", out, self);
  return deliver("cholesky", checked_cholesky(self, upper), out, self.scalar_type(), false);
}
at::Tensor& cholesky_inverse_out(const at::Tensor& self, bool upper, at::Tensor& out) {
  at::native::checkSameDevice("cholesky_inverse", out, self);
  return deliver("cholesky_inverse", checked_cholesky_inverse(self, upper), out, self.scalar_type(), true);
}

/// The exponential of matrices: halved until its Taylor polynomial of degree 20 is exact to the last bit, then squared as often. The
/// polynomial in x^5 (Paterson, Stockmeyer) takes seven products. Source of the bounds on the 1-norm: A. Al-Mohy, N. Higham, Computing the
/// Action of the Matrix Exponential, SIAM J. Sci. Comput. 33 (2011), table 3.1, m = 20.
at::Tensor matrix_exp(const at::Tensor& self) {
  at::native::squareCheckInputs(self, "linalg.matrix_exp");
  at::native::checkFloatingOrComplex(self, "linalg.matrix_exp");
  if (self.numel() == 0) return self.clone();
  if (self.size(-1) == 1) return self.exp();
  const auto type = self.scalar_type();
  const at::Tensor a = type == c10::kHalf || type == c10::kBFloat16 ? self.to(c10::kFloat) : self;
  const double bound = c10::toRealValueType(type) == c10::kDouble ? 1.4 : 3.6;
  const at::Tensor norm = a.abs().sum(-2).amax(-1, /*keepdim=*/true).unsqueeze(-1);
  const at::Tensor halvings = norm.div(bound).log2().ceil().clamp_min(0).nan_to_num(0, 0, 0);
  const auto most = halvings.max().item<double>();

  const at::Tensor x = a * halvings.neg().exp2();
  const at::Tensor x2 = x.matmul(x), x3 = x2.matmul(x), x4 = x2.matmul(x2), x5 = x2.matmul(x3);
  const at::Tensor unit = at::eye(a.size(-1), a.options());
  auto part = [&, factorial = 1.0, k = 0](int first) mutable {  // the terms of degree first .. first + 4, without x^first
    for (; k < first; ++k) factorial *= k + 1;
    const double c = 1 / factorial, d = c / (first + 1), e = d / (first + 2), f = e / (first + 3), g = f / (first + 4);
    return unit * c + x * d + x2 * e + x3 * f + x4 * g;
  };
  std::array<at::Tensor, 4> parts;
  for (int i = 0; i < 4; ++i) parts[i] = part(5 * i);
  at::Tensor p = parts[3] + x5 * (1 / 2432902008176640000.0);  // 1 / 20!
  for (int i = 2; i >= 0; --i) p = parts[i] + x5.matmul(p);
  for (int s = 0; s < most; ++s) p = at::where(halvings.gt(s), p.matmul(p), p);
  return p.to(type).contiguous();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("cholesky", TORCH_FN(checked_cholesky));
  m.impl("cholesky.out", TORCH_FN(cholesky_out));
  m.impl("cholesky_inverse", TORCH_FN(checked_cholesky_inverse));
  m.impl("cholesky_inverse.out", TORCH_FN(cholesky_inverse_out));
  m.impl("linalg_matrix_exp", TORCH_FN(matrix_exp));
}

}  // namespace
}  // namespace tiny::glue
