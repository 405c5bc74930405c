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

}  // namespace tiny::decomp
