// Everything between a graph and its numbers: random programs on every device that a host has. Two judges: the interpreter of graphs, which
// knows nothing of kernels and is exact up to rounding; and, for machine code, the interpreter of kernels on the very same programs.
//   TINY_TEST_GRAPHS=5000   programs for each device; TINY_TEST_GRAPH=17 that seed alone
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <optional>

#include "base/env.h"
#include "engine/engine.h"
#include "graph_eval.h"
#include "random_graph.h"
#include "renderer/host_caps.h"
#include "runtime/host.h"
#include "runtime/ref/interpreter.h"
#include "uop/parse.h"

namespace tiny {
namespace {

using testing::GraphEval;
using testing::RandomGraph;
using testing::Value;

const EnvScope devices(Env::TINY_DEVICE, "CPU,REF,CPU,REF");  // before anything opens one
const EnvScope fixed_sizes(Env::TINY_SYMBOLIC, "0");          // both devices get the same kernels
constexpr int kInterpreted = 4, kNarrow = 5, kPairs = 6;      // numbers of the devices below: not of the list

/// The interpreter of kernels, given the programs that are made for this machine's processor.
class InterpretedCpu final : public HostDevice {
 public:
  explicit InterpretedCpu(int number, int max_params = Caps().max_params)
      : HostDevice("CPU, interpreted", number), compiler_(make_text_compiler()) {
    caps_ = host_caps();
    caps_.target = "interpreted:" + caps_.target;
    caps_.max_params = max_params;
  }
  Caps& caps_for_test() { return caps_; }
  int64_t dots = 0;  // DOT2s of all kernels
  Compiler& compiler() override { return *compiler_; }
  std::unique_ptr<Executable> load(const ProgramInfo& info, const Binary& binary) override {
    Arena arena;
    IrScope scope(arena);
    std::vector<UOp*> linear = parse(binary);
    dots += std::count_if(linear.begin(), linear.end(), [](UOp* u) { return u->is(Op::DOT2); });
    return std::make_unique<Loaded>(info, linear);
  }

 protected:
  void run_kernel(Executable& kernel, void* const* buffers, const uint64_t* scalars) override {
    static_cast<Loaded&>(kernel).interpreter.run(buffers, scalars);
  }

 private:
  struct Loaded final : Executable {
    Loaded(const ProgramInfo& program, const std::vector<UOp*>& linear) : interpreter(program, linear) { info = program; }
    const Interpreter interpreter;
  };
  std::unique_ptr<Compiler> compiler_;
};

Device& interpreted_cpu() {
  static Device* d = new InterpretedCpu(kInterpreted);
  return *d;
}

struct Target {
  const char* name;
  int number;       // of the device
  Env env;          // a switch that is read when the device opens, and its value
  const char* value;
  bool machine;     // runs machine code
  int64_t programs; // without TINY_TEST_GRAPHS

