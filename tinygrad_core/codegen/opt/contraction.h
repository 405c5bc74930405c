// Contractions: sums over k of A[m, k] * B[n, k], where some Global ranges index only A (m) and others only B (n): matrix products, batched
// ones, convolutions.
#pragma once
#include <vector>

#include "codegen/opt/analysis.h"

namespace tiny {

/// The two operands of a FOLD and the Global ranges that only one of them has, as numbers of loops.
struct Contraction {
  UOp* fold;
  UOp* operand[2];
  std::vector<size_t> own[2];
  double columns;  // elements of the sum
};

/// One for each FOLD of the kernel if all are sums of at least four products whose operands have ranges of their own; else none.
std::vector<Contraction> find_contractions(Analysis& a);

/// All LOADs of the operand that depend on loop r go to consecutive elements with it, and there is one.
bool is_contiguous(Analysis& a, UOp* operand, size_t r, int64_t lanes);

}  // namespace tiny
