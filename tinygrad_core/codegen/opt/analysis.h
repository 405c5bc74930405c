// What heuristics ask of a kernel's AST: strides, turns, costs.
#pragma once
#include <vector>

#include "codegen/nest.h"
#include "renderer/caps.h"

namespace tiny {

inline constexpr int64_t kIrregular = INT64_MIN;

struct LoopFacts {
  UOp* range;
  int64_t extent;
  bool global, reduces;  // Global; named by a FOLD
  bool sequential;       // named by a PREFIX or ORDERED: neither copied nor made a vector
  bool holds_array;      // a LOCAL array is stored and read again in each turn: no two turns at once
};

class Analysis {
 public:
  explicit Analysis(UOp* sink);

  Nest nest;
  std::vector<LoopFacts> loops;         // as nest.ranges
  std::vector<UOp*> accesses;           // LOADs and STOREs
  std::vector<UOp*> folds;

  /// By how much index `u` grows with each of `lanes` elements in a row of range r, the first at a multiple of `lanes`; kIrregular if by no
  /// fixed amount.
  int64_t stride(const UOp* u, size_t r, int64_t lanes);
  int64_t access_stride(const UOp* access, size_t r, int64_t lanes) { return stride(access->src[0]->src[1], r, lanes); }

  /// How often the node is computed.
  double turns(const UOp* u);
  /// The node is arithmetic on values, not on indices.
  bool is_data(const UOp* u) const { return data_[u->slot]; }
  /// Lanes for vectors along r: of the widest type computed with; 1 if vectors do not pay or are not allowed.
  int64_t lanes(size_t r, const Caps& caps);
  /// Arithmetic in one turn of r's own body: what depends on it, without what happens in loops inside.
  double body_cost(size_t r);
  /// Arithmetic of the whole kernel, without vectors.
  double total_cost();
  /// FOLDs over r, and FOLDs inside its body.
  int64_t folds_over(size_t r), folds_inside(size_t r);
  /// Time of the whole kernel, in scalar operations, with the loops in `vectors` vectorised.
  double cost_with(const std::vector<size_t>& vectors, const Caps& caps);

 private:
  struct Form {
    int64_t stride, factor;  // factor divides the value where the range is at a multiple of `lanes`
  };
  void find_data();
  void find_arrays();
  std::vector<Form>& forms(size_t r, int64_t lanes);

  int64_t find_lanes(size_t r, const Caps& caps);

  std::vector<char> data_;                   // by slot
  std::vector<int64_t> lanes_;               // by range, once asked for
  std::vector<std::vector<Form>> forms_;     // by range: by position
  std::vector<int64_t> forms_lanes_;
};

}  // namespace tiny
