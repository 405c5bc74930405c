// Conversions. Contract: see simple.cpp; a conversion that rounds or cuts is never dropped.
#include <cmath>

#include "uop/eval.h"
#include "uop/facts.h"
#include "uop/matcher.h"

namespace tiny {

using namespace pat;

namespace {

/// Bits of precision, and exponents of the least and the greatest power of two, of a float type.
struct FloatFormat {
  int precision, least, greatest;
  bool infinity;
};

FloatFormat format(DType d) {
  switch (d) {
    case DType::f8e4m3: return {4, -9, 8, false};
    case DType::f8e5m2: return {3, -16, 15, true};
    case DType::bf16: return {8, -133, 127, true};
    case DType::f16: return {11, -24, 15, true};
    case DType::f32: return {24, -149, 127, true};
    default: return {53, -1074, 1023, true};
  }
}

/// Every value of the float type `from` is one of `to`.
bool float_holds(DType to, DType from) {
  FloatFormat a = format(to), b = format(from);
  return a.precision >= b.precision && a.least <= b.least && a.greatest >= b.greatest && (a.infinity || !b.infinity);
}

bool within(Bounds b, int64_t lo, int64_t hi) { return b.lo >= lo && b.hi <= hi; }

/// Converting `u` to `d` keeps its value.
bool holds(DType d, const UOp* u) {
  DType from = u->dtype;
  if (is_float(from)) return is_float(d) && float_holds(d, from);
  if (is_bool(from)) return true;
  Bounds b = facts(u).bounds;
  if (from == DType::u64 && b.lo < 0) return d == DType::u64;  // unknown
  if (is_float(d)) {
    int64_t limit = int64_t{1} << std::min(format(d).precision, 62);
    return d != DType::f8e4m3 && d != DType::f8e5m2 && d != DType::f16 ? within(b, -limit, limit) : within(b, 0, 1);
  }
  if (is_bool(d)) return within(b, 0, 1);
  if (d == DType::u64) return b.lo >= 0;
  return within(b, dtype_bounds(d).lo, dtype_bounds(d).hi);
}

UOp* skip_middle(const Match& m) {
  UOp *middle = m.root->src[0], *from = m[x];
  DType to = m.root->dtype;
  if (holds(middle->dtype, from)) return cast(from, to);
  bool cuts_more = is_int(from->dtype) && is_int(middle->dtype) && is_int(to) && info(middle->dtype).bits >= info(to).bits;
  return cuts_more ? cast(from, to).u : nullptr;
}

UOp* bitcast_chain(const Match& m) {
  if (m[x]->dtype == m.root->dtype) return m[x];
  return node(Op::BITCAST, m.root->dtype, {m[x]});
}

UOp* cast_to_itself(const Match& m) { return m[x]->dtype == m.root->dtype ? m[x] : nullptr; }

/// Comparison of values that were only widened, in the type that they came from. Not in reduced floats, which no target compares.
UOp* compare_unwidened(const Match& m) {
  if (is_reduced_float(m[x]->dtype)) return nullptr;
  if (m[x]->dtype != m[y]->dtype || is_bool(m[x]->dtype)) return nullptr;
  if (!holds(m.root->src[0]->dtype, m[x]) || !holds(m.root->src[1]->dtype, m[y])) return nullptr;
  return alu(m.root->op, {m[x], m[y]});
}

/// The same with a constant on the right, where the narrow type has it.
UOp* compare_const_unwidened(const Match& m) {
  DType wide = m[c1]->dtype, narrow = m[x]->dtype;
  if (is_bool(narrow) || is_reduced_float(narrow) || !holds(wide, m[x])) return nullptr;
  if (is_float(narrow) != is_float(wide) || (!is_float(narrow) && !holds(narrow, m[c1]))) return nullptr;
  Arg c = convert(m[c1]->arg, wide, narrow);
  if (convert(c, narrow, wide).bits != m[c1]->arg.bits) return nullptr;
  return alu(m.root->op, {m[x], current_arena().make(Op::CONST, narrow, 1, c, {})});
}

bool of_bool(const Match& m) { return is_bool(m[x]->dtype); }
bool to_bool(const Match& m) { return is_bool(m.root->dtype); }

constexpr Rule kRules[] = {
  {cast(x), call(cast_to_itself)},
  {cast(cast(x)), call(skip_middle)},
  {op(Op::BITCAST, op(Op::BITCAST, x)), call(bitcast_chain)},
  {op(Op::BITCAST, x), call(cast_to_itself)},

  // a bool as a number
  {cast(x) != 0, x, all_dtypes, when(of_bool)},
  {cast(x) == 0, !x, all_dtypes, when(of_bool)},
  {cast(x) == 1, x, all_dtypes, when(of_bool)},
  {cast(x) != 1, !x, all_dtypes, when(of_bool)},
  {lit(0) < cast(x), x, all_dtypes, when(of_bool)},
  {cast(x) < 1, !x, all_dtypes, when(of_bool)},
  {cast(where(x, c1, c2)), where(x, cast(c1), cast(c2))},
  {cast(where(x, y, 0)), x & cast(y), all_dtypes, when(to_bool)},
  {cast(-x), cast(x), floats, when(to_bool)},
  {cast(op(Op::ABS, x)), cast(x), all_dtypes, when(to_bool)},

  {cast(x) < cast(y), call(compare_unwidened), all_dtypes},
  {cast(x) <= cast(y), call(compare_unwidened), all_dtypes},
  {cast(x) == cast(y), call(compare_unwidened), all_dtypes},
  {cast(x) != cast(y), call(compare_unwidened), all_dtypes},
  {cast(x) < c1, call(compare_const_unwidened), all_dtypes},
  {cast(x) <= c1, call(compare_const_unwidened), all_dtypes},
  {cast(x) == c1, call(compare_const_unwidened), all_dtypes},
  {cast(x) != c1, call(compare_const_unwidened), all_dtypes},
};

}  // namespace

RuleTable cast_rules() { return kRules; }

}  // namespace tiny
