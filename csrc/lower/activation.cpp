#include "lower/activation.h"

#include <fmt/format.h>

#include <cmath>
#include <type_traits>

#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

/// One argument, computed in its widened type.
template <class F> Tensor map(Args& a, F f) {
  DType d = a.tensor(0).dtype();
  require_float(a, d);
  return f(widened(a, 0)).cast(d);
}

/// grad_output and another tensor at `i`, in their common type; f(g, x, d) also takes that type itself.
template <class F> Tensor map_grad(Args& a, int i, F f) {
  DType d = a.common({0, i});
  require_float(a, d);
  if constexpr (std::is_invocable_v<F, Tensor, Tensor, DType>) return f(operand(a, 0, d), operand(a, i, d), d).cast(d);
  else return f(operand(a, 0, d), operand(a, i, d)).cast(d);
}

Tensor number_like(const Args& a, int i, const Tensor& x) { return a.as(i, x.dtype()); }

bool is_tanh_gelu(const Args& a, int i) {
  if (a.text(i) != "tanh" && a.text(i) != "none") fail(ErrorKind::Runtime, "approximate argument must be either none or tanh.");
  return a.text(i) == "tanh";
}

constexpr double kGeluCubic = 0.044715;
const double kGeluScale = std::sqrt(2.0 / M_PI);

}  // namespace

Tensor elu(Args& a) {
  return map(a, [&](const Tensor& x) {
    Tensor pos = number_like(a, 2, x), neg = number_like(a, 1, x) * pos;
    return where(lt(x, like(x, 0)), (x * number_like(a, 3, x)).unary(Op::EXPM1) * neg, x * pos);
  });
}

Tensor elu_backward(Args& a) {
  return map_grad(a, 5, [&](const Tensor& g, const Tensor& y) {
    Tensor pos = number_like(a, 2, y), neg = number_like(a, 1, y) * pos, in = number_like(a, 3, y);
    if (a.flag(4) && a.number(1) < 0)
      fail(ErrorKind::Runtime, "In-place elu backward calculation is triggered with a negative slope which is not supported.");
    Tensor below = a.flag(4) ? g * in * (y + neg) : g * in * neg * exp(y * in);
    return where(le(y, like(y, 0)), below, g * pos);
  });
}

Tensor gelu(Args& a) {
  bool approximate = is_tanh_gelu(a, 1);
  return map(a, [&](const Tensor& x) {
    if (!approximate) return x * 0.5 * ((x * M_SQRT1_2).unary(Op::ERF) + 1.0);
    Tensor inner = (x + x * x * x * kGeluCubic) * kGeluScale;
    return x * 0.5 * (inner.unary(Op::TANH) + 1.0);
  });
}

Tensor gelu_backward(Args& a) {
  bool approximate = is_tanh_gelu(a, 2);
  return map_grad(a, 1, [&](const Tensor& g, const Tensor& x) {
    if (!approximate) {
      Tensor cdf = ((x * M_SQRT1_2).unary(Op::ERF) + 1.0) * 0.5;
      Tensor density = exp(x * x * -0.5) * (M_2_SQRTPI * M_SQRT1_2 * 0.5);
      return g * (cdf + x * density);
    }
    Tensor square = x * x, t = ((x + square * x * kGeluCubic) * kGeluScale).unary(Op::TANH);
    Tensor left = (t + 1.0) * 0.5;
    Tensor right = x * 0.5 * (like(x, 1) - t * t) * ((square * (3 * kGeluCubic) + 1.0) * kGeluScale);
    return g * (left + right);
  });
}

Tensor glu(Args& a) {
  return map(a, [&](const Tensor& x) {
    if (x.dim() == 0) fail(ErrorKind::Runtime, "glu does not support 0-dimensional tensors");
    int64_t d = wrap_dim(a.integer(1), x.dim()), half = x.size(d) / 2;
    if (x.size(d) % 2 != 0)
      fail(ErrorKind::Runtime, fmt::format("Halving dimension must be even, but dimension {} is size {}", d, x.size(d)));
    return x.slice(d, 0, half) * logistic(x.slice(d, half, 2 * half));
  });
}

Tensor glu_backward(Args& a) {
  return map_grad(a, 1, [&](const Tensor& g, const Tensor& x, DType type) {
    int64_t d = wrap_dim(a.integer(2), x.dim()), half = x.size(d) / 2;
    Tensor s = rounded(logistic(x.slice(d, half, 2 * half)), type), first = x.slice(d, 0, half);
    Tensor parts[] = {g * s, (like(x, 1) - s) * s * first * g};
    return cat(parts, d);
  });
}

Tensor hardshrink(Args& a) {
  return map(a, [&](const Tensor& x) {
    Tensor l = number_like(a, 1, x);
    return where(ge(x, -l) & le(x, l), like(x, 0), x);
  });
}

Tensor hardshrink_backward(Args& a) {
  return map_grad(a, 1, [&](const Tensor& g, const Tensor& x) {
    Tensor l = number_like(a, 2, x);
    return where(ge(x, -l) & le(x, l), like(g, 0), g);
  });
}

Tensor hardsigmoid(Args& a) {
  return map(a, [](const Tensor& x) { return clip(x + 3.0, like(x, 0), like(x, 6)) / 6.0; });
}

Tensor hardsigmoid_backward(Args& a) {
  return map_grad(a, 1, [](const Tensor& g, const Tensor& x) {
    return where(lt(like(x, -3), x) & lt(x, like(x, 3)), g / 6.0, like(g, 0));
  });
}

Tensor hardswish(Args& a) {
  return map(a, [](const Tensor& x) { return x * clip(x + 3.0, like(x, 0), like(x, 6)) / 6.0; });
}

