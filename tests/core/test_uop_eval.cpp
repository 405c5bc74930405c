// Meaning of the operators on constants; bits of small floats.
#include <gtest/gtest.h>

#include <cmath>

#include "uop/eval.h"
#include "uop/float_bits.h"

namespace tiny {
namespace {

int64_t ints(Op op, DType d, int64_t a, int64_t b = 0) {
  Arg s[2] = {const_arg(d, a), const_arg(d, b)};
  return eval(op, d, d, {s, static_cast<size_t>(info(op).nsrc)}).i;
}
double floats(Op op, DType d, double a, double b = 0) {
  Arg s[2] = {const_arg(d, a), const_arg(d, b)};
  return eval(op, d, d, {s, static_cast<size_t>(info(op).nsrc)}).f;
}

TEST(Eval, IntegersWrap) {
  EXPECT_EQ(ints(Op::ADD, DType::i32, INT32_MAX, 1), INT32_MIN);
  EXPECT_EQ(ints(Op::MUL, DType::u8, 20, 20), 144);
  EXPECT_EQ(ints(Op::NEG, DType::i8, -128), -128);
  EXPECT_EQ(ints(Op::ABS, DType::i64, INT64_MIN), INT64_MIN);
  EXPECT_EQ(ints(Op::SUB, DType::u32, 0, 1), 4294967295);
}

TEST(Eval, DivisionTowardsZeroAndByZero) {
  EXPECT_EQ(ints(Op::IDIV, DType::i32, -7, 2), -3);
  EXPECT_EQ(ints(Op::MOD, DType::i32, -7, 2), -1);
  EXPECT_EQ(ints(Op::IDIV, DType::i64, 5, 0), 0);
  EXPECT_EQ(ints(Op::MOD, DType::i64, 5, 0), 0);
  EXPECT_EQ(ints(Op::IDIV, DType::i64, INT64_MIN, -1), INT64_MIN);
  EXPECT_EQ(ints(Op::MOD, DType::i64, INT64_MIN, -1), 0);
  EXPECT_EQ(ints(Op::IDIV, DType::i8, -128, -1), -128);
  EXPECT_EQ(ints(Op::IDIV, DType::u64, -1, 2), INT64_MAX) << "unsigned";
  EXPECT_EQ(floats(Op::MOD, DType::f32, -7, 4), -3);
}

TEST(Eval, Shifts) {
  EXPECT_EQ(ints(Op::SHL, DType::i32, 1, 31), INT32_MIN);
  EXPECT_EQ(ints(Op::SHL, DType::i32, 1, 32), 0);
  EXPECT_EQ(ints(Op::SHR, DType::i32, -8, 1), -4);
  EXPECT_EQ(ints(Op::SHR, DType::i32, -8, 99), -1);
  EXPECT_EQ(ints(Op::SHR, DType::u8, 255, 9), 0);
  EXPECT_EQ(ints(Op::SHL, DType::i8, 1, -1), 0);
}

TEST(Eval, Bool) {
  EXPECT_EQ(ints(Op::ADD, DType::bool_, 1, 1), 1);
  EXPECT_EQ(ints(Op::MUL, DType::bool_, 1, 0), 0);
  EXPECT_EQ(ints(Op::NOT, DType::bool_, 1), 0);
  EXPECT_EQ(ints(Op::XOR, DType::bool_, 1, 1), 0);
  EXPECT_EQ(ints(Op::NOT, DType::u8, 1), 254);
}

TEST(Eval, Floats) {
  double nan = NAN;
  EXPECT_TRUE(std::isnan(floats(Op::MAX, DType::f32, nan, 1)));
  EXPECT_TRUE(std::isnan(floats(Op::MIN, DType::f32, 1, nan)));
  EXPECT_EQ(floats(Op::ADD, DType::f32, 16777216, 1), 16777216) << "rounded to f32";
  EXPECT_EQ(floats(Op::ADD, DType::bf16, 256, 1), 256) << "rounded to bf16";
  EXPECT_EQ(floats(Op::ADD, DType::f64, 16777216, 1), 16777217);
  EXPECT_EQ(floats(Op::ROUND, DType::f32, 2.5), 2);
  EXPECT_EQ(floats(Op::ROUND, DType::f32, -0.5), 0);
  EXPECT_TRUE(std::signbit(floats(Op::ROUND, DType::f32, -0.5)));
  EXPECT_EQ(floats(Op::FDIV, DType::f32, 1, 3), static_cast<double>(1.0f / 3.0f));
  EXPECT_EQ(floats(Op::EXP, DType::f32, 1), static_cast<double>(static_cast<float>(std::exp(1.0))));
  EXPECT_EQ(floats(Op::MUL, DType::f16, 300, 300), INFINITY);
}

int64_t compare(Op op, DType d, Arg a, Arg b) {
  Arg s[2] = {a, b};
  return eval(op, DType::bool_, d, s).i;
}

TEST(Eval, Comparisons) {
  Arg nan = Arg::from_double(NAN), one = Arg::from_double(1);
  EXPECT_EQ(compare(Op::CMPLT, DType::f32, nan, one), 0);
  EXPECT_EQ(compare(Op::CMPLE, DType::f32, nan, one), 0);
  EXPECT_EQ(compare(Op::CMPEQ, DType::f32, nan, nan), 0);
  EXPECT_EQ(compare(Op::CMPNE, DType::f32, nan, nan), 1);
  EXPECT_EQ(compare(Op::CMPEQ, DType::f32, Arg::from_double(0.0), Arg::from_double(-0.0)), 1);
  EXPECT_EQ(compare(Op::CMPLT, DType::u64, Arg(int64_t{1}), Arg(int64_t{-1})), 1);
  EXPECT_EQ(compare(Op::CMPLT, DType::i64, Arg(int64_t{1}), Arg(int64_t{-1})), 0);
}

TEST(Eval, Conversions) {
  EXPECT_EQ(convert(Arg::from_double(-1.5), DType::f32, DType::i32).i, -1);
  EXPECT_EQ(convert(Arg::from_double(-1), DType::f32, DType::u8).i, 255);
  EXPECT_EQ(convert(Arg::from_double(1.8446744073709550e19), DType::f64, DType::u64).bits, 18446744073709549568ull);
  EXPECT_EQ(convert(Arg(INT64_MAX), DType::i64, DType::f32).f, 9223372036854775808.0);
  EXPECT_EQ(convert(Arg(int64_t{-1}), DType::u64, DType::f64).f, 18446744073709551616.0);
  EXPECT_EQ(convert(Arg::from_double(NAN), DType::f32, DType::bool_).i, 1);
  EXPECT_EQ(convert(Arg(int64_t{-1}), DType::i8, DType::u32).i, 4294967295);
  Arg one = Arg::from_double(1);
  EXPECT_EQ(eval(Op::BITCAST, DType::i32, DType::f32, {&one, 1}).i, 0x3F800000);
  Arg half{int64_t{0x3C00}};
  EXPECT_EQ(eval(Op::BITCAST, DType::f16, DType::i16, {&half, 1}).f, 1.0);
}

TEST(Eval, ThreefryKnownAnswers) {  // Random123's kat_vectors, threefry2x32 with 20 rounds
  EXPECT_EQ(threefry(0, 0), 0x99BA4EFE6B200159ull);
  EXPECT_EQ(threefry(UINT64_MAX, UINT64_MAX), 0xBB002BE71CB996FCull);
  EXPECT_EQ(threefry(0x85A308D3243F6A88ull, 0x0370734413198A2Eull), 0x483DF7A0C4923A9Cull);
}

TEST(FloatBits, HalfAgreesWithTheCompiler) {
  for (uint32_t v = 0; v < 65536; ++v) {
    uint16_t bits = static_cast<uint16_t>(v);
    float mine = half_to_float(bits), theirs = static_cast<float>(std::bit_cast<_Float16>(bits));
    if (std::isnan(theirs)) {
      ASSERT_TRUE(std::isnan(mine)) << v;
      continue;
    }
    ASSERT_EQ(std::bit_cast<uint32_t>(mine), std::bit_cast<uint32_t>(theirs)) << v;
    ASSERT_EQ(float_to_half(mine), bits);
  }
  for (uint64_t v = 0; v < uint64_t{1} << 32; v += 997) {
    float f = std::bit_cast<float>(static_cast<uint32_t>(v));
    if (std::isnan(f)) continue;
    ASSERT_EQ(float_to_half(f), std::bit_cast<uint16_t>(static_cast<_Float16>(f))) << v;
  }
}

/// Nearest of all values of a small format, ties to the even code.
template <class Decode>
uint8_t nearest(float f, uint8_t greatest, Decode decode) {
  uint8_t best = 0;
  for (int v = 0; v <= greatest; ++v) {
    double d = std::fabs(static_cast<double>(decode(static_cast<uint8_t>(v))) - static_cast<double>(std::fabs(f)));
    double b = std::fabs(static_cast<double>(decode(best)) - static_cast<double>(std::fabs(f)));
    if (d < b || (d == b && v % 2 == 0)) best = static_cast<uint8_t>(v);
  }
  return static_cast<uint8_t>(best | (std::signbit(f) ? 0x80 : 0));
}

TEST(FloatBits, EighthFloatsRoundToNearest) {
  for (int64_t t = -70000; t <= 70000; t += 7) {
    float f = static_cast<float>(t) * 0.0127f;
    if (std::fabs(f) < 448) {
      ASSERT_EQ(float_to_f8e4m3(f), nearest(f, 0x7E, f8e4m3_to_float)) << f;
    }
    float small = static_cast<float>(t) * 1e-7f, large = static_cast<float>(t) * 0.8f;
    ASSERT_EQ(float_to_f8e4m3(small), nearest(small, 0x7E, f8e4m3_to_float)) << small;
    ASSERT_EQ(float_to_f8e5m2(small), nearest(small, 0x7B, f8e5m2_to_float)) << small;
    ASSERT_EQ(float_to_f8e5m2(large), nearest(large, 0x7B, f8e5m2_to_float)) << large;
  }
  EXPECT_EQ(float_to_f8e4m3(464), 0x7E) << "a tie, to 448";
  EXPECT_EQ(float_to_f8e4m3(465), 0x7F) << "NaN: the type has no infinity";
  EXPECT_EQ(float_to_f8e5m2(61440), 0x7C) << "a tie, to infinity";
  EXPECT_EQ(float_to_f8e5m2(61439), 0x7B);
  EXPECT_TRUE(std::isnan(f8e4m3_to_float(0xFF)));
  EXPECT_EQ(f8e5m2_to_float(0xFC), -INFINITY);
  for (int v = 0; v < 256; ++v) {
    uint8_t b = static_cast<uint8_t>(v);
    EXPECT_TRUE(std::isnan(f8e4m3_to_float(b)) || float_to_f8e4m3(f8e4m3_to_float(b)) == b) << v;
    EXPECT_TRUE(std::isnan(f8e5m2_to_float(b)) || float_to_f8e5m2(f8e5m2_to_float(b)) == b) << v;
  }
}

TEST(FloatBits, Bf16) {
  EXPECT_EQ(float_to_bf16(1.0f), 0x3F80);
  EXPECT_EQ(float_to_bf16(1.00390625f), 0x3F80) << "a tie, to even";
  EXPECT_EQ(float_to_bf16(1.01171875f), 0x3F82) << "a tie, to even";
  EXPECT_EQ(float_to_bf16(3.4e38f), 0x7F80);
  EXPECT_EQ(float_to_bf16(NAN), 0x7FC0);
  EXPECT_EQ(float_to_bf16(-0.0f), 0x8000);
  EXPECT_EQ(bf16_to_float(0x0001), std::bit_cast<float>(0x10000));
}

TEST(FloatBits, StorageRoundTrip) {
  for (int d = 1; d < static_cast<int>(DType::count); ++d) {
    DType t = static_cast<DType>(d);
    for (double v : {0.0, 1.0, 2.0}) {
      Arg a = const_arg(t, v);
      EXPECT_EQ(from_storage_bits(storage_bits(a, t), t).bits, a.bits) << info(t).name;
    }
  }
  EXPECT_EQ(from_storage_bits(0xFF, DType::i8).i, -1);
  EXPECT_EQ(storage_bits(Arg(int64_t{-1}), DType::i16), 0xFFFFu);
}

}  // namespace
}  // namespace tiny
