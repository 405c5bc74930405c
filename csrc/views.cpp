// Views and changes of a tensor's geometry: PyTorch's own, on metadata. No data moves, except where a storage must grow.
#include "views.h"

#include <ATen/native/ResizeCommon.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/_has_compatible_shallow_copy_type_native.h>
#include <ATen/ops/alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>

namespace tiny::glue {

void set_geometry(const at::Tensor& self, c10::IntArrayRef sizes, c10::OptionalIntArrayRef strides) {
  c10::TensorImpl* t = self.unsafeGetTensorImpl();
  if (t->sizes() == sizes && (!strides || t->strides() == *strides)) return;
  const size_t itemsize = t->dtype().itemsize(), offset = t->storage_offset();
  const size_t needed = strides ? at::detail::computeStorageNbytes(sizes, *strides, itemsize, offset)
                                : at::detail::computeStorageNbytesContiguous(sizes, itemsize, offset);
  if (strides) t->set_sizes_and_strides(sizes, *strides);
  else t->set_sizes_contiguous(sizes);
  c10::StorageImpl& storage = *t->unsafe_storage().unsafeGetStorageImpl();
  if (t->numel() > 0 && needed > storage.nbytes()) resize_storage(storage, needed);
}

at::MemOverlapStatus overlap_of(const at::Tensor& a, const at::Tensor& b) {
  const c10::TensorImpl &x = *a.unsafeGetTensorImpl(), &y = *b.unsafeGetTensorImpl();
  if (&x == &y) return at::MemOverlapStatus::Full;
  if (x.unsafe_storage().unsafeGetStorageImpl() != y.unsafe_storage().unsafeGetStorageImpl()) return at::MemOverlapStatus::No;
  if (x.numel() == 0 || y.numel() == 0) return at::MemOverlapStatus::No;
  if (!x.is_non_overlapping_and_dense() || !y.is_non_overlapping_and_dense()) return at::MemOverlapStatus::TooHard;
  auto span = [](const c10::TensorImpl& t) {
    const auto item = static_cast<int64_t>(t.itemsize());
    return std::pair(t.storage_offset() * item, (t.storage_offset() + t.numel()) * item);
  };
  const auto p = span(x), q = span(y);
  if (p == q) return x.strides() == y.strides() ? at::MemOverlapStatus::Full : at::MemOverlapStatus::Partial;
  return p.first < q.second && q.first < p.second ? at::MemOverlapStatus::Partial : at::MemOverlapStatus::No;
}

namespace {
void refuse(bool overlap) {
  TORCH_CHECK(!overlap, "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
                        "location. Please clone() the tensor before performing the operation.");
}
}  // namespace

void refuse_partial_overlap(const at::Tensor& target, const at::Tensor& source) {
  refuse(overlap_of(target, source) == at::MemOverlapStatus::Partial);
}

void refuse_overlap(const at::Tensor& target, const at::Tensor& source) {
  const auto status = overlap_of(target, source);
  refuse(status == at::MemOverlapStatus::Partial || status == at::MemOverlapStatus::Full);
}

namespace {

const at::Tensor& resize_(const at::Tensor& self, c10::IntArrayRef size, std::optional<c10::MemoryFormat> format) {
  at::detail::check_size_nonnegative(size);
  const auto old_nbytes = static_cast<int64_t>(self.storage().nbytes());
  set_geometry(self, size, std::nullopt);
  if (format) {
    TORCH_CHECK(*format != c10::MemoryFormat::Preserve, "Unsupported memory format", *format);
    self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
  if (C10_UNLIKELY(at::globalContext().deterministicAlgorithms() && at::globalContext().deterministicFillUninitializedMemory()))
    at::native::fill_resize_deterministic_(self, old_nbytes);
  return self;
}

at::Tensor& set_storage_offset(at::Tensor& self, at::Storage source, int64_t offset, c10::IntArrayRef size, c10::IntArrayRef stride) {
  at::native::checkSetStorage(self, std::move(source), offset, size, stride);
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  set_geometry(self, size, stride.data() != nullptr ? c10::OptionalIntArrayRef(stride) : std::nullopt);
  return self;
}

at::Tensor& set_nothing(at::Tensor& self) {
  at::Storage empty(make_storage(self.device().index(), 0));
  return set_storage_offset(self, std::move(empty), 0, {0}, {});
}

/// Module.to() then keeps its Parameter objects: tied weights stay tied, and optimizers made before keep their parameters.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  auto plain = [](const at::Tensor& t) { return t.layout() == c10::Layout::Strided && (is_tiny(t) || t.device().is_cpu()); };
  if ((is_tiny(self) || is_tiny(from)) && plain(self) && plain(from)) return true;
  return at::native::_has_compatible_shallow_copy_type(self, from);
}

/// One in-order queue per device: memory is not reused before the work that reads it is done.
void record_stream(at::Tensor&, c10::Stream) {}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("view.dtype", TORCH_FN(at::native::view_dtype));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("alias", TORCH_FN(at::native::alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("resize_", TORCH_FN(resize_));
  m.impl("set_.source_Storage", TORCH_FN(static_cast<at::Tensor& (*)(at::Tensor&, at::Storage)>(at::native::set_)));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage_offset));
  m.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  m.impl("set_", TORCH_FN(set_nothing));
  m.impl("record_stream", TORCH_FN(record_stream));
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
}

TORCH_LIBRARY_IMPL(aten, CPU, m) { m.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type)); }

}  // namespace
}  // namespace tiny::glue
