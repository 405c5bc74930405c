// Spelling of operators in C++ with the vector extensions of GCC and Clang. {0} {1} {2}: sources; {T}: the result's type.
// Vectors of bool are vectors of i32 holding 0 or -1; a comparison of vectors gives integers as wide as its sources.
#pragma once
#include "uop/uop.h"

namespace tiny {

struct CSpelling {
  Op op;
  const char *f, *s, *u;     // floats, signed and unsigned integers, scalars or vectors
  const char *b, *b_vector;  // bool
};
inline constexpr CSpelling kCOps[] = {
  {Op::NEG, "-{0}", "-{0}", "-{0}", "{0}", "{0}"},
  {Op::NOT, nullptr, "~{0}", "~{0}", "!{0}", "~{0}"},
  {Op::ABS, nullptr, "{0} < 0 ? -{0} : {0}", "{0}", "{0}", "{0}"},
  {Op::ADD, "{0} + {1}", "{0} + {1}", "{0} + {1}", "{0} | {1}", "{0} | {1}"},
  {Op::SUB, "{0} - {1}", "{0} - {1}", "{0} - {1}", "{0} ^ {1}", "{0} ^ {1}"},
  {Op::MUL, "{0} * {1}", "{0} * {1}", "{0} * {1}", "{0} & {1}", "{0} & {1}"},
  {Op::FDIV, "{0} / {1}", nullptr, nullptr, nullptr, nullptr},
  {Op::IDIV, nullptr, "{0} / {1}", "{0} / {1}", nullptr, nullptr},
  {Op::MOD, nullptr, "{0} % {1}", "{0} % {1}", nullptr, nullptr},
  {Op::MAX, "{1} != {1} ? {1} : {1} > {0} ? {1} : {0}", "{0} > {1} ? {0} : {1}", "{0} > {1} ? {0} : {1}", "{0} | {1}", "{0} | {1}"},
  {Op::MIN, "{1} != {1} ? {1} : {1} < {0} ? {1} : {0}", "{0} < {1} ? {0} : {1}", "{0} < {1} ? {0} : {1}", "{0} & {1}", "{0} & {1}"},
  {Op::AND, nullptr, "{0} & {1}", "{0} & {1}", "{0} & {1}", "{0} & {1}"},
  {Op::OR, nullptr, "{0} | {1}", "{0} | {1}", "{0} | {1}", "{0} | {1}"},
  {Op::XOR, nullptr, "{0} ^ {1}", "{0} ^ {1}", "{0} ^ {1}", "{0} ^ {1}"},
  {Op::SHL, nullptr, "{0} << {1}", "{0} << {1}", nullptr, nullptr},
  {Op::SHR, nullptr, "{0} >> {1}", "{0} >> {1}", nullptr, nullptr},
  {Op::CMPLT, "{0} < {1}", "{0} < {1}", "{0} < {1}", "{0} < {1}", "~{0} & {1}"},
  {Op::CMPLE, "{0} <= {1}", "{0} <= {1}", "{0} <= {1}", "{0} <= {1}", "~{0} | {1}"},
  {Op::CMPEQ, "{0} == {1}", "{0} == {1}", "{0} == {1}", "{0} == {1}", "~({0} ^ {1})"},
  {Op::CMPNE, "{0} != {1}", "{0} != {1}", "{0} != {1}", "{0} != {1}", "{0} ^ {1}"},
};

/// Operators that are functions of a scalar: name as the kernel calls it, C's for f32 and f64. Vectors go lane by lane,
/// unless kCBuiltins has a row for the type.
struct CFunction {
  Op op;
  const char *name, *f32, *f64;
};
inline constexpr CFunction kCFunctions[] = {
  {Op::ABS, "abs", "__builtin_fabsf", "__builtin_fabs"},     {Op::FLOOR, "floor", "__builtin_floorf", "__builtin_floor"},
  {Op::CEIL, "ceil", "__builtin_ceilf", "__builtin_ceil"},   {Op::TRUNC, "trunc", "__builtin_truncf", "__builtin_trunc"},
  {Op::ROUND, "round", "__builtin_rintf", "__builtin_rint"}, {Op::SQRT, "sqrt", "__builtin_sqrtf", "__builtin_sqrt"},
  {Op::MULACC, "fma", "__builtin_fmaf", "__builtin_fma"},
};

/// Vector instructions behind a function: `name` with its type, where the compiler defines `macro`.
struct CBuiltin {
  const char *name, *macro, *text;
};
inline constexpr CBuiltin kCBuiltins[] = {
  {"sqrt_f32x4", "__SSE2__", "__builtin_ia32_sqrtps({0})"},
  {"sqrt_f32x8", "__AVX__", "__builtin_ia32_sqrtps256({0})"},
  {"sqrt_f64x4", "__AVX__", "__builtin_ia32_sqrtpd256({0})"},
  {"fma_f32x4", "__FMA__", "__builtin_ia32_vfmaddps({0}, {1}, {2})"},
  {"fma_f32x8", "__FMA__", "__builtin_ia32_vfmaddps256({0}, {1}, {2})"},
  {"fma_f64x2", "__FMA__", "__builtin_ia32_vfmaddpd({0}, {1}, {2})"},
  {"fma_f64x4", "__FMA__", "__builtin_ia32_vfmaddpd256({0}, {1}, {2})"},
  {"floor_f32x8", "__AVX__", "__builtin_ia32_roundps256({0}, 9)"},
  {"ceil_f32x8", "__AVX__", "__builtin_ia32_roundps256({0}, 10)"},
  {"trunc_f32x8", "__AVX__", "__builtin_ia32_roundps256({0}, 11)"},
  {"round_f32x8", "__AVX__", "__builtin_ia32_roundps256({0}, 8)"},
  {"f16_to_f32x8", "__F16C__", "__builtin_ia32_vcvtph2ps256((c16x8){0})"},
  {"f32_to_f16x8", "__F16C__", "(u16x8)__builtin_ia32_vcvtps2ph256({0}, 0)"},
};

/// Types and conversions that every kernel starts with. f16 and bf16 are held as the integers of their bits.
inline constexpr const char* kCPrelude = R"(typedef unsigned char u8; typedef signed char i8; typedef short i16; typedef unsigned short u16;
typedef int i32; typedef unsigned int u32; typedef long long i64; typedef unsigned long long u64; typedef float f32; typedef double f64;
typedef short c16x8 __attribute__((vector_size(16)));
template <class To, class From> static inline To bits(From v) {
  To r; static_assert(sizeof r == sizeof v); __builtin_memcpy(&r, &v, sizeof r); return r;
}
template <class F> static inline u64 float_to_u64(F v) { return v >= (F)0x1p63 ? (u64)(i64)(v - (F)0x1p63) ^ 1ull << 63 : (u64)(i64)v; }
static inline f32 bf16_to_f32(u16 v) { return bits<f32>((u32)v << 16); }
static inline u16 f32_to_bf16(f32 v) { u32 b = bits<u32>(v); return v != v ? 0x7fc0 : (b + 0x7fff + (b >> 16 & 1)) >> 16; }
#if defined(__F16C__)
static inline f32 f16_to_f32(u16 v) { c16x8 w = {(short)v}; return __builtin_ia32_vcvtph2ps(w)[0]; }
typedef float w32x4 __attribute__((vector_size(16)));
static inline u16 f32_to_f16(f32 v) { w32x4 w = {v}; return (u16)__builtin_ia32_vcvtps2ph(w, 0)[0]; }
#elif defined(__aarch64__)
static inline f32 f16_to_f32(u16 v) { return bits<__fp16>(v); }
static inline u16 f32_to_f16(f32 v) { return bits<u16>((__fp16)v); }
#endif
)";

}  // namespace tiny
