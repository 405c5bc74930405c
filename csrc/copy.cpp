// Copies between tensors of any device, dtype and strides. Copies to the host flush and wait; all others are lazy.
#include "copy.h"

#include <ATen/ExpandUtils.h>

#include "errors.h"
#include "gil.h"
#include "views.h"
#include "where.h"

namespace tiny::glue {
namespace {

const c10::TensorImpl& impl(const at::Tensor& t) { return *t.unsafeGetTensorImpl(); }

/// Elements in memory order without gaps, at the start of the storage and filling it.
bool fills_storage(const at::Tensor& t) {
  return t.storage_offset() == 0 && t.is_non_overlapping_and_dense() && t.nbytes() == storage_of(t).nbytes();
}

void check_broadcast(const at::Tensor& dst, const at::Tensor& src) {
  if (dst.sizes() == src.sizes()) return;
  const auto shape = at::infer_size(dst.sizes(), src.sizes());
  TORCH_CHECK(c10::IntArrayRef(shape) == dst.sizes(), "output with shape ", dst.sizes(), " doesn't match the broadcast shape ",
              c10::IntArrayRef(shape));
}

/// From values of another torch dtype to values of `to`.
lower::Complex convert(lower::Complex v, c10::ScalarType to) {
  if (to == c10::ScalarType::Bool && v.is_complex()) {
    const tiny::Tensor zero = zeros({}, v.re.dtype());
    return {binary(Op::OR, ne(v.re, zero), ne(v.im, zero)), {}};
  }
  const DType d = core_dtype(to);
  v.re = v.re.cast(d);
  if (!c10::isComplexType(to)) v.im = {};
  else v.im = v.is_complex() ? v.im.cast(d) : zeros(v.re.sizes(), d);
  return v;
}

bool convertible(c10::ScalarType from, c10::ScalarType to) {
  return from == to || (core_dtype(from) != DType::count && core_dtype(to) != DType::count);
}

/// Whether the elements are copied as they lie in memory.
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

tiny::Tensor expanded(tiny::Tensor v, const Dims& sizes) {
  while (v.dim() < static_cast<int64_t>(sizes.size())) v = v.unsqueeze(0);
  return v.sizes() == sizes ? v : v.expand(sizes);
}

/// Both on one tiny device.
void copy_on_device(const at::Tensor& dst, const at::Tensor& src) {
  if (c10::isComplexType(src.scalar_type()) && !c10::isComplexType(dst.scalar_type()) && dst.scalar_type() != c10::ScalarType::Bool) {
    TORCH_WARN_ONCE("Casting complex values to real discards the imaginary part");
  }
  guarded([&] {
    GraphLock lock;
    if (same_bits(dst, src)) return write(dst, expanded(read(src), geometry(impl(dst)).sizes));
    lower::Complex v = convert(read_resolved(src), dst.scalar_type());
    const Dims sizes = dims(dst.sizes());
    v.re = expanded(std::move(v.re), sizes);
    if (v.is_complex()) v.im = expanded(std::move(v.im), sizes);
    write_resolved(dst, std::move(v));
  });
  after_operator(device_of(impl(dst)));
}

/// A tensor over memory that is not our allocator's, as a CPU tensor over the same memory; other tensors as they are.
at::Tensor host_window(const at::Tensor& t) {
  if (!is_tiny(t) || t.numel() == 0) return t;
  const c10::StorageImpl& storage = *impl(t).unsafe_storage().unsafeGetStorageImpl();
  if (is_ours(storage) || !device(t.device().index()).host_visible()) return t;
  auto* base = static_cast<char*>(const_cast<void*>(storage.data()));
  at::Tensor window = at::from_blob(base + t.storage_offset() * t.itemsize(), t.sizes(), t.strides(), t.options().device(c10::kCPU));
  window._set_conj(t.is_conj());
  window._set_neg(t.is_neg());
  return window;
}

}  // namespace

void read_bytes(const at::Tensor& t, int64_t offset, void* dst, size_t nbytes) {
  if (nbytes == 0) return;
  note_where();
  WithoutGil release;
  guarded([&] { storage_of(t).copy_out(dst, static_cast<size_t>(offset), nbytes); });
}

at::Tensor to_cpu(const at::Tensor& src) {
  const auto options = src.options().device(c10::kCPU).pinned_memory(false);
  const auto type = src.scalar_type();
  at::Tensor dense = src;
  at::Tensor out;
  if (src.is_non_overlapping_and_dense()) {
    out = at::empty_strided(src.sizes(), src.strides(), options);
  } else {
    out = at::empty(src.sizes(), options);
    if (src.numel() > 0) {
      dense = make_empty(src.sizes(), type, src.device().index());
      guarded([&] {
        GraphLock lock;
        write(dense, read(src));
      });
    }
  }
  read_bytes(dense, dense.storage_offset() * dense.itemsize(), out.mutable_data_ptr(), src.nbytes());
  out._set_conj(src.is_conj());
  out._set_neg(src.is_neg());
  return out;
}

void copy_from_cpu(const at::Tensor& dst, const at::Tensor& src) {
  if (dst.numel() == 0) return;
  const at::Tensor source = src.expand(dst.sizes());
  const bool direct = fills_storage(dst) && !dst.is_conj() && !dst.is_neg();
  const at::Tensor host = direct ? at::empty_strided(dst.sizes(), dst.strides(), dst.options().device(c10::kCPU))
                                 : at::empty(dst.sizes(), dst.options().device(c10::kCPU));
  const bool same =
      source.strides() == host.strides() && source.scalar_type() == host.scalar_type() && !source.is_conj() && !source.is_neg();
  if (!same) host.copy_(source);
  const void* bytes = same ? source.const_data_ptr() : host.const_data_ptr();
  const at::Tensor target = direct ? dst : make_empty(dst.sizes(), dst.scalar_type(), dst.device().index());
  guarded([&] {
    GraphLock lock;
    storage_of(target).copy_in(0, bytes, target.nbytes());  // waits for queued work only where the address is known
  });
  if (!direct) copy_on_device(dst, target);
}

void copy_tensor(const at::Tensor& to, const at::Tensor& from) {
  if (to.is_same(from)) return;
  const at::Tensor dst = host_window(to), src = host_window(from);
  check_broadcast(dst, src);
  if (dst.numel() == 0) return;
  if (!is_tiny(dst)) {
    dst.copy_(is_tiny(src) ? to_cpu(src) : src);
  } else if (src.device() == dst.device() && convertible(src.scalar_type(), dst.scalar_type())) {
    copy_on_device(dst, src);
  } else if (is_tiny(src)) {  // between two devices, or a conversion that only the CPU knows
    copy_from_cpu(dst, to_cpu(src));
  } else if (src.device().is_cpu()) {
    copy_from_cpu(dst, src);
  } else {
    copy_from_cpu(dst, src.cpu());
  }
}

namespace {

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  (void)non_blocking;  // every copy to the device is asynchronous; a copy to the host must wait, since its memory is read without an event
  TORCH_CHECK(!self._is_zerotensor(), "ZeroTensors are immutable. Please materialize the tensor using `.clone()`, if you want a mutable "
              "zero tensor.");
  if (src._is_zerotensor()) return self.zero_();
  if (is_tiny(src)) refuse_partial_overlap(self, src);
  copy_tensor(self, src);
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  (void)non_blocking;
  copy_tensor(dst, self);
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (dst.sizes() != self.sizes()) dst.resize_(self.sizes());
  copy_tensor(dst, self);
  return dst;
}

at::Scalar local_scalar_dense(const at::Tensor& self) { return to_cpu(self).item(); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("copy_", TORCH_FN(copy_));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
}
// These resolve the bits themselves: the fallback of the bit would copy, and come back here for ever.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

}  // namespace
}  // namespace tiny::glue
