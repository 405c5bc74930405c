// Contractions and Fourier transforms. A matmul is a sum of products over views; the scheduler and codegen see it as such.
#include <fmt/format.h>

#include "base/error.h"
#include "tensor/detail.h"

namespace tiny {

Tensor matmul(const Tensor& a, const Tensor& b, DType acc) {
  if (a.dim() < 2 || b.dim() < 2 || a.size(-1) != b.size(-2))
    throw Error(ErrorKind::Value, fmt::format("matmul: shapes {} and {} cannot be multiplied", detail::text(a.sizes()),
                                              detail::text(b.sizes())));
  int64_t m = a.size(-2), k = a.size(-1), n = b.size(-1);
  Dims batch_a(a.sizes().begin(), a.sizes().end() - 2), batch_b(b.sizes().begin(), b.sizes().end() - 2);
  Dims batch = broadcast_sizes(batch_a, batch_b), out = batch, all = batch;
  out.push_back(m), out.push_back(n);
  if (product(out) == 0 || k == 0) return zeros(std::move(out), acc);
  all.push_back(m), all.push_back(n), all.push_back(k);
  Tensor left = a.unsqueeze(-2).expand(all).cast(acc);
  Tensor right = b.transpose(-2, -1).unsqueeze(-3).expand(all).cast(acc);
  int64_t last[] = {-1};
  return (left * right).sum(last);
}

Tensor dft(const Tensor& re, const Tensor& im, const Tensor& roots, const Dft& shape) {
  DType d = re.dtype();
  TINY_ASSERT(d == DType::f32 || d == DType::f64, "a DFT of floats");
  TINY_ASSERT(re.numel() == shape.elements_in() && (!im.defined() || (im.numel() == re.numel() && im.dtype() == d)), "parts of a DFT");
  TINY_ASSERT(roots.numel() == shape.roots() && roots.dtype() == d, "roots of another DFT");
  Dims sizes{shape.numel()};
  if (re.numel() == 0) return zeros(std::move(sizes), d);
  Tensor none = im.defined() ? im : constant(d, 0.0);
  Ref node = detail::make(Op::DFT, d, shape.numel(), Arg(shape.record()), {re.node(), none.node(), roots.node()});
  return Tensor(std::move(node), std::move(sizes));
}

}  // namespace tiny
