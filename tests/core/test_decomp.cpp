// Decomposed operators, compiled and run, against the C library in double precision and against the interpreter's arithmetic.
#include <cmath>
#include <random>

#include "codegen/decomp.h"
#include "kernel_builder.h"
#include "uop/eval.h"
#include "uop/float_bits.h"

namespace tiny {
namespace {

const CpuRenderer& fastest() { return make_llvm_compiler(host_caps()) ? kLlvm : kC; }

Caps caps_without_fma() {
  CpuTarget t = parse_cpu_target(host_caps().target);
  std::string features;
  for (const std::string& f : t.features)
    if (f != "fma" && f != "f16c" && f.rfind("avx512", 0) != 0) features += (features.empty() ? "" : ",") + f;
  return cpu_caps(t.arch + "::" + features);
}

/// out[i] = op(in0[i], in1[i], ..) for n elements, decomposed for `caps`, in vectors of `lanes`.
LoadedKernel elementwise_kernel(Op op, std::vector<DType> in, DType out, int64_t n, int64_t lanes, const Caps& caps) {
  KernelBuilder k("elementwise");
  U result = k.param(0, out, n), g = k.global(n / lanes, 0);
  std::vector<UOp*> src;
  for (size_t i = 0; i < in.size(); ++i) src.push_back(k.load(k.param(static_cast<int>(i) + 1, in[i], n), g * lanes, lanes));
  U store = node(Op::STORE, DType::void_, {k.index(result, g * lanes), node(op, out, src)}, {}, lanes);
  k.add(decompose(store, caps));
  return build(fastest(), k.program, caps);
}

double ulps(float got, double want) {
  float f = static_cast<float>(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e30;
  if (std::isnan(got)) return 1e30;
  if (std::isinf(want)) return got == f ? 0 : 1e30;
  double limit = std::numeric_limits<float>::max();
  if (std::isinf(got)) return std::fabs(want) > limit * (1 - 0x1p-23) && (got > 0) == (want > 0) ? 1 : 1e30;
  int e = std::max(std::ilogb(want == 0 ? 0x1p-149 : want), -126);
  if (want == 0 && std::signbit(got) != std::signbit(want)) return 1e30;
  return std::fabs(got - want) / std::ldexp(1.0, std::min(e, 127) - 23);
}

struct Function {
  Op op;
  double (*reference)(double);
  float limit;  // of |x| tested densely besides all bit patterns
};
double ref_exp2(double x) { return std::exp2(x); }
#define ROW(OP, f, limit) Function{Op::OP, [](double x) { return static_cast<double>(f(x)); }, limit}
const Function kFunctions[] = {
  ROW(EXP, std::exp, 100), ROW(EXP2, ref_exp2, 150), ROW(EXPM1, std::expm1, 100), ROW(LOG, std::log, 4), ROW(LOG2, std::log2, 4),
  ROW(LOG10, std::log10, 4), ROW(LOG1P, std::log1p, 4), ROW(SIN, std::sin, 5000), ROW(COS, std::cos, 5000), ROW(TAN, std::tan, 5000),
  ROW(ASIN, std::asin, 1), ROW(ACOS, std::acos, 1), ROW(ATAN, std::atan, 10), ROW(SINH, std::sinh, 100), ROW(COSH, std::cosh, 100),
  ROW(TANH, std::tanh, 10), ROW(ASINH, std::asinh, 10), ROW(ACOSH, std::acosh, 10), ROW(ATANH, std::atanh, 1), ROW(ERF, std::erf, 5),
  ROW(ERFC, std::erfc, 11),
};
#undef ROW

std::string function_name(const Function& f) { return info(f.op).name; }

class Transcendental : public testing::TestWithParam<std::tuple<Function, bool>> {};

TEST_P(Transcendental, WithinTwoUlps) {
  auto [f, with_fma] = GetParam();
  Caps caps = with_fma ? host_caps() : caps_without_fma();
  constexpr int64_t n = 1 << 16;
  LoadedKernel kernel = elementwise_kernel(f.op, {DType::f32}, DType::f32, n, 8, caps);
  std::vector<float> in(n), out(n);
  double worst = 0;
  float worst_at = 0, worst_got = 0;
  auto check = [&] {
    kernel.run({out.data(), in.data()});
    for (int64_t i = 0; i < n; ++i) {
      double u = ulps(out[i], f.reference(in[i]));
      if (u > worst) worst = u, worst_at = in[i], worst_got = out[i];
    }
  };
  uint32_t bits = 0;
  const uint32_t stride = 2003;  // about two million patterns, all exponents
  for (uint64_t at = 0; at < (1ull << 32) / stride; at += n) {
    for (int64_t i = 0; i < n; ++i, bits += stride) in[i] = std::bit_cast<float>(bits);
    check();
  }
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-f.limit, f.limit);
  for (int round = 0; round < 16; ++round) {
    for (float& x : in) x = uniform(random);
    check();
  }
  const float special[] = {0.f, -0.f, 1.f, -1.f, 0.5f, INFINITY, -INFINITY, NAN, 0x1p-149f, -0x1p-149f, 0x1p-126f, 3.4028235e38f,
                           -3.4028235e38f, 0x1.921fb6p0f, 0x1.921fb6p1f, 4096.f, 4095.9998f, 0x1p24f, 0.625f, 0.9f};
  for (size_t i = 0; i < in.size(); ++i) in[i] = special[i % std::size(special)];
  check();
  RecordProperty("ulps", std::to_string(worst));
  printf("  %-6s %s: %.3f ulp at %a (%.9g), got %a\n", info(f.op).name, with_fma ? "fma" : "no fma", worst, worst_at, worst_at, worst_got);
  EXPECT_LE(worst, 2.0);
}
INSTANTIATE_TEST_SUITE_P(All, Transcendental, testing::Combine(testing::ValuesIn(kFunctions), testing::Bool()),
                         [](const auto& p) { return function_name(std::get<0>(p.param)) + (std::get<1>(p.param) ? "" : "_no_fma"); });

void check_two_sources(Op op, double (*reference)(double, double), double limit) {
  constexpr int64_t n = 1 << 16;
  LoadedKernel kernel = elementwise_kernel(op, {DType::f32, DType::f32}, DType::f32, n, 8, host_caps());
  std::vector<float> a(n), b(n), out(n);
  std::mt19937 random(11);
  const float special[] = {0.f, -0.f, 1.f, -1.f, 2.f, -2.f, 3.f, -3.f, 0.5f, -0.5f, INFINITY, -INFINITY, NAN, 0x1p-149f, 3.4028235e38f,
                           0x1p24f, 0x1.000002p24f, -2.5f};
  double worst = 0;
  for (int round = 0; round < 24; ++round) {
    for (int64_t i = 0; i < n; ++i) {
      if (round == 0) {
        a[i] = special[i % std::size(special)], b[i] = special[i / std::size(special) % std::size(special)];
      } else if (round < 12) {
        a[i] = std::bit_cast<float>(static_cast<uint32_t>(random())), b[i] = std::bit_cast<float>(static_cast<uint32_t>(random()));
      } else {
        std::uniform_real_distribution<float> u(static_cast<float>(-limit), static_cast<float>(limit));
        a[i] = u(random), b[i] = round % 2 ? std::round(u(random)) : u(random);
      }
    }
    kernel.run({out.data(), a.data(), b.data()});
    for (int64_t i = 0; i < n; ++i) {
      double u = ulps(out[i], reference(a[i], b[i]));
      worst = std::max(worst, u);
      ASSERT_LE(u, 2.0) << info(op).name << "(" << a[i] << ", " << b[i] << ") = " << out[i] << ", not " << reference(a[i], b[i]);
    }
  }
  printf("  %s: %.3f ulp\n", info(op).name, worst);
}
TEST(Decompose, Power) { check_two_sources(Op::POW, [](double x, double y) { return std::pow(x, y); }, 20); }
TEST(Decompose, Atan2) { check_two_sources(Op::ATAN2, [](double y, double x) { return std::atan2(y, x); }, 20); }

/// f64 functions of targets without a C library, against long double.
struct WideFunction {
  Op op;
  long double (*reference)(long double);
  double from, to;  // where they are tested densely, besides all bit patterns
};
const WideFunction kWideFunctions[] = {
  {Op::EXP2, std::exp2, -1080, 1030},  {Op::EXPM1, std::expm1, -45, 715}, {Op::EXPM1, std::expm1, -2, 2},  {Op::LOG2, std::log2, 0, 3},
  {Op::LOG10, std::log10, 0, 3},       {Op::LOG1P, std::log1p, -1, 3},    {Op::TANH, std::tanh, -3, 3},    {Op::TANH, std::tanh, -25, 25},
  {Op::SINH, std::sinh, -2, 2},        {Op::SINH, std::sinh, -715, 715},  {Op::COSH, std::cosh, -715, 715}, {Op::ASINH, std::asinh, -3, 3},
  {Op::ACOSH, std::acosh, 1, 4},       {Op::ATANH, std::atanh, -1, 1},    {Op::SIN, std::sin, -10, 10},  {Op::SIN, std::sin, -1e6, 1e6},
  {Op::COS, std::cos, -10, 10},        {Op::COS, std::cos, -1e15, 1e15},  {Op::TAN, std::tan, -10, 10},  {Op::ASIN, std::asin, -1, 1},
  {Op::ACOS, std::acos, -1, 1},        {Op::ATAN, std::atan, -4, 4},      {Op::ERF, std::erf, -4, 4},    {Op::ERFC, std::erfc, -4, 4},
  {Op::ERFC, std::erfc, 0, 27.5},
};

TEST(Decompose, DoubleFunctionsWithoutALibrary) {
  constexpr int64_t n = 1 << 14;
  Caps lanes = host_caps();
  lanes.has_local = true;
  for (const WideFunction& f : kWideFunctions) {
    KernelBuilder k("elementwise");
    U result = k.param(0, DType::f64, n), g = k.global(n / 4, 0), x = k.load(k.param(1, DType::f64, n), g * 4, 4);
    k.add(decompose(node(Op::STORE, DType::void_, {k.index(result, g * 4), node(f.op, DType::f64, {x})}, {}, 4), lanes));
    LoadedKernel kernel = build(fastest(), k.program, host_caps());
    std::vector<double> in(n), out(n);
    std::mt19937_64 random(5);
    const double special[] = {0., -0., 1., -1., 0.5, INFINITY, -INFINITY, NAN, 0x1p-1074, -0x1p-1074, 0x1p-1022, 1.7976931348623157e308,
                              0x1.6ac5b262ca1ffp+849, 0x1p-60, 709.7, 710.4, 0x1p45,
                              0x1.fffffffffffffp44, 0x1.921fb54442d18p+0, 1e22, 22., 1e-9, -1e-9, 2., 0.999999, 1.000001};
    double worst = 0, at = 0;
    for (int round = 0; round < 32; ++round) {
      for (int64_t i = 0; i < n; ++i) {
        if (round == 0) in[i] = special[i % std::size(special)];
        else if (round < 12) in[i] = std::bit_cast<double>(random());
        else if (round < 16) in[i] = std::ldexp(std::uniform_real_distribution<double>(-2, 2)(random), -static_cast<int>(random() % 40));
        else in[i] = std::uniform_real_distribution<double>(f.from, f.to)(random);
      }
      kernel.run({out.data(), in.data()});
      for (int64_t i = 0; i < n; ++i) {
        long double want = f.reference(in[i]);
        const double rounded = static_cast<double>(want);
        double u = 0;
        if (std::isnan(want) || std::isinf(rounded) || want == 0) {
          u = std::isnan(want) ? !std::isnan(out[i]) : out[i] != rounded || std::signbit(out[i]) != std::signbit(rounded);
          if (std::isinf(rounded) && std::fabs(out[i]) >= 1.797693134862315e308) u = 0;  // on the last bit to infinity
          u *= 1e9;
        } else {
          u = static_cast<double>(std::fabs(out[i] - want) / std::ldexp(1.0L, std::max(std::ilogb(rounded), -1022) - 52));
        }
        if (!(u <= worst)) worst = u, at = in[i];
      }
    }
    printf("  %s: %.3f ulp at %a\n", info(f.op).name, worst, at);
    EXPECT_LE(worst, 2.0) << info(f.op).name;
  }
}

TEST(Decompose, LogGammaWithoutALibrary) {
  constexpr int64_t n = 1 << 16;
  Caps lanes = host_caps();
  lanes.has_local = true;
  KernelBuilder k("elementwise");
  U result = k.param(0, DType::f32, n), g = k.global(n / 8, 0), x = k.load(k.param(1, DType::f32, n), g * 8, 8);
  k.add(decompose(node(Op::STORE, DType::void_, {k.index(result, g * 8), node(Op::LGAMMA, DType::f32, {x})}, {}, 8), lanes));
  LoadedKernel kernel = build(fastest(), k.program, host_caps());
  std::vector<float> in(n), out(n);
  std::mt19937 random(17);
  const float special[] = {0.f, -0.f, 1.f, 2.f, -1.f, -2.f, 0.5f, INFINITY, -INFINITY, NAN, 0x1p-149f, -0x1p-149f, 3.4028235e38f,
                           1e36f, -1e20f, 0x1.000002p0f, 0x1.fffffep-1f, 0x1.000002p1f, 0x1.fffffep0f, 8.f, 7.9999995f};
  double worst = 0;
  float at = 0;
  for (int round = 0; round < 24; ++round) {
    for (int64_t i = 0; i < n; ++i) {
      if (round == 0) in[i] = special[i % std::size(special)];
      else if (round < 12) in[i] = std::bit_cast<float>(static_cast<uint32_t>(random()));
      else in[i] = std::uniform_real_distribution<float>(round < 18 ? -2.f : 0.f, round < 18 ? 3.f : 50.f)(random);
    }
    kernel.run({out.data(), in.data()});
    for (int64_t i = 0; i < n; ++i) {
      double u = ulps(out[i], static_cast<double>(std::lgamma(static_cast<long double>(in[i]))));
      if (u > worst) worst = u, at = in[i];
    }
  }
  printf("  LGAMMA f32: %.3f ulp at %a\n", worst, at);
  EXPECT_LE(worst, 2.0);
}

TEST(Decompose, RemaindersWithoutALibraryAreExact) {
  constexpr int64_t n = 1 << 14;
  Caps lanes = host_caps();
  lanes.has_local = true;
  KernelBuilder k("elementwise");
  U result = k.param(0, DType::f32, n), g = k.global(n / 8, 0);
  U x = k.load(k.param(1, DType::f32, n), g * 8, 8), y = k.load(k.param(2, DType::f32, n), g * 8, 8);
  k.add(decompose(node(Op::STORE, DType::void_, {k.index(result, g * 8), node(Op::MOD, DType::f32, {x, y})}, {}, 8), lanes));
  LoadedKernel kernel = build(fastest(), k.program, host_caps());
  std::vector<float> a(n), b(n), out(n);
  std::mt19937 random(19);
  const float special[] = {0.f, -0.f, 1.f, -1.f, 3.f, 0.1f, 5.3f, INFINITY, -INFINITY, NAN, 0x1p-149f, -0x1p-149f, 3.4028235e38f,
                           0x1.fffffep-1f};
  for (int round = 0; round < 16; ++round) {
    std::uniform_real_distribution<float> u(-100, 100);
    for (int64_t i = 0; i < n; ++i) {
      if (round == 0) a[i] = special[i % std::size(special)], b[i] = special[i / std::size(special) % std::size(special)];
      else if (round < 8)
        a[i] = std::bit_cast<float>(static_cast<uint32_t>(random())), b[i] = std::bit_cast<float>(static_cast<uint32_t>(random()));
      else a[i] = u(random), b[i] = round % 2 ? std::round(u(random)) / 16 : u(random) / 100;
    }
    kernel.run({out.data(), a.data(), b.data()});
    for (int64_t i = 0; i < n; ++i) {
      const float want = std::fmod(a[i], b[i]);
      ASSERT_TRUE(std::isnan(want) ? std::isnan(out[i]) : out[i] == want && std::signbit(out[i]) == std::signbit(want))
          << "fmod(" << a[i] << ", " << b[i] << ") = " << out[i] << ", not " << want;
    }
  }
}

TEST(Decompose, DoublePowerAndAtan2WithoutALibrary) {
  constexpr int64_t n = 1 << 14;
  Caps lanes = host_caps();
  lanes.has_local = true;
  for (Op op : {Op::POW, Op::ATAN2}) {
    KernelBuilder k("elementwise");
    U result = k.param(0, DType::f64, n), g = k.global(n / 4, 0);
    U x = k.load(k.param(1, DType::f64, n), g * 4, 4), y = k.load(k.param(2, DType::f64, n), g * 4, 4);
    k.add(decompose(node(Op::STORE, DType::void_, {k.index(result, g * 4), node(op, DType::f64, {x, y})}, {}, 4), lanes));
    LoadedKernel kernel = build(fastest(), k.program, host_caps());
    std::vector<double> a(n), b(n), out(n);
    std::mt19937_64 random(13);
    const double special[] = {0., -0., 1., -1., 2., -2., 3., -3., 0.5, -0.5, INFINITY, -INFINITY, NAN, 0x1p-1074, 1.7976931348623157e308,
                              0x1p53, 0x1.0000000000001p53, -2.5, 1.0000000000000002, 0.9999999999999999, 1024.};
    double worst = 0;
    for (int round = 0; round < 24; ++round) {
      std::uniform_real_distribution<double> u(-20, 20), near(0.5, 2), far(-1000, 1000);
      for (int64_t i = 0; i < n; ++i) {
        if (round == 0) a[i] = special[i % std::size(special)], b[i] = special[i / std::size(special) % std::size(special)];
        else if (round < 8) a[i] = std::bit_cast<double>(random()), b[i] = std::bit_cast<double>(random());
        else if (round < 16) a[i] = u(random), b[i] = round % 2 ? std::round(u(random)) : u(random);
        else a[i] = near(random), b[i] = far(random);
      }
      kernel.run({out.data(), a.data(), b.data()});
      for (int64_t i = 0; i < n; ++i) {
        long double want = op == Op::POW ? std::pow(static_cast<long double>(a[i]), static_cast<long double>(b[i]))
                                         : std::atan2(static_cast<long double>(a[i]), static_cast<long double>(b[i]));
        const double rounded = static_cast<double>(want);
        double off = 0;
        if (std::isnan(want) || std::isinf(rounded) || rounded == 0) {
          off = std::isnan(want) ? !std::isnan(out[i]) : out[i] != rounded || std::signbit(out[i]) != std::signbit(rounded);
        } else {
          off = static_cast<double>(std::fabs(out[i] - want) / std::ldexp(1.0L, std::max(std::ilogb(rounded), -1022) - 52));
        }
        worst = std::max(worst, off);
        ASSERT_LE(off, 2.0) << info(op).name << "(" << a[i] << ", " << b[i] << ") = " << out[i] << ", not " << rounded;
      }
    }
    printf("  %s: %.3f ulp\n", info(op).name, worst);
  }
}

/// f64 functions with polynomials of their own, against long double.
TEST(Decompose, DoubleExpLog) {
  constexpr int64_t n = 1 << 16;
  for (Op op : {Op::EXP, Op::LOG}) {
    LoadedKernel kernel = elementwise_kernel(op, {DType::f64}, DType::f64, n, 4, host_caps());
    std::vector<double> in(n), out(n);
    std::mt19937_64 random(3);
    const double special[] = {0., -0., 1., -1., INFINITY, -INFINITY, NAN, 0x1p-1074, 0x1p-1022, 1.7976931348623157e308, 709.7, 709.8,
                              -745.1, -745.2, -708.5};
    double worst = 0, at = 0;
    for (int round = 0; round < 32; ++round) {
      for (int64_t i = 0; i < n; ++i) {
        if (round == 0) in[i] = special[i % std::size(special)];
        else if (round < 16) in[i] = std::bit_cast<double>(random());
        else in[i] = std::uniform_real_distribution<double>(op == Op::EXP ? -750 : 0, op == Op::EXP ? 715 : 3)(random);
      }
      kernel.run({out.data(), in.data()});
      for (int64_t i = 0; i < n; ++i) {
        long double want = op == Op::EXP ? std::exp(static_cast<long double>(in[i])) : std::log(static_cast<long double>(in[i]));
        double w = static_cast<double>(want);
        if (std::isnan(w) || std::isinf(w) || w == 0) {
          ASSERT_TRUE(std::isnan(w) ? std::isnan(out[i]) : out[i] == w) << info(op).name << " of " << in[i] << " gave " << out[i];
          continue;
        }
        double u = static_cast<double>(std::fabs(out[i] - want) / std::ldexp(1.0L, std::max(std::ilogb(w), -1022) - 52));
        if (!(u <= worst)) worst = u, at = in[i];
      }
    }
    printf("  %s f64: %.3f ulp at %.17g\n", info(op).name, worst, at);
    EXPECT_LE(worst, 2.0) << info(op).name << " at " << at;
  }
}

// ---- exact operators: the interpreter's value, bit by bit (any NaN for a NaN)

bool same(uint64_t got, uint64_t want, DType d) {
  if (got == want) return true;
  return is_float(d) && std::isnan(from_storage_bits(got, d).f) && std::isnan(from_storage_bits(want, d).f);
}

template <class Fill>
void check_exact(Op op, std::vector<DType> in, DType out, int64_t n, const Caps& caps, Fill fill) {
  LoadedKernel kernel = elementwise_kernel(op, in, out, n, 8, caps);
  std::vector<std::vector<char>> data;
  for (DType d : in) data.emplace_back(n * itemsize(d));
  std::vector<char> result(n * itemsize(out));
  std::vector<void*> buffers{result.data()};
  auto bits = [](const std::vector<char>& v, DType d, int64_t i) {
    uint64_t b = 0;
    std::memcpy(&b, v.data() + i * itemsize(d), itemsize(d));
    return b;
  };
  for (size_t k = 0; k < in.size(); ++k) {
    for (int64_t i = 0; i < n; ++i) {
      uint64_t b = fill(k, i);
      std::memcpy(data[k].data() + i * itemsize(in[k]), &b, itemsize(in[k]));
    }
    buffers.push_back(data[k].data());
  }
  kernel.run(buffers);
  for (int64_t i = 0; i < n; ++i) {
    Arg args[3];
    for (size_t k = 0; k < in.size(); ++k) args[k] = from_storage_bits(bits(data[k], in[k], i), in[k]);
    uint64_t want = storage_bits(eval(op, out, in[0], {args, in.size()}), out), got = bits(result, out, i);
    ASSERT_TRUE(same(got, want, out)) << info(op).name << "." << info(in[0]).name << "->" << info(out).name << " at " << i << ": "
                                      << std::hex << bits(data[0], in[0], i) << ", " << (in.size() > 1 ? bits(data[1], in[1], i) : 0)
                                      << " gave " << got << ", not " << want;
  }
}

class SmallFloat : public testing::TestWithParam<std::tuple<DType, bool>> {};

TEST_P(SmallFloat, ConversionsExhaustively) {
  auto [d, in_hardware] = GetParam();
  Caps caps = in_hardware ? host_caps() : caps_without_fma();
  check_exact(Op::CAST, {d}, DType::f32, 1 << info(d).bits, caps, [](size_t, int64_t i) { return static_cast<uint64_t>(i); });
  // every value, the midpoints to its neighbours, and one step of f32 beside each; then random patterns
  int64_t codes = int64_t{1} << info(d).bits;
  check_exact(Op::CAST, {DType::f32}, d, codes * 8, caps, [d = d](size_t, int64_t i) -> uint64_t {
    float a = static_cast<float>(from_storage_bits(i / 8, d).f), b = static_cast<float>(from_storage_bits(i / 8 + 1, d).f);
    uint32_t exact = std::bit_cast<uint32_t>(a), middle = std::bit_cast<uint32_t>(a / 2 + b / 2);
    uint32_t choices[8] = {exact,      exact + 1,  exact - 1, middle,
                           middle + 1, middle - 1, static_cast<uint32_t>(i * 2654435761u), static_cast<uint32_t>(i * 40503u << 8)};
    return choices[i % 8];
  });
}
constexpr DType kSmallFloats[] = {DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2};
INSTANTIATE_TEST_SUITE_P(All, SmallFloat, testing::Combine(testing::ValuesIn(kSmallFloats), testing::Bool()));

TEST(Decompose, ReducedArithmeticRounds) {
  for (DType d : {DType::f16, DType::bf16, DType::f8e5m2}) {
    std::mt19937 random(5);
    auto any = [&](size_t, int64_t) { return random() & ((1u << info(d).bits) - 1); };
    for (Op op : {Op::ADD, Op::MUL, Op::SUB, Op::FDIV, Op::MAX, Op::MIN}) check_exact(op, {d, d}, d, 1 << 14, host_caps(), any);
    for (Op op : {Op::NEG, Op::ABS, Op::SQRT, Op::FLOOR, Op::RECIP})
      check_exact(op, {d}, d, 1 << info(d).bits, host_caps(), [](size_t, int64_t i) { return static_cast<uint64_t>(i); });
    check_exact(Op::CMPLT, {d, d}, DType::bool_, 1 << 14, host_caps(), any);
  }
}

TEST(Decompose, IntegerEdges) {
  for (DType d : {DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32, DType::i64, DType::u64}) {
    std::mt19937_64 random(9);
    int bits = info(d).bits;
    auto fill = [&](size_t k, int64_t i) -> uint64_t {
      uint64_t top = 1ull << (bits - 1), width = static_cast<uint64_t>(bits);
      const uint64_t edges[] = {0, 1, ~0ull, top, top - 1, 2, width, width - 1};
      return i < 64 ? edges[k ? i / 8 : i % 8] : k && i % 2 ? random() % 70 : random();
    };
    for (Op op : {Op::IDIV, Op::MOD, Op::SHL, Op::SHR, Op::MAX, Op::MIN, Op::ADD, Op::SUB, Op::MUL})
      check_exact(op, {d, d}, d, 1 << 12, host_caps(), fill);
    for (Op op : {Op::NEG, Op::NOT, Op::ABS}) check_exact(op, {d}, d, 1 << 12, host_caps(), fill);
  }
}

TEST(Decompose, FloatExtremesKeepNan) {
  const float special[] = {0.f, 1.f, -1.f, INFINITY, -INFINITY, NAN, 2.f, 0x1p-149f};
  for (Op op : {Op::MAX, Op::MIN}) {
    check_exact(op, {DType::f32, DType::f32}, DType::f32, 64, host_caps(),
                [&](size_t k, int64_t i) { return std::bit_cast<uint32_t>(special[k ? i / 8 : i % 8]); });
    check_exact(op, {DType::f64, DType::f64}, DType::f64, 64, host_caps(),
                [&](size_t k, int64_t i) { return std::bit_cast<uint64_t>(static_cast<double>(special[k ? i / 8 : i % 8])); });
  }
}

TEST(Decompose, Threefry) {
  std::mt19937_64 random(1);
  check_exact(Op::THREEFRY, {DType::u64, DType::u64}, DType::u64, 1 << 12, host_caps(), [&](size_t, int64_t) { return random(); });
  check_exact(Op::THREEFRY, {DType::u64, DType::u64}, DType::u64, 8, host_caps(), [&](size_t, int64_t) { return uint64_t{0}; });
}

}  // namespace
}  // namespace tiny
