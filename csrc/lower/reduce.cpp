#include "lower/reduce.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

/// dtype of sum and prod: the dtype argument i, else that of out, else i64 for integers, else self's.
DType sum_dtype(const Args& a, int i) {
  DType d = a.tensor(0).dtype();
  return a.dtype(i, a.out_dtype(0, is_float(d) ? d : DType::i64));
}

/// dtype of a float reduction.
DType mean_dtype(const Args& a, int i) {
  DType d = a.tensor(0).dtype();
  return a.dtype(i, a.out_dtype(0, is_float(d) ? d : a.default_float));
}

/// x.reduce over axes that may be named although x is 0-d.
Tensor fold(const Tensor& x, Op op, const Dims& axes, bool keepdim) { return x.dim() == 0 ? x : x.reduce(op, axes, keepdim); }

/// A sum begins with 0: where all that is added is -0, it is 0.
Tensor sum_of(const Tensor& x, const Dims& axes, bool keepdim) {
  Tensor r = fold(x, Op::ADD, axes, keepdim);
  return is_float(r.dtype()) ? r + 0.0 : r;
}

Tensor extreme(Args& a, Op op, const char* name) {
  const Tensor& x = a.tensor(0);
  Dims axes = reduced_axes(a, 1, x.dim());
  for (int64_t d : axes)
    if (x.dim() > 0 && x.size(d) == 0)
      fail(ErrorKind::Index, fmt::format("{}(): Expected reduction dim {} to have non-zero size.", name, d));
  return fold(x, op, axes, a.integer(2, 0));
}

Tensor arg_extreme(Args& a, bool greatest, const char* name) {
  const Tensor& x = a.tensor(0);
  bool keepdim = a.integer(2, 0);
  if (x.numel() == 0 && !a.has(1))
    fail(ErrorKind::Index, fmt::format("{}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
                                       "reduction dim with the 'dim' argument.", name));
  if (x.dim() == 0) return full({}, constant(DType::i64, int64_t{0}));
  if (a.has(1)) return greatest ? x.argmax(a.integer(1), keepdim) : x.argmin(a.integer(1), keepdim);
  Tensor flat = x.reshape({-1}), i = greatest ? flat.argmax(0) : flat.argmin(0);
  return i.reshape(keepdim ? Dims(x.dim(), 1) : Dims{});
}

Results extreme_with_index(Args& a, Op op) {
  const Tensor& x = a.tensor(0);
  if (x.dim() == 0) return {x, full({}, constant(DType::i64, int64_t{0}))};
  int64_t axes[] = {wrap_dim(a.integer(1), x.dim())};
  bool keepdim = a.integer(2, 0);
  return {x.reduce(op, axes, keepdim), op == Op::MAX ? x.argmax(axes[0], keepdim) : x.argmin(axes[0], keepdim)};
}

/// Both moments of argument 0; the variance divides by max(0, n - correction).
struct Moments {
  Tensor var, mean;
};
Moments moments(Args& a) {
  const Tensor& self = a.tensor(0);
  if (!is_float(self.dtype())) {
    const bool with_mean = a.op.find("_mean") != std::string_view::npos;
    const char* name = !with_mean ? "std and var" : a.op.find("std_mean") != std::string_view::npos ? "std_mean" : "var_mean";
    fail(ErrorKind::Runtime, std::string(name) + " only support floating point and complex dtypes");
  }
  Dims axes = reduced_axes(a, 1, self.dim());
  const bool to_one = reduced_count(self, axes) == self.numel();
  Tensor x = to_one ? accumulated_twice(self) : accumulated(self);
  double n = static_cast<double>(reduced_count(x, axes)), correction = a.number(2, 1);
  bool keepdim = a.integer(3, 0);
  Tensor mean = mean_of(x, axes), apart = x - mean;
  Tensor var = fold(apart * apart, Op::ADD, axes, keepdim) / std::max(0.0, n - correction);
  return {var, mean.reshape(var.sizes())};
}

