// scaled_dot_product_attention without its scores: PyTorch asks which form to take, and has an operator for devices that bring their own.
#include <ATen/OpMathType.h>
#include <ATen/native/transformers/attention.h>

#include "autograd.h"
#include "errors.h"
#include "sdpa.h"
#include "tensor.h"
#include "tensor/attention.h"

namespace tiny::glue {
namespace {

constexpr int64_t kFewRows = 16;  // with fewer queries or keys the general path is as good: it fuses with what is around it

bool batched(const at::Tensor& t) { return t.key_set().has(c10::DispatchKey::FuncTorchBatched) || t.is_nested(); }

bool mask_fits(const at::Tensor& mask, const at::Tensor& query, const at::Tensor& key) {
  if (batched(mask) || mask.unsafeGetTensorImpl()->has_symbolic_sizes_strides() || has_tangent(mask)) return false;
  if (mask.requires_grad() && at::GradMode::is_enabled()) return false;
  if (mask.dim() > 4 || mask.dim() < 2) return false;
  const int64_t scores[4] = {query.size(0), query.size(1), query.size(2), key.size(2)};
  for (int64_t d = 1; d <= mask.dim(); ++d)
    if (mask.size(-d) != 1 && mask.size(-d) != scores[4 - d]) return false;
  return mask.scalar_type() == at::kBool || mask.scalar_type() == query.scalar_type();
}

bool on_cores(const at::Tensor& t) { return device(t.device().index()).caps().tensor_cores >= 90; }

/// The kernels of tensor cores, or the host's builtin.
bool has_kernel(const at::Tensor& q, const at::Tensor& v) {
  if (!on_cores(q)) return device(q.device().index()).host_visible();
  const bool half = q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16;
  return half && q.size(3) % AttentionBlocks::kElements == 0 && v.size(3) % AttentionBlocks::kElements == 0;
}

}  // namespace

bool can_stream_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>& mask,
                          double dropout) {
  if (dropout > 0 || !at::globalContext().userEnabledOverrideableSDP()) return false;
  for (const at::Tensor* t : {&q, &k, &v})  // torch.compile asks for sizes that it does not know, too
    if (t->unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return false;
  for (const at::Tensor* t : {&q, &k, &v})
    if (t->dim() != 4 || batched(*t) || has_tangent(*t) || t->scalar_type() != q.scalar_type() || t->device() != q.device()) return false;
  if (!at::isFloatingType(q.scalar_type()) || core_dtype(q.scalar_type()) == DType::count) return false;
  if (!has_kernel(q, v)) return false;
  const bool heads = q.size(0) == k.size(0) && q.size(0) == v.size(0) && q.size(1) == k.size(1) && q.size(1) == v.size(1);
  if (!heads || q.size(3) != k.size(3) || k.size(2) != v.size(2)) return false;
  if (q.numel() == 0 || k.numel() == 0 || v.numel() == 0 || std::max(q.size(3), v.size(3)) > kMostAttentionWidth) return false;
  if (std::min(q.size(2), k.size(2)) < kFewRows) return false;
  return !mask || !mask->defined() || mask_fits(*mask, q, k);
}

namespace {

int64_t choose(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& mask,
               double dropout, bool, std::optional<double>, bool) {
  const bool streams = can_stream_attention(query, key, value, mask, dropout);
  return static_cast<int64_t>(streams ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

double scale_of(const at::Tensor& query, std::optional<double> scale) {
  return scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
}

AttentionMask mask_of(const at::Tensor& bias, bool causal, DType compute) {
  AttentionMask m{{}, causal};
  if (!bias.defined()) return m;
  tiny::Tensor b = read(bias);
  Dims sizes{1, 1, 1, 1};
  std::copy(b.sizes().begin(), b.sizes().end(), sizes.end() - b.dim());
  // What a stride of 0 repeats is added from where it is once.
  const c10::IntArrayRef strides = bias.strides();
  for (int64_t d = 0; d < bias.dim(); ++d)
    if (strides[d] == 0 && bias.size(d) > 1) b = b.slice(d, 0, 1), sizes[4 - bias.dim() + d] = 1;
  m.bias = b.cast(compute).reshape(sizes);
  return m;
}

DType compute_type(const at::Tensor& t) { return core_dtype(at::toOpMathType(t.scalar_type())); }

using Forward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>;
Forward attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& bias,
                  double dropout, bool causal, bool, std::optional<double> scale) {
  TORCH_CHECK(can_stream_attention(query, key, value, bias, dropout),
              "_scaled_dot_product_fused_attention_overrideable: not for these arguments");
  at::Tensor out, sums;
  guarded([&] {
    GraphLock lock;
    const DType compute = compute_type(query);
    auto wide = [&](const at::Tensor& t) { return read(t).cast(compute); };
    const AttentionMask mask = mask_of(bias.value_or(at::Tensor()), causal, compute);
    Attention made = on_cores(query) ? attention_on_cores(read(query), read(key), read(value), mask, scale_of(query, scale))
                                     : tiny::attention(wide(query), wide(key), wide(value), mask, scale_of(query, scale));
    // As on the CPU, the result lies as the queries do.
    out = make_result(made.out.cast(core_dtype(query.scalar_type())), query.device().index(),
                      query.size(3) == value.size(3) ? query.unsafeGetTensorImpl() : nullptr);
    sums = make_result(made.log_sums, query.device().index());
  });
  after_operator(device_of(*out.unsafeGetTensorImpl()));
  // The generator's seed and offset: there is no dropout, but torch.compile saves them.
  const at::Tensor number = at::empty({}, query.options().dtype(at::kLong));
  return {out, sums, {}, {}, query.sym_size(2), key.sym_size(2), number, number, {}};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& bias,
    std::array<bool, 4> wanted, const at::Tensor& out, const at::Tensor& sums, const at::Tensor&, const at::Tensor&, c10::SymInt,
    c10::SymInt, double, bool causal, const at::Tensor&, const at::Tensor&, std::optional<double> scale) {
  TORCH_CHECK(!wanted[3], "_scaled_dot_product_fused_attention_overrideable_backward: no gradient for the mask");
  at::Tensor results[3];
  guarded([&] {
    GraphLock lock;
    const DType compute = compute_type(query), narrow = core_dtype(query.scalar_type());
    auto wide = [&](const at::Tensor& t) { return read(t).cast(compute); };
    const AttentionMask mask = mask_of(bias, causal, compute);
    const AttentionGradients g =
        on_cores(query) ? attention_gradients_on_cores(read(grad), read(query), read(key), read(value), {read(out), read(sums)}, mask,
                                                       scale_of(query, scale))
                        : attention_gradients(wide(grad), wide(query), wide(key), wide(value), {wide(out), read(sums)}, mask,
                                              scale_of(query, scale));
    const at::Tensor* operands[] = {&query, &key, &value};
    const tiny::Tensor* values[] = {&g.q, &g.k, &g.v};
    for (int i = 0; i < 3; ++i)
      if (wanted[i]) results[i] = make_result(values[i]->cast(narrow), query.device().index(), operands[i]->unsafeGetTensorImpl());
  });
  after_operator(device_of(*query.unsafeGetTensorImpl()));
  return {results[0], results[1], results[2], {}};
}

/// The same gradients by operators that autograd knows: a backward pass with create_graph=True has a derivative itself.
std::array<at::Tensor, 3> gradients_by_operators(const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key,
                                                 const at::Tensor& value, const at::Tensor& bias, bool causal, double scale) {
  const at::ScalarType compute = at::toOpMathType(query.scalar_type());
  const at::Tensor g = grad.to(compute), q = query.to(compute), k = key.to(compute), v = value.to(compute);
  at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) * scale;
  const double hidden = -std::numeric_limits<double>::infinity();
  if (bias.defined()) scores = bias.scalar_type() == at::kBool ? scores.masked_fill(bias.logical_not(), hidden) : scores + bias.to(compute);
  if (causal) {
    at::Tensor seen = at::ones({q.size(2), k.size(2)}, q.options().dtype(at::kBool)).tril();
    scores = scores.masked_fill(seen.logical_not(), hidden);
  }
  const at::Tensor p = at::_safe_softmax(scores, -1), by_p = at::matmul(g, v.transpose(-2, -1));
  const at::Tensor by_scores = p * (by_p - (by_p * p).sum(-1, true)) * scale;
  return {at::matmul(by_scores, k).to(query.scalar_type()), at::matmul(by_scores.transpose(-2, -1), q).to(key.scalar_type()),
          at::matmul(p.transpose(-2, -1), g).to(value.scalar_type())};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> differentiable_backward(
    const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& bias,
    std::array<bool, 4> wanted, const at::Tensor& out, const at::Tensor& sums, const at::Tensor& seq_q, const at::Tensor& seq_k,
    c10::SymInt max_q, c10::SymInt max_k, double dropout, bool causal, const at::Tensor& seed, const at::Tensor& offset,
    std::optional<double> scale) {
  if (at::GradMode::is_enabled() && (grad.requires_grad() || query.requires_grad() || key.requires_grad() || value.requires_grad())) {
    auto r = gradients_by_operators(grad, query, key, value, bias, causal, scale_of(query, scale));
    for (size_t i = 0; i < 3; ++i)
      if (!wanted[i]) r[i] = at::Tensor();
    return {r[0], r[1], r[2], {}};
  }
  at::AutoDispatchBelowADInplaceOrView below;  // through the dispatcher: torch.compile traces what is below autograd
  return at::_scaled_dot_product_fused_attention_overrideable_backward_symint(
      grad, query, key, value, bias, wanted, out, sums, seq_q, seq_k, std::move(max_q), std::move(max_k), dropout, causal, seed, offset,
      scale);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", TORCH_FN(differentiable_backward));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", TORCH_FN(choose));
  m.impl("_scaled_dot_product_fused_attention_overrideable", TORCH_FN(attention));
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", TORCH_FN(attention_backward));
}

}  // namespace

}  // namespace tiny::glue

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &tiny::glue::choose)
}
