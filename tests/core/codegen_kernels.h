// Kernel ASTs written by hand, and running them through the code generator and the interpreter.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "codegen/codegen.h"
#include "kernel_eval.h"
#include "runtime/ref/interpreter.h"
#include "uop/spec.h"

namespace tiny::testing {

/// An AST under construction with its buffers.
class AstBuilder {
 public:
  AstBuilder() : scope_(arena_) {}

  U param(DType d, int64_t n) {
    buffers.push_back({d, std::vector<uint8_t>(static_cast<size_t>(n * itemsize(d)))});
    return node(Op::PARAM, d, {index_const(n)}, Arg(static_cast<int64_t>(buffers.size()) - 1));
  }
  U random_param(DType d, int64_t n, double lo = -2, double hi = 2) {
    U p = param(d, n);
    std::uniform_real_distribution<double> dist(lo, hi);
    for (int64_t i = 0; i < n; ++i) {
      double v = dist(random);
      buffers.back().set(i, is_float(d) ? Cell{round_to(d, v), 0} : Cell{0, wrap(d, static_cast<int64_t>(v * (is_float(d) ? 1 : 8)))});
    }
    return p;
  }
  U local(DType d, int64_t n) { return node(Op::LOCAL, d, {index_const(n)}, Arg(locals_++)); }
  U load(U array, U i) { return node(Op::LOAD, array->dtype, {node(Op::INDEX, array->dtype, {array, i})}); }
  U load(U array, U i, U gate) {
    return node(Op::LOAD, array->dtype, {node(Op::INDEX, array->dtype, {array, i}), gate, const_(array->dtype, 0)});
  }
  U store(U array, U i, U v) { return node(Op::STORE, DType::void_, {node(Op::INDEX, array->dtype, {array, i}), v}); }
  U fold(Op op, U x, std::vector<UOp*> ranges) {
    ranges.insert(ranges.begin(), x);
    return node(Op::FOLD, x->dtype, ranges, Arg(static_cast<int64_t>(op)));
  }
  U after(U array, U store) { return node(Op::AFTER, array->dtype, {array, store}); }
  U sink(std::vector<UOp*> stores) { return sink_ = node(Op::SINK, DType::void_, stores); }
  U sink() const { return sink_; }

  std::vector<KernelBuffer> buffers;
  std::mt19937 random{7};

 private:
  Arena arena_;
  IrScope scope_;
  U sink_;
  int64_t locals_ = 0;
};

inline Caps avx2() {
  Caps c;
  c.target = "x86-64-v3", c.vector_bytes = 32, c.registers = 16, c.threads = 2, c.has_fma = true;
  return c;
}
inline Caps avx512() {
  Caps c = avx2();
  c.vector_bytes = 64, c.registers = 32, c.threads = 8;
  return c;
}
inline Caps scalar_target() {
  Caps c;
  c.vector_bytes = 0;
  return c;
}
inline Caps gpu() {
  Caps c;
  c.vector_bytes = 16, c.has_local = true, c.max_local = 1024, c.has_fma = true;
  return c;
}

struct Lowered {
  Program program;
  std::vector<KernelBuffer> buffers;
};

inline Lowered lower_and_run(const AstBuilder& k, const Caps& caps, int flags = 0, int choice = 0) {
  Lowered out{lower_kernel(k.sink(), caps, "kernel", flags, choice), k.buffers};
  std::vector<void*> pointers;
  for (KernelBuffer& b : out.buffers) pointers.push_back(b.bytes.data());
  Interpreter(out.program.info, out.program.linear).run(pointers.data(), nullptr);
  return out;
}

/// Equal bits for integers; floats within `tolerance` of each other, relative to the greater of 1 and the value.
inline void expect_same(const std::vector<KernelBuffer>& got, const std::vector<KernelBuffer>& want, double tolerance,
                        const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t b = 0; b < got.size(); ++b)
    for (int64_t i = 0; i < got[b].size(); ++i) {
      Cell x = got[b].get(i), y = want[b].get(i);
      bool same = is_float(got[b].dtype) ? std::isnan(x.f) == std::isnan(y.f) && (std::isnan(x.f) || x.f == y.f ||
                                               std::fabs(x.f - y.f) <= tolerance * std::max(1.0, std::fabs(y.f)))
                                         : x.i == y.i;
      ASSERT_TRUE(same) << what << ": buffer " << b << " element " << i << " is "
                        << (is_float(got[b].dtype) ? x.f : static_cast<double>(x.i)) << ", not "
                        << (is_float(got[b].dtype) ? y.f : static_cast<double>(y.i));
    }
}

/// Every target, the unoptimised kernel, and some of the ways to split its axes that a search would try, against the meaning of the AST.
/// Returns the optimised programs' AVX2 form.
inline Program check_kernel(const AstBuilder& k, double tolerance = 1e-5) {
  EXPECT_EQ(verify_kernel(k.sink()), "");
  std::vector<KernelBuffer> want = k.buffers;
  KernelEval(k.sink(), want).run();
  Program out;
  struct { const char* name; Caps caps; int flags; } rows[] = {
      {"unoptimised", avx2(), kNoOptions}, {"avx2", avx2(), 0}, {"avx512", avx512(), 0}, {"scalar", scalar_target(), 0}, {"gpu", gpu(), 0}};
  for (auto& row : rows) {
    Lowered l = lower_and_run(k, row.caps, row.flags);
    EXPECT_EQ(verify_program(l.program.linear), "") << row.name;
    expect_same(l.buffers, want, tolerance, row.name);
    for (int choice : {1, 2, 4, l.program.choices / 2, l.program.choices - 1})
      if (choice > 0 && choice < l.program.choices && !::testing::Test::HasFatalFailure()) {
        Lowered other = lower_and_run(k, row.caps, row.flags, choice);
        EXPECT_EQ(verify_program(other.program.linear), "") << row.name;
        expect_same(other.buffers, want, tolerance, fmt::format("{}, choice {}", row.name, choice));
      }
    if (std::string(row.name) == "avx2") out = std::move(l.program);
    if (::testing::Test::HasFatalFailure()) {
      ADD_FAILURE() << row.name << " of\n" << print(k.sink());
      break;
    }
  }
  return out;
}

inline int64_t count(const Program& p, Op op, int64_t lanes = 0) {
  return std::count_if(p.linear.begin(), p.linear.end(), [&](UOp* u) { return u->is(op) && (lanes == 0 || u->numel == lanes); });
}

}  // namespace tiny::testing
