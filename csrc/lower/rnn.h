// Recurrent layers and cells: what nn.LSTM calls for each layer and direction; what nn.GRU, cells and packed sequences call for each time
// step.
#pragma once
#include "lower/args.h"

namespace tiny::lower {

/// mkldnn_rnn_layer(input [T,N,I], weights [4H,I], [4H,H], biases [4H], [4H], hx, cx [N,H], reverse, ...) of mode LSTM -> output [T,N,H],
/// hy, cy, workspace (lstm.cpp).
Results lstm_layer(Args& a);
/// mkldnn_rnn_layer_backward(input, 4 weights, hx, cx, output, hy, cy, grad_output?, grad_hy?, grad_cy?, reverse, ..., workspace) ->
/// gradients of the forward's first seven arguments.
Results lstm_layer_backward(Args& a);
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
