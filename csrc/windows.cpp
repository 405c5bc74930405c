// Window functions that PyTorch has no composite kernel for.
#include "errors.h"
#include "tensor.h"

namespace tiny::glue {
namespace {

using ScalarTypeArg = std::optional<at::ScalarType>;
using LayoutArg = std::optional<at::Layout>;
using DeviceArg = std::optional<at::Device>;

constexpr double kUsualBeta = 12;

/// I0(beta sqrt(1 - (2i / (n-1) - 1)^2)) / I0(beta), of which a periodic window is all but the last.
at::Tensor kaiser_window(int64_t length, bool periodic, double beta, ScalarTypeArg dtype, LayoutArg layout, DeviceArg device,
                         std::optional<bool> pin) {
  const auto options = at::TensorOptions().dtype(dtype).layout(layout).device(device).pinned_memory(pin);
  const auto type = c10::typeMetaToScalarType(options.dtype());
  TORCH_CHECK(options.layout() != at::kSparse, "kaiser_window is not implemented for sparse types, got: ", options);
  TORCH_CHECK(at::isFloatingType(type) || at::isComplexType(type), "kaiser_window expects floating point dtypes, got: ", options);
  TORCH_CHECK(length >= 0, "kaiser_window requires non-negative window_length, got window_length=", length);
  if (length == 0) return at::empty({0}, options);
  if (length == 1) return at::ones({1}, options);
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(type), "\"arange_cpu\" not implemented for '", c10::toString(type), "'");
  const double last = static_cast<double>(periodic ? length : length - 1);
  const at::Tensor x = at::arange(length, options.dtype(at::kDouble)).mul(2 / last).sub(1);
  const at::Tensor top = at::full({}, beta, x.options());
  return at::special_i0(x.square().neg().add(1).clamp_min(0).sqrt().mul(beta)).div(at::special_i0(top)).to(type);
}

at::Tensor usual_kaiser_window(int64_t length, ScalarTypeArg dtype, LayoutArg layout, DeviceArg device, std::optional<bool> pin) {
  return kaiser_window(length, true, kUsualBeta, dtype, layout, device, pin);
}

at::Tensor periodic_kaiser_window(int64_t length, bool periodic, ScalarTypeArg dtype, LayoutArg layout, DeviceArg device,
                                  std::optional<bool> pin) {
  return kaiser_window(length, periodic, kUsualBeta, dtype, layout, device, pin);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("kaiser_window", TORCH_FN(usual_kaiser_window));
  m.impl("kaiser_window.beta", TORCH_FN(kaiser_window));
  m.impl("kaiser_window.periodic", TORCH_FN(periodic_kaiser_window));
}

}  // namespace
}  // namespace tiny::glue
