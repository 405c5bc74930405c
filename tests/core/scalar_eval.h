// Meaning of one elementwise operator on one element, written for clarity from ops.def alone: the judge of everything that folds,
// decomposes or compiles operators. Shares no code with the core beyond its tables.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "uop/uop.h"

namespace tiny::testing {

/// One element. Floats live in `f` (exactly representable in their dtype), everything else in `i` (u64 as the same bits).
struct Cell {
  double f = 0;
  int64_t i = 0;
};

/// Format of a float: bits of the stored mantissa, least normal exponent, greatest finite value.
struct FloatFormat {
  int mantissa, min_exponent, bias;
  double greatest;
};
inline FloatFormat float_format(DType d) {
  switch (d) {
    case DType::f8e4m3: return {3, -6, 7, 448.0};
    case DType::f8e5m2: return {2, -14, 15, 57344.0};
    case DType::bf16: return {7, -126, 127, 0x1.fep127};
    case DType::f16: return {10, -14, 15, 65504.0};
    case DType::f32: return {23, -126, 127, std::numeric_limits<float>::max()};
    default: return {52, -1022, 1023, std::numeric_limits<double>::max()};
  }
}

/// `v` rounded to nearest even in `d`. f8e4m3 has no infinity: what is too great becomes NaN.
inline double round_to(DType d, double v) {
  if (d == DType::f64 || v == 0 || std::isnan(v)) return v;
  FloatFormat t = float_format(d);
  if (std::isinf(v)) return d == DType::f8e4m3 ? std::nan("") : v;
  int e = std::max(std::ilogb(v), t.min_exponent) - t.mantissa;  // exponent of the last stored bit
  double r = std::scalbn(std::nearbyint(std::scalbn(v, -e)), e);
  if (std::fabs(r) <= t.greatest) return r;
  return d == DType::f8e4m3 ? std::nan("") : std::copysign(INFINITY, v);
}

/// The bits that memory holds for the float `v` of dtype `d`.
inline uint64_t float_bits(DType d, double v) {
  if (d == DType::f64) { uint64_t b; std::memcpy(&b, &v, 8); return b; }
  if (d == DType::f32) { float f = static_cast<float>(v); uint32_t b; std::memcpy(&b, &f, 4); return b; }
  FloatFormat t = float_format(d);
  int width = info(d).bits;
  uint64_t sign = std::signbit(v) ? 1ull << (width - 1) : 0, exponent_mask = (1ull << (width - 1 - t.mantissa)) - 1;
  if (std::isnan(v)) return sign | (d == DType::f8e4m3 ? 0x7f : exponent_mask << t.mantissa | 1ull << (t.mantissa - 1));
  if (std::isinf(v)) return sign | exponent_mask << t.mantissa;
  if (v == 0) return sign;
  int e = std::ilogb(v);
  if (e < t.min_exponent) return sign | static_cast<uint64_t>(std::scalbn(std::fabs(v), t.mantissa - t.min_exponent));
  uint64_t m = static_cast<uint64_t>(std::scalbn(std::fabs(v), t.mantissa - e));
  return sign | static_cast<uint64_t>(e + t.bias) << t.mantissa | (m & ((1ull << t.mantissa) - 1));
}

inline double bits_float(DType d, uint64_t b) {
  if (d == DType::f64) { double v; std::memcpy(&v, &b, 8); return v; }
  if (d == DType::f32) { uint32_t w = static_cast<uint32_t>(b); float f; std::memcpy(&f, &w, 4); return f; }
  FloatFormat t = float_format(d);
  int width = info(d).bits;
  double sign = b >> (width - 1) & 1 ? -1 : 1;
  uint64_t m = b & ((1ull << t.mantissa) - 1), exponent_mask = (1ull << (width - 1 - t.mantissa)) - 1, e = b >> t.mantissa & exponent_mask;
  if (d == DType::f8e4m3 ? e == exponent_mask && m == 7 : e == exponent_mask)
    return m == 0 ? sign * INFINITY : std::copysign(std::nan(""), sign);
  if (e == 0) return sign * std::scalbn(static_cast<double>(m), t.min_exponent - t.mantissa);
  return sign * std::scalbn(static_cast<double>(m | 1ull << t.mantissa), static_cast<int>(e) - t.bias - t.mantissa);
}

/// `v` wrapped to the width of the integer or bool type `d`.
inline int64_t wrap(DType d, int64_t v) {
  switch (d) {
    case DType::bool_: return v & 1;
    case DType::u8: return static_cast<uint8_t>(v);
    case DType::i8: return static_cast<int8_t>(v);
    case DType::i16: return static_cast<int16_t>(v);
    case DType::u16: return static_cast<uint16_t>(v);
    case DType::i32: return static_cast<int32_t>(v);
    case DType::u32: return static_cast<uint32_t>(v);
    default: return v;
  }
}

/// The bits in memory, and back.
inline uint64_t cell_bits(DType d, Cell c) {
  int width = info(d).bits;
  uint64_t b = is_float(d) ? float_bits(d, c.f) : static_cast<uint64_t>(c.i);
  return width == 64 ? b : b & ((1ull << width) - 1);
}
inline Cell bits_cell(DType d, uint64_t b) {
  return is_float(d) ? Cell{bits_float(d, b), 0} : Cell{0, is_bool(d) ? (b & 255) != 0 : wrap(d, static_cast<int64_t>(b))};
}

/// A result of float arithmetic in `d`: reduced floats are computed in f32 and then rounded.
inline Cell float_cell(DType d, double v) {
  return {is_reduced_float(d) ? round_to(d, round_to(DType::f32, v)) : round_to(d, v), 0};
}

/// Conversion between dtypes. Float to integer truncates; outside the range of the integer (and for NaN) the result is unspecified.
inline Cell convert(DType from, DType to, Cell c) {
  if (is_bool(to)) return {0, is_float(from) ? c.f != 0 : c.i != 0};
  if (is_float(to)) {
    if (is_float(from)) return {round_to(to, c.f), 0};
    bool unsigned_word = from == DType::u64;
    if (to == DType::f64) return {unsigned_word ? static_cast<double>(static_cast<uint64_t>(c.i)) : static_cast<double>(c.i), 0};
    float f = unsigned_word ? static_cast<float>(static_cast<uint64_t>(c.i)) : static_cast<float>(c.i);
    return {round_to(to, f), 0};
  }
  if (!is_float(from)) return {0, wrap(to, c.i)};
  if (std::isnan(c.f)) return {0, 0};
  if (to == DType::u64 && c.f >= 0x1p63) return {0, c.f < 0x1p64 ? static_cast<int64_t>(static_cast<uint64_t>(c.f)) : -1};
  if (c.f >= 0x1p63) return {0, wrap(to, std::numeric_limits<int64_t>::max())};
  if (c.f < -0x1p63) return {0, wrap(to, std::numeric_limits<int64_t>::min())};
  return {0, wrap(to, static_cast<int64_t>(c.f))};
}

/// Threefry-2x32 with 20 rounds; words of counter, key and result: low half first.
/// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
inline uint64_t threefry(uint64_t counter, uint64_t key) {
  static constexpr int kRotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  uint32_t x0 = static_cast<uint32_t>(counter), x1 = static_cast<uint32_t>(counter >> 32);
  uint32_t k[3] = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32), 0};
  k[2] = 0x1BD11BDA ^ k[0] ^ k[1];
  x0 += k[0], x1 += k[1];
  for (int round = 0; round < 20; ++round) {
    int r = kRotations[round % 8];
    x0 += x1;
    x1 = (x1 << r | x1 >> (32 - r)) ^ x0;
    if (round % 4 != 3) continue;
    uint32_t group = static_cast<uint32_t>(round / 4 + 1);
    x0 += k[group % 3];
    x1 += k[(group + 1) % 3] + group;
  }
  return static_cast<uint64_t>(x1) << 32 | x0;
}

