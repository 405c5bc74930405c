// Reductions, scans and sorts. REDUCE, SCAN and argsort work on the trailing elements of a row, so other axes are permuted to the end
// first; the permutation is a VIEW and costs nothing.
#include <fmt/format.h>

#include "base/error.h"
#include "tensor/detail.h"

namespace tiny {
namespace {

using detail::make;
using detail::wrap_dim;

/// `x` with `axis` moved to the end, and the order that moves it back.
Tensor axis_last(const Tensor& x, int64_t axis, Dims& back) {
  Dims order;
  for (int64_t d = 0; d < x.dim(); ++d)
    if (d != axis) order.push_back(d);
  order.push_back(axis);
  back = Dims(order.size());
  for (size_t k = 0; k < order.size(); ++k) back[order[k]] = static_cast<int64_t>(k);
  return x.permute(order);
}

/// Index of the first element along `axis` that equals the extreme: the least index among those where x == extreme or both are NaN.
Tensor arg_extreme(Op op, const Tensor& x, int64_t axis, bool keepdim) {
  if (x.dim() == 0) return zeros({}, DType::i64);
  axis = wrap_dim(axis, x.dim());
  int64_t axes[] = {axis}, n = x.size(axis);
  Tensor extreme = x.reduce(op, axes, true);
  Tensor hit = eq(x, extreme);
  if (is_float(x.dtype())) hit = binary(Op::OR, hit, binary(Op::AND, ne(x, x), ne(extreme, extreme)));
  Dims shape(x.dim(), 1);
  shape[axis] = n;
  Tensor index = iota(n).reshape(shape);
  return where(hit, index, constant(DType::i64, n)).reduce(Op::MIN, axes, keepdim);
}

}  // namespace

Tensor Tensor::reduce(Op op, std::span<const int64_t> axes, bool keepdim) const {
  TINY_ASSERT(has(op, group::Red), info(op).name);
  SmallVec<uint8_t, 8> reduced(dim(), axes.empty());
  for (int64_t a : axes)
    if (dim() > 0) reduced[wrap_dim(a, dim())] = 1;
  Dims order, out;
  for (int64_t d = 0; d < dim(); ++d) {
    if (!reduced[d]) order.push_back(d), out.push_back(sizes_[d]);
    else if (keepdim) out.push_back(1);
  }
  int64_t rows = product(out), columns = 1;
  for (int64_t d = 0; d < dim(); ++d)
    if (reduced[d]) order.push_back(d), columns *= sizes_[d];
  if (rows == 0) return Tensor(detail::nothing(dtype()), std::move(out));
  if (columns == 0) {
    if (op == Op::MAX || op == Op::MIN)
      throw Error(ErrorKind::Value, fmt::format("{} of no elements: sizes {}", info(op).name, detail::text(sizes_)));
    Arg identity = identity_arg(op, dtype());
    return full(std::move(out), Tensor(make(Op::CONST, dtype(), 1, identity, {}), {}));
  }
  if (columns == 1) return Tensor(node_, std::move(out));
  Tensor t = permute(order);
  return Tensor(make(Op::REDUCE, dtype(), rows, reduce_arg(op, columns), {t.node()}), std::move(out));
}

Tensor Tensor::argmax(int64_t axis, bool keepdim) const { return arg_extreme(Op::MAX, *this, axis, keepdim); }
Tensor Tensor::argmin(int64_t axis, bool keepdim) const { return arg_extreme(Op::MIN, *this, axis, keepdim); }

Tensor Tensor::scan(Op op, int64_t axis) const {
  TINY_ASSERT(op == Op::ADD || op == Op::MUL || op == Op::MAX || op == Op::MIN, info(op).name);
  if (dim() == 0 || numel() == 0) return *this;
  axis = wrap_dim(axis, dim());
  if (sizes_[axis] == 1) return *this;
  Dims back;
  Tensor t = axis_last(*this, axis, back);
  return Tensor(make(Op::SCAN, dtype(), numel(), reduce_arg(op, sizes_[axis]), {t.node()}), t.sizes()).permute(back);
}

Tensor Tensor::argsort(bool descending) const {
  if (numel() == 0) return Tensor(detail::nothing(DType::i64), sizes_);
  if (dim() == 0 || sizes_.back() == 1) return zeros(sizes_, DType::i64);
  Dims ints{numel() / sizes_.back(), sizes_.back(), descending, static_cast<int64_t>(dtype())};
  return detail::call(BuiltinName::argsort, {*this}, std::move(ints), {{DType::i64, sizes_}})[0];
}

}  // namespace tiny