  Device& open() const {
    EnvScope scope(env, value);
    return device(number);
  }
};
const Target kTargets[] = {
    {"llvm", 0, Env::TINY_RENDERER, "LLVM", true, 500},
    {"ref", 1, Env::TINY_REF_LOCAL, "0", false, 1000},
    {"c", 2, Env::TINY_RENDERER, "C", true, 40},
    {"ref_local", 3, Env::TINY_REF_LOCAL, "1", false, 500},
};

/// The values of `tensors`, all computed in one flush.
std::vector<Value> run(const std::vector<Tensor>& tensors, Device& device) {
  std::vector<std::unique_ptr<Storage>> storages;
  {
    GraphLock lock;
    for (const Tensor& t : tensors) {
      storages.push_back(std::make_unique<Storage>(device, static_cast<size_t>(t.numel() * itemsize(t.dtype()))));
      storages.back()->write(t.sizes(), contiguous_strides(t.sizes()), 0, t);
    }
  }
  std::vector<Value> out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::string bytes(storages[i]->nbytes(), '\0');
    storages[i]->copy_out(bytes.data(), 0, bytes.size());
    out.push_back(testing::load_value(tensors[i].dtype(), tensors[i].numel(), bytes.data()));
  }
  return out;
}

bool both_nan(double a, double b) { return std::isnan(a) && std::isnan(b); }

/// Distance in units of the last place of the type. Floats in order are integers in order once the negative ones are turned.
int64_t ulps(DType d, double a, double b) {
  if (both_nan(a, b) || a == b) return 0;
  if (std::isnan(a) || std::isnan(b)) return INT64_MAX;
  auto place = [d](double x) -> int64_t {
    int64_t i;
    if (d == DType::f32) {
      float f = static_cast<float>(x);
      int32_t n;
      std::memcpy(&n, &f, sizeof n);
      return n < 0 ? INT64_C(-0x80000000) - n : n;
    }
    std::memcpy(&i, &x, sizeof i);
    return i < 0 ? INT64_MIN - i : i;
  };
  __int128 distance = static_cast<__int128>(place(a)) - place(b);
  return static_cast<int64_t>(std::min<__int128>(distance < 0 ? -distance : distance, INT64_MAX));
}

/// What is wrong with `got`, "" if nothing is. `tolerance`: of floats, relative above 1; less than 0: two units of the last place.
std::string difference(const Value& got, const Value& want, double tolerance) {
  for (int64_t k = 0; k < want.numel(); ++k) {
    double g = got.number(k), w = want.number(k);
    bool same = both_nan(g, w) || g == w;
    if (!same && is_float(want.dtype) && !std::isnan(w))
      same = tolerance < 0 ? ulps(want.dtype, g, w) <= 2 : std::abs(g - w) <= tolerance * std::max(1.0, std::abs(w));
    if (!is_float(want.dtype)) same = got.cells[static_cast<size_t>(k)].i == want.cells[static_cast<size_t>(k)].i;
    if (!same) return fmt::format("element {} of {}: {} instead of {}", k, want.numel(), g, w);
  }
  return "";
}

std::optional<uint64_t> only_seed() {
  const char* n = std::getenv("TINY_TEST_GRAPH");
  return n ? std::optional<uint64_t>(std::strtoull(n, nullptr, 10)) : std::nullopt;
}
int64_t programs(const Target& t) {
  const char* n = std::getenv("TINY_TEST_GRAPHS");
  return n ? std::atoll(n) : t.programs;
}

class Differential : public ::testing::TestWithParam<const Target*> {};

/// One program; false after a failure.
bool same_everywhere(uint64_t seed, const Target& target, Device& device) {
  GraphLock lock;
  auto draw = [seed](Device& d) { return RandomGraph(seed, d).draw(4 + static_cast<int>(seed % 24)); };
  std::vector<Tensor> tensors = draw(device);
  GraphEval judge;
  std::vector<Value> want, got, interpreted;
  for (const Tensor& t : tensors) want.push_back(judge.run(t));
  got = run(tensors, device);
  if (target.machine) interpreted = run(draw(interpreted_cpu()), interpreted_cpu());
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::string wrong = difference(got[i], want[i], 2e-5);
    if (!wrong.empty()) wrong += ", by the graph";
    else if (target.machine && !(wrong = difference(got[i], interpreted[i], -1)).empty()) wrong += ", by the interpreted kernels";
    if (wrong.empty()) continue;
    UOp* roots[] = {tensors[i].node()};
    ADD_FAILURE() << "TINY_TEST_GRAPH=" << seed << ", result " << i << ", " << wrong << (only_seed() ? "\n" + print(roots) : "");
    return false;
  }
  return true;
}

TEST_P(Differential, RandomProgramsHaveOneResult) {
  const Target& target = *GetParam();
  if (target.number == 0 && !make_llvm_compiler(host_caps())) GTEST_SKIP() << "built without LLVM";
  Device& device = target.open();
  if (only_seed()) {
    same_everywhere(*only_seed(), target, device);
    return;
  }
  auto begin = std::chrono::steady_clock::now();
  int64_t n = programs(target), failures = 0;
  for (int64_t seed = 0; seed < n && failures < 20; ++seed) {
    failures += !same_everywhere(static_cast<uint64_t>(seed), target, device);
    if (seed % 500 == 499)
      std::printf("%s: %lld programs, %.0f s\n", target.name, static_cast<long long>(seed + 1),
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()), std::fflush(stdout);
  }
}

/// Extents as arguments of the kernels: other tails and other orders of sums, but the same values.
TEST(Symbolic, RandomProgramsHaveOneResult) {
  EnvScope symbolic(Env::TINY_SYMBOLIC, "1");
  if (!make_llvm_compiler(host_caps())) GTEST_SKIP() << "built without LLVM";
  Device& device = kTargets[0].open();
  for (uint64_t seed = 5000; seed < 5200; ++seed) {
    GraphLock lock;
    std::vector<Tensor> tensors = RandomGraph(seed, device).draw(4 + static_cast<int>(seed % 24));
    GraphEval judge;
    std::vector<Value> want;
    for (const Tensor& t : tensors) want.push_back(judge.run(t));
    std::vector<Value> got = run(tensors, device);
    for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(difference(got[i], want[i], 2e-5), "") << "seed " << seed << ", result " << i;
  }
}

TEST(Padding, OfPaddingInATiledKernel) {
  for (const Target* target : {&kTargets[0], &kTargets[1]}) {
    Device& device = target->open();
    GraphLock lock;
    for (int64_t rows : {3, 4, 9})
      for (int64_t columns : {11, 17, 30}) {
        Tensor x = (iota(rows * columns).cast(DType::f32) + 1.0).contiguous().reshape(Dims{rows, columns});
        Tensor y = x.pad(Dims{2, 2}, Dims{0, 1}).pad(Dims{2, 2}, Dims{1, 2});
        EXPECT_EQ(difference(run({y}, device)[0], GraphEval().run(y), 0), "") << target->name << " " << rows << " " << columns;
      }
  }
}

