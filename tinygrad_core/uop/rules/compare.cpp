// Comparisons and WHERE. Integer comparisons have the normal form  a*t + b*u < c*v + k: positive multiples on each side, no common
// factor, the constant on the right unless the right would be empty. Contract: see simple.cpp.
#include <numeric>

#include "uop/linear.h"
#include "uop/matcher.h"

namespace tiny {

using namespace pat;

namespace {

Wide floor_div(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/// a - b as terms, with the sum of `terms` compared to `limit`; false where arithmetic might wrap.
bool difference(UOp* a, UOp* b, Linear& terms, Wide& limit) {
  Linear l(a->dtype), r(a->dtype);
  if (facts(a).terms + facts(b).terms > kManyTerms || !parse_linear(a, l) || !parse_linear(b, r)) return false;
  if (!fits(sum_bounds(l), a->dtype) || !fits(sum_bounds(r), a->dtype)) return false;
  constexpr int64_t large = int64_t{1} << 60;  // no difference of two coefficients below it overflows
  for (const Linear* side : {&l, &r})
    for (const Term& t : side->terms)
      if (t.c > large || t.c < -large) return false;
  limit = Wide{r.k} - l.k;
  terms.dtype = DType::i64;  // true integers from here on, not modulo the dtype's size
  for (Term t : l.terms) terms.terms.push_back(t);
  for (Term t : r.terms) {
    bool joined = false;
    for (Term& own : terms.terms)
      if (own.u == t.u) own.c -= t.c, joined = true;
    if (!joined) terms.terms.push_back({t.u, -t.c});
  }
  terms.normalise();
  limit -= terms.k;
  terms.k = 0;
  terms.dtype = a->dtype;
  return true;
}

int64_t common_factor(const Linear& l) {
  int64_t g = 0;
  for (const Term& t : l.terms) g = std::gcd(g, t.c);
  return g;
}

void divide(Linear& l, int64_t g) {
  for (Term& t : l.terms) t.c /= g;
}

/// g*S + rest < limit with 0 <= rest < g: drops the rest where the limit does not see it.
bool drop_small_rest(Linear& l, Wide& limit) {
  for (const Term& by : l.terms) {
    int64_t g = by.c < 0 ? -by.c : by.c;
    if (g < 2) continue;
    Linear head(l.dtype), rest(l.dtype);
    for (Term t : l.terms) (t.c % g == 0 ? head : rest).terms.push_back(t);
    if (rest.terms.empty()) continue;
    WideBounds b = sum_bounds(rest);
    Wide width = b.hi - b.lo, from = limit - b.lo, q = floor_div(from, g), r = from - q * g;
    if (width >= g || (r != 0 && width >= r)) continue;  // S < q, or S <= q where the rest stays below r
    limit = r == 0 ? q : q + 1;
    divide(head, g);
    l = head;
    return true;
  }
  return false;
}

/// The comparison of `l` with `limit`, negative multiples brought to the right; null if a side might wrap.
UOp* build_compare(Op op, const Linear& l, Wide limit) {
  Linear left(l.dtype), right(l.dtype);
  for (Term t : l.terms) t.c > 0 ? left.terms.push_back(t) : right.terms.push_back({t.u, -t.c});
  if (limit > INT64_MAX / 2 || limit < INT64_MIN / 2) return nullptr;
  bool constant_left = left.terms.empty();
  (constant_left ? left : right).k = static_cast<int64_t>(constant_left ? -limit : limit);
  if (constant_left && op == Op::CMPEQ) std::swap(left, right);
  if (!fits(sum_bounds(left), l.dtype) || !fits(sum_bounds(right), l.dtype)) return nullptr;
  UOp* src[2] = {left.build(), right.build()};
  return current_arena().make(op, DType::bool_, std::max(src[0]->numel, src[1]->numel), {}, src);
}

UOp* less_than(UOp* a, UOp* b, Wide plus) {
  Linear l(a->dtype);
  Wide limit;
  if (!difference(a, b, l, limit)) return nullptr;
  limit += plus;
  WideBounds range = sum_bounds(l);
  if (range.hi < limit) return const_(DType::bool_, 1);
  if (range.lo >= limit) return const_(DType::bool_, 0);
  do {
    if (int64_t g = common_factor(l); g > 1) divide(l, g), limit = -floor_div(-limit, g);
  } while (drop_small_rest(l, limit));
  range = sum_bounds(l);
  if (range.hi < limit) return const_(DType::bool_, 1);
  if (range.lo >= limit) return const_(DType::bool_, 0);
  return build_compare(Op::CMPLT, l, limit);
}

UOp* integer_less(const Match& m) { return less_than(m[x], m[y], 0); }
UOp* integer_less_or_equal(const Match& m) { return less_than(m[x], m[y], 1); }

UOp* integer_equal(const Match& m) {
  Linear l(m[x]->dtype);
  Wide limit;
  if (!difference(m[x], m[y], l, limit)) return nullptr;
  bool equal_op = m.root->is(Op::CMPEQ);
  WideBounds range = sum_bounds(l);
  int64_t g = common_factor(l);
  if (range.hi < limit || range.lo > limit || (g > 1 && limit % g != 0)) return const_(DType::bool_, !equal_op);
  if (l.terms.empty()) return const_(DType::bool_, equal_op);
  if (g > 1) divide(l, g), limit /= g;
  if (l.terms[0].c < 0) {  // of the two ways to write it, the one whose first term is positive
    for (Term& t : l.terms) t.c = -t.c;
    limit = -limit;
  }
  UOp* made = build_compare(Op::CMPEQ, l, limit);
  if (!made || equal_op) return made;
  return current_arena().make(Op::CMPNE, DType::bool_, made->numel, {}, made->sources());
}

UOp* negated_less(const Match& m) { return alu(Op::CMPLE, {m[y], m[x]}); }
UOp* negated_less_or_equal(const Match& m) { return alu(Op::CMPLT, {m[y], m[x]}); }

bool of_ints(const Match& m) { return is_int(m[x]->dtype); }
bool of_bools(const Match& m) { return is_bool(m[x]->dtype); }
bool of_exact(const Match& m) { return !is_float(m[x]->dtype); }

UOp* greatest(const Match& m) {
  Bounds a = bounds(m[x]), b = bounds(m[y]);
  if (m.root->dtype == DType::u64 && (a.lo < 0 || b.lo < 0)) return nullptr;
  return a.lo >= b.hi ? m[x] : b.lo >= a.hi ? m[y] : nullptr;
}
UOp* least(const Match& m) {
  Bounds a = bounds(m[x]), b = bounds(m[y]);
  if (m.root->dtype == DType::u64 && (a.lo < 0 || b.lo < 0)) return nullptr;
  return a.hi <= b.lo ? m[x] : b.hi <= a.lo ? m[y] : nullptr;
}

bool is_condition(const Match& m) { return is_bool(m[y]->dtype); }

/// c1 < x and x < c2 leave no room.
bool empty_interval(const Match& m) {
  return is_signed(m[x]->dtype) && (m[c2]->arg.i == INT64_MIN || m[c1]->arg.i >= m[c2]->arg.i - 1);
}

constexpr Rule kRules[] = {
  {x < y, call(integer_less), ints},
  {x <= y, call(integer_less_or_equal), ints},
  {x == y, call(integer_equal), ints},
  {x != y, call(integer_equal), ints},
  {!(x < y), call(negated_less), bools, when(of_ints)},
  {!(x <= y), call(negated_less_or_equal), bools, when(of_ints)},
  {!(x == y), x != y, bools},
  {!(x != y), x == y, bools},

  // bool against a constant
  {x == 1, x, bools, when(of_bools)},
  {x == 0, !x, bools, when(of_bools)},
  {x != 0, x, bools, when(of_bools)},
  {x != 1, !x, bools, when(of_bools)},
  {x < 1, !x, bools},
  {lit(0) < x, x, bools},
  {x <= 0, !x, bools},
  {lit(1) <= x, x, bools},
  {x + y, x | y, bools},
  {x * y, x & y, bools},
  {max(x, y), x | y, bools},
  {min(x, y), x & y, bools},
  {op(Op::NEG, x), x, bools},
  {op(Op::ABS, x), x, bools},
  {x - y, x ^ y, bools},

  // conjunctions of comparisons
  {(x < c1) & (x < c2), x < min(c1, c2), bools, when(of_exact)},
  {(c1 < x) & (c2 < x), max(c1, c2) < x, bools, when(of_exact)},
  {~((c1 < x) & (x < c2)), lit(0), bools, when(empty_interval)},
  {((z & (x < c1)) & (x < c2)), z & (x < min(c1, c2)), bools, when(of_exact)},
  {((z & (c1 < x)) & (c2 < x)), z & (max(c1, c2) < x), bools, when(of_exact)},

  {max(x, y), call(greatest), ints},
  {min(x, y), call(least), ints},

  // WHERE
  {where(lit(1), x, y), x},
  {where(lit(0), x, y), y},
  {where(x, y, y), y},
  {where(!x, y, z), where(x, z, y)},
  {where(x, lit(1), lit(0)), x, bools},
  {where(x, lit(0), lit(1)), !x, bools},
  {where(x, y, lit(0)), x & y, bools},
  {where(x, lit(1), y), x | y, bools},
  {where(x, lit(0), y), (!x) & y, bools},
  {where(x, y, lit(1)), (!x) | y, bools},
  {where(x, where(x, y, z), w), where(x, y, w)},
  {where(x, y, where(x, z, w)), where(x, y, w)},
  {where(x, where(y, z, w), w), where(x & y, z, w), all_dtypes, when(is_condition)},
  {where(x, z, where(y, z, w)), where(x | y, z, w), all_dtypes, when(is_condition)},
  {where(x < y, x, y), min(x, y), ints},
  {where(x < y, y, x), max(x, y), ints},
  {where(x != y, z, w), where(x == y, w, z)},
};

}  // namespace

RuleTable compare_rules() { return kRules; }

}  // namespace tiny
