#include "lower/loss.h"

#include <fmt/format.h>

#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

enum Reduction : int64_t { kNone, kMean, kSum };

/// The loss of each element, reduced and rounded to d.
Tensor reduced(const Tensor& loss, int64_t reduction, DType d) {
  if (reduction == kNone) return loss.cast(d);
  Tensor total = loss.dim() == 0 ? loss : loss.sum();
  return (reduction == kMean ? total / static_cast<double>(loss.numel()) : total).cast(d);
}

/// f(x - target, step) for each element, of the result's type before it is reduced. After each step the value is rounded to `step`, which
/// is the result's type or, if the CPU rounds only at the end, that in which it computes.
template <class F> Tensor distance_loss(Args& a, DType rounds_once, F f) {
  DType d = a.common({0, 1});
  require_float(a, d);
  Tensor x = operand(a, 0, d), t = operand(a, 1, d);
  DType step = d == rounds_once ? x.dtype() : d;
  return reduced(rounded(f(rounded(x - t, step), step), d), a.integer(2), d);
}
/// Its gradient: slope(x - target, grad_output, share), where share is `scale`, divided by the number of elements if the loss is their
/// mean.
template <class F> Tensor distance_gradient(Args& a, double scale, F slope) {
  DType d = a.common({1, 2});
  Tensor x = operand(a, 1, d), g = operand(a, 0, d), apart = x - operand(a, 2, d);
  if (a.integer(3) == kMean) scale /= static_cast<double>(apart.numel());
  return slope(apart, g, constant(x.dtype(), scale), d).cast(d);
}

// ---- nll_loss on values laid out as [N, C, S]: S positions for each sample

struct Nll {
  Tensor target;   // [N, S], within 0..C-1; 0 where ignored
  Tensor ignored;  // [N, S]
  Tensor weight;   // [N, S] of the target's class, 0 where ignored
  int64_t n, c, s;
};

Nll nll(const Args& a, const Tensor& x, int target, int weight, int ignore, DType compute) {
  Nll r;
  r.c = x.dim() == 1 ? x.size(0) : x.size(1);
  r.n = x.dim() == 1 ? 1 : x.size(0);
  r.s = 1;
  for (int64_t k = 2; k < x.dim(); ++k) r.s *= x.size(k);
  Dims shape{r.n, r.s};
  Tensor t = a.as(target, DType::i64).reshape(shape), zero = index_constant(0);
  r.ignored = eq(t, a.as(ignore, DType::i64));
  Tensor inside = ge(t, zero) & lt(t, index_constant(r.c));
  Tensor known = check(t, r.ignored | inside, "IndexError: Target {} is out of bounds.", r.c);
  r.target = where(r.ignored, zero, known);
  Tensor w = a.has(weight) ? gather_flat(a.as(weight, compute), r.target) : full(shape, constant(compute, 1.0));
  r.weight = where(r.ignored, constant(compute, 0.0), w);
  return r;
}

/// Sum of x [n, not 0] as the CPU's kernel forms it in the type d, rounded after every addition: the first element for itself, then groups
/// of 16, groups of 16 of their sums and so on, at last what each level has left.
Tensor cascaded_sum(const Tensor& x, DType d) {
  constexpr int64_t kGroup = 16;
  if (x.dtype() == d) return x.sum();
  std::vector<Tensor> parts;
  Tensor level = x.slice(0, 1, x.size(0));
  while (level.size(0) > 0) {
    const int64_t n = level.size(0), groups = n / kGroup, whole = groups * kGroup;
    if (whole < n) parts.push_back(reduce_in_order(level.slice(0, whole, n), Op::ADD, {0}, d));
    if (groups == 0) break;
    level = reduce_in_order(level.slice(0, 0, whole).reshape({groups, kGroup}), Op::ADD, {1}, d);
  }
  parts.push_back(x.select(0, 0));
  Tensor sum = parts[0];
  for (size_t k = 1; k < parts.size(); ++k) sum = rounded(sum + parts[k], d);
  return sum;
}

Results nll_forward(Args& a) {
  const Tensor& self = a.tensor(0);
  DType d = self.dtype(), c = compute_dtype(d);
  require_float(a, d);
  Nll v = nll(a, self, 1, 2, 4, c);
  Tensor base = (iota(v.n) * index_constant(v.c * v.s)).reshape({v.n, 1}) + iota(v.s).reshape({1, v.s});
  Tensor at = base + v.target * index_constant(v.s);
  Tensor picked = v.c == 0 ? full({v.n, v.s}, constant(c, 0.0)) : gather_flat(self, at).cast(c);
  Tensor loss = where(v.ignored, constant(c, 0.0), -(picked * v.weight));
  int64_t reduction = a.integer(3);
  if (reduction == kNone) {
    Tensor weight = self.dim() == 1 ? v.weight.reshape({}).cast(d) : constant(d, 0.0);
    return {loss.reshape(a.tensor(1).sizes()).cast(d), weight};
  }
  if (v.n * v.s == 0) {
    Tensor total = loss.sum(), weight = v.weight.sum();
    return {(reduction == kMean ? total / weight : total).cast(d), weight.cast(d)};
  }
  auto sum = [&](const Tensor& x) { return cascaded_sum(rounded(x.reshape({v.n * v.s}), d), d); };
  Tensor total = sum(loss), weight = a.has(2) ? sum(v.weight) : rounded(v.weight.sum(), d);
  return {(reduction == kMean ? total / weight : total).cast(d), weight.cast(d)};
}

