// fmod; pow: e^(y log|x|), in f64 for f32 and as sums of two f64 for f64, then the cases of C (ISO C, annex F.10.4.4).
#include "codegen/decomp/functions.h"

namespace tiny::decomp {
namespace {

/// `magnitude` is |x|^y but where |x| is 1; ax = |x|.
U cases_of_power(U x, U y, U magnitude) {
  magnitude = where(both(eq(abs(x), 1.0), eq(y, y)), 1.0, magnitude);  // also with infinite y
  U integer = eq(y, trunc(y)), half = mul(y, 0.5);
  U odd = both(integer, ne(half, trunc(half)));
  U sign = tiny::where(odd, sign_bit(x), const_(bits_type(x->dtype), 0));
  U result = flip_sign(magnitude, sign);
  // a negative finite base wants an integer
  U undefined = both(both(lt(x, 0.0), gt(x, -kInf)), logical_not(integer));
  result = tiny::where(undefined, like(x, kNan), result);
  return where(either(eq(y, 0.0), eq(x, 1.0)), 1.0, result);
}

}  // namespace

U pow_f32(U x, U y) {
  U ax = abs(cast(x, DType::f64)), wy = cast(y, DType::f64);
  U log = tiny::where(eq(ax, 0.0), like(ax, -kInf), tiny::where(lt(ax, kInf), log_normal_f64(ax), ax));
  return cases_of_power(x, y, cast(exp_wide(wy * log), DType::f32));
}

U pow_f64(U x, U y) {
  U ax = abs(x);
  Sum log = log2_sum(ax);
  U product = y * log.high, low = fma(y, log.high, neg(product)) + y * log.low;
  U limited = at_most(at_least(product, -1080.0), 1030.0);
  U finite = exp2_sum({limited, tiny::where(eq(limited, product), low, like(x, 0.0))});
  // bases 0 and infinity, exponents without end
  U up = tiny::where(eq(ax, 0.0), like(x, -kInf), tiny::where(lt(ax, kInf), product, like(x, kInf))), extreme = y * up;
  U ends = either(either(eq(ax, 0.0), eq(ax, kInf)), eq(abs(y), kInf));
  U direction = tiny::where(eq(abs(y), kInf), tiny::where(lt(ax, 1.0), neg(y), y), extreme);
  U magnitude = tiny::where(ends, where(gt(direction, 0.0), kInf, like(x, 0.0)), finite);
  magnitude = tiny::where(either(is_nan(x), is_nan(y)), like(x, kNan), magnitude);
  return cases_of_power(x, y, magnitude);
}

/// Long division in f64, 50 bits of the quotient at a time: each remainder is exact, for it has the bits of x and y only.
U fmod_f32(U x, U y) {
  U a = abs(cast(x, DType::f64)), b = abs(cast(y, DType::f64));
  for (double scale : {0x1p250, 0x1p200, 0x1p150, 0x1p100, 0x1p50, 1.0}) {
    U m = mul(b, scale), r = fma(neg(trunc(div(a, m))), m, a);
    a = tiny::where(lt(r, 0.0), r + m, r);  // the quotient was rounded up to a whole number
  }
  U result = tiny::where(lt(b, kInf), cast(a, DType::f32), abs(x));
  U defined = both(lt(abs(x), kInf), both(eq(y, y), ne(y, like(y, 0.0))));
  return tiny::where(defined, flip_sign(result, sign_bit(x)), like(x, kNan));
}

}  // namespace tiny::decomp