[[noreturn]] inline void no_meaning(Op op, DType d) {
  throw std::logic_error(std::string(info(op).name) + " has no meaning for " + info(d).name);
}

inline double apply_float(Op op, double a) {
  switch (op) {
    case Op::NEG: return -a;
    case Op::ABS: return std::fabs(a);
    case Op::FLOOR: return std::floor(a);
    case Op::CEIL: return std::ceil(a);
    case Op::TRUNC: return std::trunc(a);
    case Op::ROUND: return std::nearbyint(a);
    case Op::SQRT: return std::sqrt(a);
    case Op::RECIP: return 1 / a;
    case Op::EXP: return std::exp(a);
    case Op::EXP2: return std::exp2(a);
    case Op::EXPM1: return std::expm1(a);
    case Op::LOG: return std::log(a);
    case Op::LOG2: return std::log2(a);
    case Op::LOG10: return std::log10(a);
    case Op::LOG1P: return std::log1p(a);
    case Op::SIN: return std::sin(a);
    case Op::COS: return std::cos(a);
    case Op::TAN: return std::tan(a);
    case Op::ASIN: return std::asin(a);
    case Op::ACOS: return std::acos(a);
    case Op::ATAN: return std::atan(a);
    case Op::SINH: return std::sinh(a);
    case Op::COSH: return std::cosh(a);
    case Op::TANH: return std::tanh(a);
    case Op::ASINH: return std::asinh(a);
    case Op::ACOSH: return std::acosh(a);
    case Op::ATANH: return std::atanh(a);
    case Op::ERF: return std::erf(a);
    case Op::ERFC: return std::erfc(a);
    case Op::LGAMMA: return std::lgamma(a);
    default: no_meaning(op, DType::f64);
  }
}