TEST(Contractions, RoundingBetweenShortFloatsStays) {
  Device& ref = kTargets[1].open();
  GraphLock lock;
  Tensor wide = (iota(256).cast(DType::f32) * 300.0).reshape(Dims{16, 16});  // some are infinite in f16
  Tensor x = wide.cast(DType::bf16).cast(DType::f16), y = matmul(x, x, DType::f32);
  EXPECT_EQ(difference(run({y}, ref)[0], GraphEval().run(y), 2e-5), "");
}

/// Where the processor multiplies pairs of bf16. Small integers, so that sums are exact in any order.
TEST(Contractions, OfPairs) {
  static InterpretedCpu& device = *new InterpretedCpu(kPairs);
  Caps& caps = device.caps_for_test();
  caps.target += ":pairs", caps.vector_bytes = 64, caps.registers = 32, caps.has_dot2 = true;
  GraphLock lock;
  auto matrix = [](int64_t rows, int64_t columns, int64_t seed, bool computed) {
    auto number = [](int64_t v) { return scalar(DType::i64, v); };
    Tensor x = (binary(Op::MOD, iota(rows * columns) * number(seed), number(13)) - number(6)).cast(DType::bf16);
    return (computed ? x : x.contiguous()).reshape(Dims{rows, columns});
  };
  const int64_t sizes[][3] = {{64, 48, 34}, {16, 16, 16}, {33, 65, 70}, {20, 100, 9}, {128, 20, 8}, {17, 40, 2}};
  for (const auto& s : sizes)
    for (int form = 0; form < 16; ++form) {
      Tensor a = matrix(form & 1 ? s[2] : s[0], form & 1 ? s[0] : s[2], 7, form & 4);
      Tensor b = matrix(form & 2 ? s[1] : s[2], form & 2 ? s[2] : s[1], 11, form & 4);
      if (form & 1) a = a.transpose(0, 1);
      if (form & 2) b = b.transpose(0, 1);
      if (form & 8) a = a.slice(1, 1, s[2] - 1), b = b.slice(0, 1, s[2] - 1);  // pairs that begin at odd elements
      Tensor y = matmul(a, b, DType::f32);
      ASSERT_EQ(difference(run({y}, device)[0], GraphEval().run(y), 0), "") << s[0] << " x " << s[1] << " x " << s[2] << ", form " << form;
    }
  EXPECT_GT(device.dots, 0);
}

/// Programs with many inputs and results, on a device whose kernels have room for what one node alone may need: three sources of two
/// buffers each, the result, and the error record. The device that has room judges: its kernels round the same way.
TEST(BuffersOfAKernel, StayWithinWhatTheDeviceTakes) {
  static Device& narrow = *new InterpretedCpu(kNarrow, 9);
  for (uint64_t seed = 0; seed < 300; ++seed) {
    GraphLock lock;
    auto values = [seed](Device& d) {
      return run(RandomGraph(seed, d).draw(10 + static_cast<int>(seed % 40), static_cast<int>(seed % 30)), d);
    };
    std::vector<Value> got = values(narrow), want = values(interpreted_cpu());
    for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(difference(got[i], want[i], 2e-5), "") << "seed " << seed << ", result " << i;
  }
}

TEST(BuffersOfAKernel, ThreeHundredOfThemBecomeSeveralKernels) {
  Device& device = kTargets[1].open();
  GraphLock lock;
  RandomGraph random(1, device);
  std::vector<Tensor> sums, products, rows, pairs;
  Tensor one = random.leaf({6, 5}, DType::f32).unary(Op::TANH), sum = one;
  for (int i = 0; i < 300; ++i) {
    sum = sum + random.leaf({6, 5}, DType::f32);
    if (i % 7 == 0) sums.push_back(sum);
    products.push_back(one * (i + 2.0));
    rows.push_back((one.sum(Dims{1}, true) * (0.01 * i) + one).unary(Op::SIN).amax(Dims{1}));  // siblings
    pairs.push_back(one.sum(Dims{1}) * (0.01 * i) + one.amax(Dims{1}));  // two loads each, computed again by a reader
  }
  sums.push_back(sum);
  for (Tensor& p : pairs) p = p.expand(Dims{4, 6}).unary(Op::SIN).sum(Dims{0});
  for (const std::vector<Tensor>& group : {sums, products, rows, pairs}) {
    GraphEval judge;
    std::vector<Value> want;
    for (const Tensor& t : group) want.push_back(judge.run(t));
    std::vector<Value> got = run(group, device);
    for (size_t i = 0; i < group.size(); ++i) ASSERT_EQ(difference(got[i], want[i], 2e-5), "") << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Differential, ::testing::Values(&kTargets[0], &kTargets[1], &kTargets[2], &kTargets[3]),
                         [](const auto& p) { return std::string(p.param->name); });

}  // namespace
}  // namespace tiny
