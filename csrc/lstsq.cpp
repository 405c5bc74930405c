// Least squares: what LAPACK's four drivers promise, by QR where the matrix has full rank and by singular values otherwise.
#include <ATen/native/LinearAlgebraUtils.h>

#include <limits>

#include "tensor.h"

namespace tiny::glue {
namespace {

using Results = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

std::string driver_of(std::optional<c10::string_view> given) {
  std::string driver(given.value_or("gelsy"));
  std::transform(driver.begin(), driver.end(), driver.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  TORCH_CHECK(driver == "gels" || driver == "gelsy" || driver == "gelsd" || driver == "gelss",
              "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
  return driver;
}

/// Of full rank: r^-1 q^H b, or of a wide matrix the shortest solution, q r^-H b of the QR decomposition of its adjoint.
at::Tensor by_qr(const at::Tensor& a, const at::Tensor& b) {
  if (a.size(-2) >= a.size(-1)) {
    const auto [q, r] = at::linalg_qr(a);
    return at::linalg_solve_triangular(r, q.mH().matmul(b), /*upper=*/true);
  }
  const auto [q, r] = at::linalg_qr(a.mH());
  return q.matmul(at::linalg_solve_triangular(r.mH(), b, /*upper=*/false));
}

Results lstsq(const at::Tensor& a, const at::Tensor& other, std::optional<double> rcond, std::optional<c10::string_view> given) {
  TORCH_CHECK(a.dim() >= 2, "torch.linalg.lstsq: input must have at least 2 dimensions.");
  TORCH_CHECK(other.dim() >= 1, "torch.linalg.lstsq: other must have at least 1 dimension.");
  TORCH_CHECK(a.scalar_type() == other.scalar_type(), "torch.linalg.lstsq: Expected input and other to have the same dtype, but got ",
              "input's dtype ", a.scalar_type(), " and other's dtype ", other.scalar_type());
  const int64_t difference = a.dim() - other.dim();
  TORCH_CHECK(difference == 0 || difference == 1,
              "torch.linalg.lstsq: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1");
  const bool vector = at::native::linalg_solve_is_vector_rhs(a, other);
  const at::Tensor b = vector ? other.unsqueeze(-1) : other;
  TORCH_CHECK(a.size(-2) == b.size(-2),
              "torch.linalg.lstsq: input.size(-2) should match ", vector ? "other.size(-1)" : "other.size(-2)");
  const auto type = a.scalar_type();
  const std::string driver = driver_of(given);
  TORCH_CHECK(type == c10::kFloat || type == c10::kDouble || type == c10::kComplexFloat || type == c10::kComplexDouble,
              "This function doesn't handle types other than float and double");
  const int64_t m = a.size(-2), n = a.size(-1);
  const auto real = a.options().dtype(c10::toRealValueType(type));
  at::Tensor found, rank = at::empty({0}, a.options().dtype(c10::kLong)), singular = at::empty({0}, real);
  bool full_rank = true;
  if (driver == "gels") {
    found = by_qr(a, b);
  } else {
    const bool wide = c10::toRealValueType(type) == c10::kDouble;
    const double eps = wide ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
    const double given_least = rcond.value_or(eps * static_cast<double>(std::max(m, n))), least = given_least < 0 ? eps : given_least;
    const auto [u, s, vh] = at::linalg_svd(a, /*full_matrices=*/false);
    const at::Tensor kept = s.gt(s.slice(-1, 0, 1).mul(least));
    rank = kept.sum(-1);
    const at::Tensor inverse = at::where(kept, s.reciprocal(), at::zeros({}, real));
    found = vh.mH().matmul(inverse.unsqueeze(-1) * u.mH().matmul(b));
    if (driver != "gelsy") {
      singular = s;
      full_rank = m <= n || rank.eq(n).all().item<bool>();
    }
  }
  at::Tensor residuals = at::empty({0}, real);
  if (m > n && driver != "gelsy" && full_rank) {
    residuals = (a.matmul(found) - b).abs().square().sum(-2);
    if (driver == "gels" && n == 0) residuals.zero_();  // it forgets the right-hand sides then
  }

  c10::DimVector sizes(found.sizes());  // LAPACK leaves the solution in the place of the right-hand sides
  sizes[sizes.size() - 2] = std::max(m, n);
  at::Tensor solution = at::empty_strided(sizes, at::native::batched_matrix_contiguous_strides(sizes, /*f_contig=*/true), a.options());
  solution = solution.narrow(-2, 0, n).copy_(found);
  return {vector ? solution.squeeze(-1) : solution, residuals, rank, singular};
}

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&> lstsq_out(
    const at::Tensor& a, const at::Tensor& b, std::optional<double> rcond, std::optional<c10::string_view> driver, at::Tensor& solution,
    at::Tensor& residuals, at::Tensor& rank, at::Tensor& singular) {
  const Results r = lstsq(a, b, rcond, driver);
  auto deliver = [](const at::Tensor& result, at::Tensor& out, const char* name) {
    TORCH_CHECK(c10::canCast(result.scalar_type(), out.scalar_type()), "torch.linalg.lstsq: Expected ", name,
                " to be safely castable from ", result.scalar_type(), " dtype, but got ", name, " with dtype ", out.scalar_type());
    at::native::resize_output(out, result.sizes());
    out.copy_(result);
  };
  deliver(std::get<0>(r), solution, "solution"), deliver(std::get<1>(r), residuals, "residuals");
  deliver(std::get<2>(r), rank, "rank"), deliver(std::get<3>(r), singular, "singular_values");
  return {solution, residuals, rank, singular};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("linalg_lstsq", TORCH_FN(lstsq));
  m.impl("linalg_lstsq.out", TORCH_FN(lstsq_out));
}

}  // namespace
}  // namespace tiny::glue
