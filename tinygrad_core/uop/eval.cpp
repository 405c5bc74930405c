#include "uop/eval.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "uop/float_bits.h"

namespace tiny {
namespace {

/// The low bits of `v` as dtype `d` holds them, extended to 64 bits.
Arg wrap(uint64_t v, DType d) {
  if (is_bool(d)) return Arg(static_cast<int64_t>(v != 0));
  int drop = 64 - info(d).bits;
  if (is_signed(d)) return Arg(static_cast<int64_t>(v << drop) >> drop);
  return Arg(static_cast<int64_t>(v << drop >> drop));
}

/// `v` rounded to the float type `d`; f32 first, then reduced.
double round_to(DType d, double v) {
  if (d == DType::f64) return v;
  float f = static_cast<float>(v);
  switch (d) {
    case DType::f16: return half_to_float(float_to_half(f));
    case DType::bf16: return bf16_to_float(float_to_bf16(f));
    case DType::f8e4m3: return f8e4m3_to_float(float_to_f8e4m3(f));
    case DType::f8e5m2: return f8e5m2_to_float(float_to_f8e5m2(f));
    default: return f;
  }
}

uint64_t float_to_int(double v, DType to) {
  constexpr double two63 = 9223372036854775808.0;
  if (v >= -two63 && v < two63) return static_cast<uint64_t>(static_cast<int64_t>(v));
  if (to == DType::u64 && v >= two63 && v < 2 * two63) return static_cast<uint64_t>(v);
  return 1ull << 63;
}

template <class T>
T float_unary(Op op, T a) {
  switch (op) {
    case Op::NEG: return -a;
    case Op::ABS: return std::fabs(a);
    case Op::FLOOR: return std::floor(a);
    case Op::CEIL: return std::ceil(a);
    case Op::TRUNC: return std::trunc(a);
    case Op::ROUND: return std::nearbyint(a);
    case Op::SQRT: return std::sqrt(a);
    case Op::RECIP: return T(1) / a;
    default: break;
  }
  double x = a, r = 0;  // f32 is computed in f64 and rounded once
  int sign;
  switch (op) {
    case Op::EXP: r = std::exp(x); break;
    case Op::EXP2: r = std::exp2(x); break;
    case Op::EXPM1: r = std::expm1(x); break;
    case Op::LOG: r = std::log(x); break;
    case Op::LOG2: r = std::log2(x); break;
    case Op::LOG10: r = std::log10(x); break;
    case Op::LOG1P: r = std::log1p(x); break;
    case Op::SIN: r = std::sin(x); break;
    case Op::COS: r = std::cos(x); break;
    case Op::TAN: r = std::tan(x); break;
    case Op::ASIN: r = std::asin(x); break;
    case Op::ACOS: r = std::acos(x); break;
    case Op::ATAN: r = std::atan(x); break;
    case Op::SINH: r = std::sinh(x); break;
    case Op::COSH: r = std::cosh(x); break;
    case Op::TANH: r = std::tanh(x); break;
    case Op::ASINH: r = std::asinh(x); break;
    case Op::ACOSH: r = std::acosh(x); break;
    case Op::ATANH: r = std::atanh(x); break;
    case Op::ERF: r = std::erf(x); break;
    case Op::ERFC: r = std::erfc(x); break;
    case Op::LGAMMA: r = lgamma_r(x, &sign); break;  // lgamma writes a global
    default: TINY_ASSERT(false, std::string("no value for ") + info(op).name);
  }
  return static_cast<T>(r);
}

template <class T>
T float_binary(Op op, T a, T b) {
  switch (op) {
    case Op::ADD: return a + b;
    case Op::SUB: return a - b;
    case Op::MUL: return a * b;
    case Op::FDIV: return a / b;
    case Op::MOD: return std::fmod(a, b);
    case Op::MAX: return std::isnan(a) ? a : std::isnan(b) || a < b ? b : a;
    case Op::MIN: return std::isnan(a) ? a : std::isnan(b) || b < a ? b : a;
    case Op::POW: return static_cast<T>(std::pow(static_cast<double>(a), static_cast<double>(b)));
    case Op::ATAN2: return static_cast<T>(std::atan2(static_cast<double>(a), static_cast<double>(b)));
    default: TINY_ASSERT(false, std::string("no value for ") + info(op).name);
  }
  return 0;
}

template <class T>
double float_op(Op op, std::span<const Arg> s) {
  T a = static_cast<T>(s[0].f);
  if (has(op, group::Unary)) return float_unary<T>(op, a);
  T b = static_cast<T>(s[1].f);
  if (op == Op::MULACC) return std::fma(a, b, static_cast<T>(s[2].f));
  return float_binary<T>(op, a, b);
}

template <class T>  // int64_t or uint64_t: the sign matters to some
uint64_t int_op(Op op, DType d, std::span<const Arg> s) {
  T a = static_cast<T>(s[0].i), b = s.size() > 1 ? static_cast<T>(s[1].i) : T(0);
  uint64_t x = s[0].bits, y = static_cast<uint64_t>(b);
  bool shifts_out = y >= info(d).bits;
  switch (op) {
    case Op::NEG: return is_bool(d) ? x : 0 - x;
    case Op::NOT: return is_bool(d) ? !x : ~x;
    case Op::ABS: return a < T(0) ? 0 - x : x;
    case Op::ADD: return is_bool(d) ? x | y : x + y;
    case Op::SUB: return is_bool(d) ? x ^ y : x - y;
    case Op::MUL: return x * y;
    case Op::IDIV: return b == T(0) ? 0 : b == static_cast<T>(-1) && is_signed(d) ? 0 - x : static_cast<uint64_t>(a / b);
    case Op::MOD: return b == T(0) || (b == static_cast<T>(-1) && is_signed(d)) ? 0 : static_cast<uint64_t>(a % b);
    case Op::MAX: return a < b ? y : x;
    case Op::MIN: return b < a ? y : x;
    case Op::AND: return x & y;
    case Op::OR: return x | y;
    case Op::XOR: return x ^ y;
    case Op::SHL: return shifts_out ? 0 : x << y;
    case Op::SHR: return static_cast<uint64_t>(shifts_out ? (a < T(0) ? T(-1) : T(0)) : a >> y);
    case Op::THREEFRY: return threefry(x, y);
    case Op::MULACC: return x * y + s[2].bits;
    default: TINY_ASSERT(false, std::string("no value for ") + info(op).name);
  }
  return 0;
}

template <class T>
bool compare(Op op, T a, T b) {
  switch (op) {
    case Op::CMPLT: return a < b;
    case Op::CMPLE: return a <= b;
    case Op::CMPEQ: return a == b;
    default: return a != b;
  }
}

}  // namespace

Arg convert(Arg v, DType from, DType to) {
  if (from == to) return v;
  if (is_float(from)) {
    if (is_float(to)) return Arg::from_double(round_to(to, v.f));
    if (is_bool(to)) return Arg(static_cast<int64_t>(v.f != 0));
    return wrap(float_to_int(v.f, to), to);
  }
  if (!is_float(to)) return wrap(v.bits, to);
  if (to == DType::f64) return Arg::from_double(from == DType::u64 ? static_cast<double>(v.bits) : static_cast<double>(v.i));
  return Arg::from_double(round_to(to, from == DType::u64 ? static_cast<float>(v.bits) : static_cast<float>(v.i)));
}

uint64_t storage_bits(Arg v, DType d) {
  switch (d) {
    case DType::f64: return v.bits;
    case DType::f32: return std::bit_cast<uint32_t>(static_cast<float>(v.f));
    case DType::f16: return float_to_half(static_cast<float>(v.f));
    case DType::bf16: return float_to_bf16(static_cast<float>(v.f));
    case DType::f8e4m3: return float_to_f8e4m3(static_cast<float>(v.f));
    case DType::f8e5m2: return float_to_f8e5m2(static_cast<float>(v.f));
    default: return info(d).bits == 64 ? v.bits : v.bits & ((1ull << info(d).bits) - 1);
  }
}

Arg from_storage_bits(uint64_t bits, DType d) {
  switch (d) {
    case DType::f64: return Arg::from_double(std::bit_cast<double>(bits));
    case DType::f32: return Arg::from_double(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    case DType::f16: return Arg::from_double(half_to_float(static_cast<uint16_t>(bits)));
    case DType::bf16: return Arg::from_double(bf16_to_float(static_cast<uint16_t>(bits)));
    case DType::f8e4m3: return Arg::from_double(f8e4m3_to_float(static_cast<uint8_t>(bits)));
    case DType::f8e5m2: return Arg::from_double(f8e5m2_to_float(static_cast<uint8_t>(bits)));
    default: return wrap(bits, d);
  }
}

uint64_t threefry(uint64_t counter, uint64_t key) {
  constexpr int rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  uint32_t k[3] = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32), 0};
  k[2] = 0x1BD11BDA ^ k[0] ^ k[1];
  uint32_t x = static_cast<uint32_t>(counter) + k[0], y = static_cast<uint32_t>(counter >> 32) + k[1];
  for (uint32_t i = 0; i < 20; ++i) {
    x += y;
    y = std::rotl(y, rotations[i % 8]) ^ x;
    if (i % 4 == 3) x += k[(i / 4 + 1) % 3], y += k[(i / 4 + 2) % 3] + i / 4 + 1;
  }
  return static_cast<uint64_t>(y) << 32 | x;
}

