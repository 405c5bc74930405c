// The language of rewrite rules. A rule is data: two small trees written as algebra, `{ (x + c1) + c2, x + (c1 + c2) }`, stored in
// preorder in .rodata; or a tree and a function, `{ x % c1, call(mod_of_sum), ints }`.
//   x y z w   any expression; the same name twice means the same node      c1 c2 c3   any CONST
//   numbers   a CONST of that value; on the right it takes the dtype of its neighbour
//   ~(a op b) either order of the operands
#pragma once
#include <cstdint>

#include "base/error.h"
#include "uop/symbolic.h"

namespace tiny {

namespace pat {

enum class Kind : uint8_t { Any, Const, Literal, Node };
inline constexpr int kSlots = 8;

struct PatNode {
  Kind kind = Kind::Any;
  Op op = Op::NOOP;       // Node
  uint8_t slot = 0;       // Any, Const
  uint8_t nsrc = 0;       // Node
  int8_t value = 0;       // Literal
  bool either = false;    // Node: operands in any order
  bool negative_zero = false;  // Literal
};
static_assert(sizeof(PatNode) <= 8);

struct Pat {
  PatNode n[9];
  uint8_t size = 0;
  constexpr Pat() = default;
  constexpr Pat(int literal) : size(1) { n[0] = {.kind = Kind::Literal, .value = static_cast<int8_t>(literal)}; }
};

constexpr Pat leaf(PatNode n) {
  Pat p;
  p.n[0] = n, p.size = 1;
  return p;
}
constexpr Pat any(uint8_t slot) { return leaf({.kind = Kind::Any, .slot = slot}); }
constexpr Pat constant(uint8_t slot) { return leaf({.kind = Kind::Const, .slot = slot}); }
constexpr Pat lit(int v) { return Pat(v); }
inline constexpr Pat kNegativeZero = leaf({.kind = Kind::Literal, .negative_zero = true});

template <class... P>
constexpr Pat op(Op o, const P&... sources) {
  Pat r = leaf({.kind = Kind::Node, .op = o, .nsrc = sizeof...(P)});
  auto append = [&r](const Pat& p) {
    for (int i = 0; i < p.size; ++i) r.n[r.size++] = p.n[i];
  };
  (append(sources), ...);
  return r;
}

inline constexpr Pat x = any(0), y = any(1), z = any(2), w = any(3), c1 = constant(4), c2 = constant(5), c3 = constant(6);

constexpr Pat operator+(const Pat& a, const Pat& b) { return op(Op::ADD, a, b); }
constexpr Pat operator-(const Pat& a, const Pat& b) { return op(Op::SUB, a, b); }
constexpr Pat operator*(const Pat& a, const Pat& b) { return op(Op::MUL, a, b); }
constexpr Pat operator/(const Pat& a, const Pat& b) { return op(Op::IDIV, a, b); }
constexpr Pat operator%(const Pat& a, const Pat& b) { return op(Op::MOD, a, b); }
constexpr Pat operator&(const Pat& a, const Pat& b) { return op(Op::AND, a, b); }
constexpr Pat operator|(const Pat& a, const Pat& b) { return op(Op::OR, a, b); }
constexpr Pat operator^(const Pat& a, const Pat& b) { return op(Op::XOR, a, b); }
constexpr Pat operator<(const Pat& a, const Pat& b) { return op(Op::CMPLT, a, b); }
constexpr Pat operator<=(const Pat& a, const Pat& b) { return op(Op::CMPLE, a, b); }
constexpr Pat operator==(const Pat& a, const Pat& b) { return op(Op::CMPEQ, a, b); }
constexpr Pat operator!=(const Pat& a, const Pat& b) { return op(Op::CMPNE, a, b); }
constexpr Pat operator-(const Pat& a) { return op(Op::NEG, a); }
constexpr Pat operator!(const Pat& a) { return op(Op::NOT, a); }
constexpr Pat max(const Pat& a, const Pat& b) { return op(Op::MAX, a, b); }
constexpr Pat min(const Pat& a, const Pat& b) { return op(Op::MIN, a, b); }
constexpr Pat where(const Pat& c, const Pat& a, const Pat& b) { return op(Op::WHERE, c, a, b); }
constexpr Pat cast(const Pat& a) { return op(Op::CAST, a); }  // on the right: to the dtype of the rule's root
constexpr Pat operator~(Pat p) {
  p.n[0].either = true;
  return p;
}

}  // namespace pat

/// A match: the root and what the names stand for.
struct Match {
  UOp* root = nullptr;
  UOp* slot[pat::kSlots] = {};
  UOp* operator[](const pat::Pat& p) const { return slot[p.n[0].slot]; }
};

/// The right side as a function: null declines. What it returns is built with alu(), so it is simplified.
using Body = UOp* (*)(const Match& m);
using Condition = bool (*)(const Match& m);

namespace pat {
struct call {
  Body body;
  constexpr explicit call(Body b) : body(b) {}
};
struct when {
  Condition condition;
  constexpr explicit when(Condition c) : condition(c) {}
};
/// Kinds of dtype, of the root's last source, to which a rule applies.
enum DTypes : uint8_t { ints = 1, bools = 2, floats = 4, exact = ints | bools, all_dtypes = 7 };
}  // namespace pat

struct Rule {
  pat::Pat lhs, rhs;
  Body body = nullptr;
  Condition condition = nullptr;
  uint8_t dtypes = pat::all_dtypes;
  const char* file;
  int line;

  consteval Rule(pat::Pat l, pat::Pat r, uint8_t dtypes = pat::all_dtypes, pat::when w = pat::when(nullptr),
                 const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : lhs(l), rhs(r), condition(w.condition), dtypes(dtypes), file(file), line(line) {
    for (int i = 0; i < r.size; ++i)
      if (r.n[i].kind <= pat::Kind::Const && !binds(l, r.n[i].slot)) throw "the right side names what the left does not bind";
  }
  consteval Rule(pat::Pat l, pat::call c, uint8_t dtypes = pat::all_dtypes, pat::when w = pat::when(nullptr),
                 const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : lhs(l), body(c.body), condition(w.condition), dtypes(dtypes), file(file), line(line) {}

 private:
  static constexpr bool binds(const pat::Pat& p, uint8_t slot) {
    for (int i = 0; i < p.size; ++i)
      if (p.n[i].kind <= pat::Kind::Const && p.n[i].slot == slot) return true;
    return false;
  }
};

}  // namespace tiny
