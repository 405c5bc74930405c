#include "lower/binary.h"

#include <cmath>

#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

bool is_number(const Args& a, int i) { return a.values[i].kind != ArgKind::Tensor; }
/// Whether argument i is the number v (a tensor is not).
bool is_value(const Args& a, int i, double v) { return is_number(a, i) && a.number(i) == v; }

/// x + sign * alpha * y in type d, floats rounded once as the CPU does; alpha, of type d too, costs nothing if it is 1.
Tensor add_scaled(const Args& a, DType d, const Tensor& x, const Tensor& y, int alpha, bool subtract) {
  if (!a.has(alpha) || is_value(a, alpha, 1)) return (subtract ? x - y : x + y).cast(d);
  Tensor factor = a.as(alpha, d).cast(y.dtype());
  if (is_float(d)) return mulacc(y, subtract ? -factor : factor, x).cast(d);
  return subtract ? x - y * factor : x + y * factor;
}

/// Throws for an alpha that the result's type cannot hold.
void check_alpha(const Args& a, DType d, int alpha) {
  if (!a.has(alpha)) return;
  if (a.values[alpha].kind == ArgKind::Bool && !is_bool(d)) fail(ErrorKind::Runtime, "Boolean alpha only supported for "
                                                                                     "Boolean results.");
  if (a.values[alpha].kind == ArgKind::Double && !is_float(d))
    fail(ErrorKind::Runtime, "For integral input tensors, argument alpha must not be a floating point number.");
}

bool is_bool_argument(const Args& a, int i) {
  return a.values[i].kind == ArgKind::Tensor ? is_bool(a.tensor(i).dtype()) : a.values[i].kind == ArgKind::Bool;
}

void check_subtraction(const Args& a) {
  bool first = is_bool_argument(a, 0), second = is_bool_argument(a, 1);
  if (first && second)
    fail(ErrorKind::Runtime, "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
                             "`logical_xor()` "
                             "operator instead.");
  if (first || second)
    fail(ErrorKind::Runtime, "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
                             "invert a mask, use "
                             "the `~` or `logical_not()` operator instead.");
}

/// The integer divisor y, and an error raised at the next read where it is 0.
Tensor checked_divisor(const Tensor& y) { return check(y, ne(y, like(y, 0)), "ZeroDivisionError", 0); }

Tensor differ_in_sign(const Tensor& x, const Tensor& y) { return ne(lt(x, like(x, 0)), lt(y, like(y, 0))); }

Tensor floor_div_int(const Tensor& x, const Tensor& divisor) {
  Tensor y = checked_divisor(divisor), q = x / y;
  if (!is_signed(x.dtype())) return q;
  Tensor rest = x - q * y;
  return where(ne(rest, like(x, 0)) & differ_in_sign(rest, y), q - like(x, 1), q);
}

/// Python's floor division: exact quotient rounded down, from fmod, so that q * y + remainder is x.
/// Source: CPython, Objects/floatobject.c, float_floor_div (for the idea of starting from fmod). Each step is rounded to `step`.
Tensor floor_div_float(const Tensor& x, const Tensor& y, DType step) {
  Tensor zero = like(x, 0), rest = binary(Op::MOD, x, y), q = rounded(rounded(x - rest, step) / y, step);
  q = where(ne(rest, zero) & differ_in_sign(rest, y), rounded(q - 1.0, step), q);
  Tensor down = q.unary(Op::FLOOR);
  down = where(lt(like(x, 0.5), q - down), rounded(down + 1.0, step), down);
  Tensor signed_zero = where(sign_bit(x / y), like(x, -0.0), zero);
  return where(eq(y, zero), x / y, where(eq(q, zero), signed_zero, down));
}

/// x to the integer power n >= 0, wrapping.
Tensor power_int(Tensor x, int64_t n) {
  Tensor r;
  for (; n; n >>= 1) {
    if (n & 1) r = r.defined() ? r * x : x;
    if (n > 1) x = x * x;
  }
  return r.defined() ? r : full(x.sizes(), like(x, 1));
}

/// Elementwise integer power by squaring, one step for each bit of the exponent. A negative exponent gives 0 but for x = 1 and x = -1.
Tensor power_int(Tensor x, Tensor n) {
  DType d = x.dtype();
  Tensor zero = like(n, 0), one = like(x, 1), negative = is_signed(d) ? lt(n, zero) : truth(false);
  Tensor unit = where(eq(x, one), one, like(x, 0));
  if (is_signed(d)) unit = where(eq(x, like(x, -1)), where(ne(n & like(n, 1), zero), x, one), unit);
  Tensor r = full(x.sizes(), one);
  int bits = info(d).bits - is_signed(d);
  for (int k = 0; k < bits; ++k) {
    r = where(ne(n & constant(d, int64_t{1} << k), zero), r * x, r);
    x = x * x;
  }
  return is_signed(d) ? where(negative, unit, r) : r;
}

