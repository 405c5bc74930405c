// pow in f32: e^(y log|x|) in f64, then the cases of C (ISO C, annex F.10.4.4).
#include "codegen/decomp/functions.h"

namespace tiny::decomp {

U pow_f32(U x, U y) {
  U ax = abs(cast(x, DType::f64)), wy = cast(y, DType::f64);
  U log = tiny::where(eq(ax, 0.0), like(ax, -kInf), tiny::where(lt(ax, kInf), log_normal_f64(ax), ax));
  U magnitude = cast(exp_wide(wy * log), DType::f32);
  magnitude = where(both(eq(ax, 1.0), eq(y, y)), 1.0, magnitude);  // also with infinite y
  U integer = eq(y, trunc(y)), half = mul(y, 0.5);
  U odd = both(integer, ne(half, trunc(half)));
  U sign = tiny::where(odd, sign_bit(x), const_(DType::i32, 0));
  U result = flip_sign(magnitude, sign);
  // a negative finite base wants an integer
  U undefined = both(both(lt(x, 0.0), gt(x, -kInf)), logical_not(integer));
  result = tiny::where(undefined, like(x, kNan), result);
  return where(either(eq(y, 0.0), eq(x, 1.0)), 1.0, result);
}

}  // namespace tiny::decomp
