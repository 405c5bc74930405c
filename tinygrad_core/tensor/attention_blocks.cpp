// Attention as kernels for tensor cores, which take their operands from where they lie: heads of one projection are not copied.
#include "base/error.h"
#include "tensor/attention.h"
#include "tensor/detail.h"
#include "uop/attention_blocks.h"

namespace tiny {
namespace {

using Blocks = AttentionBlocks;

constexpr int64_t kMuchMore = 4;  // elements of a value for one of its view: from there on it is not computed whole for the view's sake

/// A dense value, and where the rows of a [batch, heads, rows, elements] tensor lie in it.
struct Operand {
  Tensor value;
  Blocks::Place place;
  bool rows_first() const { return place.row > place.head && place.head > 0; }
};

/// Of dense rows of `elements`, as many as x has.
Blocks::Place dense_place(const Tensor& x, int64_t elements, bool rows_first) {
  const int64_t heads = x.size(1), rows = x.size(2);
  return rows_first ? Blocks::Place{0, heads * rows * elements, elements, heads * elements}
                    : Blocks::Place{0, heads * rows * elements, rows * elements, elements};
}

/// Strides of x's four dimensions in the value that `view` looks at, where one number each says it: a VIEW has merged what it could.
bool strides_in(const Record& view, const Tensor& x, int64_t strides[4]) {
  int64_t inner = 1;
  size_t j = view.a.size();
  for (int64_t d = 3; d >= 0; --d) {
    strides[d] = 0;
    if (x.size(d) == 1) continue;
    while (j > 0 && (view.a[j - 1] == inner || view.a[j - 1] == 1)) --j, inner = 1;
    if (j == 0 || view.a[j - 1] % (inner * x.size(d)) != 0) return false;
    strides[d] = view.b[j - 1] * inner;
    inner *= x.size(d);
  }
  return true;
}

Operand operand(const Tensor& x) {
  const UOp* u = x.node();
  int64_t strides[4];
  if (u->is(Op::VIEW) && strides_in(*u->arg.rec, x, strides)) {
    Blocks::Place place{u->arg.rec->n, strides[0], strides[1], strides[2]};
    const bool reads_rows = strides[3] == 1 && strides[0] >= 0 && strides[1] >= 0 && strides[2] >= 0 && place.is_aligned();
    const bool worth = u->src[0]->is(Op::BUFFER) || u->src[0]->numel < kMuchMore * x.numel();
    if (reads_rows && worth) return {Tensor(Ref::share(u->src[0]), {u->src[0]->numel}), place};
  }
  return {x, dense_place(x, x.size(3), false)};
}

Blocks blocks_of(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask, double scale) {
  TINY_ASSERT(q.dim() == 4 && k.dim() == 4 && v.dim() == 4, "heads");
  TINY_ASSERT(q.dtype() == DType::f16 || q.dtype() == DType::bf16, "of f16 or bf16");
  TINY_ASSERT(q.size(3) % Blocks::kElements == 0 && v.size(3) % Blocks::kElements == 0, "rows of whole vectors");
  TINY_ASSERT(q.size(3) <= kMostAttentionWidth && v.size(3) <= kMostAttentionWidth, "a wide head");
  Blocks b;
  b.batch = q.size(0), b.heads = q.size(1), b.queries = q.size(2), b.keys = k.size(2), b.depth = q.size(3), b.width = v.size(3);
  b.dtype = q.dtype(), b.causal = mask.causal, b.scale = scale, b.has_bias = mask.bias.defined();
  int64_t step = 1;
  for (size_t d = 4; b.has_bias && d-- > 0; step *= mask.bias.sizes()[d]) b.bias_steps[d] = mask.bias.sizes()[d] > 1 ? step : 0;
  return b;
}

std::vector<Tensor> call(BuiltinName name, std::initializer_list<Tensor> sources, const Tensor& bias, const Blocks& b,
                         std::initializer_list<detail::ResultSpec> results) {
  std::vector<Tensor> all(sources);
  if (bias.defined()) all.push_back(bias);
  return detail::call(name, all, b.pack(), results);
}

/// Sizes of [batch, heads, rows, elements] as it lies in memory, and back.
Dims lying(const Tensor& x, int64_t elements, bool rows_first) {
  return rows_first ? Dims{x.size(0), x.size(2), x.size(1), elements} : Dims{x.size(0), x.size(1), x.size(2), elements};
}
Tensor standing(const Tensor& x, bool rows_first) { return rows_first ? x.transpose(1, 2) : x; }

}  // namespace

Attention attention_on_cores(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask, double scale) {
  Blocks b = blocks_of(q, k, v, mask, scale);
  const Operand x = operand(q), y = operand(k), z = operand(v);
  const bool rows_first = x.rows_first();
  b.places[Blocks::Q] = x.place, b.places[Blocks::K] = y.place, b.places[Blocks::V] = z.place;
  Dims sizes = lying(q, b.width, rows_first);
  b.places[Blocks::Result] = dense_place(q, b.width, rows_first);
  auto r = call(BuiltinName::attention_blocks, {x.value, y.value, z.value}, mask.bias, b,
                {{b.dtype, sizes}, {DType::f32, {b.batch, b.heads, b.queries}}});
  return {standing(r[0], rows_first), r[1]};
}

AttentionGradients attention_gradients_on_cores(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                                                const Attention& made, const AttentionMask& mask, double scale) {
  Blocks b = blocks_of(q, k, v, mask, scale);
  const Operand g = operand(grad), x = operand(q), y = operand(k), z = operand(v);
  b.places[Blocks::Grad] = g.place, b.places[Blocks::Q] = x.place, b.places[Blocks::K] = y.place, b.places[Blocks::V] = z.place;
  const int64_t last[] = {3};
  const Tensor deltas = (grad.cast(DType::f32) * made.out.cast(DType::f32)).sum(last);
  auto keys = [&](bool wants_k, bool wants_v, std::initializer_list<detail::ResultSpec> results) {
    Blocks c = b;
    c.wants_k = wants_k, c.wants_v = wants_v;
    c.places[Blocks::Result] = dense_place(k, b.depth, y.rows_first());
    c.places[Blocks::SecondResult] = dense_place(v, b.width, z.rows_first());
    return call(BuiltinName::attention_blocks_keys, {g.value, x.value, y.value, z.value, made.log_sums, deltas}, mask.bias, c, results);
  };
  const detail::ResultSpec k_spec{b.dtype, lying(k, b.depth, y.rows_first())}, v_spec{b.dtype, lying(v, b.width, z.rows_first())};
  Tensor by_k, by_v;
  if (std::max(b.depth, b.width) <= Blocks::kBothGradients) {
    auto r = keys(true, true, {k_spec, v_spec});
    by_k = r[0], by_v = r[1];
  } else {  // the sums of one fill the registers
    by_k = keys(true, false, {k_spec})[0], by_v = keys(false, true, {v_spec})[0];
  }
  b.places[Blocks::Result] = dense_place(q, b.depth, x.rows_first());
  auto by_q = call(BuiltinName::attention_blocks_queries, {g.value, x.value, y.value, z.value, made.log_sums, deltas}, mask.bias, b,
                   {{b.dtype, lying(q, b.depth, x.rows_first())}});
  return {standing(by_q[0], x.rows_first()), standing(by_k, y.rows_first()), standing(by_v, z.rows_first())};
}

}  // namespace tiny