/// Exponents with a cheaper and exact form. The CPU multiplies in bfloat16.
Tensor power_by_number(const Tensor& x, double e, DType d) {
  DType step = d == DType::bf16 ? d : x.dtype();
  if (e == 0) return full(x.sizes(), like(x, 1));
  if (e == 1) return x;
  if (e == 2) return x * x;
  if (e == 3) return rounded(x * x, step) * x;
  if (e == 0.5) return sqrt(x);
  if (e == -0.5) return recip(sqrt(x));
  if (e == -1) return recip(x);
  if (e == -2) return recip(rounded(x * x, step));
  return binary(Op::POW, x, scalar(d, e).cast(x.dtype()));
}

/// x // y for floats. The CPU rounds after every step, but divides by a number in the computing type.
Tensor floor_div_float(Args& a, DType d) {
  DType step = a.values[1].kind == ArgKind::Tensor && a.tensor(1).numel() != 1 ? d : compute_dtype(d);
  return floor_div_float(operand(a, 0, d), factor(a, 1, d), step).cast(d);
}

Tensor log_add_exp(Args& a, double base) {
  DType d = a.common({0, 1});
  require_float(a, d);
  Tensor x = operand(a, 0, d), y = operand(a, 1, d), top = maximum(x, y), apart = -abs(x - y);
  Tensor rest = base == 2 ? apart.unary(Op::EXP2).unary(Op::LOG1P) * M_LOG2E : exp(apart).unary(Op::LOG1P);
  Tensor same_infinity = eq(x, y) & eq(abs(x), like(x, INFINITY));
  return where(same_infinity, x, top + rest).cast(d);
}

/// x * f(y) with f(y) of the result's type, 0 where x is 0, NaN where y is.
template <class F> Tensor times_log(Args& a, F f) {
  DType d = a.common_float({0, 1});
  Tensor x = operand(a, 0, d), y = operand(a, 1, d);
  return where(ne(y, y), like(y, NAN), where(eq(x, like(x, 0)), like(x, 0), x * rounded(f(y), d))).cast(d);
}

Tensor extreme_without_nan(Args& a, Op op) {
  DType d = a.common({0, 1});
  Tensor x = a.as(0, d), y = a.as(1, d);
  if (!is_float(d)) return binary(op, x, y);
  return where(ne(x, x), y, where(ne(y, y), x, binary(op, x, y)));
}

}  // namespace

Tensor add(Args& a) {
  DType d = a.common({0, 1});
  check_alpha(a, d, 2);
  return add_scaled(a, d, operand(a, 0, d), operand(a, 1, d), 2, false);
}
Tensor sub(Args& a) {
  DType d = a.common({0, 1});
  check_subtraction(a);
  check_alpha(a, d, 2);
  return add_scaled(a, d, operand(a, 0, d), operand(a, 1, d), 2, true);
}
Tensor rsub(Args& a) {
  DType d = a.common({0, 1});
  check_subtraction(a);
  check_alpha(a, d, 2);
  return add_scaled(a, d, operand(a, 1, d), operand(a, 0, d), 2, true);
}

Tensor mul(Args& a) {
  DType d = a.common({0, 1});
  return (operand(a, 0, d) * factor(a, 1, d)).cast(d);
}

Tensor div(Args& a) {
  DType d = a.common_float({0, 1});
  return (operand(a, 0, d) / factor(a, 1, d)).cast(d);
}

Tensor div_mode(Args& a) {
  if (!a.has(2)) return div(a);
  DType d = a.common({0, 1});
  require_not_bool(a, d);
  if (a.text(2) == "trunc") {
    Tensor x = operand(a, 0, d), y = factor(a, 1, d);
    if (!is_float(d)) return x / checked_divisor(y);
    // The quotient is rounded to its type before it is truncated, as PyTorch does; but not that by a number.
    return rounded(x / y, y.numel() == 1 ? x.dtype() : d).unary(Op::TRUNC).cast(d);
  }
  if (a.text(2) != "floor")
    fail(ErrorKind::Runtime, "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
                             "'" + std::string(a.text(2)) + "'");
  return is_float(d) ? floor_div_float(a, d) : floor_div_int(operand(a, 0, d), operand(a, 1, d));
}

Tensor floor_divide(Args& a) {
  DType d = a.common({0, 1});
  require_not_bool(a, d);
  return is_float(d) ? floor_div_float(a, d) : floor_div_int(operand(a, 0, d), operand(a, 1, d));
}

Tensor fmod(Args& a) {
  DType d = a.common({0, 1});
  require_not_bool(a, d);
  Tensor x = operand(a, 0, d), y = operand(a, 1, d);
  return binary(Op::MOD, x, is_float(d) ? y : checked_divisor(y)).cast(d);
}