inline double apply_float(Op op, double a, double b) {
  switch (op) {
    case Op::ADD: return a + b;
    case Op::SUB: return a - b;
    case Op::MUL: return a * b;
    case Op::FDIV: return a / b;
    case Op::MOD: return std::fmod(a, b);
    case Op::MAX: return std::isnan(a) || std::isnan(b) ? std::nan("") : a > b ? a : b;
    case Op::MIN: return std::isnan(a) || std::isnan(b) ? std::nan("") : a < b ? a : b;
    case Op::POW: return std::pow(a, b);
    case Op::ATAN2: return std::atan2(a, b);
    default: no_meaning(op, DType::f64);
  }
}

inline int64_t apply_int(Op op, DType d, int64_t a) {
  uint64_t u = static_cast<uint64_t>(a);
  switch (op) {
    case Op::NEG: return wrap(d, static_cast<int64_t>(0 - u));
    case Op::NOT: return wrap(d, is_bool(d) ? !a : ~a);
    case Op::ABS: return a < 0 && !is_unsigned(d) ? wrap(d, static_cast<int64_t>(0 - u)) : a;
    default: no_meaning(op, d);
  }
}

inline bool less_int(DType d, int64_t a, int64_t b) {
  return d == DType::u64 ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}

inline int64_t divide(DType d, int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (is_unsigned(d)) return static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
  if (b == -1) return wrap(d, static_cast<int64_t>(0 - static_cast<uint64_t>(a)));
  return a / b;
}

inline int64_t apply_int(Op op, DType d, int64_t a, int64_t b) {
  uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  bool too_far = y >= info(d).bits;
  if (is_bool(d) && (op == Op::ADD || op == Op::MUL)) return op == Op::ADD ? a | b : a & b;
  switch (op) {
    case Op::ADD: return wrap(d, static_cast<int64_t>(x + y));
    case Op::SUB: return wrap(d, static_cast<int64_t>(x - y));
    case Op::MUL: return wrap(d, static_cast<int64_t>(x * y));
    case Op::IDIV: return divide(d, a, b);
    case Op::MOD: return b == 0 ? 0 : wrap(d, static_cast<int64_t>(x - y * static_cast<uint64_t>(divide(d, a, b))));
    case Op::MAX: return less_int(d, a, b) ? b : a;
    case Op::MIN: return less_int(d, b, a) ? b : a;
    case Op::AND: return a & b;
    case Op::OR: return a | b;
    case Op::XOR: return wrap(d, a ^ b);
    case Op::SHL: return too_far ? 0 : wrap(d, static_cast<int64_t>(x << y));
    case Op::SHR: return is_unsigned(d) ? (too_far ? 0 : static_cast<int64_t>(x >> y)) : a >> (too_far ? info(d).bits - 1 : b);
    case Op::THREEFRY: return static_cast<int64_t>(threefry(x, y));
    default: no_meaning(op, d);
  }
}

inline bool compare(Op op, DType d, Cell a, Cell b) {
  bool less = is_float(d) ? a.f < b.f : less_int(d, a.i, b.i), equal = is_float(d) ? a.f == b.f : a.i == b.i;
  switch (op) {
    case Op::CMPLT: return less;
    case Op::CMPLE: return less || equal;
    case Op::CMPEQ: return equal;
    case Op::CMPNE: return !equal;
    default: no_meaning(op, d);
  }
}

/// `op` on elements of dtype `d` (the dtype of the sources; of src1 for WHERE), result dtype `to` for CAST and BITCAST.
inline Cell apply(Op op, DType d, DType to, const Cell* s) {
  switch (op) {
    case Op::CAST: return convert(d, to, s[0]);
    case Op::BITCAST: return bits_cell(to, cell_bits(d, s[0]));
    case Op::WHERE: return s[0].i ? s[1] : s[2];
    case Op::MULACC:
      if (!is_float(d)) return {0, apply_int(Op::ADD, d, apply_int(Op::MUL, d, s[0].i, s[1].i), s[2].i)};
      return float_cell(d, d == DType::f64 ? std::fma(s[0].f, s[1].f, s[2].f) : s[0].f * s[1].f + s[2].f);
    default: break;
  }
  if (has(op, group::Cmp)) return {0, compare(op, d, s[0], s[1])};
  if (has(op, group::Unary)) return is_float(d) ? float_cell(d, apply_float(op, s[0].f)) : Cell{0, apply_int(op, d, s[0].i)};
  if (!has(op, group::Binary)) no_meaning(op, d);
  return is_float(d) ? float_cell(d, apply_float(op, s[0].f, s[1].f)) : Cell{0, apply_int(op, d, s[0].i, s[1].i)};
}

}  // namespace tiny::testing
