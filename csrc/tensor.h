// at::Tensor and tiny::Tensor. Reading takes the elements of a strided tensor out of its storage's value as a dense lazy tensor; writing
// puts them back. Complex tensors are read and written as their two parts, or raw, as their real type with a last dimension of 2.
// Reading and writing need the graph lock, and touch no reference count of a tensor (that could need the GIL).
#pragma once
#include "allocator.h"
#include "lower/args.h"

namespace tiny::glue {

/// The core's dtype for a torch dtype: a complex type gives its real type; DType::count when the core has none.
DType core_dtype(c10::ScalarType t);
c10::ScalarType torch_dtype(DType d);
/// Types that lowerings for real numbers compute on: all but complex and those without a core dtype.
inline bool is_native(c10::ScalarType t) { return !c10::isComplexType(t) && core_dtype(t) != DType::count; }

inline bool is_tiny(const at::Tensor& t) { return t.defined() && t.device().type() == kTiny; }

inline Dims dims(c10::IntArrayRef v) { return Dims(v.begin(), v.end()); }
/// The torch dtype of a lowering's result.
c10::ScalarType torch_dtype(const lower::Complex& value);

inline c10::IntArrayRef int_array(const Dims& d) { return {d.data(), d.size()}; }

Storage& storage_of(const c10::TensorImpl& t);
Device& device_of(const c10::TensorImpl& t);
inline Storage& storage_of(const at::Tensor& t) { return storage_of(*t.unsafeGetTensorImpl()); }

/// How the elements of a tensor lie in its storage, in units of a core dtype.
struct Geometry {
  DType dtype;
  Dims sizes, strides;
  int64_t offset;
};
/// Geometry in the tensor's own elements (complex: pairs; dtypes that the core does not have: integers of the same size).
Geometry geometry(const c10::TensorImpl& t);

tiny::Tensor read(const c10::TensorImpl& t);
inline tiny::Tensor read(const at::Tensor& t) { return read(*t.unsafeGetTensorImpl()); }
/// `value` has the sizes and dtype of the geometry.
void write(const c10::TensorImpl& t, const tiny::Tensor& value);
inline void write(const at::Tensor& t, const tiny::Tensor& value) { write(*t.unsafeGetTensorImpl(), value); }

/// What a tensor means, a complex one as its two parts: with its conjugate and negative bits applied.
lower::Complex read_resolved(const c10::TensorImpl& t);
inline lower::Complex read_resolved(const at::Tensor& t) { return read_resolved(*t.unsafeGetTensorImpl()); }
/// Writes what reads as `value` again, which has the sizes and dtype of the tensor.
void write_resolved(const c10::TensorImpl& t, lower::Complex value);
inline void write_resolved(const at::Tensor& t, lower::Complex value) { write_resolved(*t.unsafeGetTensorImpl(), std::move(value)); }

/// New uninitialised tensors on tiny:index.
at::Tensor make_empty(c10::IntArrayRef sizes, c10::ScalarType dtype, c10::DeviceIndex index);
at::Tensor make_empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype, c10::DeviceIndex index);
/// A new tensor that holds `value`; `like`, if given, is a tensor of the same sizes whose order of dimensions in memory is kept.
at::Tensor make_result(lower::Complex value, c10::DeviceIndex index, const c10::TensorImpl* like = nullptr);
inline at::Tensor make_result(const tiny::Tensor& value, c10::DeviceIndex index, const c10::TensorImpl* like = nullptr) {
  return make_result(lower::Complex{value, {}}, index, like);
}

/// Submits pending work if there is more of it than the bound. Call it without the graph lock.
void after_operator(Device& d);

/// Raises what PyTorch raises when operators get tensors of two devices.
[[noreturn]] void raise_two_devices(c10::Device a, c10::Device b);

}  // namespace tiny::glue
