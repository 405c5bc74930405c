// Eigenvalues of Hermitian matrices and singular values.
#include <fmt/format.h>

#include "lower/linalg.h"
#include "lower/linalg_util.h"

namespace tiny::lower {
namespace {

/// `values` [.., n]; reading them raises for a matrix of the batch whose info is not 0.
Tensor raising(const Tensor& values, const Tensor& info, const char* function, const char* text) {
  if (values.numel() == 0) return values;
  int64_t batch = info.numel();
  std::string words = fmt::format("LinAlgError: {}: {}{}", function, info.dim() > 0 ? "(Batch element {}): " : "", text);
  const Tensor good = eq(info.reshape({batch}), constant(DType::i32, int64_t{0}));
  const Tensor which = check(iota(batch), good, words, batch);
  return take_rows(values.reshape({batch, values.size(-1)}), which).reshape(values.sizes());
}

Complex no_vectors(const Matrices& x) { return {no_elements(x.dtype()), x.complex ? no_elements(x.dtype()) : Tensor()}; }

}  // namespace

ComplexResults eigh(Args& a) {
  const Matrices x = matrices(a, 0);
  require_full_float(x, "linalg_eigh_cpu");
  const std::string_view triangle = a.has(1) ? a.text(1) : "L";
  const bool upper = triangle == "U" || triangle == "u", vectors = a.integer(2, 1) != 0;
  linalg::Eigh r = linalg::eigh(x, upper, vectors);
  const std::string text = fmt::format("The algorithm failed to converge because the input matrix is ill-conditioned or has too many "
                                       "repeated eigenvalues (error code: {}).", vectors ? x.rows() - 1 : 1);
  return {real_result(raising(r.values, r.info, "linalg.eigh", text.c_str())), vectors ? parts(r.vectors) : no_vectors(x)};
}

ComplexResults svd(Args& a) {
  const Matrices x = matrices(a, 0);
  require_full_float(x, "linalg_svd_cpu");
  require(!a.has(3), ErrorKind::Runtime,
          "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.");
  const bool full = a.integer(1, 0) != 0, vectors = a.integer(2, 1) != 0;
  linalg::Svd r = linalg::svd(x, full, vectors);
  const Tensor values = raising(r.values, r.info, "linalg.svd",
                                "The algorithm failed to converge because the input matrix contained non-finite values.");
  return {vectors ? parts(r.u) : no_vectors(x), real_result(values), vectors ? parts(r.vh) : no_vectors(x)};
}

}  // namespace tiny::lower
