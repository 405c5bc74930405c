#include "tensor/lstm.h"

#include "base/error.h"
#include "tensor/detail.h"

namespace tiny {

Lstm lstm(const Tensor& inputs, const Tensor& weights, const Tensor& h, const Tensor& c, bool reverse) {
  const DType d = inputs.dtype();
  TINY_ASSERT(inputs.dim() == 3 && (d == DType::f32 || d == DType::f64), "steps of f32 or f64");
  const int64_t steps = inputs.size(0), rows = inputs.size(1), width = weights.size(1);
  TINY_ASSERT(inputs.size(2) == 4 * width && weights.size(0) == 4 * width, "four gates");
  Dims ints{steps, rows, width, static_cast<int64_t>(d), reverse}, of_out{steps, rows, width};
  auto r = detail::call(BuiltinName::lstm, {inputs, weights, h, c}, std::move(ints), {{d, of_out}, {d, {5 * steps * rows * width}}});
  const int64_t last = (4 * steps + (reverse ? 0 : steps - 1)) * rows * width;
  return {r[0], r[1], r[1].slice(0, last, last + rows * width).reshape({rows, width})};
}

LstmGradients lstm_gradients(const Tensor& out, const Tensor& last_h, const Tensor& last_c, const Tensor& weights, const Tensor& c,
                             const Tensor& kept, bool reverse) {
  const DType d = weights.dtype();
  const int64_t rows = c.size(0), width = c.size(1), steps = kept.numel() / (5 * rows * width);
  Dims ints{steps, rows, width, static_cast<int64_t>(d), reverse, out.defined(), last_h.defined(), last_c.defined()}, state{rows, width};
  std::vector<Tensor> sources{weights, c, kept};
  for (const Tensor* t : {&out, &last_h, &last_c})
    if (t->defined()) sources.push_back(*t);
  auto r = detail::call(BuiltinName::lstm_backward, sources, std::move(ints), {{d, {steps, rows, 4 * width}}, {d, state}, {d, state}});
  return {r[0], r[1], r[2]};
}

}  // namespace tiny
