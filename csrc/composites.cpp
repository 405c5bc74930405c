// linear, rms_norm and attention over few rows. PyTorch makes each of up to two dozen operators; where no gradient is wanted and nobody
// watches the operators that it is made of, it is noted as one.
#include <ATen/OpMathType.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linear_native.h>
#include <ATen/ops/rms_norm_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd.h"
#include "lower/composite.h"
#include "noted.h"
#include "sdpa.h"

namespace tiny::glue {
namespace {

using c10::DispatchKey;
using Optional = std::optional<at::Tensor>;

constexpr c10::DispatchKeySet kWatching({DispatchKey::Python, DispatchKey::Functionalize, DispatchKey::FuncTorchDynamicLayerBackMode});
constexpr c10::DispatchKeySet kNotPlain({DispatchKey::Python, DispatchKey::Functionalize, DispatchKey::Conjugate, DispatchKey::Negative,
                                         DispatchKey::ZeroTensor, DispatchKey::FuncTorchBatched, DispatchKey::FuncTorchGradWrapper,
                                         DispatchKey::NestedTensor});

/// A mode of torch.utils, a transformation of torch.func: they are promised the operators of the composite form.
bool somebody_watches() {
  return c10::impl::dispatch_mode_enabled() || c10::impl::tls_local_dispatch_key_set().included_.has_any(kWatching);
}

/// A strided tensor of real numbers with nothing to it, on the device of `like` and of its dtype.
bool is_plain(const at::Tensor& t, const at::Tensor& like) {
  if (!t.defined()) return false;
  const c10::TensorImpl &x = *t.unsafeGetTensorImpl(), &y = *like.unsafeGetTensorImpl();
  return x.device_type() == kTiny && x.device() == y.device() && x.dtype() == y.dtype() && x.layout() == at::kStrided &&
         !x.key_set().has_any(kNotPlain) && x.numel() > 0 && !has_tangent(t);
}
bool is_float_array(const at::Tensor& t) {
  return t.defined() && at::isFloatingType(t.scalar_type()) && is_native(t.scalar_type()) && is_plain(t, t) && t.dim() > 0;
}
bool wants_gradient(std::initializer_list<const at::Tensor*> tensors) {
  if (!at::GradMode::is_enabled()) return false;
  return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor* t) { return t->defined() && t->requires_grad(); });
}
const at::Tensor& value_or_none(const Optional& t) {
  static const at::Tensor none;
  return t ? *t : none;
}
tiny::Tensor read_if_defined(const at::Tensor& t) { return t.defined() ? read(t) : tiny::Tensor(); }

// ---- linear
bool is_one_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!is_float_array(x) || !weight.defined() || weight.dim() != 2 || !is_plain(weight, x) || x.size(-1) != weight.size(1)) return false;
  if (bias.defined() && (bias.dim() != 1 || !is_plain(bias, x) || bias.size(0) != weight.size(0))) return false;
  return !wants_gradient({&x, &weight, &bias}) && !somebody_watches();
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const Optional& bias) {
  const at::Tensor& b = value_or_none(bias);
  if (!is_one_product(x, weight, b)) return at::native::linear(x, weight, bias);
  return noted(x.device().index(), [&] { return lower::linear(read(x), read(weight), read_if_defined(b)); });
}

// ---- rms_norm
bool is_one_norm(const at::Tensor& x, c10::SymIntArrayRef shape, const at::Tensor& weight) {
  if (!is_float_array(x) || shape.empty() || shape.size() > static_cast<size_t>(x.dim()) || !x.is_contiguous()) return false;
  const auto rows = x.sizes().slice(static_cast<size_t>(x.dim()) - shape.size());
  for (size_t k = 0; k < shape.size(); ++k)
    if (shape[k].maybe_as_int() != rows[k]) return false;
  if (weight.defined() && (!is_plain(weight, x) || weight.sizes() != rows)) return false;
  return !wants_gradient({&x, &weight}) && !somebody_watches();
}

/// PyTorch's default: of the type that it computes in.
double default_epsilon(at::ScalarType type) {
  return at::toOpMathType(type) == at::kDouble ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

at::Tensor rms_norm(const at::Tensor& x, c10::SymIntArrayRef shape, const Optional& weight, std::optional<double> eps) {
  const at::Tensor& w = value_or_none(weight);
  if (!is_one_norm(x, shape, w)) return at::compositeimplicitautograd::rms_norm_symint(x, shape, weight, eps);
  return noted(x.device().index(), [&] {
    return lower::rms_norm(read(x), static_cast<int64_t>(shape.size()), read_if_defined(w), eps ? *eps : default_epsilon(x.scalar_type()));
  });
}

// ---- attention
bool is_mask_of(const at::Tensor& mask, const at::Tensor& q, const at::Tensor& k) {
  if (!is_plain(mask, mask) || mask.device() != q.device() || mask.dim() < 2 || mask.dim() > q.dim()) return false;
  if (mask.scalar_type() != at::kBool && mask.scalar_type() != q.scalar_type()) return false;
  for (int64_t d = 1; d <= mask.dim(); ++d)
    if (mask.size(-d) != 1 && mask.size(-d) != (d == 1 ? k.size(-2) : q.size(-d))) return false;
  return true;
}

bool is_one_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask, std::optional<double> scale) {
  if (!is_float_array(q) || q.dim() < 3 || k.dim() != q.dim() || v.dim() != q.dim() || !is_plain(k, q) || !is_plain(v, q)) return false;
  const auto batch = q.sizes().slice(0, static_cast<size_t>(q.dim()) - 2);
  for (const at::Tensor* t : {&k, &v})
    if (t->sizes().slice(0, batch.size()) != batch) return false;
  if (k.size(-1) != q.size(-1) || k.size(-2) != v.size(-2) || (scale && !(*scale >= 0))) return false;
  if (mask.defined() && !is_mask_of(mask, q, k)) return false;
  return !wants_gradient({&q, &k, &v, &mask}) && !somebody_watches();
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Optional& mask, double dropout, bool causal,
                     std::optional<double> scale, bool shares_heads) {
  const at::Tensor& m = value_or_none(mask);
  if (dropout > 0 || causal || shares_heads || !at::globalContext().userEnabledMathSDP() || !is_one_attention(q, k, v, m, scale) ||
      can_stream_attention(q, k, v, mask, dropout))
    return at::native::scaled_dot_product_attention(q, k, v, mask, dropout, causal, scale, shares_heads);
  const double factor = scale ? *scale : 1 / std::sqrt(static_cast<double>(q.size(-1)));
  return noted(q.device().index(), [&] { return lower::attention(read(q), read(k), read(v), read_if_defined(m), factor); });
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("linear", TORCH_FN(linear));
  m.impl("rms_norm", TORCH_FN(rms_norm));
  m.impl("scaled_dot_product_attention", TORCH_FN(attention));
}
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("linear", TORCH_FN(linear));
  m.impl("rms_norm", TORCH_FN(rms_norm));
  m.impl("scaled_dot_product_attention", TORCH_FN(attention));
}

}  // namespace
}  // namespace tiny::glue