Tensor remainder(Args& a) {
  DType d = a.common({0, 1});
  require_not_bool(a, d);
  Tensor x = operand(a, 0, d), y = operand(a, 1, d);
  if (!is_float(d)) y = checked_divisor(y);
  Tensor rest = binary(Op::MOD, x, y);
  if (is_unsigned(d)) return rest;
  return where(ne(rest, like(x, 0)) & differ_in_sign(rest, y), rest + y, rest).cast(d);
}

Tensor pow(Args& a) {
  DType d = a.common({0, 1});
  if (is_value(a, 0, 1)) return full(a.tensor(1).sizes(), constant(d, int64_t{1}));
  if (is_bool(d)) return a.as(0, d) | !a.as(1, d);
  if (!is_float(d)) {
    if (!is_number(a, 1)) return power_int(a.as(0, d), a.as(1, d));
    if (a.integer(1) < 0) fail(ErrorKind::Runtime, "Integers to negative integer powers are not allowed.");
    return power_int(a.as(0, d), a.integer(1));
  }
  Tensor x = operand(a, 0, d);
  if (is_number(a, 1)) return power_by_number(x, a.number(1), d).cast(d);
  Tensor y = operand(a, 1, d);
  return (is_value(a, 0, 2) ? y.unary(Op::EXP2) : binary(Op::POW, x, y)).cast(d);
}

Tensor addcmul(Args& a) {
  DType d = a.common({0, 1, 2});
  Tensor t = operand(a, 1, d);
  if (!is_value(a, 3, 1)) t = t * a.as(3, t.dtype());
  return mulacc(t, operand(a, 2, d), operand(a, 0, d)).cast(d);
}

Tensor addcdiv(Args& a) {
  DType d = a.common({0, 1, 2});
  if (!is_float(a.tensor(1).dtype()) && !is_float(a.tensor(2).dtype()))
    fail(ErrorKind::Runtime, "Integer division with addcdiv is no longer supported, and in a future release addcdiv will "
                             "perform a true division of "
                             "tensor1 and tensor2.");
  Tensor t = operand(a, 1, d);
  if (!is_value(a, 3, 1)) t = t * a.as(3, t.dtype());
  return (operand(a, 0, d) + t / operand(a, 2, d)).cast(d);
}

Tensor lerp(Args& a) {
  for (int i : {1, 2})
    if (a.values[i].kind == ArgKind::Tensor && a.tensor(i).dtype() != a.tensor(0).dtype())
      fail(ErrorKind::Runtime, std::string("expected dtype ") + scalar_type_name(a.tensor(0).dtype()) + " for `" +
                                 (i == 1 ? "end" : "weight") + "` but got dtype " + scalar_type_name(a.tensor(i).dtype()));
  require_float(a, a.tensor(0).dtype());
  DType d = a.common({0, 1});
  Tensor start = operand(a, 0, d), end = operand(a, 1, d), step = end - start, w = factor(a, 2, d);
  // Counted from the nearer end, so that weights 0 and 1 give the ends exactly.
  auto from_start = [&] { return mulacc(w, step, start); };
  auto from_end = [&] { return mulacc(step, w - 1.0, end); };
  if (is_number(a, 2)) return (std::abs(a.number(2)) < 0.5 ? from_start() : from_end()).cast(d);
  return where(lt(abs(w), like(w, 0.5)), from_start(), from_end()).cast(d);
}

Tensor clamp(Args& a) {
  if (!a.has(1) && !a.has(2)) fail(ErrorKind::Runtime, "torch.clamp: At least one of 'min' or 'max' must not be None");
  DType d = a.common({0, 1, 2});
  Tensor x = a.as(0, d);
  if (a.has(1)) x = maximum(x, a.as(1, d));
  return a.has(2) ? minimum(x, a.as(2, d)) : x;
}
Tensor clamp_min(Args& a) { return exact_binary<Op::MAX>(a); }
Tensor clamp_max(Args& a) { return exact_binary<Op::MIN>(a); }

Tensor fmax(Args& a) { return extreme_without_nan(a, Op::MAX); }
Tensor fmin(Args& a) { return extreme_without_nan(a, Op::MIN); }

Tensor copysign(Args& a) {
  DType d = a.common_float({0, 1});
  Tensor size = abs(a.as(0, d));
  return where(sign_bit(a.as(1, d)), -size, size);
}

Tensor heaviside(Args& a) {
  if (a.tensor(0).dtype() != a.tensor(1).dtype())
    fail(ErrorKind::Runtime, "heaviside is not yet implemented for tensors with different dtypes.");
  DType d = a.common({0, 1});
  Tensor x = a.as(0, d), zero = like(x, 0);
  return where(eq(x, zero), a.as(1, d), lt(zero, x).cast(d));
}

