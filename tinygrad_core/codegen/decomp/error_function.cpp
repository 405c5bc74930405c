// erf (in gelu) in f32; erfc through f64.
#include "codegen/decomp/functions.h"

namespace tiny::decomp {

U erf_f32(U x) {
  U z = x * x;
  // erf(x)/x - 1 on [0, 0.9]: 2^-31.7
  U small = fma(x, polynomial(z, {0x1.06eba8p-3, -0x1.812744p-2, 0x1.ce2e54p-4, -0x1.b81524p-6, 0x1.550a44p-8, -0x1.aca38ep-11,
                                  0x1.6510a8p-14}), x);
  U a = at_most(abs(x), 4.0);  // erf(4) is 1 in f32
  // -log(erfc(a))/a on [0.89, 4]: 2^-30 of erf(a)
  U power = a * polynomial(a, {0x1.20edfcp+0, 0x1.453bc4p-1, 0x1.b2aa3ep-4, -0x1.83a4b4p-6, 0x1.d708c0p-9, -0x1.45ce64p-12,
                               0x1.5003ecp-17});
  U large = like(x, 1.0) - exp_f32(neg(power));
  return tiny::where(lt(a, 0.9), small, flip_sign(large, sign_bit(x)));
}

U erfc_f32(U x) {
  U w = cast(x, DType::f64), a = at_most(abs(w), 10.3);  // erfc(10.3) is 0 in f32
  U t = div(like(a, 1.0), fma(a, 0.5, 1.0));
  // e^(a^2) erfc(a) / t on [0, 10.3]: 2^-35.7
  U p = polynomial(t, {0.28209493906940841, 0.28209142159988948, 0.24685236671741956, 0.17650123306801821, 0.079800945016261435,
                       0.026971417581554025, -0.20789103893588329, 0.43357118383231829, -1.0823887098839895, 1.6697420105467371,
                       -1.4970924726972676, 0.79533178065400234, -0.23605832160899329, 0.030473239058140526});
  U tail = t * p * exp_wide(neg(a * a));
  return cast(tiny::where(lt(w, 0.0), like(tail, 2.0) - tail, tail), DType::f32);
}

namespace {

constexpr double kErrorCut = 0.8;

/// erf on [-1, 1].
U erf_near_f64(U x) {
  U u = x * x;
  // (erf(x)/x - 2/sqrt(pi)) / x^2: 2^-54.5
  U p = polynomial(u, {-0.37612638903183754, 0.11283791670955111, -0.026866170645123838, 0.0052239776253035176, -0.00085483270100333278,
                       0.00012055332214716276, -1.4925622504489842e-05, 1.6461446656928561e-06, -1.6355118610877705e-07,
                       1.4692484859133263e-08, -1.1500357159785296e-09, 6.1740972213052545e-11});
  return fma(x, 1.1283791670955126, x * fma(u, p, 1.533545961316588e-17));
}

/// erfc of a >= 0.8: e^(-a^2) / (1 + 2a) times a polynomial of (a - 4)/(a + 4), which is 2^-54.4 of e^(a^2) erfc(a) (1 + 2a).
U erfc_far_f64(U a) {
  constexpr double log2e = 1.4426950408889634, log2e_rest = 2.0355273740931033e-17;
  a = at_most(at_least(a, kErrorCut), 27.3);  // erfc(27.3) is 0
  U q = div(sub(a, 4.0), add(a, 4.0));
  U p = q * polynomial(q, {-0.1396211168405625, 0.015379652102620042, 0.068097054254691425, -0.10103906603632522,
                       0.093732834998403139, -0.066330365811642575, 0.037167515536456266, -0.016197734066023581, 0.0050319699886027577,
                       -0.00075777321935686405, -0.00019925675992791183, 0.00015062131115557573, -2.4398960322006678e-05,
                       -1.1220796050560251e-05, 5.7090804353474372e-06, 2.9112639495952494e-07, -8.2429829618064868e-07,
                       7.8276996289376278e-08, 1.0876412436822533e-07, -2.074317313373673e-08, -1.3200841788383781e-08,
                       2.7974623614528358e-09, 9.6862584710231716e-10});
  U ratio = quotient(sum_of(like(a, 1.2329951186255526), p), sum_of(mul(a, 2.0), like(a, 1.0)));
  U square = a * a, rest = fma(a, a, neg(square)), power = mul(square, -log2e);
  U low = fma(square, like(a, -log2e), neg(power)) - fma(square, log2e_rest, mul(rest, log2e));
  return exp2_times(ratio, {power, low});
}

}  // namespace

U erf_f64(U x) {
  U a = abs(x), far = like(x, 1.0) - erfc_far_f64(a);
  return tiny::where(lt(a, kErrorCut), erf_near_f64(x), tiny::where(is_nan(x), x, flip_sign(far, sign_bit(x))));
}

U erfc_f64(U x) {
  U a = abs(x), tail = erfc_far_f64(a);
  U far = tiny::where(lt(x, 0.0), like(x, 2.0) - tail, tail);
  return tiny::where(lt(a, kErrorCut), like(x, 1.0) - erf_near_f64(x), tiny::where(is_nan(x), x, far));
}

}  // namespace tiny::decomp
