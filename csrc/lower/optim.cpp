#include "lower/optim.h"

#include <cmath>

#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

using List = std::vector<Tensor>;

/// The optional last arguments of every fused optimizer.
struct Scaling {
  Tensor grad_scale, skip;   // undefined: none; skip is a bool
};

Scaling read_scaling(Args& a, int first) {
  Scaling s;
  if (a.has(first)) s.grad_scale = a.tensor(first).reshape({});
  if (a.has(first + 1)) s.skip = eq(a.tensor(first + 1).reshape({}).cast(DType::f32), constant(DType::f32, 1.0));
  return s;
}

/// The new value in the dtype of the old one, or the old one where the step is skipped.
Tensor updated(const Scaling& s, const Tensor& old, const Tensor& value) {
  Tensor v = value.cast(old.dtype());
  return s.skip.defined() ? where(s.skip, old, v) : v;
}

/// The gradient to step with, in `acc`, and what is written back to it: the unscaled gradient if there is a scale.
Tensor unscaled(const Scaling& s, Tensor& grad, DType acc, bool maximize) {
  Tensor g = grad.cast(acc);
  if (s.grad_scale.defined()) {
    g = g / s.grad_scale.cast(acc);
    grad = updated(s, grad, g);
  }
  return maximize ? -g : g;
}

/// f(step) for every parameter at once, as one value: pow in f64 once per parameter and not once per element.
template <class F>
Tensor per_step(const List& steps, F f) {
  List flat;
  for (const Tensor& s : steps) flat.push_back(s.reshape({1}).cast(DType::f64));
  return f(cat(flat, 0)).contiguous();
}

/// a + w*(b - a).
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& w) { return a + (b - a) * w; }

Tensor number64(Args& a, int i) { return a.as(i, DType::f64); }

Results join(const List& a, const List& b, const List& c, const List& d = {}, const List& e = {}) {
  Results r;
  for (const List* l : {&a, &b, &c, &d, &e}) r.insert(r.end(), l->begin(), l->end());
  return r;
}

/// Kingma and Ba, ICLR 2015; with decoupled decay, Loshchilov and Hutter, ICLR 2019. Positions: 0-4 lists, 5 steps, 6 lr, 7 beta1, 8 beta2,
/// 9 weight_decay, 10 eps, 11 amsgrad, 12 maximize, 13 grad_scale, 14 found_inf.
Results adam(Args& a, bool decoupled) {
  List params = a.tensors(0), grads = a.tensors(1), means = a.tensors(2), squares = a.tensors(3), largest = a.tensors(4);
  if (params.empty()) return {};
  Scaling s = read_scaling(a, 13);
  bool amsgrad = a.flag(11), maximize = a.flag(12), decays = a.number(9) != 0;
  Tensor one = constant(DType::f64, 1.0), beta1 = number64(a, 7), beta2 = number64(a, 8), lr = number64(a, 6).reshape({});
  // step_size = lr / (1 - beta1^t); root = sqrt(1 - beta2^t).
  Tensor step_sizes = per_step(a.tensors(5), [&](const Tensor& t) { return lr / (one - binary(Op::POW, beta1, t)); });
  Tensor roots = per_step(a.tensors(5), [&](const Tensor& t) { return (one - binary(Op::POW, beta2, t)).unary(Op::SQRT); });
  for (size_t k = 0; k < params.size(); ++k) {
    DType acc = compute_dtype(params[k].dtype());
    int64_t i = static_cast<int64_t>(k);
    Tensor g = unscaled(s, grads[k], acc, maximize), p = params[k].cast(acc);
    if (decays && decoupled) p = p - (lr * number64(a, 9)).cast(acc) * p;
    if (decays && !decoupled) g = g + p * a.as(9, acc);
    Tensor m = lerp(means[k].cast(acc), g, (one - beta1).cast(acc));
    Tensor v = beta2.cast(acc) * squares[k].cast(acc) + (one - beta2).cast(acc) * g * g, bound = v;
    if (amsgrad) {
      bound = maximum(largest[k].cast(acc), v);
      largest[k] = updated(s, largest[k], bound);
    }
    Tensor denominator = bound.unary(Op::SQRT) / roots.select(0, i).cast(acc) + a.as(10, acc);
    params[k] = updated(s, params[k], p - step_sizes.select(0, i).cast(acc) * m / denominator);
    means[k] = updated(s, means[k], m);
    squares[k] = updated(s, squares[k], v);
  }
  return join(params, grads, means, squares, largest);
}