Tensor hardswish_backward(Args& a) {
  return map_grad(a, 1, [](const Tensor& g, const Tensor& x) {
    return where(le(x, like(x, -3)), like(g, 0), where(lt(x, like(x, 3)), g * (x / 3.0 + 0.5), g));
  });
}

Tensor hardtanh(Args& a) {
  if (a.number(1) > a.number(2)) fail(ErrorKind::Runtime, "hardtanh: min_val cannot be greater than max_val");
  const Tensor& x = a.tensor(0);
  if (is_bool(x.dtype())) fail(ErrorKind::Runtime, "Bool inputs not supported for hardtanh");
  return clip(x, number_like(a, 1, x), number_like(a, 2, x));
}

Tensor hardtanh_backward(Args& a) {
  return map_grad(a, 1, [&](const Tensor& g, const Tensor& x) {
    return where(le(x, number_like(a, 2, x)) | ge(x, number_like(a, 3, x)), like(g, 0), g);
  });
}

Tensor leaky_relu(Args& a) {
  return map(a, [&](const Tensor& x) { return where(lt(like(x, 0), x), x, x * number_like(a, 1, x)); });
}

Tensor leaky_relu_backward(Args& a) {
  return map_grad(a, 1, [&](const Tensor& g, const Tensor& x) { return where(lt(like(x, 0), x), g, g * number_like(a, 2, g)); });
}

Results log_sigmoid(Args& a) {
  Tensor y = map(a, [](const Tensor& x) { return minimum(x, like(x, 0)) - exp(-abs(x)).unary(Op::LOG1P); });
  return {y, no_elements(y.dtype())};
}

Tensor log_sigmoid_backward(Args& a) {
  return map_grad(a, 1, [](const Tensor& g, const Tensor& x, DType d) {
    // The exponential is of the type of the CPU's buffer, which this device does without.
    Tensor z = rounded(exp(-abs(x)), d), below = lt(x, like(x, 0)), share = z / (z + 1.0);
    return g * where(below, like(x, 1) - share, share);
  });
}

Tensor mish(Args& a) {
  return map(a, [](const Tensor& x) { return x * exp(x).unary(Op::LOG1P).unary(Op::TANH); });
}

Tensor mish_backward(Args& a) {
  return map_grad(a, 1, [](const Tensor& g, const Tensor& x) {
    Tensor s = logistic(x), t = exp(x).unary(Op::LOG1P).unary(Op::TANH);
    return g * (t + x * s * (like(x, 1) - t * t));
  });
}

Tensor prelu(Args& a) {
  DType d = a.common({0, 1});
  Tensor x = operand(a, 0, d), w = operand(a, 1, d);
  return where(lt(like(x, 0), x), x, w * x).cast(d);
}

Results prelu_backward(Args& a) {
  DType d = a.common({0, 1, 2});
  Tensor g = operand(a, 0, d), x = operand(a, 1, d), w = operand(a, 2, d), up = lt(like(x, 0), x);
  return {where(up, g, w * g).cast(d), where(up, like(x, 0), x * g).cast(d)};
}

Tensor relu(Args& a) {
  const Tensor& x = a.tensor(0);
  if (is_bool(x.dtype())) fail(ErrorKind::Runtime, "Boolean inputs not supported for relu");
  return maximum(x, like(x, 0));
}

/// The CPU rounds after every step in float16, once in bfloat16.
Tensor sigmoid_backward(Args& a) {
  return map_grad(a, 1, [](const Tensor& g, const Tensor& y, DType d) {
    DType step = d == DType::f16 ? d : y.dtype();
    return rounded(g * rounded(like(y, 1) - y, step), step) * y;
  });
}

Tensor silu(Args& a) {
  return map(a, [](const Tensor& x) { return x / (exp(-x) + 1.0); });
}

Tensor silu_backward(Args& a) {
  return map_grad(a, 1, [](const Tensor& g, const Tensor& x) {
    Tensor s = logistic(x);
    return g * s * (x * (like(x, 1) - s) + 1.0);
  });
}

Tensor softplus(Args& a) {
  return map(a, [&](const Tensor& x) {
    Tensor beta = number_like(a, 1, x), scaled = x * beta;
    return where(lt(number_like(a, 2, x), scaled), x, exp(scaled).unary(Op::LOG1P) / beta);
  });
}

Tensor softplus_backward(Args& a) {
  return map_grad(a, 1, [&](const Tensor& g, const Tensor& x) {
    Tensor scaled = x * number_like(a, 2, x), z = exp(scaled);
    return where(lt(number_like(a, 3, x), scaled), g, g * z / (z + 1.0));
  });
}

Tensor softshrink(Args& a) {
  if (a.number(1) < 0) fail(ErrorKind::Runtime, fmt::format("lambda must be greater or equal to 0, but found to be "
                                                            "{}.", a.number(1)));
  return map(a, [&](const Tensor& x) {
    Tensor l = number_like(a, 1, x);
    return where(lt(l, x), x - l, where(lt(x, -l), x + l, x * 0.0));
  });
}

Tensor tanh_backward(Args& a) {
  return map_grad(a, 1, [](const Tensor& g, const Tensor& y) { return g * (like(y, 1) - y * y); });
}

Tensor threshold(Args& a) {
  const Tensor& x = a.tensor(0);
  return where(le(x, number_like(a, 1, x)), number_like(a, 2, x), x);
}

Tensor threshold_backward(Args& a) {
  DType d = a.common({0, 1});
  Tensor g = a.as(0, d), x = a.as(1, d);
  return where(le(x, number_like(a, 2, x)), like(g, 0), g);
}

}  // namespace tiny::lower
