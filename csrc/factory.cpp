// Making and filling tensors.
#include "factory.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/as_strided_native.h>

#include "device_state.h"
#include "errors.h"

namespace tiny::glue {
namespace {

void check_dense(std::optional<c10::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(!layout || *layout == c10::Layout::Strided,
                              "torch_tiny: only strided tensors can be made on a tiny device, not ", *layout);
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
}

c10::DeviceIndex index_of(std::optional<c10::Device> device) {
  const c10::Device d = device.value_or(c10::Device(kTiny, -1));
  TORCH_CHECK(d.type() == kTiny, "torch_tiny: expected a tiny device, got ", d);
  return checked_device(d.index());
}

c10::ScalarType type_of(std::optional<c10::ScalarType> dtype) { return dtype ? *dtype : c10::get_default_dtype_as_scalartype(); }

at::Tensor empty(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
                 std::optional<c10::Device> device, std::optional<bool> pin_memory, std::optional<c10::MemoryFormat> format) {
  check_dense(layout, pin_memory);
  at::Tensor t = make_empty(size, type_of(dtype), index_of(device));
  if (format && *format != c10::MemoryFormat::Contiguous) t.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return t;
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout> layout, std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  check_dense(layout, pin_memory);
  return make_empty_strided(size, stride, type_of(dtype), index_of(device));
}

/// A tensor of zeros without memory (forward-mode differentiation).
at::Tensor efficientzerotensor(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
                               std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  check_dense(layout, pin_memory);
  at::native::ZeroTensorAllocator zeros(c10::Device(kTiny, index_of(device)));
  const auto keys = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1) | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor);
  return at::detail::empty_generic(size, &zeros, keys, type_of(dtype), std::nullopt);
}

void fill_complex(const at::Tensor& self, c10::complex<double> v) {
  const DType d = core_dtype(self.scalar_type());
  const Dims sizes = dims(self.sizes());
  write_resolved(self, {full(sizes, scalar(d, v.real())), full(sizes, scalar(d, v.imag()))});
}

/// A view of one element of each repeated dimension.
at::Tensor without_repeats(const at::Tensor& self) {
  auto sizes = self.sizes().vec();
  for (size_t d = 0; d < sizes.size(); ++d)
    if (self.stride(static_cast<int64_t>(d)) == 0) sizes[d] = 1;
  return at::native::as_strided_tensorimpl(self, sizes, self.strides());
}

at::Tensor& fill_scalar(at::Tensor& self, const at::Scalar& value) {
  if (self.numel() == 0) return self;
  if (C10_UNLIKELY(at::has_internal_overlap(self) == at::MemOverlap::Yes)) {  // of elements in one place, one is written
    at::Tensor once = without_repeats(self);
    fill_scalar(once, value);
    return self;
  }
  const auto type = self.scalar_type();
  guarded([&] {
    if (is_native(type)) {
      GraphLock lock;
      return write(self, full(dims(self.sizes()), scalar_tensor(value, type)));
    }
    if (c10::isComplexType(type)) {
      GraphLock lock;
      return fill_complex(self, value.toComplexDouble());
    }
    at::Tensor one = at::empty({}, self.options().device(c10::kCPU)).fill_(value);  // its bits, as an integer
    GraphLock lock;
    const Geometry g = geometry(*self.unsafeGetTensorImpl());
    int64_t bits = 0;
    std::memcpy(&bits, one.const_data_ptr(), one.itemsize());
    write(self, full(g.sizes, constant(g.dtype, bits)));
  });
  after_operator(device_of(*self.unsafeGetTensorImpl()));
  return self;
}

at::Tensor& fill_tensor(at::Tensor& self, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(), " dimensions.");
  if (!is_tiny(value)) return fill_scalar(self, value.item());
  if (value.device() != self.device()) raise_two_devices(self.device(), value.device());
  return self.copy_(value);
}

at::Tensor& zero(at::Tensor& self) { return fill_scalar(self, 0); }

}  // namespace

tiny::Tensor scalar_tensor(const at::Scalar& value, c10::ScalarType type) {
  const DType d = core_dtype(type);
  if (is_float(d)) {
    const double v = value.toDouble();
    if (type == c10::ScalarType::Float) (void)value.toFloat();  // these raise what overflows
    if (type == c10::ScalarType::Half) (void)value.toHalf();
    if (type == c10::ScalarType::BFloat16) (void)value.toBFloat16();
    return scalar(d, v);
  }
  int64_t v = 0;
  switch (type) {
    case c10::ScalarType::Bool: v = value.toBool(); break;
    case c10::ScalarType::Byte: v = value.toByte(); break;
    case c10::ScalarType::Char: v = value.toChar(); break;
    case c10::ScalarType::Short: v = value.toShort(); break;
    case c10::ScalarType::Int: v = value.toInt(); break;
    case c10::ScalarType::UInt16: v = value.toUInt16(); break;
    case c10::ScalarType::UInt32: v = value.toUInt32(); break;
    case c10::ScalarType::UInt64: v = static_cast<int64_t>(value.toUInt64()); break;
    default: v = value.toLong();
  }
  return scalar(d, v);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("_efficientzerotensor", TORCH_FN(efficientzerotensor));
  m.impl("fill_.Scalar", TORCH_FN(fill_scalar));
  m.impl("fill_.Tensor", TORCH_FN(fill_tensor));
  m.impl("zero_", TORCH_FN(zero));
}

}  // namespace tiny::glue