Arg eval(Op op, DType dtype, DType source, std::span<const Arg> src) {
  if (op == Op::WHERE) return src[0].i ? src[1] : src[2];
  if (op == Op::CAST) return convert(src[0], source, dtype);
  if (op == Op::DOT2) {
    auto half = [&](int k, int shift) { return bf16_to_float(static_cast<uint16_t>(src[static_cast<size_t>(k)].bits >> shift)); };
    float sum = static_cast<float>(src[2].f) + half(0, 0) * half(1, 0);
    return Arg::from_double(sum + half(0, 16) * half(1, 16));
  }
  if (op == Op::BITCAST) return from_storage_bits(storage_bits(src[0], source), dtype);
  if (has(op, group::Cmp)) {
    bool r = is_float(source)            ? compare(op, src[0].f, src[1].f)
             : source == DType::u64      ? compare(op, src[0].bits, src[1].bits)
                                         : compare(op, src[0].i, src[1].i);
    return Arg(static_cast<int64_t>(r));
  }
  if (dtype == DType::f64) return Arg::from_double(float_op<double>(op, src));
  if (is_float(dtype)) return Arg::from_double(round_to(dtype, float_op<float>(op, src)));
  return wrap(is_signed(dtype) ? int_op<int64_t>(op, dtype, src) : int_op<uint64_t>(op, dtype, src), dtype);
}

}  // namespace tiny
