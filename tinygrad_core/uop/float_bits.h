// Small floats and their bits. Rounding is to nearest, ties to even; encodings and NaN bits are those of PyTorch's types.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace tiny {

namespace detail {

/// `f` in a format of E exponent and M mantissa bits, without its sign. finite: no infinities, one NaN of all ones.
template <int E, int M, bool finite>
constexpr uint32_t encode_magnitude(uint32_t a) {
  constexpr int bias = (1 << (E - 1)) - 1, shift = 23 - M;
  constexpr uint32_t infinity = ((1u << E) - 1) << M, all_ones = (1u << (E + M)) - 1;
  int e = static_cast<int>(a >> 23) - 127 + bias;
  uint32_t r = 0;
  if (e >= 1) {
    uint32_t v = a - (static_cast<uint32_t>(127 - bias) << 23);
    r = (v + (1u << (shift - 1)) - 1 + (v >> shift & 1)) >> shift;
  } else if (int drop = shift + 1 - e; drop <= 24) {  // subnormal here, with the leading one written out
    uint32_t v = (a & 0x7FFFFF) | 0x800000;
    r = (v + (1u << (drop - 1)) - 1 + (v >> drop & 1)) >> drop;
  }
  if (finite) return r < all_ones ? r : all_ones;
  return r < infinity ? r : infinity;
}

template <int E, int M, bool finite>
constexpr float decode_small(uint32_t v) {
  constexpr int bias = (1 << (E - 1)) - 1;
  constexpr uint32_t exponents = (1u << E) - 1, mantissas = (1u << M) - 1;
  uint32_t sign = v >> (E + M) << 31, e = v >> M & exponents, m = v & mantissas;
  if (finite ? (v & (mantissas | exponents << M)) == (mantissas | exponents << M) : e == exponents) {
    bool nan = finite || m != 0;
    return std::bit_cast<float>(sign | 0x7F800000u | (nan ? 0x400000u | m << (23 - M) : 0));
  }
  if (e == 0) {  // subnormal: exact as a product
    float x = static_cast<float>(m) * std::bit_cast<float>(static_cast<uint32_t>(127 + 1 - bias - M) << 23);
    return sign ? -x : x;
  }
  return std::bit_cast<float>(sign | (e + 127 - bias) << 23 | m << (23 - M));
}

}  // namespace detail

constexpr uint16_t float_to_half(float f) {
  uint32_t b = std::bit_cast<uint32_t>(f), a = b & 0x7FFFFFFF, sign = b >> 16 & 0x8000;
  return static_cast<uint16_t>(sign | (a > 0x7F800000 ? 0x7E00 : detail::encode_magnitude<5, 10, false>(a)));
}
constexpr float half_to_float(uint16_t v) { return detail::decode_small<5, 10, false>(v); }

constexpr uint16_t float_to_bf16(float f) {
  uint32_t b = std::bit_cast<uint32_t>(f);
  if ((b & 0x7FFFFFFF) > 0x7F800000) return 0x7FC0;
  return static_cast<uint16_t>((b + 0x7FFF + (b >> 16 & 1)) >> 16);
}
constexpr float bf16_to_float(uint16_t v) { return std::bit_cast<float>(static_cast<uint32_t>(v) << 16); }

/// float8_e4m3fn: no infinity; beyond 464 is NaN.
constexpr uint8_t float_to_f8e4m3(float f) {
  uint32_t b = std::bit_cast<uint32_t>(f), a = b & 0x7FFFFFFF, sign = b >> 24 & 0x80;
  return static_cast<uint8_t>(sign | (a >= 0x7F800000 ? 0x7F : detail::encode_magnitude<4, 3, true>(a)));
}
constexpr float f8e4m3_to_float(uint8_t v) { return detail::decode_small<4, 3, true>(v); }

/// float8_e5m2: as half with 2 mantissa bits.
constexpr uint8_t float_to_f8e5m2(float f) {
  uint32_t b = std::bit_cast<uint32_t>(f), a = b & 0x7FFFFFFF, sign = b >> 24 & 0x80;
  return static_cast<uint8_t>(sign | (a > 0x7F800000 ? 0x7F : detail::encode_magnitude<5, 2, false>(a)));
}
constexpr float f8e5m2_to_float(uint8_t v) { return detail::decode_small<5, 2, false>(v); }

}  // namespace tiny
