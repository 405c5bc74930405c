// torch.autocast("tiny"): PyTorch's standard policies, and what is written into a tensor takes that tensor's type.
#include "allocator.h"

namespace tiny::glue {
namespace {

at::Tensor refuse_binary_cross_entropy(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, int64_t) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
              "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
              "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
              "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
              "safe to autocast.");
}

/// `source`, to be written into `self` in place. Autocast gives results of two types, and a model that was written for another device's
/// lists of operators does not expect it here.
at::Tensor as_written(const at::Tensor& self, const at::Tensor& source) {
  return self.is_floating_point() && source.is_floating_point() ? source.to(self.scalar_type()) : source;
}

/// Both in the wider of their types, if they are of two.
std::pair<at::Tensor, at::Tensor> promoted(const at::Tensor& self, const at::Tensor& source) {
  if (!self.is_floating_point() || !source.is_floating_point()) return {self, source};
  const at::ScalarType t = at::promote_types(self.scalar_type(), source.scalar_type());
  return {self.to(t), source.to(t)};
}
at::Tensor index_add(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source, const at::Scalar& alpha) {
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  auto [a, b] = promoted(self, source);
  return at::index_add(a, dim, index, b, alpha);
}
at::Tensor index_copy(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source) {
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  auto [a, b] = promoted(self, source);
  return at::index_copy(a, dim, index, b);
}
at::Tensor& index_add_(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source, const at::Scalar& alpha) {
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  return self.index_add_(dim, index, as_written(self, source), alpha);
}
at::Tensor& index_copy_(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source) {
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  return self.index_copy_(dim, index, as_written(self, source));
}
at::Tensor& index_put_(at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices, const at::Tensor& values, bool accumulate) {
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  return self.index_put_(indices, as_written(self, values), accumulate);
}
at::Tensor& scatter_(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source) {
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  return self.scatter_(dim, index, as_written(self, source));
}
at::Tensor& scatter_add_(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source) {
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  return self.scatter_add_(dim, index, as_written(self, source));
}

}  // namespace
}  // namespace tiny::glue

namespace at::autocast {

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define TINY_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
  AT_FORALL_LOWER_PRECISION_FP(TINY_LOWER)
#undef TINY_LOWER
#define TINY_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_FP32(TINY_FP32)
#undef TINY_FP32
#define TINY_FP32_SET_OPT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
  AT_FORALL_FP32_SET_OPT_DTYPE(TINY_FP32_SET_OPT)
#undef TINY_FP32_SET_OPT
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
#define TINY_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_PROMOTE(TINY_PROMOTE)
#undef TINY_PROMOTE
  KERNEL_PRIVATEUSEONE(mkldnn_rnn_layer, lower_precision_fp)  // a layer of nn.LSTM
  m.impl("index_add", TORCH_FN(tiny::glue::index_add));
  m.impl("index_copy", TORCH_FN(tiny::glue::index_copy));
  m.impl("index_add_", TORCH_FN(tiny::glue::index_add_));
  m.impl("index_copy_", TORCH_FN(tiny::glue::index_copy_));
  m.impl("index_put_", TORCH_FN(tiny::glue::index_put_));
  m.impl("scatter_.src", TORCH_FN(tiny::glue::scatter_));
  m.impl("scatter_add_", TORCH_FN(tiny::glue::scatter_add_));
  m.impl("binary_cross_entropy", TORCH_FN(tiny::glue::refuse_binary_cross_entropy));
}

}  // namespace at::autocast
