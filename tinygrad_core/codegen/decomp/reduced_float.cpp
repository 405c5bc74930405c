// f16 and fp8 conversions by integer arithmetic, for targets without instructions for them.
#include <cmath>

#include "base/error.h"
#include "codegen/decomp/functions.h"

namespace tiny::decomp {
namespace {

struct Format {
  DType dtype, storage;
  int exponent, mantissa;
  int64_t infinity;  // code beyond which there are only NaNs; for a finite format, its one NaN
  int64_t nan;
  int bias() const { return (1 << (exponent - 1)) - 1; }
};
constexpr Format kFormats[] = {
  {DType::f16, DType::u16, 5, 10, 0x7C00, 0x7E00},
  {DType::f8e4m3, DType::u8, 4, 3, 0x7F, 0x7F},
  {DType::f8e5m2, DType::u8, 5, 2, 0x7C, 0x7F},
};

const Format& format(DType d) {
  for (const Format& f : kFormats)
    if (f.dtype == d) return f;
  TINY_ASSERT(false, std::string("no small float ") + info(d).name);
  __builtin_unreachable();
}

U scale_of(U x, int power) { return mul(bitcast(x, DType::f32), std::ldexp(1.0, power)); }

}  // namespace

/// The magnitude's bits under an f32's exponent, times a power of two that mends the bias: exact, denormals too.
U small_float_to_f32(U x) {
  const Format& f = format(x->dtype);
  U code = cast(bitcast(x, f.storage), DType::i32);
  int width = f.exponent + f.mantissa;
  U sign = shl(bits_and(code, int64_t{1} << width), 31 - width), magnitude = bits_and(code, (int64_t{1} << width) - 1);
  U value = bitcast(scale_of(shl(magnitude, 23 - f.mantissa), 127 - f.bias()), DType::i32);
  bool finite = f.infinity == f.nan;
  U special = bits_or(shl(magnitude, 23 - f.mantissa), like(code, finite ? int64_t{0x7FC00000} : int64_t{0x7F800000}));
  value = tiny::where(tiny::lt(magnitude, like(code, f.infinity)), value, special);
  return bitcast(bits_or(value, sign), DType::f32);
}

/// Normal results are rounded as integers; for denormal ones an addition aligns and rounds.
U f32_to_small_float(U x, DType d) {
  const Format& f = format(d);
  int shift = 23 - f.mantissa, width = f.exponent + f.mantissa;
  U bits = bitcast(x, DType::i32), sign = shr(bits_and(bits, int64_t{INT32_MIN}), 31 - width);
  U magnitude = bits_and(bits, 0x7FFFFFFF);
  U rebased = magnitude - (int64_t{127 - f.bias()} << 23);
  U odd = bits_and(shr(rebased, shift), 1);
  U normal = shr(rebased + odd + ((int64_t{1} << (shift - 1)) - 1), shift);
  double aligner = std::ldexp(1.0, 24 - f.bias() - f.mantissa);
  U denormal = bitcast(add(bitcast(magnitude, DType::f32), aligner), DType::i32) - (int64_t{127 + 24 - f.bias() - f.mantissa} << 23);
  U code = tiny::where(tiny::lt(magnitude, like(bits, int64_t{127 - f.bias() + 1} << 23)), denormal, normal);
  code = alu(Op::MIN, {code, like(code, f.infinity)});
  code = tiny::where(tiny::lt(like(bits, int64_t{0x7F800000}), magnitude), like(code, f.nan), code);
  U with_sign = bits_or(code, bits_and(sign, int64_t{1} << width));
  return bitcast(cast(with_sign, f.storage), d);
}

U dot2(U a, U b, U sum) {
  auto low = [](U pair) { return bitcast(shl(pair, 16), DType::f32); };
  auto high = [](U pair) { return bitcast(bits_and(pair, 0xffff0000), DType::f32); };
  return fma(high(a), high(b), fma(low(a), low(b), sum));
}

}  // namespace tiny::decomp
