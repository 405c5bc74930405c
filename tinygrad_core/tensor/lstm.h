// A layer of an LSTM as one operator. See lstm and lstm_backward in uop/builtins.def.
#pragma once
#include "tensor/tensor.h"

namespace tiny {

/// One direction over f32 or f64: inputs [T,N,4H] of the gates, without their products with `weights` [4H,H]; h, c [N,H], none of them
/// empty. Reverse: from the last step to the first.
struct Lstm {
  Tensor out, kept;  // [T,N,H]; flat, for the gradients
  Tensor last_c;     // [N,H]
};
Lstm lstm(const Tensor& inputs, const Tensor& weights, const Tensor& h, const Tensor& c, bool reverse);

/// Given the gradients of all outputs, of the last output and of the last c; those that are not defined are 0.
struct LstmGradients {
  Tensor inputs, h, c;
};
LstmGradients lstm_gradients(const Tensor& out, const Tensor& last_h, const Tensor& last_c, const Tensor& weights, const Tensor& c,
                             const Tensor& kept, bool reverse);

}  // namespace tiny