/// Duchi et al., JMLR 2011. Positions: 0 params, 1 grads, 2 sums, 3 steps, 4 lr, 5 lr_decay, 6 weight_decay, 7 eps, 8 maximize, 9
/// grad_scale, 10 found_inf.
Results adagrad(Args& a, bool writes_steps) {
  List params = a.tensors(0), grads = a.tensors(1), sums = a.tensors(2), steps = a.tensors(3);
  if (params.empty()) return {};
  Scaling s = read_scaling(a, 9);
  Tensor one = constant(DType::f64, 1.0), lr = number64(a, 4).reshape({});
  Tensor rates = per_step(steps, [&](const Tensor& t) { return lr / (one + (t - one) * number64(a, 5)); });
  for (size_t k = 0; k < params.size(); ++k) {
    DType acc = compute_dtype(params[k].dtype());
    Tensor g = unscaled(s, grads[k], acc, a.flag(8)), p = params[k].cast(acc);
    if (a.number(6) != 0) g = g + p * a.as(6, acc);
    Tensor sum = sums[k].cast(acc) + g * g;
    Tensor step = rates.select(0, static_cast<int64_t>(k)).cast(acc) * g / (sum.unary(Op::SQRT) + a.as(7, acc));
    params[k] = updated(s, params[k], p - step);
    sums[k] = updated(s, sums[k], sum);
  }
  return join(params, grads, sums, writes_steps ? steps : List{});
}

}  // namespace

Results fused_adam(Args& a) { return adam(a, false); }
Results fused_adamw(Args& a) { return adam(a, true); }

/// Positions: 0 params, 1 grads, 2 momentum buffers, 3 weight_decay, 4 momentum, 5 lr, 6 dampening, 7 nesterov, 8 maximize, 9
/// is_first_step, 10 grad_scale, 11 found_inf.
Results fused_sgd(Args& a) {
  List params = a.tensors(0), grads = a.tensors(1), buffers = a.tensors(2);
  Scaling s = read_scaling(a, 10);
  bool nesterov = a.flag(7), first = a.flag(9), decays = a.number(3) != 0, momentum = a.number(4) != 0;
  for (size_t k = 0; k < params.size(); ++k) {
    DType acc = compute_dtype(params[k].dtype());
    Tensor g = unscaled(s, grads[k], acc, a.flag(8)), p = params[k].cast(acc);
    if (decays) g = g + p * a.as(3, acc);
    if (momentum) {
      Tensor keep = (constant(DType::f64, 1.0) - number64(a, 6)).cast(acc), m = a.as(4, acc);
      Tensor b = first ? g : buffers[k].cast(acc) * m + g * keep;
      g = nesterov ? g + b * m : b;
      buffers[k] = updated(s, buffers[k], b);
    }
    params[k] = updated(s, params[k], p - g * number64(a, 5).reshape({}).cast(acc));
  }
  return join(params, grads, buffers);
}

Results fused_adagrad(Args& a) { return adagrad(a, true); }
Results fused_adagrad_tensor_lr(Args& a) { return adagrad(a, false); }

/// (gradients, found_inf, inv_scale): found_inf becomes 1 if some gradient is not finite.
Results amp_unscale(Args& a) {
  List grads = a.tensors(0);
  Tensor found = a.tensor(1);
  const Tensor& inverse = a.tensor(2);
  require(inverse.numel() == 1, ErrorKind::Runtime, "inv_scale must be a 1-element tensor.");
  require(found.numel() == 1, ErrorKind::Runtime, "found_inf must be a 1-element tensor.");
  Tensor scale = inverse.reshape({}).cast(DType::f32), any;
  for (Tensor& g : grads) {
    DType acc = compute_dtype(g.dtype());
    Tensor v = g.cast(acc);
    if (v.numel() > 0) {
      Tensor bad = binary(Op::OR, ne(v, v), eq(v.unary(Op::ABS), constant(acc, HUGE_VAL))).reduce(Op::OR, {});
      any = any.defined() ? binary(Op::OR, any, bad) : bad;
    }
    // A scale of 1 leaves the value as it is, infinities and NaN included.
    Tensor unit = eq(scale, constant(DType::f32, 1.0));
    g = where(unit, v, v * scale.cast(acc)).cast(g.dtype());
  }
  if (any.defined()) found = where(any, constant(found.dtype(), 1.0), found.reshape({})).reshape(found.sizes());
  Results r = grads;
  r.push_back(found);
  return r;
}

/// (scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval).
Results amp_update_scale(Args& a) {
  const Tensor &scale = a.tensor(0), &tracker = a.tensor(1);
  require(scale.numel() == 1, ErrorKind::Runtime, "current_scale must be a 1-element tensor.");
  require(tracker.numel() == 1, ErrorKind::Runtime, "growth_tracker must be a 1-element tensor.");
  Tensor overflow = ne(a.tensor(2).reshape({}), constant(a.tensor(2).dtype(), 0.0));
  Tensor s = scale.reshape({}), t = tracker.reshape({}), zero = constant(t.dtype(), int64_t{0});
  Tensor next = t + constant(t.dtype(), int64_t{1}), due = eq(next, a.as(5, t.dtype()));
  Tensor grown = s * a.as(3, s.dtype());
  grown = where(lt(grown.unary(Op::ABS), constant(s.dtype(), HUGE_VAL)), grown, s);
  Tensor new_scale = where(overflow, s * a.as(4, s.dtype()), where(due, grown, s));
  Tensor new_tracker = where(binary(Op::OR, overflow, due), zero, next);
  return {new_scale.reshape(scale.sizes()), new_tracker.reshape(tracker.sizes())};
}

}  // namespace tiny::lower
