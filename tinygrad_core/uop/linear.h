// Integer expressions as sums of multiples: c0*t0 + c1*t1 + ... + k. The normal form of every index. Internal to uop/.
#pragma once
#include "uop/facts.h"

namespace tiny {

using Wide = __int128;

struct Term {
  UOp* u;
  int64_t c;
};

/// Arithmetic is modulo the dtype's size, as the nodes' is. Terms are distinct, in canonical order, no coefficient is 0.
struct Linear {
  DType dtype;
  int64_t k = 0;
  SmallVec<Term, 12> terms;

  explicit Linear(DType d) : dtype(d) {}
  /// Adds c*u, taking sums, differences and constant multiples apart. False if more than kManyTerms terms would come of it.
  bool add(UOp* u, int64_t c = 1);
  /// Puts the terms in order: loop-invariant ones first, vectors last, equal ones joined; digits of one number are put together again.
  void normalise();
  UOp* build() const;
};

/// The normal form of `u`; false if it has too many terms to be worth it.
bool parse_linear(UOp* u, Linear& out);

/// Least and greatest sum, as if integers did not wrap.
struct WideBounds {
  Wide lo, hi;
};
WideBounds sum_bounds(const Linear& l);
WideBounds term_bounds(const Term& t);

/// The sum is the true value: no result of dtype wraps.
bool fits(WideBounds b, DType d);

/// (num / divisor) and (num % divisor) of a sum that cannot be negative; null if nothing is gained. divisor > 1.
UOp* divide_linear(UOp* num, int64_t divisor);
UOp* remainder_linear(UOp* num, int64_t divisor);

}  // namespace tiny
