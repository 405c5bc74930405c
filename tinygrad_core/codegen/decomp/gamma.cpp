// log |gamma(x)| of f32 through f64, for targets without a C library: Stirling's series behind a shift by 8, Euler's reflection below 1/2
// (Abramowitz and Stegun, 6.1.15 to 6.1.41).
#include "codegen/decomp/functions.h"

namespace tiny::decomp {
namespace {

/// log gamma(a) for a >= 1/2 in f64.
U log_gamma_f64(U a) {
  U small = lt(a, 8.0), p = a;
  for (int i = 1; i < 8; ++i) p = p * add(a, i);
  U y = tiny::where(small, add(a, 8.0), a), log_p = tiny::where(small, log_normal_f64(tiny::where(small, p, like(a, 1.0))), like(a, 0.0));
  U inverse = div(like(a, 1.0), y), z = inverse * inverse;
  U series = inverse * polynomial(z, {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360, 1.0 / 156,
                                      -3617.0 / 122400});
  constexpr double half_log_two_pi = 0.91893853320467274178;
  return (fma(sub(y, 0.5), log_normal_f64(y), neg(y)) + add(series, half_log_two_pi)) - log_p;
}

}  // namespace

U lgamma_f32(U x) {
  U w = cast(x, DType::f64), reflected = lt(w, 0.5);
  U a = at_most(tiny::where(reflected, like(w, 1.0) - w, w), 0x1p130), value = log_gamma_f64(a);
  U r = abs(w - alu(Op::ROUND, {w})), sine = sin_pi_f64(r);
  constexpr double log_pi = 1.1447298858494001741;
  U below = (like(w, log_pi) - log_normal_f64(where(eq(sine, 0.0), 1.0, sine))) - value;
  U result = cast(tiny::where(reflected, below, value), DType::f32);
  result = where(either(eq(x, 1.0), eq(x, 2.0)), 0.0, result);
  U pole = either(both(eq(r, 0.0), le(w, like(w, 0.0))), eq(abs(w), kInf));
  return tiny::where(is_nan(x), x, where(pole, kInf, result));
}

}  // namespace tiny::decomp
