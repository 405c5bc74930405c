// Sums of integers: the normal form of linear.h. Contract: see simple.cpp.
#include "uop/linear.h"
#include "uop/matcher.h"

namespace tiny {

using namespace pat;

namespace {

UOp* normal_sum(const Match& m) {
  Linear l(m.root->dtype);
  if (facts(m.root).terms >= kManyTerms || !parse_linear(m.root, l)) return nullptr;
  return l.build();
}

/// A multiple of something that is not a sum is in normal form already.
UOp* distribute(const Match& m) {
  switch (m[x]->op) {
    case Op::ADD: case Op::SUB: case Op::NEG: case Op::MUL: return normal_sum(m);
    default: return nullptr;
  }
}

bool second_is_not_const(const Match& m) { return !m[y]->is(Op::CONST); }
bool first_is_not_const(const Match& m) { return !m[x]->is(Op::CONST); }

constexpr Rule kRules[] = {
  {x * c1, call(distribute), ints},
  {(x * c1) * y, (x * y) * c1, ints, when(second_is_not_const)},
  {x * (y * c1), (x * y) * c1, ints, when(first_is_not_const)},
  {(-x) * y, -(x * y), ints, when(second_is_not_const)},
  {x * (-y), -(x * y), ints, when(first_is_not_const)},
  {x + y, call(normal_sum), ints},
  {x - y, call(normal_sum), ints},
  {-x, call(normal_sum), ints},
};

}  // namespace

RuleTable symbolic_rules() { return kRules; }

}  // namespace tiny