/// p-norm over axes, in the computing type.
Tensor norm_of(const Tensor& self, double p, const Dims& axes, bool keepdim) {
  Tensor x = abs(self);
  if (x.dim() == 0 && p != 0) return x;
  if (p == 0) return fold(ne(x, like(x, 0)).cast(x.dtype()), Op::ADD, axes, keepdim);
  if (p == 1) return fold(x, Op::ADD, axes, keepdim);
  if (p == 2) return sqrt(fold(x * x, Op::ADD, axes, keepdim));
  if (p == INFINITY && reduced_count(x, axes) == 0) return fold(x, Op::ADD, axes, keepdim);
  if (std::isinf(p)) return fold(x, p > 0 ? Op::MAX : Op::MIN, axes, keepdim);
  if (p == 3) return binary(Op::POW, fold(x * x * x, Op::ADD, axes, keepdim), like(x, 1.0 / 3));
  Tensor powers = binary(Op::POW, x, scalar(x.dtype(), p));
  return binary(Op::POW, fold(powers, Op::ADD, axes, keepdim), scalar(x.dtype(), 1 / p));
}

}  // namespace

Dims reduced_axes(const Args& a, int i, int64_t ndim) {
  Dims out;
  if (!a.has(i) || (a.values[i].kind == ArgKind::Ints && a.ints(i).empty())) {
    for (int64_t d = 0; d < ndim; ++d) out.push_back(d);
    return out;
  }
  Dims named = a.values[i].kind == ArgKind::Ints ? a.ints(i) : Dims{a.integer(i)};
  uint64_t seen = 0;
  for (int64_t d : named) {
    d = wrap_dim(d, ndim);
    if (seen >> d & 1) fail(ErrorKind::Runtime, fmt::format("dim {} appears multiple times in the list of dims", d));
    seen |= 1ull << d;
    if (ndim > 0) out.push_back(d);
  }
  return out;
}

int64_t reduced_count(const Tensor& x, const Dims& axes) {
  int64_t n = 1;
  for (int64_t d : axes) n *= x.dim() ? x.size(d) : 1;
  return n;
}

Tensor mean_of(const Tensor& x, const Dims& axes) {
  return fold(x, Op::ADD, axes, true) / static_cast<double>(reduced_count(x, axes));
}

Tensor sum(Args& a) {
  DType d = sum_dtype(a, 3);
  const Tensor& x = a.tensor(0);
  return sum_of(accumulated(x.cast(d)), reduced_axes(a, 1, x.dim()), a.integer(2, 0)).cast(d);
}

Tensor nansum(Args& a) {
  DType d = sum_dtype(a, 3);
  Tensor x = accumulated(a.tensor(0).cast(d));
  if (is_float(x.dtype())) x = where(ne(x, x), like(x, 0), x);
  return sum_of(x, reduced_axes(a, 1, x.dim()), a.integer(2, 0)).cast(d);
}

Tensor mean(Args& a) {
  DType d = mean_dtype(a, 3);
  Tensor x = accumulated(a.tensor(0).cast(d));
  Dims axes = reduced_axes(a, 1, x.dim());
  return (sum_of(x, axes, a.integer(2, 0)) / static_cast<double>(reduced_count(x, axes))).cast(d);
}

static Tensor product_over(const Tensor& x, const Dims& axes, bool keepdim, DType d) {
  if (x.dim() == 0 || axes.empty()) return x.cast(d);
  Dims kept = x.sizes();
  for (int64_t k : axes) kept[k] = 1;
  Tensor r = reduce_in_order(accumulated(x.cast(d)), Op::MUL, axes, d).cast(d);
  return keepdim ? r.reshape(kept) : r;
}

Tensor prod(Args& a) {
  const Tensor& x = a.tensor(0);
  Dims all(x.dim());
  std::iota(all.begin(), all.end(), 0);
  return product_over(x, all, false, sum_dtype(a, 1));
}

Tensor prod_dim(Args& a) {
  const Tensor& x = a.tensor(0);
  return product_over(x, reduced_axes(a, 1, x.dim()), a.integer(2, 0), sum_dtype(a, 3));
}

Tensor amax(Args& a) { return extreme(a, Op::MAX, "amax"); }
Tensor amin(Args& a) { return extreme(a, Op::MIN, "amin"); }
Results max_dim(Args& a) { return extreme_with_index(a, Op::MAX); }
Results min_dim(Args& a) { return extreme_with_index(a, Op::MIN); }
Tensor argmax(Args& a) { return arg_extreme(a, true, "argmax"); }
Tensor argmin(Args& a) { return arg_extreme(a, false, "argmin"); }

template <Op op> Tensor extreme_of_all(Args& a) {
  const Tensor& x = a.tensor(0);
  if (x.numel() == 0)
    fail(ErrorKind::Runtime, fmt::format("{}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
                                         "reduction dim with the 'dim' argument.",
                                         op == Op::MAX ? "max" : "min"));
  return x.dim() == 0 ? x : x.reduce(op, {});
}
template Tensor extreme_of_all<Op::MAX>(Args&);
template Tensor extreme_of_all<Op::MIN>(Args&);

