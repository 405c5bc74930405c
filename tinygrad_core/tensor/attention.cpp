#include "tensor/attention.h"

#include <bit>

#include "base/error.h"
#include "tensor/detail.h"

namespace tiny {
namespace {

/// A dense value, and whether rows come before heads in it.
struct Operand {
  Tensor value;
  bool rows_first;
};
Operand operand(const Tensor& x) {
  Tensor t = x.transpose(1, 2);
  bool rows_first = x.node()->is(Op::VIEW) && !t.node()->is(Op::VIEW);
  return {rows_first ? t : x, rows_first};
}
Tensor as(const Operand& like, const Tensor& value) { return like.rows_first ? value.transpose(1, 2) : value; }

Dims integers(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask, double scale) {
  TINY_ASSERT(q.dim() == 4 && k.dim() == 4 && v.dim() == 4 && (q.dtype() == DType::f32 || q.dtype() == DType::f64), "heads of f32 or f64");
  TINY_ASSERT(q.size(3) <= kMostAttentionWidth && v.size(3) <= kMostAttentionWidth, "a wide head");
  Dims ints{q.size(0), q.size(1), q.size(2), k.size(2), q.size(3), v.size(3), static_cast<int64_t>(q.dtype()), mask.causal,
            std::bit_cast<int64_t>(scale)};
  for (int64_t d = 0; d < 4; ++d) ints.push_back(mask.bias.defined() ? mask.bias.size(d) : 0);
  return ints;
}

}  // namespace

Attention attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask, double scale) {
  Operand a = operand(q), b = operand(k), c = operand(v);
  Dims ints = integers(q, k, v, mask, scale), out = a.value.sizes(), sums{q.size(0), q.size(1), q.size(2)};
  out.back() = v.size(3);
  for (bool flag : {a.rows_first, b.rows_first, c.rows_first, false}) ints.push_back(flag);
  auto made = [&](std::initializer_list<Tensor> sources) {
    return detail::call(BuiltinName::attention, sources, ints, {{q.dtype(), out}, {q.dtype(), sums}});
  };
  auto r = mask.bias.defined() ? made({a.value, b.value, c.value, mask.bias}) : made({a.value, b.value, c.value});
  return {as(a, r[0]), r[1]};
}

AttentionGradients attention_gradients(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Attention& forward,
                                       const AttentionMask& mask, double scale) {
  Operand a = operand(q), b = operand(k), c = operand(v), g = operand(grad);
  Tensor out = as(a, forward.out);
  Dims ints = integers(q, k, v, mask, scale);
  for (bool flag : {a.rows_first, b.rows_first, c.rows_first, g.rows_first}) ints.push_back(flag);
  auto made = [&](std::initializer_list<Tensor> sources) {
    return detail::call(BuiltinName::attention_backward, sources, ints,
                        {{q.dtype(), a.value.sizes()}, {q.dtype(), b.value.sizes()}, {q.dtype(), c.value.sizes()}});
  };
  auto r = mask.bias.defined() ? made({g.value, a.value, b.value, c.value, out, forward.log_sums, mask.bias})
                               : made({g.value, a.value, b.value, c.value, out, forward.log_sums});
  return {as(a, r[0]), as(b, r[1]), as(c, r[2])};
}

}  // namespace tiny
