// Random kernels: every form that the heuristics give them must mean what the AST means.
#include <cstdlib>

#include <array>

#include "codegen/symbolic_kernel.h"
#include "codegen_kernels.h"
#include "renderer/host_caps.h"
#include "renderer/llvm_jit.h"

namespace tiny::testing {
namespace {

/// Writes random ASTs: rows with up to three levels of inner loops, arrays laid out in any order of their ranges, masks, views with
/// division and remainder, products to sum, and stores on any level.
class RandomKernel {
 public:
  explicit RandomKernel(uint32_t seed) : random_(seed) {}

  void build(AstBuilder& k) {
    k_ = &k;
    k.random.seed(random_());
    static constexpr DType kTypes[] = {DType::i32, DType::f32, DType::i64, DType::f32, DType::u8, DType::f64, DType::i16, DType::bf16};
    dtype_ = kTypes[pick(8)];
    int64_t room = 6000;
    std::vector<U> rows = make_ranges(pick(3) + (pick(6) > 0), 0, Axis::Global, &room);
    int levels = pick(4);
    std::vector<U> known;  // values of a row
    std::vector<UOp*> stores;
    for (int level = 0; level < levels; ++level) {
      int64_t inner_room = std::min<int64_t>(room, 200);
      bool reduces = pick(3) > 0;
      std::vector<U> inner = make_ranges(1 + (pick(3) == 0), 100 * (level + 1), reduces ? Axis::Reduce : Axis::Loop, &inner_room);
      std::vector<U> all = rows;
      all.insert(all.end(), inner.begin(), inner.end());
      int results = reduces ? 1 + pick(2) : 0;
      std::vector<U> fresh;
      for (int i = 0; i < results; ++i) {
        U x = compute(pick(3) == 0 ? expression(all, known, 0) * expression(all, known, 0) : expression(all, known, 2));
        static constexpr Op kOps[] = {Op::ADD, Op::MAX, Op::MIN, Op::ADD};
        U f = k.fold(kOps[pick(4)], x, std::vector<UOp*>(inner.begin(), inner.end()));
        fresh.push_back(cast(f, dtype_));
      }
      if (!reduces || pick(3) == 0) stores.push_back(store(all, expression(all, known, 2)));
      known.insert(known.end(), fresh.begin(), fresh.end());
    }
    if (stores.empty() || !known.empty() || pick(2)) stores.push_back(store(rows, expression(rows, known, 3)));
    k.sink(stores);
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  int64_t extent(int64_t room) {
    static constexpr int64_t kSizes[] = {1, 2, 3, 5, 7, 8, 9, 16, 17, 24, 31, 32, 33, 40, 64, 100, 130};
    int64_t n = kSizes[pick(17)];
    return std::max<int64_t>(1, std::min(n, room));
  }
  std::vector<U> make_ranges(int count, int64_t number, Axis axis, int64_t* room) {
    std::vector<U> out;
    for (int i = 0; i < count; ++i) {
      int64_t n = extent(*room);
      *room /= n;
      out.push_back(range(n, number + i, axis));
    }
    return out;
  }

  /// Row-major index over ranges in the given order, and its length.
  static std::pair<U, int64_t> flat(const std::vector<U>& ranges) {
    U index = index_const(0);
    int64_t n = 1;
    for (const U& r : ranges) index = index * const_int(r->src[0]) + r, n *= const_int(r->src[0]);
    return {index, n};
  }
  std::vector<U> some(std::vector<U> ranges) {
    std::vector<U> out;
    for (const U& r : ranges)
      if (pick(4) > 0) out.push_back(r);
    if (pick(3) == 0) std::shuffle(out.begin(), out.end(), random_);
    return out;
  }

  U leaf(const std::vector<U>& ranges, const std::vector<U>& known) {
    int form = pick(10);
    if (form == 0) return const_(dtype_, pick(5));
    if (form == 1 && !known.empty()) return known[static_cast<size_t>(pick(static_cast<int>(known.size())))];
    if (form == 2 && !ranges.empty()) return cast(ranges[static_cast<size_t>(pick(static_cast<int>(ranges.size())))], dtype_);
    auto [index, n] = flat(some(ranges));
    if (form == 3 && n > 4) {  // only part of it, behind a mask
      U p = k_->random_param(dtype_, n - 2);
      return k_->load(p, index - 2, lt(index_const(1), index));
    }
    if (form == 4 && n > 6) {  // a view that repeats
      int64_t m = 1 + pick(static_cast<int>(std::min<int64_t>(n, 40)));
      return k_->load(k_->random_param(dtype_, m), index % m);
    }
    if (form == 5 && n > 6) {  // each element several times
      int64_t m = 2 + pick(8);
      return k_->load(k_->random_param(dtype_, (n + m - 1) / m), index / m);
    }
    if (form == 6 && n > 1) return k_->load(k_->random_param(dtype_, n), index_const(n - 1) - index);
    if (form == 7 && n > 1) {  // a gather
      U positions = k_->param(DType::i64, n);
      for (int64_t i = 0; i < n; ++i) k_->buffers.back().set(i, {0, static_cast<int64_t>(random_() % 11)});
      U at = k_->load(positions, index);
      return k_->load(k_->random_param(dtype_, 11), at);
    }
    return k_->load(k_->random_param(dtype_, n), index);
  }

  U expression(const std::vector<U>& ranges, const std::vector<U>& known, int depth) {
    if (depth == 0 || pick(4) == 0) return leaf(ranges, known);
    U a = expression(ranges, known, depth - 1);
    switch (pick(6)) {
      case 0: return alu(Op::MAX, {a, expression(ranges, known, depth - 1)});
      case 1: return a * expression(ranges, known, depth - 1);
      case 2: return where(lt(a, expression(ranges, known, depth - 1)), a, const_(dtype_, 1));
      case 3: return is_float(dtype_) ? alu(Op::ABS, {a}) : a - expression(ranges, known, depth - 1);
      default: return a + expression(ranges, known, depth - 1);
    }
  }
  /// What a reduction sums: reduced floats in f32.
  U compute(U x) { return cast(x, compute_dtype(x->dtype)); }

  UOp* store(const std::vector<U>& ranges, U value) {
    std::vector<U> order = ranges;
    if (pick(4) == 0) std::shuffle(order.begin(), order.end(), random_);
    auto [index, n] = flat(order);
    return k_->store(k_->param(dtype_, n), index, value);
  }

  std::mt19937 random_;
  AstBuilder* k_ = nullptr;
  DType dtype_;
};

TEST(CodegenRandom, OptimisedKernelsMeanWhatTheirAstMeans) {
  const char* env = std::getenv("TINY_TEST_SEED");
  uint32_t first = env ? static_cast<uint32_t>(std::atoi(env)) : 1, last = env ? first : 400;
  for (uint32_t seed = first; seed <= last; ++seed) {
    AstBuilder k;
    RandomKernel(seed).build(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    // Sums of products of a few hundred elements, in other orders: a generous bound on what order may change.
    try {
      check_kernel(k, 2e-2);
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what() << "\n" << print(k.sink());
    }
    if (HasFailure()) break;
  }
}

/// The same through LLVM on this processor, with infinities, NaN and zeros of both signs among the floats.
TEST(CodegenRandom, CompiledKernelsMeanWhatTheirAstMeans) {
  Caps caps = host_caps();
  std::unique_ptr<Compiler> compiler = make_llvm_compiler(caps);
  if (!compiler) GTEST_SKIP() << "built without LLVM";
  for (uint32_t seed = 1000; seed < 1060; ++seed) {
    AstBuilder k;
    RandomKernel(seed).build(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (KernelBuffer& b : k.buffers)
      for (int64_t i = 0; is_float(b.dtype) && i < b.size(); ++i)
        if (seed % 2 && k.random() % 50 == 0) b.set(i, {std::array{INFINITY, -INFINITY, NAN, 0.0f, -0.0f}[k.random() % 5], 0});
    std::vector<KernelBuffer> want = k.buffers, got = k.buffers;
    KernelEval(k.sink(), want).run();
    Program p = lower_kernel(k.sink(), caps, "kernel");
    std::unique_ptr<CpuCode> code = llvm_load(compiler->compile(p), "kernel");
    std::vector<void*> pointers;
    for (KernelBuffer& b : got) pointers.push_back(b.bytes.data());
    std::vector<char> scratch(static_cast<size_t>(p.info.scratch_bytes) + 64);
    char* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
    code->entry(pointers.data(), nullptr, 0, p.info.groups, aligned);
    expect_same(got, want, 2e-2, "llvm");
    if (HasFailure()) {
      ADD_FAILURE() << print(k.sink());
      break;
    }
  }
}

/// The same with every extent an argument of the program, as for kernels whose sizes change from step to step.
TEST(CodegenRandom, SymbolicKernelsMeanWhatTheirAstMeans) {
  const char* env = std::getenv("TINY_TEST_SEED");
  uint32_t first = env ? static_cast<uint32_t>(std::atoi(env)) : 2000, last = env ? first : 2200;
  Caps host = host_caps();
  std::unique_ptr<Compiler> compiler = make_llvm_compiler(host);
  for (uint32_t seed = first; seed <= last; ++seed) {
    AstBuilder k;
    RandomKernel(seed).build(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    KernelNumbers numbers = numbers_of(k.sink(), 0);
    SymbolicKernel symbolic({numbers.numbers}, true);
    std::vector<uint64_t> arguments = symbolic.arguments(numbers.numbers).value();
    UOp* sink = symbolic.rewrite(k.sink(), 0);
    std::vector<KernelBuffer> want = k.buffers;
    KernelEval(k.sink(), want).run();
    auto run = [&](const Caps& caps, bool compiled, const char* name) {
      std::vector<KernelBuffer> got = k.buffers;
      std::vector<void*> pointers;
      for (KernelBuffer& b : got) pointers.push_back(b.bytes.data());
      Program p = lower_kernel(sink, caps, "kernel");
      EXPECT_EQ(verify_program(p.linear), "") << name;
      if (compiled) {
        std::unique_ptr<CpuCode> code = llvm_load(compiler->compile(p), "kernel");
        std::vector<char> scratch(static_cast<size_t>(p.info.scratch_bytes) + 64);
        char* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
        code->entry(pointers.data(), arguments.data(), 0, p.info.groups, aligned);
      } else {
        Interpreter(p.info, p.linear).run(pointers.data(), arguments.data());
      }
      expect_same(got, want, 2e-2, name);
    };
    try {
      run(avx2(), false, "avx2");
      run(avx512(), false, "avx512");
      run(scalar_target(), false, "scalar");
      if (compiler && seed % 4 == 0) run(host, true, "llvm");
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
    if (HasFailure()) {
      ADD_FAILURE() << print(sink);
      break;
    }
  }
}

/// Numbers that follow from others are not arguments, and a program refuses numbers that do not follow.
TEST(CodegenRandom, NumbersOfKernelsThatFollowFromOthers) {
  auto kernel = [](AstBuilder& k, int64_t n, double scale) {
    U row = range(n, 0, Axis::Global), column = range(64, 1, Axis::Global);
    U x = k.param(DType::f32, 64 * n);
    k.sink({k.store(k.param(DType::f32, 64 * n), row * 64 + column, k.load(x, index_const(64 * n - 1) - (row * 64 + column)) *
                    const_(DType::f32, scale))});
    return numbers_of(k.sink(), 0);
  };
  AstBuilder a, b, c, d;
  KernelNumbers three = kernel(a, 3, 0.5), five = kernel(b, 5, 0.25), twelve = kernel(c, 12, 0.75), far = kernel(d, 1000, 0.75);
  EXPECT_EQ(three.form, five.form);
  SymbolicKernel symbolic({three.numbers, five.numbers});
  auto arguments = symbolic.arguments(twelve.numbers);
  ASSERT_TRUE(arguments.has_value());
  EXPECT_EQ(arguments->size(), 2u) << "the rows and the factor; the greatest index follows";
  EXPECT_FALSE(symbolic.arguments(far.numbers).has_value()) << "beyond the bounds";
  twelve.numbers.back().value ^= 1;
  for (KernelNumbers::Number& n : twelve.numbers)
    if (n.kind == KernelNumbers::Kind::Integer && n.value == 64 * 12 - 1) n.value += 1;
  EXPECT_FALSE(symbolic.arguments(twelve.numbers).has_value()) << "64 n - 1 in all examples";
}

}  // namespace
}  // namespace tiny::testing
