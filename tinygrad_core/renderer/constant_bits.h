// Constants as the bits that their type has in memory.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "uop/uop.h"

namespace tiny {

/// `v` in a binary float of `exponent` and `mantissa` bits, rounded to nearest even. finite: a format without infinities whose
/// all-ones pattern is the NaN (float8_e4m3fn): what overflows becomes that NaN.
inline uint32_t encode_float(double v, int exponent, int mantissa, bool finite = false) {
  int bias = (1 << (exponent - 1)) - 1;
  uint32_t sign = std::signbit(v) ? 1u << (exponent + mantissa) : 0;
  uint32_t all = (1u << exponent) - 1;
  uint32_t inf = all << mantissa, nan = finite ? (inf | ((1u << mantissa) - 1)) : (inf | 1u << (mantissa - 1));
  if (std::isnan(v)) return sign | nan;
  v = std::fabs(v);
  if (std::isinf(v)) return sign | (finite ? nan : inf);
  if (v == 0) return sign;
  int e = std::max(std::ilogb(v), 1 - bias);                          // denormals share the least exponent
  double scaled = std::nearbyint(std::ldexp(v, mantissa - e));        // in units of the last place
  uint64_t code = static_cast<uint64_t>(scaled) + (static_cast<uint64_t>(e + bias - 1) << mantissa);
  uint64_t greatest = finite ? nan : inf;
  return sign | static_cast<uint32_t>(code < greatest ? code : greatest);
}

/// The bits of a CONST; bool is 0 or 1.
inline uint64_t constant_bits(const UOp* u) {
  switch (u->dtype) {
    case DType::f64: return std::bit_cast<uint64_t>(u->arg.f);
    case DType::f32: return std::bit_cast<uint32_t>(static_cast<float>(u->arg.f));
    case DType::f16: return encode_float(u->arg.f, 5, 10);
    case DType::bf16: return encode_float(u->arg.f, 8, 7);
    case DType::f8e4m3: return encode_float(u->arg.f, 4, 3, true);
    case DType::f8e5m2: return encode_float(u->arg.f, 5, 2);
    case DType::bool_: return u->arg.i != 0;
    default: {
      int bits = info(u->dtype).bits;
      TINY_ASSERT(bits > 0, "a constant of no type");
      return bits == 64 ? u->arg.bits : u->arg.bits & ((1ull << bits) - 1);
    }
  }
}

}  // namespace tiny
