// The scheduler's own copy of a tensor graph: nodes by number, so that it may rewrite them, and what it finds out about each.
#pragma once
#include <string>
#include <unordered_dense/unordered_dense.h>
#include <tuple>
#include <utility>
#include <vector>

#include "schedule/schedule.h"

namespace tiny::sched {

struct Node {
  Op op;
  DType dtype;
  int64_t numel;
  Arg arg;
  SmallVec<int, 3> src;
  int number = -1;  // BUFFER, SCALAR: number of the leaf
};

/// Views as loops: adjacent dimensions that walk memory as one are one, dimensions of size 1 are gone.
struct Geometry {
  Dims sizes, strides;
  int64_t offset = 0;
};
Geometry simplified(const Dims& sizes, const Dims& strides, int64_t offset);
/// Elements of the source from one element of the view to the next, where `step` elements of the view lie between them.
int64_t step_through(const Geometry& g, int64_t step);

struct Work {
  std::vector<Node> nodes;   // sources first
  std::vector<int> roots;    // by root number
  int leaves = 0, scalars = 0;

  int add(Op op, DType dtype, int64_t numel, Arg arg, std::initializer_list<int> src);
  int add_view(int src, const Dims& sizes, const Dims& strides, int64_t offset);
  const Node& operator[](int i) const { return nodes[static_cast<size_t>(i)]; }
};

inline Op reduce_op(const Node& n) { return static_cast<Op>(n.arg.i & 255); }
inline int64_t reduce_columns(const Node& n) { return n.arg.i >> 8; }
/// Elements that a kernel computes one after the other: a PAIRS is two at a time.
inline int64_t steps_of(const Node& n) { return n.op == Op::PAIRS ? n.numel / 2 : n.numel; }
/// Computed wherever it is used, never stored for itself: leaves, numbers and pure movement.
inline bool is_free(Op op) {
  return op == Op::BUFFER || op == Op::CONST || op == Op::SCALAR || op == Op::IOTA || op == Op::EMPTY || op == Op::VIEW || op == Op::PAD;
}

/// A CAST that can be done later: from a reduced float to one that holds all its values.
inline bool widens(const Work& w, int n) {
  return w[n].op == Op::CAST && is_reduced_float(w[w[n].src[0]].dtype) && is_float(w[n].dtype) && !is_reduced_float(w[n].dtype);
}

/// How many of an operator's first sources must be in memory of their own: to be written to, or read by a builtin.
inline size_t memory_sources(Op op, size_t sources) {
  return op == Op::CALL ? sources : op == Op::ASSIGN || op == Op::SCATTER ? 1 : 0;
}

/// Copies the graph, with the rewrites that only the scheduler can judge: a long reduction with few rows is split in two stages; operands
/// of contractions that are read many times are laid out for it (padding done once, reduced floats widened, panels where the target wants
/// them).
Work prepare(std::span<UOp* const> nodes, std::span<const int> roots, const Caps& caps);
/// Operands laid out for contractions, by value, the view of it that is copied and the distance of the elements that make a pair (0: none):
/// one copy serves all that read it alike.
using Layouts = ankerl::unordered_dense::map<std::tuple<int, const Record*, int64_t>, int>;
/// The second of those rewrites: what a REDUCE(op ADD) over `product`, a MUL, should add up: it, a MUL of other operands, or DOT2s, half as
/// many. `readers`: for each operand, how many contractions read it through the same view.
int condition_contraction(Work& w, int product, int64_t columns, DType dtype, const Caps& caps, const int64_t (&readers)[2],
                          Layouts& layouts);

/// A set of nodes that one kernel computes. Its domain is R rows of C columns. A Vec member has an element for each (r, c), a Row member
/// one for each r. Flat groups have no reduction: C is 0 and the domain is R alone.
struct Group {
  int64_t rows = 0, cols = 0;
  std::vector<int> members;   // in order
  int weight = 0;
  int buffers = 0;            // of its kernel at most: what is read, and members that somebody else may still read
  bool closed = false;        // nobody joins: scatter, scan, call, assign, copy
  bool contraction = false;
  std::vector<int> inputs;    // bases that reductions read through views: siblings are found by them
};

enum class Place : uint8_t { Free, Row, Vec, Alone };

struct Grouping {
  std::vector<Group> groups;        // in an order in which they may run
  std::vector<int> group_of;        // by node, -1: free
  std::vector<Place> place;
  std::vector<int> cost;            // arithmetic to compute the node from what is in memory; kNever if that takes more than two loads
  std::vector<bool> again;          // elementwise: computed again by its readers in other groups rather than stored
};
inline constexpr int kNever = 1 << 20;
inline constexpr int kCheap = 4;    // arithmetic that is computed again rather than stored and loaded
Grouping group_nodes(const Work& w, const Caps& caps);

/// Weight of an operator in additions.
int op_weight(const Node& n);
/// MUL of two broadcast views: every element is read many times.
bool is_contraction(const Work& w, int n);
/// True if VIEW node `v` of a value with `rows` elements repeats each of them `cols` times in a row.
bool is_row_broadcast(const Work& w, int v, int64_t rows, int64_t cols);

/// Which nodes are in memory: by node, the schedule buffer that holds it, or -1.
using Homes = std::vector<int>;

/// Node of another group, read by a kernel: true if computing it again is cheaper than storing and loading it. `reused`: each element is
/// read many times.
bool recompute(const Work& w, const Grouping& g, int node, bool reused);

/// One group's kernel.
struct KernelBuild {
  UOp* sink = nullptr;
  std::vector<int> buffers, scalars;   // PARAM and VAR numbers; the error record's buffer is -1
  struct Access {
    int buffer;
    UOp* index;                        // in elements of `dtype`
    DType dtype;
    UOp* value = nullptr;              // of a store
  };
  std::vector<Access> loads, stores;
};
/// `stored`: members of the group that get memory, in `home`.
KernelBuild build_kernel(const Work& w, const Grouping& g, const Homes& home, int group, const std::vector<int>& stored,
                         const std::vector<int64_t>& buffer_bytes, const Caps& caps);

}  // namespace tiny::sched
