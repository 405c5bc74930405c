// Recurrent cells: what nn.LSTM, nn.GRU and their cells call on this device for each time step.
#pragma once
#include "lower/args.h"

namespace tiny::lower {

/// _thnn_fused_lstm_cell(input_gates [N,4H], hidden_gates, cx [N,H], input_bias?, hidden_bias?) -> hy, cy, workspace [N,4H]: the gates i,
/// f, g, o before their activation, so that they are written once and nothing is joined.
Results lstm_cell(Args& a);
/// _thnn_fused_lstm_cell_backward_impl(grad_hy?, grad_cy?, cx, cy, workspace, has_bias) -> grad_gates [N,4H], grad_cx, grad_bias.
Results lstm_cell_backward(Args& a);
/// _thnn_fused_gru_cell(input_gates [N,3H], hidden_gates, hx [N,H], input_bias?, hidden_bias?) -> hy, workspace [N,5H]: before their
/// activation r and z, then the input and the hidden part of n, then hx.
Results gru_cell(Args& a);
/// _thnn_fused_gru_cell_backward(grad_hy, workspace, has_bias) -> gradients of input_gates, hidden_gates, hx, input_bias, hidden_bias.
Results gru_cell_backward(Args& a);

}  // namespace tiny::lower
