#include "lower/complex/pairs.h"

namespace tiny::lower {
namespace {

/// Whether `mask` is false, true, false, true ...: what join_pairs() chooses by.
bool alternates(UOp* mask, int64_t numel) {
  if (mask->is(Op::VIEW)) {
    const Record* r = mask->arg.rec;
    if (r->n != 0 || r->a.size() != 2 || r->a[1] != 2 || r->b[0] != 0 || r->b[1] != 1) return false;
    mask = mask->src[0];
  } else if (numel != 2) {
    return false;
  }
  return mask->is(Op::CAST) && mask->numel == 2 && is_bool(mask->dtype) && mask->src[0]->is(Op::IOTA);
}

/// The parts as they lie in memory, if they are two views of one value that differ only in where they start.
std::optional<Tensor> neighbours(const Complex& x, const Dims& sizes) {
  UOp *re = x.re.node(), *im = x.im.node();
  if (!re->is(Op::VIEW) || !im->is(Op::VIEW) || re->src[0] != im->src[0]) return std::nullopt;
  const Record &r = *re->arg.rec, &i = *im->arg.rec;
  if (!(r.a == i.a) || !(r.b == i.b)) return std::nullopt;
  Dims shape = r.a, strides = r.b;
  shape.push_back(2), strides.push_back(i.n - r.n);
  const Tensor whole(Ref::share(re->src[0]), Dims{re->src[0]->numel});
  return whole.view(shape, strides, r.n).reshape(sizes);
}

}  // namespace

Tensor join_pairs(const Complex& x) {
  Dims sizes = x.re.sizes(), shape(sizes.size() + 1, 1);
  sizes.push_back(2), shape.back() = 2;
  if (std::optional<Tensor> pairs = neighbours(x, sizes)) return *pairs;
  const Tensor imaginary = iota(2).cast(DType::bool_).reshape(shape);
  return where(imaginary, x.im.unsqueeze(-1), x.re.unsqueeze(-1)).expand(sizes);
}

std::optional<Complex> split_pairs(const Tensor& pairs) {
  UOp* u = pairs.node();
  if (!u->is(Op::WHERE) || u->numel % 2 != 0 || !alternates(u->src[0], u->numel)) return std::nullopt;
  const int64_t n = u->numel / 2;
  auto part = [&](UOp* source, int64_t offset) {
    const Tensor flat(Ref::share(source), Dims{source->numel});
    return source->numel == 1 ? full({n}, flat) : flat.view({n}, {2}, offset);
  };
  return Complex{part(u->src[2], 0), part(u->src[1], 1)};
}

}  // namespace tiny::lower
