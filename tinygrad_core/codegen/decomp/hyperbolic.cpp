// Hyperbolic functions and their inverses. tanh is common and stays in f32; the others go through f64.
#include "codegen/decomp/functions.h"

namespace tiny::decomp {
namespace {

/// An odd function of x from its value `large` at a = |x| (f64), and a + third a^3 where a is so small that cancellation would show.
U odd_f32(U x, U a, double third, U large) {
  U v = tiny::where(lt(a, 0x1p-12), fma(a * a * a, third, a), large);
  return flip_sign(cast(v, DType::f32), sign_bit(x));
}

}  // namespace

/// 1 - 2/(e^2|x| + 1), and a polynomial where that cancels.
U tanh_f32(U x) {
  U a = abs(x), z = a * a;
  U small = fma(z * a, polynomial(z, {kTanhTail[0], kTanhTail[1], kTanhTail[2], kTanhTail[3], kTanhTail[4]}), a);
  U e = exp_f32(mul(at_most(a, 10.0), 2.0));
  U large = like(x, 1.0) - div(like(x, 2.0), add(e, 1.0));
  return flip_sign(tiny::where(lt(a, kTanhSmall), small, large), sign_bit(x));
}

U sinh_f32(U x) {
  U a = abs(cast(x, DType::f64)), e = exp_wide(a);
  return odd_f32(x, a, 1.0 / 6, mul(e - div(like(e, 1.0), e), 0.5));
}

U cosh_f32(U x) {
  U e = exp_wide(abs(cast(x, DType::f64)));
  return cast(mul(e + div(like(e, 1.0), e), 0.5), DType::f32);
}

namespace {

/// log of an f64 that is at least 0 and normal, or infinite, or NaN
U log_upward(U x) { return tiny::where(lt(x, kInf), log_normal_f64(x), x); }

}  // namespace

U asinh_f32(U x) {
  U a = abs(cast(x, DType::f64));
  return odd_f32(x, a, -1.0 / 6, log_upward(a + sqrt(fma(a, a, 1.0))));
}

U acosh_f32(U x) {
  U w = cast(x, DType::f64);
  U v = log_upward(w + sqrt(sub(w, 1.0) * add(w, 1.0)));
  return cast(where(lt(w, 1.0), kNan, v), DType::f32);
}

U atanh_f32(U x) {
  U a = abs(cast(x, DType::f64));
  U v = mul(log_upward(div(add(a, 1.0), like(a, 1.0) - a)), 0.5);
  return odd_f32(x, a, 1.0 / 3, where(gt(a, 1.0), kNan, v));
}

// ---- f64, on e^x - 1 and log(1 + x), which do not cancel

namespace {
Sum plus(const Sum& t, double v) {
  U less = lt(t.high, v);
  Sum s = sum_of(where(less, v, t.high), where(less, t.high, v));
  return {s.high, s.low + t.low};
}
U with_sign_of(U magnitude, U x) { return flip_sign(magnitude, sign_bit(x)); }
}  // namespace

U tanh_f64(U x) {
  U a = at_most(abs(x), 22.0);  // tanh(22) is 1
  Sum t = expm1_sum(mul(a, 2.0)), d = plus(t, 2.0);
  U v = tiny::where(lt(a, 1.0), quotient(t, d), like(x, 1.0) - div(like(x, 2.0), d.high));
  return with_sign_of(tiny::where(lt(a, 0x1p-28), a, v), x);
}

U sinh_f64(U x) {
  U a = abs(x);
  Sum t = expm1_sum(at_most(a, 22.0)), d = plus(t, 1.0);
  U v = mul(t.high + (quotient(t, d) + t.low), 0.5);
  v = tiny::where(lt(a, 0x1p-28), a, v);
  return with_sign_of(tiny::where(lt(a, 22.0), v, half_exp_f64(a)), x);
}

U cosh_f64(U x) {
  U h = half_exp_f64(abs(x));
  return h + div(like(x, 0.25), h);
}

namespace {
constexpr double kLn2OfF64 = 0.6931471805599453, kLargeF64 = 0x1p28;  // beyond, x^2 + 1 is x^2
U log_of_double(U a) { return add(log_f64(a), kLn2OfF64); }
}  // namespace

U asinh_f64(U x) {
  U a = abs(x), b = at_most(a, kLargeF64), square = b * b;
  U v = log1p_f64(b + div(square, add(sqrt(add(square, 1.0)), 1.0)));
  return with_sign_of(tiny::where(gt(a, kLargeF64), log_of_double(a), v), x);
}

U acosh_f64(U x) {
  U t = sub(at_most(x, kLargeF64), 1.0);
  U v = log1p_f64(t + sqrt(fma(t, t, mul(t, 2.0))));
  return where(lt(x, 1.0), kNan, tiny::where(gt(x, kLargeF64), log_of_double(x), v));
}

U atanh_f64(U x) {
  U a = abs(x);
  U v = mul(log1p_f64(div(mul(a, 2.0), like(x, 1.0) - a)), 0.5);
  return with_sign_of(where(gt(a, 1.0), kNan, v), x);
}

}  // namespace tiny::decomp
