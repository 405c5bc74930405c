// QR decompositions and products of Householder reflections.
#include <fmt/format.h>

#include "lower/complex/pairs.h"
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

ComplexResults geqrf(Args& a) {
  require(a.tensor(0).dim() >= 2, ErrorKind::Runtime, "torch.geqrf: input must have at least 2 dimensions.");
  const Matrices x = matrices(a, 0);
  require_castable(a, 0, x.dtype(), "torch.geqrf", "a");
  require_castable(a, 1, x.dtype(), "torch.geqrf", "tau");
  require_full_float(x, "geqrf_cpu");
  linalg::Qr r = linalg::qr(x);
  return {parts(r.factors), parts(r.tau, x.complex)};
}

ComplexResults qr(Args& a) {
  const Matrices x = matrices(a, 0);
  std::string_view mode = a.has(1) ? a.text(1) : "reduced";
  require_full_float(x, "geqrf_cpu");
  int64_t m = x.rows(), k = std::min(m, x.cols());
  linalg::Qr r = linalg::qr(x);
  bool complete = mode == "complete";
  Complex upper = parts(upper_triangle(complete ? r.factors : first_rows(r.factors, k)));
  if (mode == "r") return {{no_elements(x.dtype()), x.complex ? no_elements(x.dtype()) : Tensor()}, upper};
  return {parts(linalg::householder_product(r.factors, r.tau, k, complete ? m : k)), upper};
}

/// Argument 1, tau, as the builtins take it.
static Tensor reflections(Args& a) { return a.is_complex(1) ? join_pairs(a.complex(1)) : a.tensor(1); }

Complex householder_product(Args& a) {
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
  if (!(without_last(tau.sizes(), 1) == without_last(x.sizes(), 2)))
    fail(ErrorKind::Runtime, fmt::format("{}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {}", kName,
                                         sizes_text(without_last(tau.sizes(), 1))));
  if (tau.dtype() != x.dtype())
    fail(ErrorKind::Runtime, fmt::format("{}: tau dtype {} does not match input dtype {}", kName, scalar_type_name(tau.dtype()),
                                         scalar_type_name(x.dtype())));
  require_castable(a, 0, x.dtype(), kName, "result");
  const Matrices v = matrices(a, 0);
  require_full_float(v, "orgqr_cpu");
  return parts(linalg::householder_product(v, reflections(a), tau.size(-1), v.cols()));
}

Complex ormqr(Args& a) {
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
  if (!(without_last(tau.sizes(), 1) == without_last(x.sizes(), 2)))
    wrong(fmt::format("Expected batch dimensions of tau to be equal to input.shape[:-2], but got {}",
                      sizes_text(without_last(tau.sizes(), 1))));
  if (!(without_last(c.sizes(), 2) == without_last(x.sizes(), 2)))
    wrong(fmt::format("Expected batch dimensions of other to be equal to input.shape[:-2], but got {}",
                      sizes_text(without_last(c.sizes(), 2))));
  auto same_dtype = [&](DType d, const char* name) {
    if (d != x.dtype())
      wrong(fmt::format("Expected input and {} to have the same dtype, but input has dtype{} and {} has dtype {}", name,
                        scalar_type_name(x.dtype()), name, scalar_type_name(d)));
  };
  same_dtype(tau.dtype(), "tau");
  same_dtype(c.dtype(), "other");
  same_dtype(a.out_dtype(0, x.dtype()), "result");
  const Matrices v = matrices(a, 0);
  require_full_float(v, "ormqr_cpu");
  return parts(linalg::householder_apply(v, reflections(a), tau.size(-1), matrices(a, 2), left, transpose));
}

}  // namespace tiny::lower
