// Calls of builtins as nodes of the graph.
#include "base/error.h"
#include "tensor/detail.h"

namespace tiny::detail {

std::vector<Tensor> call(BuiltinName name, std::span<const Tensor> sources, Dims ints, std::initializer_list<ResultSpec> results) {
  Record r;
  r.a = std::move(ints);
  r.n = static_cast<int64_t>(name);
  r.text = kBuiltinNames[r.n];
  for (const ResultSpec& x : results) r.b.push_back(static_cast<int64_t>(x.dtype)), r.b.push_back(product(x.sizes));
  SmallVec<UOp*, 4> src;
  for (const Tensor& t : sources) {
    TINY_ASSERT(t.numel() > 0, r.text + " of no elements");
    src.push_back(t.node());
  }
  Ref node = make_node(Op::CALL, DType::void_, 0, Arg(intern(std::move(r))), std::span<UOp* const>(src.begin(), src.size()));
  std::vector<Tensor> out;
  for (const ResultSpec& x : results) {
    TINY_ASSERT(product(x.sizes) > 0, "a result of no elements");
    out.emplace_back(make(Op::RESULT, x.dtype, product(x.sizes), Arg(static_cast<int64_t>(out.size())), {node.get()}), x.sizes);
  }
  return out;
}

}  // namespace tiny::detail

namespace tiny {

Tensor orthogonal_polynomial(BuiltinName name, const Tensor& x, const Tensor& degree) {
  TINY_ASSERT(x.dtype() == degree.dtype() && (x.dtype() == DType::f32 || x.dtype() == DType::f64), "polynomials of f32 or f64");
  Dims sizes = broadcast_sizes(x.sizes(), degree.sizes());
  if (product(sizes) == 0) return zeros(std::move(sizes), x.dtype());
  auto operand = [&](const Tensor& t) { return t.numel() == 1 ? t : t.expand(sizes); };
  Tensor a = operand(x), n = operand(degree);
  Dims ints{product(sizes), a.numel(), n.numel(), static_cast<int64_t>(x.dtype())};
  return detail::call(name, {a, n}, std::move(ints), {{x.dtype(), sizes}})[0];
}

}  // namespace tiny
