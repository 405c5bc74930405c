// Options on axes, chosen by heuristics. A CPU runs workgroups on threads and vectors in registers; a GPU has lanes.
#pragma once
#include "codegen/codegen.h"
#include "codegen/opt/analysis.h"
#include "codegen/split.h"

namespace tiny {

/// Which of the ways to split a kernel's axes, in the order in which the heuristics expect them to be good: 0 is their own; the others are
/// for a search by timing.
struct Choice {
  int number = 0;
  int count = 1;  // how many there are: set by the heuristics

  /// The wanted one of `n` ways; the first if there are fewer.
  size_t of(size_t n) {
    count = static_cast<int>(n);
    return number < count ? static_cast<size_t>(number) : 0;
  }
};

/// The kernel with its axes split as suits the target.
UOp* apply_options(UOp* sink, const Caps& caps, int flags, Choice& choice);

/// What is decided for one range.
struct AxisPlan {
  UOp* range;
  Segments segments;
  int64_t elements = 0;  // of the whole axis, once it is in chunks
};
/// Splits by the plans, inner loops first, so that each segment of an outer loop gets its own copy of them.
void apply_plans(Splitter& splitter, std::vector<AxisPlan> plans);

/// Decides how Global ranges become groups. order: from the one that should change fastest in a group; `unit`: elements that one turn of
/// its body takes at least; `limit`: at most so many of them in one group (0: any). Updates the ranges in `plans` to the Loops made.
struct GroupRange {
  UOp* range;
  int64_t unit = 1, limit = 0, number = 0;
};
void make_groups(Splitter& splitter, std::vector<GroupRange> order, double work, const Caps& caps, std::vector<AxisPlan>& plans);

/// True if it applied: the kernel is a contraction (matmul, convolution) and now has a tile of accumulators in registers.
bool apply_contraction(Splitter& splitter, Analysis& a, const Caps& caps, Choice& choice);
/// Elementwise kernels, reductions of rows or columns, scans, scatters.
void apply_rows(Splitter& splitter, Analysis& a, const Caps& caps, Choice& choice);
/// True if it applied: the kernel is a contraction and its workgroups compute blocks of it from tiles in local memory.
bool apply_blocks(Splitter& splitter, Analysis& a, const Caps& caps);
/// True if it applied: the kernel is a contraction and its workgroups compute blocks of it, read straight from global memory.
bool apply_tiles_of_lanes(Splitter& splitter, Analysis& a, const Caps& caps);
/// Lanes of workgroups, for targets that have them.
void apply_lanes(Splitter& splitter, Analysis& a, const Caps& caps);

}  // namespace tiny
