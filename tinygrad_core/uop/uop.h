// UOp, the one node type. Tensor-graph nodes are made by graph.h and reference counted; kernel nodes are made by ir.h,
// hash-consed in an arena and dropped with it.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "base/small.h"
#include "uop/dtype.h"
#include "uop/ops.h"

namespace tiny {

struct Buffer;

/// Interned, never freed: equal contents mean the same pointer. `hash` is stable from run to run.
struct Record {
  uint64_t hash = 0;
  Dims a, b, c;
  int64_t n = 0;
  std::string text;
};
/// The one Record with these contents. Thread-safe.
const Record* intern(Record r);

union Arg {
  int64_t i;
  uint64_t bits;
  double f;
  const Record* rec;
  Buffer* buf;
  Arg() : bits(0) {}
  Arg(int64_t v) : i(v) {}
  Arg(const Record* r) : rec(r) {}
  Arg(Buffer* b) : buf(b) {}
  static Arg from_double(double v) { Arg a; a.f = v; return a; }
};

struct UOp {
  Op op;
  DType dtype;
  uint16_t nsrc;
  uint32_t refs;   // tensor graph: owners. Kernel IR: structural hash, stable from run to run
  uint32_t mark;   // epoch of the last walk that visited this node
  uint32_t slot;   // tensor graph: the walk's number for it. Kernel IR: dense number in its arena
  int64_t numel;   // tensor graph: flat length. Kernel IR: lanes
  Arg arg;
  UOp* src[];      // nsrc of them

  std::span<UOp* const> sources() const { return {src, nsrc}; }
  bool is(Op o) const { return op == o; }
  bool is_const(int64_t v) const { return op == Op::CONST && !is_float(dtype) && arg.i == v; }
};
static_assert(sizeof(UOp) == 32, "a header of half a cache line; sources follow it");

// ---- packed arguments
inline Arg reduce_arg(Op op, int64_t columns) { return Arg(columns << 8 | static_cast<int64_t>(op)); }
inline Op reduce_op(const UOp* u) { return static_cast<Op>(u->arg.i & 255); }
inline int64_t reduce_columns(const UOp* u) { return u->arg.i >> 8; }

/// What runs a RANGE. Global: workgroups, in any order. Local: lanes of a workgroup. Loop, Reduce: in order. Upcast and Unroll are
/// replaced by copies of the body, Vector by LANES: none of the three reaches a renderer.
enum class Axis : uint8_t { Global, Local, Loop, Reduce, GroupReduce, Upcast, Unroll, Vector };
/// Numbers of RANGEs that stand for other values while an expression is simplified; loops of kernels have smaller ones.
inline constexpr int64_t kStandInNumbers = int64_t{1} << 50;
inline Arg range_arg(int64_t number, Axis axis) { return Arg(number << 8 | static_cast<int64_t>(axis)); }
inline int64_t range_number(const UOp* r) { return r->arg.i >> 8; }
inline Axis range_axis(const UOp* r) { return static_cast<Axis>(r->arg.i & 255); }

/// Value of a CONST as double or as i64, whatever its dtype.
inline double const_double(const UOp* u) {
  return is_float(u->dtype) ? u->arg.f : is_unsigned(u->dtype) ? static_cast<double>(u->arg.bits) : static_cast<double>(u->arg.i);
}
inline int64_t const_int(const UOp* u) { return is_float(u->dtype) ? static_cast<int64_t>(u->arg.f) : u->arg.i; }
/// `v` as dtype `d` holds it (rounded, wrapped), in the form of a CONST's argument.
Arg const_arg(DType d, double v);
Arg const_arg(DType d, int64_t v);

/// The element with which a reduction by `op` starts (0 for ADD, -inf or the least integer for MAX, ...), as a CONST's argument.
Arg identity_arg(Op op, DType d);

/// Text of a graph, one node a line, sources before users: "%3 = ADD.f32[8] %1 %2". parse.h reads it back.
std::string print(std::span<UOp* const> roots);
std::string print(const UOp* root);

}  // namespace tiny
