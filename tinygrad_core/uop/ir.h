// Kernel IR: hash-consed nodes in an arena, and operators to write expressions with.
// An IrScope makes an arena current for this thread; every node of a kernel lives in one arena and dies with it.
#pragma once
#include <memory>
#include <vector>

#include "base/hash.h"
#include "uop/uop.h"

namespace tiny {

class Arena {
 public:
  Arena();
  ~Arena();
  Arena(const Arena&) = delete;
  /// The node with these contents: an existing one if there is one.
  UOp* make(Op op, DType dtype, int64_t numel, Arg arg, std::span<UOp* const> src);
  size_t size() const;  // nodes made; every slot is below it
 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Makes `arena` the current one of this thread until the scope ends.
class IrScope {
 public:
  explicit IrScope(Arena& arena);
  ~IrScope();
 private:
  Arena* previous_;
};
Arena& current_arena();

/// A kernel-IR expression. Thin: a pointer with operators. Operators fold constants and simplify (see symbolic.h: simplify_node).
struct U {
  UOp* u = nullptr;
  U() = default;
  U(UOp* p) : u(p) {}
  operator UOp*() const { return u; }
  UOp* operator->() const { return u; }
};

/// A raw node in the current arena, numel worked out from the sources (the most lanes among them) unless given.
U node(Op op, DType dtype, std::initializer_list<UOp*> src, Arg arg = {}, int64_t numel = 0);
U node(Op op, DType dtype, std::span<UOp* const> src, Arg arg = {}, int64_t numel = 0);

U const_(DType d, double v);
U const_(DType d, int64_t v);
inline U const_(DType d, int v) { return const_(d, static_cast<int64_t>(v)); }
inline U index_const(int64_t v) { return const_(kIndex, v); }
U range(int64_t extent, int64_t number, Axis axis);

/// An elementwise node, simplified: result dtype from the op (bool for comparisons, else that of the last source).
U alu(Op op, std::initializer_list<UOp*> src);
U cast(UOp* x, DType d);
inline U operator+(U a, U b) { return alu(Op::ADD, {a, b}); }
inline U operator-(U a, U b) { return alu(Op::SUB, {a, b}); }
inline U operator*(U a, U b) { return alu(Op::MUL, {a, b}); }
inline U operator+(U a, int64_t b) { return a + const_(a->dtype, b); }
inline U operator-(U a, int64_t b) { return a - const_(a->dtype, b); }
inline U operator*(U a, int64_t b) { return a * const_(a->dtype, b); }
/// Integer quotient and remainder of expressions that are not negative.
inline U operator/(U a, int64_t b) { return alu(Op::IDIV, {a, const_(a->dtype, b)}); }
inline U operator%(U a, int64_t b) { return alu(Op::MOD, {a, const_(a->dtype, b)}); }
inline U where(U c, U a, U b) { return alu(Op::WHERE, {c, a, b}); }
inline U lt(U a, U b) { return alu(Op::CMPLT, {a, b}); }
inline U operator&(U a, U b) { return alu(Op::AND, {a, b}); }

/// Nodes reachable from `roots`, sources before users. No recursion.
std::vector<UOp*> toposort(std::span<UOp* const> roots);

/// `u` with every node that `map` has an entry for replaced; users are made again through alu(), so constants fold.
/// map: indexed by slot, nullptr = keep. Results are memoised in it.
UOp* substitute(UOp* u, std::vector<UOp*>& map);

/// The expression `u` with `from` replaced by `to` wherever it is an operand of arithmetic. Loops and what is read from memory stay what
/// they are: a RANGE with another extent would be another loop. For few replacements: the cost does not depend on the arena.
UOp* replace(UOp* u, UOp* from, UOp* to);

/// A copy of `root`'s graph, which may belong to any arena, in the current one. It only reads the original: threads may copy from one
/// arena at once, as long as none makes nodes in it or walks it.
UOp* import_graph(UOp* root);

/// An argument as a word that is the same from run to run.
uint64_t arg_hash(Op op, Arg arg);

/// 128-bit name of a kernel: equal text of the graph, equal key; stable from run to run.
Hash128 kernel_key(UOp* sink);

}  // namespace tiny
