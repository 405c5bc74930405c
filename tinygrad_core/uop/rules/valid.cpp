// Gates of memory accesses, and what a gate tells about the index behind it. Contract: see simple.cpp.
#include "uop/linear.h"
#include "uop/matcher.h"

namespace tiny {

using namespace pat;

namespace {

/// Whether `u` may fold differently when an operand's range shrinks.
bool sees_ranges(const UOp* u) { return facts(u).folds; }

/// What a gate says of one expression.
struct Constraint {
  UOp* u;
  Bounds bounds;
};

using Constraints = SmallVec<Constraint, 8>;

void constrain(Constraints& all, UOp* u, int64_t lo, int64_t hi) {
  if (!is_signed(u->dtype)) return;
  for (Constraint& c : all)
    if (c.u == u) {
      c.bounds = {std::max(c.bounds.lo, lo), std::min(c.bounds.hi, hi)};
      return;
    }
  Bounds own = bounds(u);
  all.push_back({u, {std::max(own.lo, lo), std::min(own.hi, hi)}});
}

/// The comparisons with constants among the terms of a conjunction.
Constraints constraints_of(UOp* gate) {
  Constraints all;
  SmallVec<UOp*, 16> work;
  work.push_back(gate);
  for (int steps = 0; !work.empty() && steps < 64; ++steps) {
    UOp* c = work.back();
    work.pop_back();
    if (c->is(Op::AND)) {
      work.push_back(c->src[0]);
      work.push_back(c->src[1]);
    } else if (has(c->op, group::Cmp) && !is_float(c->src[0]->dtype)) {
      UOp *a = c->src[0], *b = c->src[1];
      if (c->is(Op::CMPLT) && b->is(Op::CONST) && b->arg.i > INT64_MIN) constrain(all, a, INT64_MIN, b->arg.i - 1);
      if (c->is(Op::CMPLT) && a->is(Op::CONST) && a->arg.i < INT64_MAX) constrain(all, b, a->arg.i + 1, INT64_MAX);
      if (c->is(Op::CMPEQ) && b->is(Op::CONST)) constrain(all, a, b->arg.i, b->arg.i);
    }
  }
  return all;
}

/// Stand-in for a value in lo..hi.
U stand_in(DType d, Bounds b, int64_t number) { return cast(range(b.hi - b.lo + 1, number, Axis::Loop), d) + b.lo; }

/// A number that no stand-in below `u` or `gate` has: an index inside an index may be simplified while the outer one is.
int64_t free_number(UOp* u, UOp* gate) {
  int64_t n = kStandInNumbers;
  UOp* roots[] = {u, gate};
  for (const UOp* r : toposort(roots))
    if (r->is(Op::RANGE)) n = std::max(n, range_number(r) + 1);
  return n;
}

/// Which node to replace so that `c.u` shrinks: itself, or one term of it that stands alone.
UOp* replaced_node(const Constraint& c, UOp* value, UOp*& replacement) {
  replacement = value;
  Linear sum(c.u->dtype);
  if (facts(c.u).terms == 1 && !c.u->is(Op::MUL) && !c.u->is(Op::NEG)) return c.u;
  if (!parse_linear(c.u, sum)) return nullptr;
  for (const Term& t : sum.terms) {
    if (t.c != 1 && t.c != -1) continue;
    UOp* rest = alu(Op::SUB, {c.u, t.c == 1 ? t.u : alu(Op::NEG, {t.u}).u});
    replacement = t.c == 1 ? alu(Op::SUB, {value, rest}) : alu(Op::SUB, {rest, value});
    return t.u;
  }
  return nullptr;
}

int64_t cost(UOp* u) {
  int64_t n = 0;
  for (const UOp* v : toposort({&u, 1})) n += v->is(Op::IDIV) || v->is(Op::MOD) ? 8 : 1;
  return n;
}

constexpr Pat load(const Pat& i, const Pat& gate, const Pat& other) { return op(Op::LOAD, i, gate, other); }

UOp* ungated_load(const Match& m) { return node(Op::LOAD, m.root->dtype, {m[x]}, {}, m.root->numel); }
UOp* ungated_store(const Match& m) { return node(Op::STORE, DType::void_, {m[x], m[y]}, {}, m.root->numel); }
UOp* other_value(const Match& m) { return m[y]; }
UOp* the_load(const Match& m) { return m.root->src[1]; }

/// The access with its index simplified under its gate.
UOp* tighter_index(const Match& m) {
  UOp* index = simplify_given(m[y], m[z]);
  if (index == m[y]) return nullptr;
  U access = node(Op::INDEX, m.root->src[0]->dtype, {m[x], index}, {}, m.root->src[0]->numel);
  return node(m.root->op, m.root->dtype, {access, m.root->src[1], m.root->src[2]}, {}, m.root->numel);
}

constexpr Rule kRules[] = {
  {load(x, 1, y), call(ungated_load)},
  {load(x, 0, y), call(other_value)},
  {op(Op::STORE, x, y, 1), call(ungated_store)},
  {where(z, load(x, z, y), y), call(the_load)},
  {load(op(Op::INDEX, x, y), z, w), call(tighter_index)},
  {op(Op::STORE, op(Op::INDEX, x, y), w, z), call(tighter_index)},
};

}  // namespace

UOp* simplify_given(UOp* u, UOp* gate) {
  if (!sees_ranges(u) || gate->is(Op::CONST)) return u;
  int64_t number = 0;  // of the next stand-in, once there is one
  for (const Constraint& c : constraints_of(gate)) {
    Bounds own = bounds(c.u);
    if (c.bounds.lo > c.bounds.hi || (c.bounds.lo == own.lo && c.bounds.hi == own.hi)) continue;
    if (c.bounds.lo < INT32_MIN || c.bounds.hi > INT32_MAX) continue;
    if (!number) number = free_number(u, gate);
    UOp *value = stand_in(c.u->dtype, c.bounds, number++), *replacement;
    UOp* target = replaced_node(c, value, replacement);
    if (!target) continue;
    UOp* inside = replace(u, target, replacement);
    if (inside == u) continue;
    UOp* fake = value;  // the RANGE below the sum and the cast
    while (!fake->is(Op::RANGE) && fake->nsrc) fake = fake->src[0];
    UOp* back = fake->is(Op::RANGE) ? replace(inside, fake, cast(alu(Op::SUB, {c.u, const_(c.u->dtype, c.bounds.lo)}), kIndex)) : inside;
    if (cost(back) < cost(u)) u = back;
  }
  return u;
}

RuleTable valid_rules() { return kRules; }

}  // namespace tiny
