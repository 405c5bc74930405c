// Calls of builtins as nodes of the graph.
#include "base/error.h"
#include "tensor/detail.h"

namespace tiny::detail {

std::vector<Tensor> call(BuiltinName name, std::initializer_list<Tensor> sources, Dims ints, std::initializer_list<ResultSpec> results) {
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