Tensor nll_gradient(Args& a) {
  const Tensor& self = a.tensor(1);
  DType d = self.dtype(), c = compute_dtype(d);
  Nll v = nll(a, self, 2, 3, 5, c);
  Tensor g = a.as(0, c);
  int64_t reduction = a.integer(4);
  if (reduction == kMean) g = rounded(g / a.as(6, c), d);
  if (g.dim() > 0) g = g.reshape({v.n, v.s});
  Tensor each = where(v.ignored, constant(c, 0.0), -(v.weight * g)).reshape({v.n, 1, v.s});
  Tensor hit = eq(iota(v.c).reshape({v.c, 1}), v.target.reshape({v.n, 1, v.s}));
  return where(hit, each, constant(c, 0.0)).reshape(self.sizes()).cast(d);
}

void check_nll2d(const Tensor& x, const Tensor& t) {
  if (t.dim() != 3) fail(ErrorKind::Runtime, fmt::format("only batches of spatial targets supported (3D tensors) but got "
                                                         "targets of dimension: {}", t.dim()));
  if (x.dim() != 4) fail(ErrorKind::Runtime, fmt::format("only batches of spatial inputs supported (4D tensors), but got "
                                                         "input of dimension: {}", x.dim()));
  if (x.size(0) != t.size(0) || x.size(2) != t.size(1) || x.size(3) != t.size(2))
    fail(ErrorKind::Runtime, fmt::format("size mismatch (got input: {} , target: {}", sizes_text(x.sizes()), sizes_text(t.sizes())));
}

}  // namespace

// In reduced floats each of these rounds where the CPU's kernel does.

Tensor mse_loss(Args& a) {
  return distance_loss(a, DType::count, [](const Tensor& z, DType) { return z * z; });
}
Tensor mse_loss_backward(Args& a) {
  return distance_gradient(a, 2, [](const Tensor& z, const Tensor& g, const Tensor& share, DType d) {
    return rounded(rounded(share, d) * rounded(z, d), d) * g;
  });
}

Tensor smooth_l1_loss(Args& a) {
  double beta = a.number(3);
  if (beta < 0) fail(ErrorKind::Runtime, "smooth_l1_loss does not support negative values for beta.");
  return distance_loss(a, DType::bf16, [&](const Tensor& z, DType step) {
    Tensor size = abs(z), b = rounded(scalar(z.dtype(), beta), step);
    if (beta == 0) return size;
    return where(lt(size, b), rounded(rounded(size * 0.5, step) * size, step) / b, size - rounded(b * 0.5, step));
  });
}
Tensor smooth_l1_loss_backward(Args& a) {
  double beta = a.number(4);
  return distance_gradient(a, 1, [&](const Tensor& z, const Tensor& g, const Tensor& share, DType) {
    Tensor b = scalar(z.dtype(), beta), direction = where(lt(z, like(z, 0)), like(z, -1), where(lt(like(z, 0), z), like(z, 1), z));
    return share * (beta == 0 ? direction : where(lt(abs(z), b), z / b, direction)) * g;
  });
}

Tensor huber_loss(Args& a) {
  if (a.number(3) <= 0) fail(ErrorKind::Runtime, "huber_loss does not support non-positive values for delta.");
  return distance_loss(a, DType::f16, [&](const Tensor& z, DType step) {
    Tensor size = abs(z), delta = rounded(scalar(z.dtype(), a.number(3)), step);
    Tensor square = rounded(size * 0.5, step) * size, line = delta * rounded(size - rounded(delta * 0.5, step), step);
    return where(le(size, delta), square, line);
  });
}
Tensor huber_loss_backward(Args& a) {
  return distance_gradient(a, 1, [&](const Tensor& apart, const Tensor& g, const Tensor& whole, DType d) {
    Tensor z = rounded(apart, d), share = rounded(whole, d), delta = rounded(scalar(z.dtype(), a.number(4)), d);
    Tensor most = rounded(share * delta, d) * g;
    return where(le(z, -delta), -most, where(ge(z, delta), most, rounded(share * z, d) * g));
  });
}

Tensor binary_cross_entropy(Args& a) {
  DType d = a.tensor(0).dtype();
  require_float(a, d);
  Tensor x = widened(a, 0), t = a.as(1, x.dtype()), one = like(x, 1), floor = like(x, -100);
  Tensor ok = ge(x, like(x, 0)) & le(x, one);
  x = check(x, ok | ne(x, x), "all elements of input should be between 0 and 1", 0);
  Tensor off = rounded((-x).unary(Op::LOG1P), d), on = rounded(log(x), d);
  Tensor loss = rounded(rounded(t - one, d) * maximum(off, floor), d) - rounded(t * maximum(on, floor), d);
  if (a.has(2)) loss = rounded(loss, d) * a.as(2, x.dtype());
  return reduced(rounded(loss, d), a.integer(3), d);
}

Tensor binary_cross_entropy_backward(Args& a) {
  DType d = a.tensor(1).dtype();
  Tensor x = widened(a, 1), t = a.as(2, x.dtype()), g = a.as(0, x.dtype());
  Tensor divisor = maximum(rounded(rounded(like(x, 1) - x, d) * x, d), rounded(like(x, 1e-12), d));
  Tensor r = rounded(rounded(g * rounded(x - t, d), d) / divisor, d);
  if (a.has(3)) r = rounded(r * a.as(3, x.dtype()), d);
  return (a.integer(4) == kMean ? r / static_cast<double>(x.numel()) : r).cast(d);
}

Results nll_loss(Args& a) { return nll_forward(a); }
Tensor nll_loss_backward(Args& a) { return nll_gradient(a); }
Results nll_loss2d(Args& a) {
  check_nll2d(a.tensor(0), a.tensor(1));
  return nll_forward(a);
}
Tensor nll_loss2d_backward(Args& a) {
  check_nll2d(a.tensor(1), a.tensor(2));
  return nll_gradient(a);
}

}  // namespace tiny::lower
