// What the arena knows of each of its nodes, worked out once when the node is made. Kernel IR only. Internal to uop/.
#pragma once
#include "uop/symbolic.h"

namespace tiny {

struct Facts {
  uint64_t hash;        // of the contents; UOp::refs is its upper half. 32 bits alone would repeat along a chain of 2^16 equal operators
  Bounds bounds;        // integers and bool; a u64 beyond i64 and a float have kUnknown
  int64_t factor;       // divides every value; 0 for the constant 0
  UOp* simple;          // result of simplify_node once it was asked for
  int32_t depth;        // 1 + number of the innermost RANGE below; kVectorDepth if the value differs from lane to lane
  uint16_t terms;       // summands of an integer sum, at most kManyTerms
  bool folds;           // the node, or one below it, may fold when bounds shrink: quotients, comparisons and the like
};
static_assert(sizeof(Facts) == 48);

inline constexpr Bounds kUnknown{INT64_MIN, INT64_MAX};
inline constexpr int32_t kVectorDepth = INT32_MAX;
inline constexpr uint16_t kManyTerms = 32;

/// Facts lie right before their node.
inline Facts& facts(const UOp* u) { return reinterpret_cast<Facts*>(const_cast<UOp*>(u))[-1]; }

/// Facts of a node from those of its sources.
Facts find_facts(const UOp* u);

/// Values that the type can hold; kUnknown for u64 and floats.
Bounds dtype_bounds(DType d);

/// Every node below `root` made again from simplified sources.
UOp* rebuild(UOp* root);

}  // namespace tiny