Tensor hypot(Args& a) {
  DType d = a.common({0, 1});
  require_float(a, d);
  Tensor x = operand(a, 0, d), y = operand(a, 1, d);
  // Squares of f32 neither overflow nor lose bits in f64.
  if (x.dtype() == DType::f32) {
    Tensor p = x.cast(DType::f64), q = y.cast(DType::f64), r = sqrt(p * p + q * q).cast(DType::f32);
    Tensor infinite = eq(abs(x), like(x, INFINITY)) | eq(abs(y), like(y, INFINITY));
    return where(infinite, like(x, INFINITY), r).cast(d);
  }
  Tensor p = abs(x), q = abs(y), top = maximum(p, q), ratio = minimum(p, q) / top;
  Tensor r = where(eq(top, like(x, 0)), top, top * sqrt(ratio * ratio + 1.0));
  return where(eq(p, like(x, INFINITY)) | eq(q, like(x, INFINITY)), like(x, INFINITY), r).cast(d);
}

Tensor isin(Args& a) {
  DType d = a.common({0, 1});
  Tensor x = a.as(0, d), tests = a.as(1, d).reshape({-1});
  int64_t last[] = {x.dim()};
  Tensor found = eq(x.unsqueeze(-1), tests).reduce(Op::OR, last);
  return a.flag(3) ? !found : found;
}

Tensor logaddexp(Args& a) { return log_add_exp(a, M_E); }
Tensor logaddexp2(Args& a) { return log_add_exp(a, 2); }

Tensor masked_fill(Args& a) {
  const Tensor& x = a.tensor(0);
  const Tensor& mask = a.tensor(1);
  if (!is_bool(mask.dtype())) fail(ErrorKind::Runtime, std::string("masked_fill_ only supports boolean masks, but got mask "
                                                                   "with dtype ") +
                                                           scalar_type_name(mask.dtype()));
  if (a.values[2].kind == ArgKind::Tensor && a.tensor(2).dim() != 0)
    fail(ErrorKind::Runtime, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with " +
                                 std::to_string(a.tensor(2).dim()) + " dimension(s).");
  return where(mask, a.as(2, x.dtype()), x);
}

/// One step through the numbers that a float dtype holds: integers of the same bits are in the same order.
Tensor nextafter(Args& a) {
  require_float(a, a.common({0, 1}));
  DType d = a.common({0, 1}), bits = itemsize(d) == 8 ? DType::i64 : itemsize(d) == 4 ? DType::i32 : DType::i16;
  Tensor x = a.as(0, d), y = a.as(1, d), zero = like(x, 0), i = x.bitcast(bits);
  Tensor away = eq(lt(x, y), lt(zero, x));  // from zero
  Tensor least = where(sign_bit(y), (constant(bits, int64_t{1})).bitcast(d).unary(Op::NEG), constant(bits, int64_t{1}).bitcast(d));
  Tensor next = where(eq(x, zero), least, where(away, i + like(i, 1), i - like(i, 1)).bitcast(d));
  Tensor nan = ne(x, x) | ne(y, y);
  return where(nan, like(x, NAN), where(eq(x, y), y, next));
}

Tensor shift_left(Args& a) {
  DType d = a.common({0, 1});
  require_integer(a, d, false);
  Tensor x = a.as(0, d), n = a.as(1, d), bits = constant(d, int64_t{info(d).bits});
  return where(ge(n, like(n, 0)) & lt(n, bits), binary(Op::SHL, x, n), like(x, 0));
}

Tensor shift_right(Args& a) {
  DType d = a.common({0, 1});
  require_integer(a, d, false);
  Tensor x = a.as(0, d), n = a.as(1, d), bits = constant(d, int64_t{info(d).bits});
  Tensor fill = is_signed(d) ? where(lt(x, like(x, 0)), like(x, -1), like(x, 0)) : like(x, 0);
  return where(ge(n, like(n, 0)) & lt(n, bits), binary(Op::SHR, x, n), fill);
}

Tensor where(Args& a) {
  DType d = a.common({1, 2}), mask = a.tensor(0).dtype();
  if (a.values[1].kind == ArgKind::Tensor) broadcast_sizes(a.tensor(0).sizes(), a.tensor(1).sizes());  // the condition is named first
  if (!is_bool(mask) && mask != DType::u8)
    fail(ErrorKind::Runtime, std::string("where expected condition to be a boolean tensor, but got a tensor with dtype ") +
                                 scalar_type_name(mask));
  return where(a.as(0, DType::bool_), a.as(1, d), a.as(2, d));
}

Tensor xlogy(Args& a) { return times_log(a, [](const Tensor& y) { return log(y); }); }
Tensor xlog1py(Args& a) { return times_log(a, [](const Tensor& y) { return y.unary(Op::LOG1P); }); }

}  // namespace tiny::lower
