// A layer of an LSTM in one direction, all its time steps: what PyTorch's CPU has as one oneDNN primitive. Sums over time of products, as
// gradients of weights are, are one product over all steps. On the host the loop over time is a builtin; elsewhere, and for types that
// compute in another, it is a graph as long as the sequence.
#include "lower/nn_util.h"
#include "lower/pointwise.h"
#include "lower/rnn.h"
#include "tensor/lstm.h"

namespace tiny::lower {
namespace {

Tensor step_of(const Tensor& x, int64_t t) { return x.select(0, t); }

struct Gates {
  Tensor i, f, c, o;
};
/// `one`: the constant. A layer's graph is long, and what its steps share is made once.
Gates activated(const Tensor& gates, int64_t h, const Tensor& one) {
  auto part = [&](int64_t k) { return gates.slice(-1, k * h, (k + 1) * h); };
  auto sigmoid = [&](const Tensor& x) { return (x.unary(Op::NEG).unary(Op::EXP) + one).unary(Op::RECIP); };
  return {sigmoid(part(0)), sigmoid(part(1)), part(2).unary(Op::TANH), sigmoid(part(3))};
}

/// What a layer keeps for its gradients, flat: for each step the gates before their activation [N,4H], then all states of the cells.
struct Kept {
  Tensor gates, cells;  // [T,N,4H], [T,N,H]
};
Tensor kept(const std::vector<Tensor>& gates, const std::vector<Tensor>& cells) {
  std::vector<Tensor> flat;
  for (const auto* list : {&gates, &cells})
    for (const Tensor& t : *list) flat.push_back(t.reshape({t.numel()}));
  return cat(flat, 0);
}
Kept kept_in(const Tensor& workspace, int64_t steps, int64_t rows, int64_t h) {
  int64_t n = steps * rows * 4 * h;
  return {workspace.slice(0, 0, n).reshape({steps, rows, 4 * h}), workspace.slice(0, n, workspace.numel()).reshape({steps, rows, h})};
}

Tensor stacked(const std::vector<Tensor>& rows) {
  std::vector<Tensor> parts;
  for (const Tensor& t : rows) parts.push_back(t.unsqueeze(0));
  return cat(parts, 0);
}

}  // namespace

Results lstm_layer(Args& a) {
  DType d = a.tensor(0).dtype(), acc = compute_dtype(d);
  auto wide = [&](int i) { return a.tensor(i).cast(acc); };
  Tensor x = wide(0), weight = wide(2).transpose(0, 1), h = wide(5), c = wide(6), one = constant(acc, 1.0);
  int64_t steps = x.size(0), rows = x.size(1), width = h.size(-1);
  bool reverse = a.flag(7);
  h = h.reshape({rows, width}), c = c.reshape({rows, width});
  Tensor inputs = matmul(x.reshape({steps * rows, x.size(2)}), wide(1).transpose(0, 1), acc) + (wide(3) + wide(4));
  inputs = inputs.reshape({steps, rows, 4 * width});
  if (a.host && acc == d) {
    Lstm made = lstm(inputs, a.tensor(2), h, c, reverse);
    return {made.out, step_of(made.out, reverse ? 0 : steps - 1), made.last_c, made.kept};
  }
  std::vector<Tensor> gates(steps), cells(steps), outputs(steps);
  for (int64_t k = 0; k < steps; ++k) {
    int64_t t = reverse ? steps - 1 - k : k;
    gates[t] = step_of(inputs, t) + matmul(h, weight, acc);
    Gates g = activated(gates[t], width, one);
    cells[t] = c = g.f * c + g.i * g.c;
    h = g.o * c.unary(Op::TANH);
    outputs[t] = h.cast(d), h = outputs[t].cast(acc);
  }
  return {stacked(outputs), h.cast(d), c.cast(d), kept(gates, cells)};
}

namespace {

/// Of a layer in one direction, in the type that it computes in. Without a gradient of all outputs, of the last h or of the last c these
/// are undefined.
struct Backward {
  Tensor weight, first_c, kept, grad_outputs, grad_h, grad_c;
  bool reverse;
};
/// The step-by-step form of what the builtin makes.
LstmGradients gradients(const Backward& b) {
  DType acc = b.weight.dtype();
  Tensor one = constant(acc, 1.0);
  int64_t rows = b.first_c.size(0), width = b.first_c.size(1), steps = b.kept.numel() / (5 * rows * width);
  Kept forward = kept_in(b.kept, steps, rows, width);
  auto or_zeros = [&](const Tensor& t) { return t.defined() ? t : zeros(b.first_c.sizes(), acc); };
  Tensor grad_h = or_zeros(b.grad_h), grad_c = or_zeros(b.grad_c);
  std::vector<Tensor> grads(steps);
  for (int64_t k = steps; k-- > 0;) {
    int64_t t = b.reverse ? steps - 1 - k : k, last = b.reverse ? t + 1 : t - 1;
    Gates g = activated(step_of(forward.gates, t), width, one);
    Tensor c = step_of(forward.cells, t).unary(Op::TANH), earlier = k ? step_of(forward.cells, last) : b.first_c;
    if (b.grad_outputs.defined()) grad_h = grad_h + step_of(b.grad_outputs, t);
    grad_c = grad_c + grad_h * g.o * (one - c * c);
    Tensor parts[] = {grad_c * g.c * (one - g.i) * g.i, grad_c * earlier * (one - g.f) * g.f, grad_c * g.i * (one - g.c * g.c),
                      grad_h * c * (one - g.o) * g.o};
    grads[t] = cat(parts, 1);
    grad_h = matmul(grads[t], b.weight, acc), grad_c = grad_c * g.f;
  }
  return {stacked(grads), grad_h, grad_c};
}

}  // namespace

Results lstm_layer_backward(Args& a) {
  DType d = a.tensor(0).dtype(), acc = compute_dtype(d);
  auto wide = [&](int i) { return a.tensor(i).cast(acc); };
  Tensor x = wide(0), first_h = wide(5), outputs = wide(7);
  int64_t steps = x.size(0), rows = x.size(1), width = first_h.size(-1);
  Dims state{rows, width}, of_h = first_h.sizes();
  auto given = [&](int i, const Dims& sizes) { return a.has(i) ? wide(i).reshape(sizes) : Tensor(); };
  Backward b{wide(2), wide(6).reshape(state), a.tensor(22), given(10, outputs.sizes()), given(11, state), given(12, state), a.flag(13)};
  LstmGradients g = a.host && acc == d ? lstm_gradients(b.grad_outputs, b.grad_h, b.grad_c, b.weight, b.first_c, b.kept, b.reverse)
                                       : gradients(b);
  Tensor all = g.inputs.reshape({steps * rows, 4 * width}), turned = all.transpose(0, 1);
  Tensor before[] = {first_h.reshape({1, rows, width}), outputs.slice(0, b.reverse, steps - !b.reverse)};
  if (b.reverse) std::swap(before[0], before[1]);
  Tensor grad_x = matmul(all, wide(1), acc).reshape(x.sizes()), bias = all.sum(Dims{0}).cast(d);
  Tensor grad_inputs = matmul(turned, x.reshape({steps * rows, x.size(2)}), acc);
  Tensor grad_states = matmul(turned, (steps > 1 ? cat(before, 0) : before[b.reverse]).reshape({steps * rows, width}), acc);
  return {grad_x.cast(d), grad_inputs.cast(d), grad_states.cast(d), bias, bias, g.h.cast(d).reshape(of_h), g.c.cast(d).reshape(of_h)};
}

}  // namespace tiny::lower
