#include "lower/rnn.h"

#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

/// 1 / (1 + exp(-x)): for large negative x the exponential is infinite and the result 0.
Tensor sigmoid(const Tensor& x) { return (x.unary(Op::NEG).unary(Op::EXP) + 1.0).unary(Op::RECIP); }

/// Part k of the columns, each `h` wide.
Tensor chunk(const Tensor& x, int64_t k, int64_t h) { return x.slice(-1, k * h, (k + 1) * h); }

Tensor one_minus(const Tensor& x) { return constant(x.dtype(), 1.0) - x; }

void check_gates(const Tensor& input, const Tensor& hidden, const Tensor& state, int64_t factor) {
  require(input.dim() == 2 && hidden.dim() == 2 && state.dim() == 2, ErrorKind::Runtime,
          "fused RNN cell: gates and states must be matrices");
  require(input.sizes() == hidden.sizes(), ErrorKind::Runtime, "fused RNN cell: input and hidden gates must have the same size");
  require(input.size(1) == factor * state.size(1) && input.size(0) == state.size(0), ErrorKind::Runtime,
          "fused RNN cell: gates do not fit the hidden state");
}

struct LstmGates {
  Tensor i, f, c, o;
};

LstmGates activated(const Tensor& gates, int64_t h) {
  return {sigmoid(chunk(gates, 0, h)), sigmoid(chunk(gates, 1, h)), chunk(gates, 2, h).unary(Op::TANH), sigmoid(chunk(gates, 3, h))};
}

Tensor with_bias(Args& a, const Tensor& gates, int position, DType acc) {
  Tensor g = gates.cast(acc);
  return a.has(position) ? g + a.tensor(position).reshape({gates.size(1)}).cast(acc) : g;
}

Tensor sum_rows(const Tensor& x, DType d) { return x.sum(Dims{0}).cast(d); }

}  // namespace

Results lstm_cell(Args& a) {
  const Tensor &input = a.tensor(0), &hidden = a.tensor(1), &cx = a.tensor(2);
  check_gates(input, hidden, cx, 4);
  DType d = input.dtype(), acc = compute_dtype(d);
  Tensor gates = with_bias(a, input, 3, acc) + with_bias(a, hidden, 4, acc);
  LstmGates g = activated(gates, cx.size(1));
  Tensor cy = g.f * cx.cast(acc) + g.i * g.c, hy = g.o * cy.unary(Op::TANH);
  return {hy.cast(d), cy.cast(d), gates.cast(d)};
}

Results lstm_cell_backward(Args& a) {
  const Tensor &cx = a.tensor(2), &cy = a.tensor(3), &workspace = a.tensor(4);
  if (!a.has(0) && !a.has(1)) return {Tensor(), Tensor(), Tensor()};
  DType d = workspace.dtype(), acc = compute_dtype(d);
  LstmGates g = activated(workspace.cast(acc), cx.size(1));
  Tensor grad_h = a.has(0) ? a.tensor(0).cast(acc) : zeros(cx.sizes(), acc);
  Tensor t = cy.cast(acc).unary(Op::TANH);
  Tensor grad_c = grad_h * g.o * one_minus(t * t);
  if (a.has(1)) grad_c = grad_c + a.tensor(1).cast(acc);
  Tensor parts[] = {grad_c * g.c * one_minus(g.i) * g.i, grad_c * cx.cast(acc) * one_minus(g.f) * g.f, grad_c * g.i * one_minus(g.c * g.c),
                    grad_h * t * one_minus(g.o) * g.o};
  Tensor gates = cat(parts, 1);
  return {gates.cast(d), (grad_c * g.f).cast(d), a.flag(5) ? sum_rows(gates, d) : Tensor()};
}

Results gru_cell(Args& a) {
  const Tensor &input = a.tensor(0), &hidden = a.tensor(1), &hx = a.tensor(2);
  check_gates(input, hidden, hx, 3);
  DType d = input.dtype(), acc = compute_dtype(d);
  int64_t h = hx.size(1);
  Tensor x = with_bias(a, input, 3, acc), y = with_bias(a, hidden, 4, acc), state = hx.cast(acc);
  Tensor parts[] = {x.slice(-1, 0, 2 * h) + y.slice(-1, 0, 2 * h), chunk(x, 2, h), chunk(y, 2, h), state};
  Tensor r = sigmoid(chunk(parts[0], 0, h)), z = sigmoid(chunk(parts[0], 1, h)), n = (parts[1] + r * parts[2]).unary(Op::TANH);
  return {(n + z * (state - n)).cast(d), cat(parts, 1).cast(d)};
}

Results gru_cell_backward(Args& a) {
  const Tensor &grad_hy = a.tensor(0), &workspace = a.tensor(1);
  DType d = workspace.dtype(), acc = compute_dtype(d);
  int64_t h = workspace.size(1) / 5;
  Tensor w = workspace.cast(acc), r = sigmoid(chunk(w, 0, h)), z = sigmoid(chunk(w, 1, h)), inner = chunk(w, 3, h), hx = chunk(w, 4, h);
  Tensor n = (chunk(w, 2, h) + r * inner).unary(Op::TANH), g = grad_hy.cast(acc);
  Tensor grad_n = g * one_minus(z) * one_minus(n * n), grad_z = g * (hx - n) * one_minus(z) * z;
  Tensor grad_r = grad_n * inner * one_minus(r) * r;
  Tensor input_parts[] = {grad_r, grad_z, grad_n}, hidden_parts[] = {grad_r, grad_z, grad_n * r};
  Tensor input = cat(input_parts, 1), hidden = cat(hidden_parts, 1);
  bool bias = a.flag(2);
  return {input.cast(d), hidden.cast(d), (g * z).cast(d), bias ? sum_rows(input, d) : Tensor(), bias ? sum_rows(hidden, d) : Tensor()};
}

}  // namespace tiny::lower