Results aminmax(Args& a) {
  const Tensor& x = a.tensor(0);
  if (x.numel() == 0 && !a.has(1)) fail(ErrorKind::Runtime, "aminmax(): cannot compute aminmax over an empty dimension as "
                                                            "the operation has no identity.");
  Dims axes = reduced_axes(a, 1, x.dim());
  bool keepdim = a.integer(2, 0);
  return {fold(x, Op::MIN, axes, keepdim), fold(x, Op::MAX, axes, keepdim)};
}
Results aminmax_all(Args& a) { return aminmax(a); }
Results aminmax_dim(Args& a) { return aminmax(a); }

Tensor all(Args& a) {
  Tensor x = a.tensor(0).cast(DType::bool_);
  return fold(x, Op::AND, reduced_axes(a, 1, x.dim()), a.integer(2, 0));
}
Tensor any(Args& a) {
  Tensor x = a.tensor(0).cast(DType::bool_);
  return fold(x, Op::OR, reduced_axes(a, 1, x.dim()), a.integer(2, 0));
}

Tensor count_nonzero(Args& a) {
  Tensor x = a.tensor(0).cast(DType::bool_).cast(DType::i64);
  return fold(x, Op::ADD, reduced_axes(a, 1, x.dim()), false);
}

/// In reduced floats each of its steps is an operator, as in PyTorch.
Tensor logsumexp(Args& a) {
  DType d = a.common_float({0});
  Tensor x = operand(a, 0, d);
  Dims axes = reduced_axes(a, 1, x.dim());
  bool keepdim = a.integer(2, 0);
  if (x.numel() == 0) return log(fold(exp(x), Op::ADD, axes, keepdim)).cast(d);
  Tensor top = fold(x, Op::MAX, axes, true);
  top = where(eq(abs(top), like(x, INFINITY)), like(x, 0), top);
  Tensor total = rounded(fold(rounded(exp(rounded(x - top, d)), d), Op::ADD, axes, keepdim), d);
  return (rounded(log(total), d) + top.reshape(total.sizes())).cast(d);
}

Tensor var_correction(Args& a) { return moments(a).var.cast(a.tensor(0).dtype()); }
Tensor std_correction(Args& a) { return sqrt(moments(a).var).cast(a.tensor(0).dtype()); }
Results var_mean_correction(Args& a) {
  Moments m = moments(a);
  DType d = a.tensor(0).dtype();
  return {m.var.cast(d), m.mean.cast(d)};
}
Results std_mean_correction(Args& a) {
  Moments m = moments(a);
  DType d = a.tensor(0).dtype();
  return {sqrt(m.var).cast(d), m.mean.cast(d)};
}

Tensor norm(Args& a) {
  DType d = mean_dtype(a, 4);
  Tensor x = accumulated(a.tensor(0).cast(d));
  return norm_of(x, a.number(1, 2), reduced_axes(a, 2, x.dim()), a.integer(3, 0)).cast(d);
}

Tensor vector_norm(Args& a) {
  DType d = mean_dtype(a, 4);
  Tensor x = accumulated(a.tensor(0).cast(d));
  return norm_of(x, a.number(1, 2), reduced_axes(a, 2, x.dim()), a.integer(3, 0)).cast(d);
}

Tensor renorm(Args& a) {
  Tensor x = widened(a, 0);
  int64_t kept = wrap_dim(a.integer(2), x.dim());
  Dims axes;
  for (int64_t d = 0; d < x.dim(); ++d)
    if (d != kept) axes.push_back(d);
  Tensor norm = norm_of(x, a.number(1), axes, true), most = scalar(x.dtype(), a.number(3));
  Tensor factor = where(lt(most, norm), most / (norm + 1e-7), like(x, 1));
  return (x * factor).cast(a.tensor(0).dtype());
}

Tensor trace(Args& a) {
  const Tensor& x = a.tensor(0);
  if (x.dim() != 2) fail(ErrorKind::Runtime, fmt::format("trace: expected a matrix, but got tensor with dim {}", x.dim()));
  DType d = sum_dtype(a, 1);
  int64_t n = std::min(x.size(0), x.size(1));
  Tensor diagonal = accumulated_twice(x.view({n}, {x.size(1) + 1}, 0).cast(d));
  return diagonal.sum().cast(d);
}

}  // namespace tiny::lower
