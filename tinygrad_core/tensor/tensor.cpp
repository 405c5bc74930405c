// Making tensors, and elementwise operators with broadcasting.
#include "tensor/tensor.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "tensor/detail.h"

namespace tiny {
namespace {

using detail::broadcast_source;
using detail::make;
using detail::nothing;

DType result_dtype(Op op, DType d) { return has(op, group::Cmp) ? DType::bool_ : d; }

/// An elementwise node over operands that broadcast to `sizes`. Operands that are one element, or that element repeated, enter as one
/// element; if all of them are, so is the node, and its broadcast is the result.
Tensor elementwise(Op op, DType d, Dims sizes, std::span<const Tensor* const> operands) {
  int64_t numel = product(sizes);
  if (numel == 0) return Tensor(nothing(d), std::move(sizes));
  Ref held[3];
  UOp* src[3];
  int64_t width = 1;
  for (size_t k = 0; k < operands.size(); ++k) {
    const Tensor& t = *operands[k];
    UOp* u = broadcast_source(t.node());
    if (u->numel != 1 && t.numel() != numel) held[k] = t.expand(sizes).ref(), u = held[k].get();
    if (u->numel != 1) width = numel;
    src[k] = u;
  }
  Ref node = make_node(op, d, width, {}, std::span<UOp* const>(src, operands.size()));
  if (width == numel) return Tensor(std::move(node), std::move(sizes));
  return full(std::move(sizes), Tensor(std::move(node), {}));
}

bool usually_constant(double v) { return v == 0 || v == 1 || v == -1 || v == 2 || v == 0.5 || !std::isfinite(v); }

}  // namespace

Tensor::Tensor(Ref node, Dims sizes) : node_(std::move(node)), sizes_(std::move(sizes)) {
  TINY_ASSERT(node_->numel == product(sizes_), fmt::format("{} elements with sizes {}", node_->numel, detail::text(sizes_)));
}

// ---- making

Tensor constant(DType d, double v) { return Tensor(make(Op::CONST, d, 1, const_arg(d, v), {}), {}); }
Tensor constant(DType d, int64_t v) { return Tensor(make(Op::CONST, d, 1, const_arg(d, v), {}), {}); }

Tensor scalar(DType d, double v) {
  if (usually_constant(v)) return constant(d, v);
  return Tensor(make(Op::SCALAR, DType::f64, 1, Arg::from_double(v), {}), {}).cast(d);
}

Tensor scalar(DType d, int64_t v) {
  if (is_float(d)) return scalar(d, static_cast<double>(v));
  if (v == 0 || v == 1 || v == -1 || v == 2 || is_bool(d)) return constant(d, v);
  return Tensor(make(Op::SCALAR, DType::i64, 1, Arg(v), {}), {}).cast(d);
}

Tensor full(Dims sizes, const Tensor& value) {
  TINY_ASSERT(value.numel() == 1, "full repeats one element");
  Dims strides(sizes.size());
  return Tensor(Ref::share(broadcast_source(value.node())), {}).view(std::move(sizes), std::move(strides), 0);
}

Tensor zeros(Dims sizes, DType d) { return full(std::move(sizes), constant(d, int64_t{0})); }

Tensor iota(int64_t n) {
  if (n == 0) return Tensor(nothing(DType::i64), {0});
  return Tensor(make(Op::IOTA, DType::i64, n, {}, {}), {n});
}

Tensor empty_value(Dims sizes, DType d) {
  int64_t n = product(sizes);
  return Tensor(make(Op::EMPTY, d, n, {}, {}), std::move(sizes));
}

// ---- elementwise

Tensor Tensor::cast(DType d) const {
  if (d == dtype()) return *this;
  UOp* u = broadcast_source(node());
  if (u->is(Op::CONST)) {
    bool by_value = is_float(u->dtype) || (is_unsigned(u->dtype) && is_float(d));
    return full(sizes_, by_value ? constant(d, const_double(u)) : constant(d, u->arg.i));
  }
  const Tensor* operands[] = {this};
  return elementwise(Op::CAST, d, sizes_, operands);
}

Tensor Tensor::bitcast(DType d) const {
  if (d == dtype()) return *this;
  TINY_ASSERT(itemsize(d) == itemsize(dtype()), "bitcast keeps the size of an element");
  const Tensor* operands[] = {this};
  return elementwise(Op::BITCAST, d, sizes_, operands);
}

Tensor Tensor::unary(Op op) const {
  TINY_ASSERT(has(op, group::Unary), info(op).name);
  const Tensor* operands[] = {this};
  return elementwise(op, dtype(), sizes_, operands);
}

Dims broadcast_sizes(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims out = longer;
  size_t extra = longer.size() - shorter.size();
  for (size_t k = 0; k < shorter.size(); ++k) {
    int64_t& size = out[k + extra];
    if (size == shorter[k] || shorter[k] == 1) continue;
    if (size != 1)
      throw Error(ErrorKind::Value,
                  fmt::format("The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension {}",
                              a[k + (&longer == &a ? extra : 0)], b[k + (&longer == &b ? extra : 0)], k + extra));
    size = shorter[k];
  }
  return out;
}

Tensor binary(Op op, const Tensor& a, const Tensor& b) {
  TINY_ASSERT(has(op, group::Binary) && a.dtype() == b.dtype(),
              fmt::format("{} of {} and {}", info(op).name, info(a.dtype()).name, info(b.dtype()).name));
  const Tensor* operands[] = {&a, &b};
  DType d = result_dtype(op, a.dtype());
  return elementwise(op, d, a.sizes() == b.sizes() ? a.sizes() : broadcast_sizes(a.sizes(), b.sizes()), operands);
}

Tensor where(const Tensor& c, const Tensor& a, const Tensor& b) {
  TINY_ASSERT(is_bool(c.dtype()) && a.dtype() == b.dtype(),
              fmt::format("where of {}, {} and {}", info(c.dtype()).name, info(a.dtype()).name, info(b.dtype()).name));
  const Tensor* operands[] = {&c, &a, &b};
  return elementwise(Op::WHERE, a.dtype(), broadcast_sizes(c.sizes(), broadcast_sizes(a.sizes(), b.sizes())), operands);
}

Tensor mulacc(const Tensor& a, const Tensor& b, const Tensor& c) {
  TINY_ASSERT(a.dtype() == b.dtype() && a.dtype() == c.dtype(), "mulacc of different dtypes");
  const Tensor* operands[] = {&a, &b, &c};
  return elementwise(Op::MULACC, a.dtype(), broadcast_sizes(a.sizes(), broadcast_sizes(b.sizes(), c.sizes())), operands);
}

Tensor operator/(const Tensor& a, const Tensor& b) { return binary(is_float(a.dtype()) ? Op::FDIV : Op::IDIV, a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) { return binary(Op::MAX, a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return binary(Op::MIN, a, b); }

}  // namespace tiny
