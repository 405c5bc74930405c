// Shared by the files of tensor/: making one node with its checks done by the caller.
#pragma once
#include <initializer_list>
#include <vector>

#include "tensor/tensor.h"
#include "uop/builtins.h"

namespace tiny::detail {

inline Ref make(Op op, DType d, int64_t numel, Arg arg, std::initializer_list<UOp*> src) {
  return make_node(op, d, numel, arg, std::span<UOp* const>(src.begin(), src.size()));
}

/// What a builtin gives back: dtype and sizes.
struct ResultSpec {
  DType dtype;
  Dims sizes;
};
/// The results of a builtin over dense sources; none of all these is without elements.
std::vector<Tensor> call(BuiltinName name, std::span<const Tensor> sources, Dims ints, std::initializer_list<ResultSpec> results);
inline std::vector<Tensor> call(BuiltinName name, std::initializer_list<Tensor> sources, Dims ints,
                                std::initializer_list<ResultSpec> results) {
  return call(name, std::span<const Tensor>(sources.begin(), sources.size()), std::move(ints), results);
}

/// The value of no elements.
inline Ref nothing(DType d) { return make(Op::EMPTY, d, 0, {}, {}); }

/// VIEW of `src`, composed with the VIEWs below where the result is affine; `src` itself if nothing moves.
Ref make_view(const Ref& src, const Dims& sizes, const Dims& strides, int64_t offset);

/// The one element that every element of `x` equals by construction (x is a broadcast of it), or x's own node.
inline UOp* broadcast_source(UOp* x) { return x->is(Op::VIEW) && x->src[0]->numel == 1 ? x->src[0] : x; }

/// `d` counted from the end if negative; throws Error(Index) in PyTorch's words.
int64_t wrap_dim(int64_t d, int64_t dim);

/// "[2, 3]", for errors.
std::string text(const Dims& d);

}  // namespace tiny::detail
