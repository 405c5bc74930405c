// Elementary functions as arithmetic that vectorises: no branches, no tables. f32 functions are within 2 ulp of the true value over the
// whole range, with or without a fused multiply-add; special values are those of C. f64 functions within 2 ulp, *_wide ones to 2^-32:
// they serve f32 functions that are rare enough to be computed in f64.
// Polynomials are minimax (Remez exchange) on the stated interval; their relative error stands beside them.
#pragma once
#include "codegen/decomp/write.h"

namespace tiny::decomp {

// exp_log.cpp
U exp_f32(U x);
U exp2_f32(U x);
U expm1_f32(U x);
U log_f32(U x);
U log2_f32(U x);
U log10_f32(U x);
U log1p_f32(U x);
U exp_f64(U x);
U log_f64(U x);
/// e^x without the last step to denormals: x between -700 and 700 (else their value), NaN is kept.
U exp_wide(U x);
/// log of a finite positive normal f64; 0, infinity, NaN and negative numbers give whatever.
U log_normal_f64(U x);
// For targets without a C library, f64 within 2 ulp.
/// A value and what rounding took from it.
struct Sum {
  U high, low;
};
/// a + b, with a the greater.
Sum sum_of(U a, U b);
/// a / b, rounded once or nearly so.
U quotient(Sum a, Sum b);
/// e^x - 1 for x between -40 and 710.
Sum expm1_sum(U x);
/// log2 of a positive finite number (another: whatever) to 2^-64 of its value.
Sum log2_sum(U x);
/// 2^(x.high + x.low) for x.high between -1080 and 1030.
U exp2_sum(Sum x);
/// factor * 2^(x.high + x.low).
U exp2_times(U factor, Sum x);
U exp2_f64(U x);
U expm1_f64(U x);
U log2_f64(U x);
U log10_f64(U x);
U log1p_f64(U x);
U lgamma_f32(U x);
U erf_f64(U x);
U erfc_f64(U x);
/// sin(pi x) for x between 0 and 1/2.
U sin_pi_f64(U x);
U sin_f64(U x);
U cos_f64(U x);
U tan_f64(U x);
U asin_f64(U x);
U acos_f64(U x);
U atan_f64(U x);
U atan2_f64(U y, U x);
U tanh_f64(U x);
U sinh_f64(U x);
U cosh_f64(U x);
U asinh_f64(U x);
U acosh_f64(U x);
U atanh_f64(U x);
/// e^x / 2, which is finite a little longer than e^x.
U half_exp_f64(U x);
/// x = n ln2 + r
struct ReducedWide {
  U n, r;
};
ReducedWide reduce_exp_f64(U x);
U exp_tail_f64(U r);
/// 2^n of an integer-valued f64 between -1022 and 1023
U power_of_two_f64(U n);

// trigonometric.cpp
U sin_f32(U x);
U cos_f32(U x);
U tan_f32(U x);
U asin_f32(U x);
U acos_f32(U x);
U atan_f32(U x);
U atan2_f32(U y, U x);

// hyperbolic.cpp
/// (tanh(x)/x - 1) / x^2 in powers of x^2 on [0, 0.63]: 2^-27.6; used below kTanhSmall
inline constexpr double kTanhTail[] = {-0x1.55553p-2, 0x1.110692p-3, -0x1.b828p-5, 0x1.519c96p-6, -0x1.73640ap-8}, kTanhSmall = 0.625;
U tanh_f32(U x);
U sinh_f32(U x);
U cosh_f32(U x);
U asinh_f32(U x);
U acosh_f32(U x);
U atanh_f32(U x);

// error_function.cpp
U erf_f32(U x);
U erfc_f32(U x);

// power.cpp
U pow_f32(U x, U y);
U pow_f64(U x, U y);
/// C fmod, exact.
U fmod_f32(U x, U y);

// integer.cpp
U threefry_u64(U counter, U key);
U integer_divide(U a, U b);
U integer_modulo(U a, U b);
U shift(Op op, U a, U b);
/// MAX or MIN of floats, NaN if either is.
U float_extreme(Op op, U a, U b);

// reduced_float.cpp
/// f16 and fp8 from and to f32 by integer arithmetic; rounding to nearest even.
U small_float_to_f32(U x);
U f32_to_small_float(U x, DType d);
/// DOT2 by shifts and multiplications in f32.
U dot2(U a, U b, U sum);

}  // namespace tiny::decomp
