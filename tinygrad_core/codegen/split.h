// Options on the axes of a kernel's AST, each a substitution in the graph.
#pragma once
#include <span>

#include "codegen/nest.h"
#include "uop/ir.h"

namespace tiny {

/// Part of a split axis: one turn of its loop takes `copies` bodies of `lanes` elements each.
struct Segment {
  int64_t copies, lanes;
  int64_t size() const { return copies * lanes; }
};
using Segments = SmallVec<Segment, 4>;

/// Numbers of ranges while a kernel is transformed: range number n of the AST has (2n + 2) * kStep, and what it is split into the numbers
/// after that. Odd multiples of kStep are free for ranges that change their place.
class RangeNumbers {
 public:
  static constexpr int64_t kStep = 1 << 14;
  static constexpr int64_t kInnermost = kStep * (1 << 16);
  static_assert(kInnermost < kStandInNumbers / kStep);
  int64_t after(int64_t number);

 private:
  int64_t made_ = 0;
};

class Splitter {
 public:
  explicit Splitter(UOp* sink);
  UOp* sink() const { return sink_; }
  /// `sink`, made of the kernel's parts, in its place.
  void replace_kernel(UOp* sink) { sink_ = sink; }
  /// A new loop, inside all others that it has to do with.
  UOp* inner_loop(UOp* extent, Axis axis);
  /// A new LOCAL array.
  UOp* local_array(DType d, int64_t n);

  /// Runs Global range `r` in the groups of a Global range of ceil(extent / size) turns and a Loop inside it over `size` elements (fewer in
  /// the last), and returns the Loop. A size of the whole extent makes `r` a Loop; of 1 changes nothing. `inner_number`: the Loop's, if not
  /// next to r's.
  UOp* chunk(UOp* r, int64_t size, int64_t inner_number = 0);
  /// Shares the elements of Global range `r` among the turns of another Global range. Returns the Loop over one share.
  UOp* share(UOp* r, UOp* groups);
  /// `r` with another axis or another place among the loops.
  UOp* replace(UOp* r, int64_t number, Axis axis);
  /// Lets one turn of Global range `r` compute a vector of `elements`, which divide its extent. Returns the Global range over the vectors,
  /// null if there is one only.
  UOp* vectors(UOp* r, int64_t elements);
  /// Makes Global range `r` the lanes of workgroups: a Global range and at most `lanes` of a Local one, which it returns; lanes beyond the
  /// end do nothing. `number`: of the Local range, if not r's. The greatest number is that of lanes next to each other.
  UOp* lanes(UOp* r, int64_t lanes, int64_t number = 0);
  /// Shares the elements of Loop or Reduce range `r` among the lanes of `lane`, a Local range: consecutive pieces of `elements`, which
  /// divide a constant extent, go to consecutive lanes. FOLDs over it are combined through LOCAL arrays, and every lane gets the result;
  /// they name all loops that r stands in. `other`: a Local range of the same workgroups, each of whose lanes has sums of its own. Returns
  /// the loop over one lane's share.
  UOp* share_among_lanes(UOp* r, UOp* lane, UOp* other = nullptr, int64_t elements = 1);
  /// Lets one of the lanes of `lane` write what all of them compute: the STOREs to elements that do not depend on it.
  void store_once(UOp* lane);
  /// Makes every FOLD over Reduce range `r` one over parts of `size` turns, whose results are folded: the chains of roundings are short. No
  /// STORE, PREFIX or ORDERED may stand in `r`.
  void nest_folds(UOp* r, int64_t size);
  /// Lets only the groups in which the Global ranges `zero` are 0 run `store`, a source of the SINK that does not depend on them.
  void run_once(UOp* store, std::span<UOp* const> zero);
  /// Makes one turn of Loop or Reduce range `r` take several elements. The STOREs in it are copied; each FOLD over it becomes several,
  /// whose results are combined in a fixed order. What a segment leaves over goes to the next, and to single elements at last. No PREFIX or
  /// ORDERED may name `r`, and no LOCAL may be stored inside and read again within one turn, unless every segment has size 1. `elements`:
  /// if r is a share of an axis of so many elements, in chunks of a multiple of the first segment's size (0: not known).
  void split(UOp* r, std::span<const Segment> segments, int64_t elements = 0);
 private:
  struct Piece;
  std::vector<Piece> pieces(UOp* r, std::span<const Segment> segments, int64_t elements, Nest& nest);
  static U element_of(const Piece& p, int64_t copy);
  static std::vector<UOp*> copy_of(const Piece& p, UOp* r, int64_t copy, Nest& nest);
  static void tie_arrays(Piece& p, Nest& nest, size_t self);
  /// The Local ranges among whose lanes a loop is shared, and of those that have sums of their own; null: none.
  struct LanesOfGroup {
    UOp *lane = nullptr, *other = nullptr;
  };
  void replace_axis(Nest& nest, UOp* r, std::vector<Piece>& parts, LanesOfGroup lanes);
  UOp* split_fold(UOp* f, UOp* r, std::vector<Piece>& parts, LanesOfGroup lanes, Nest& nest);
  UOp* fold_lanes_of_group(Op op, UOp* partial, LanesOfGroup lanes);
  UOp* guarded(UOp* store, UOp* condition);
  void apply(UOp* from, UOp* to);

  UOp* sink_;
  RangeNumbers numbers_;
  int64_t locals_ = 0;              // LOCAL arrays in the kernel
};

}  // namespace tiny
