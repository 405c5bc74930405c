// QR decompositions and products of Householder reflections.
#include <fmt/format.h>

#include "lower/linalg.h"
#include "lower/linalg_util.h"

namespace tiny::lower {
namespace {

/// Throws unless an out= argument can hold the result's type.
void require_castable(Args& a, int out, DType d, const char* function, const char* name) {
  DType to = a.out_dtype(out, d);
  if (is_float(to) || !is_float(d)) return;
  fail(ErrorKind::Runtime, fmt::format("{}: Expected {} to be safely castable from {} dtype, but got {} with dtype {}", function, name,
                                       scalar_type_name(d), name, scalar_type_name(to)));
}

}  // namespace

Results geqrf(Args& a) {
  const Tensor& x = a.tensor(0);
  require(x.dim() >= 2, ErrorKind::Runtime, "torch.geqrf: input must have at least 2 dimensions.");
  require_castable(a, 0, x.dtype(), "torch.geqrf", "a");
  require_castable(a, 1, x.dtype(), "torch.geqrf", "tau");
  require_full_float(x, "geqrf_cpu");
  linalg::Qr r = linalg::qr(x);
  return {r.factors, r.tau};
}

Results qr(Args& a) {
  const Tensor& x = a.tensor(0);
  std::string_view mode = a.has(1) ? a.text(1) : "reduced";
  require_full_float(x, "geqrf_cpu");
  int64_t m = x.size(-2), k = std::min(m, x.size(-1));
  linalg::Qr r = linalg::qr(x);
  bool complete = mode == "complete";
  Tensor upper = upper_triangle(complete ? r.factors : r.factors.slice(-2, 0, k));
  if (mode == "r") return {empty_value({0}, x.dtype()), upper};
  return {linalg::householder_product(r.factors, r.tau, complete ? m : k), upper};
}

Tensor householder_product(Args& a) {
  constexpr const char* kName = "torch.linalg.householder_product";
  const Tensor &x = a.tensor(0), &tau = a.tensor(1);
  if (x.dim() < 2) fail(ErrorKind::Runtime, fmt::format("{}: input must have at least 2 dimensions.", kName));
  if (x.size(-2) < x.size(-1))
    fail(ErrorKind::Runtime, fmt::format("{}: input.shape[-2] must be greater than or equal to input.shape[-1]", kName));
  if (tau.dim() == 0 || x.size(-1) < tau.size(-1))
    fail(ErrorKind::Runtime, fmt::format("{}: input.shape[-1] must be greater than or equal to tau.shape[-1]", kName));
  if (x.dim() - tau.dim() != 1)
    fail(ErrorKind::Runtime, fmt::format("{}: Expected tau to have one dimension less than input, but got tau.ndim equal to {} and "
                                         "input.ndim is equal to {}", kName, tau.dim(), x.dim()));
  if (!(batch_sizes(tau, 1) == batch_sizes(x)))
    fail(ErrorKind::Runtime, fmt::format("{}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {}", kName,
                                         sizes_text(batch_sizes(tau, 1))));
  if (tau.dtype() != x.dtype())
    fail(ErrorKind::Runtime, fmt::format("{}: tau dtype {} does not match input dtype {}", kName, scalar_type_name(tau.dtype()),
                                         scalar_type_name(x.dtype())));
  require_castable(a, 0, x.dtype(), kName, "result");
  require_full_float(x, "orgqr_cpu");
  return linalg::householder_product(x, tau, x.size(-1));
}

Tensor ormqr(Args& a) {
  constexpr const char* kName = "torch.ormqr";
  const Tensor &x = a.tensor(0), &tau = a.tensor(1), &c = a.tensor(2);
  bool left = a.integer(3, 1) != 0, transpose = a.integer(4, 0) != 0;
  auto wrong = [&](std::string text) { fail(ErrorKind::Runtime, fmt::format("{}: {}", kName, text)); };
  if (x.dim() < 2) wrong("input must have at least 2 dimensions.");
  if (c.dim() < 2) wrong("other must have at least 2 dimensions.");
  int64_t side = left ? -2 : -1;
  if (tau.dim() == 0 || c.size(side) < tau.size(-1))
    wrong(fmt::format("other.shape[{}] must be greater than or equal to tau.shape[-1]", side));
  if (c.size(side) != x.size(-2)) wrong(fmt::format("other.shape[{}] must be equal to input.shape[-2]", side));
  if (tau.size(-1) > x.size(-1)) wrong("input.shape[-1] must be greater than or equal to tau.shape[-1]");
  if (tau.size(-1) != std::min(c.size(side), x.size(-1)))
    wrong(fmt::format("tau.shape[-1] must be equal to min(other.shape[{}], input.shape[-1])", side));
  if (x.dim() - tau.dim() != 1)
    wrong(fmt::format("Expected tau to have one dimension less than input, but got tau.ndim equal to {} and input.ndim is equal to {}",
                      tau.dim(), x.dim()));
  if (x.dim() != c.dim())
    wrong(fmt::format("Expected other to have the same number of dimensions as input, but got other.ndim equal to {} and input.ndim is "
                      "equal to {}", c.dim(), x.dim()));
  if (!(batch_sizes(tau, 1) == batch_sizes(x)))
    wrong(fmt::format("Expected batch dimensions of tau to be equal to input.shape[:-2], but got {}", sizes_text(batch_sizes(tau, 1))));
  if (!(batch_sizes(c) == batch_sizes(x)))
    wrong(fmt::format("Expected batch dimensions of other to be equal to input.shape[:-2], but got {}", sizes_text(batch_sizes(c))));
  auto same_dtype = [&](DType d, const char* name) {
    if (d != x.dtype())
      wrong(fmt::format("Expected input and {} to have the same dtype, but input has dtype{} and {} has dtype {}", name,
                        scalar_type_name(x.dtype()), name, scalar_type_name(d)));
  };
  same_dtype(tau.dtype(), "tau");
  same_dtype(c.dtype(), "other");
  same_dtype(a.out_dtype(0, x.dtype()), "result");
  require_full_float(x, "ormqr_cpu");
  return linalg::householder_apply(x, tau, c, left, transpose);
}

}  // namespace tiny::lower
