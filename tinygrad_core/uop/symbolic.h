// The symbolic engine: bounds of integer expressions and the rules that simplify them (rules/*.cpp).
#pragma once
#include "uop/ir.h"

namespace tiny {

/// Least and greatest value of an integer or bool expression, both ends included. Exact for affine expressions of ranges.
struct Bounds {
  int64_t lo, hi;
  bool is_const() const { return lo == hi; }
};
Bounds bounds(const UOp* u);

/// The greatest integer that is known to divide every value of `u` (at least 1).
int64_t known_factor(const UOp* u);

/// `u` rewritten by the rules at this node alone; its sources are taken as simplified. alu() calls it on every node it makes,
/// so index arithmetic is in normal form as soon as it is built: sums of products with constants, div and mod cancelled by bounds.
UOp* simplify_node(UOp* u);

/// `u` in terms that need only hold where `gate` does (a conjunction of integer comparisons): its ranges shrink quotients and remainders.
UOp* simplify_given(UOp* u, UOp* gate);

/// The whole expression simplified to a fixed point by the full rule set.
UOp* simplify(UOp* u);

}  // namespace tiny
