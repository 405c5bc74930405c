// cat, arange and index_copy_ of arguments that need no checks beyond the few made here: noted at once. PyTorch's forms of them make an
// empty result first and call an out= operator; they serve the other arguments, and raise for wrong ones.
#include <ATen/ops/arange_native.h>
#include <ATen/ops/cat_compositeexplicitautogradnonfunctional_dispatch.h>
#include <ATen/ops/index_copy_compositeexplicitautogradnonfunctional_dispatch.h>

#include "device_state.h"
#include "lower/scatter.h"
#include "noted.h"

namespace tiny::glue {
namespace {

/// On `like`'s device and of its dtype, which is computed on, with elements that lie in order.
bool is_simple(const at::Tensor& t, const at::Tensor& like) {
  return is_tiny(t) && t.device() == like.device() && t.scalar_type() == like.scalar_type() && is_native(t.scalar_type()) && t.dim() > 0 &&
         t.numel() > 0 && t.is_contiguous();
}

bool is_simple_cat(at::ArrayRef<at::Tensor> parts, int64_t dim) {
  if (parts.empty() || !parts[0].defined()) return false;
  const at::Tensor& first = parts[0];
  const int64_t n = first.dim();
  if (dim < -n || dim >= n) return false;
  if (dim < 0) dim += n;
  for (const at::Tensor& t : parts) {
    if (!t.defined() || !is_simple(t, first) || t.dim() != n) return false;
    if (n > 3 && t.suggest_memory_format() != c10::MemoryFormat::Contiguous) return false;
    for (int64_t d = 0; d < n; ++d)
      if (d != dim && t.size(d) != first.size(d)) return false;
  }
  return true;
}

at::Tensor cat(const at::ITensorListRef& tensors, int64_t dim) {
  const auto parts = tensors.materialize();
  c10::SmallVector<at::Tensor, 4> list(parts.begin(), parts.end());
  if (!is_simple_cat(list, dim)) return at::compositeexplicitautogradnonfunctional::cat(tensors, dim);
  return noted(list[0].device().index(), [&] {
    std::vector<tiny::Tensor> values;
    for (const at::Tensor& t : list) values.push_back(read(t));
    return tiny::cat(values, dim < 0 ? dim + list[0].dim() : dim);
  });
}

using Type = std::optional<c10::ScalarType>;
using Layout = std::optional<c10::Layout>;
using Place = std::optional<c10::Device>;
using Pinned = std::optional<bool>;

/// 0 .. end-1 as integers.
at::Tensor arange(const at::Scalar& end, Type dtype, Layout layout, Place place, Pinned pinned) {
  const bool plain = end.isIntegral(false) && !end.isSymbolic() && (!dtype || *dtype == c10::kLong) && !pinned.value_or(false) &&
                     (!layout || *layout == c10::kStrided) && place && place->type() == kTiny;
  if (!plain || end.toLong() <= 0) return at::native::arange(end, dtype, layout, place, pinned);
  return noted(checked_device(place->index()), [&] { return iota(end.toLong()); });
}

bool is_simple_copy(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source) {
  if (!is_simple(self, self) || !is_simple(source, self) || source.dim() != self.dim() || dim < -self.dim() || dim >= self.dim())
    return false;
  if (!is_tiny(index) || index.device() != self.device() || index.scalar_type() != c10::kLong || index.dim() != 1) return false;
  if (dim < 0) dim += self.dim();
  for (int64_t d = 0; d < self.dim(); ++d)
    if (source.size(d) != (d == dim ? index.size(0) : self.size(d))) return false;
  const auto* written = self.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  for (const at::Tensor* t : {&index, &source})
    if (t->unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() == written) return false;
  return true;
}

at::Tensor& index_copy_(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source) {
  if (!is_simple_copy(self, dim, index, source)) return at::compositeexplicitautogradnonfunctional::index_copy_(self, dim, index, source);
  guarded([&] {
    GraphLock lock;
    lower::Args args;
    args.op = "aten::index_copy.out";
    const at::Tensor* tensors[] = {&self, nullptr, &index, &source};
    for (const at::Tensor* t : tensors) {
      lower::ArgValue& a = args.values.emplace_back();
      a.kind = t ? lower::ArgKind::Tensor : lower::ArgKind::Int;
      if (t) a.tensor = read(*t), a.category = lower::Category::Dimensioned;
      else a.i = dim;
    }
    write(self, lower::index_copy(args));
  });
  after_operator(device_of(*self.unsafeGetTensorImpl()));
  return self;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("cat", TORCH_FN(cat));
  m.impl("arange", TORCH_FN(arange));
  m.impl("index_copy_", TORCH_FN(index_copy_));
}

}  // namespace
}  // namespace tiny::glue
