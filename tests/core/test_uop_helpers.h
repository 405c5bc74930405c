// Shared by the tests of uop/: values of kernel expressions and random material.
#pragma once
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "unordered_dense/unordered_dense.h"
#include "uop/eval.h"
#include "uop/symbolic.h"

namespace tiny::testing {

/// Values of the leaves (VAR, RANGE).
using Leaves = ankerl::unordered_dense::map<const UOp*, Arg>;

/// Value of `root` in one lane, by eval() node for node.
class Evaluator {
 public:
  Evaluator(const Leaves& leaves, int64_t lane = 0) : leaves_(leaves), lane_(lane) {}

  Arg operator()(UOp* root) {
    for (UOp* u : toposort({&root, 1})) values_[u] = value(u);
    return values_.at(root);
  }

 private:
  Arg value(const UOp* u) {
    if (u->is(Op::CONST)) return u->arg;
    if (u->is(Op::LANES)) return Arg(lane_);
    if (u->is(Op::LANE)) return Evaluator(leaves_, u->arg.i)(u->src[0]);
    if (u->is(Op::VAR) || u->is(Op::RANGE)) return leaves_.at(u);
    if (u->is(Op::CHECK)) return values_.at(u->src[1]).i ? values_.at(u->src[0]) : const_arg(u->dtype, int64_t{0});
    Arg src[3];
    for (int i = 0; i < u->nsrc; ++i) src[i] = values_.at(u->src[i]);
    return eval(u->op, u->dtype, u->src[0]->dtype, {src, u->nsrc});
  }
  const Leaves& leaves_;
  int64_t lane_;
  ankerl::unordered_dense::map<const UOp*, Arg> values_;
};

/// Equal bits; any two NaNs are equal.
inline bool same_value(DType d, Arg a, Arg b) { return is_float(d) && std::isnan(a.f) && std::isnan(b.f) ? true : a.bits == b.bits; }

struct Random {
  std::mt19937_64 engine;
  explicit Random(uint64_t seed) : engine(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(engine() % static_cast<uint64_t>(n)); }
  int64_t between(int64_t lo, int64_t hi) { return lo + below(hi - lo + 1); }
  bool chance(int percent) { return below(100) < percent; }

  DType dtype(bool ints, bool bools, bool floats) {
    static constexpr DType kInts[] = {DType::i64, DType::i64, DType::i32, DType::i32, DType::u8,
                                      DType::i8,  DType::i16, DType::u16, DType::u32, DType::u64};
    static constexpr DType kFloats[] = {DType::f32, DType::f32, DType::f64, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2};
    for (;;) {
      int k = static_cast<int>(below(3));
      if (k == 0 && ints) return kInts[below(std::size(kInts))];
      if (k == 1 && bools) return DType::bool_;
      if (k == 2 && floats) return kFloats[below(std::size(kFloats))];
    }
  }

  /// A value of the type: often small, often at a limit, sometimes anything.
  Arg value(DType d) {
    if (is_float(d)) {
      static constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
      static constexpr double kValues[] = {0.0, -0.0,  1,    -1,    2,     0.5,    -4,  0.1, 3,
                                           1e-45, 1e38, 65504, 1e300, 5e-324, inf, -inf, nan};
      if (chance(70)) return const_arg(d, kValues[below(std::size(kValues))]);
      return const_arg(d, static_cast<double>(between(-100000, 100000)) / static_cast<double>(between(1, 1000)));
    }
    if (chance(60)) return const_arg(d, between(-3, 20));
    if (chance(40)) return const_arg(d, int64_t{1} << below(64));
    int64_t least = std::numeric_limits<int64_t>::min() >> (64 - info(d).bits);
    if (chance(50)) return const_arg(d, least + between(-2, 2));
    return const_arg(d, static_cast<int64_t>(engine()));
  }
};

/// Values for every VAR and RANGE below `roots`.
inline Leaves random_leaves(std::span<UOp* const> roots, Random& random) {
  Leaves leaves;
  for (UOp* u : toposort(roots)) {
    if (u->is(Op::VAR)) leaves[u] = random.value(u->dtype);
    if (u->is(Op::RANGE)) leaves[u] = Arg(random.below(std::max<int64_t>(1, u->src[0]->arg.i)));
  }
  return leaves;
}

}  // namespace tiny::testing
