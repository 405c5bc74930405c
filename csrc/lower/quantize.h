// Rounding to a grid of integers and back, as training for quantisation does it.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

Results fake_quantize_tensor(Args& a);          // (self, scale, zero_point, quant_min, quant_max) -> output, mask
Results fake_quantize_tensor_qparams(Args& a);  // (self, scale, zero_point, fake_quant_enabled, quant_min, quant_max)
Results fake_quantize_channel(Args& a);         // (self, scale, zero_point, axis, quant_min, quant_max)

}  // namespace tiny::lower
