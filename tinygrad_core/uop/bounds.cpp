// Ranges of values by interval arithmetic, and common factors. Each node's are worked out once, when it is made: no recursion.
#include <algorithm>
#include <bit>
#include <numeric>

#include "uop/facts.h"

namespace tiny {
namespace {

using Wide = __int128;

bool known(Bounds b) { return b.lo != kUnknown.lo || b.hi != kUnknown.hi; }

/// [lo, hi] if no value wraps in dtype `d`, else all that `d` can hold. For u64 the greatest i64 counts as beyond what is known.
Bounds fit(Wide lo, Wide hi, DType d) {
  Bounds all = dtype_bounds(d);
  if (d == DType::u64) return lo >= 0 && hi < INT64_MAX ? Bounds{static_cast<int64_t>(lo), static_cast<int64_t>(hi)} : kUnknown;
  return lo >= all.lo && hi <= all.hi ? Bounds{static_cast<int64_t>(lo), static_cast<int64_t>(hi)} : all;
}

Bounds of_corners(std::initializer_list<Wide> v, DType d) { return fit(std::min(v), std::max(v), d); }

Bounds quotient(Bounds a, Bounds b, DType d) {
  if (b.lo <= 0 && b.hi >= 0) {  // a divisor of 0 gives 0, of 1 or -1 leaves the size
    Wide m = std::max(a.hi < 0 ? -Wide{a.hi} : Wide{a.hi}, a.lo < 0 ? -Wide{a.lo} : Wide{a.lo});
    return a.lo >= 0 && b.lo >= 0 ? fit(0, a.hi, d) : fit(-m, m, d);
  }
  Wide q[] = {Wide{a.lo} / b.lo, Wide{a.lo} / b.hi, Wide{a.hi} / b.lo, Wide{a.hi} / b.hi};
  return of_corners({q[0], q[1], q[2], q[3]}, d);
}

Bounds remainder(Bounds a, Bounds b, DType d) {
  Wide m = std::max(b.lo < 0 ? -Wide{b.lo} : Wide{b.lo}, b.hi < 0 ? -Wide{b.hi} : Wide{b.hi}) - 1;  // |a % b| <= m
  if (b.lo == b.hi && b.lo > 0 && a.lo >= 0 && a.lo / b.lo == a.hi / b.lo) return {a.lo % b.lo, a.hi % b.lo};
  Wide lo = a.lo >= 0 ? 0 : std::max<Wide>(a.lo, -m), hi = a.hi <= 0 ? 0 : std::min<Wide>(a.hi, m);
  return fit(std::min<Wide>(lo, 0), std::max<Wide>(hi, 0), d);
}

/// All ones up to the highest bit of `v`.
int64_t mask_over(int64_t v) { return v <= 0 ? 0 : static_cast<int64_t>(~uint64_t{0} >> std::countl_zero(static_cast<uint64_t>(v))); }

Bounds bitwise(Op op, Bounds a, Bounds b, DType d) {
  if (op == Op::AND && b.lo >= 0) return {0, a.lo >= 0 ? std::min(a.hi, b.hi) : b.hi};
  if (op == Op::AND && a.lo >= 0 && known(b)) return {0, a.hi};
  if (op != Op::AND && a.lo >= 0 && b.lo >= 0) return {op == Op::OR ? std::max(a.lo, b.lo) : 0, mask_over(a.hi | b.hi)};
  return dtype_bounds(d);
}

Bounds shift(Op op, Bounds a, Bounds b, DType d) {
  if (b.lo < 0 || b.hi >= info(d).bits) return dtype_bounds(d);
  if (op == Op::SHR) return {std::min(a.lo >> b.lo, a.lo >> b.hi), std::max(a.hi >> b.lo, a.hi >> b.hi)};
  Wide least = Wide{1} << b.lo, most = Wide{1} << b.hi;
  return of_corners({a.lo * least, a.lo * most, a.hi * least, a.hi * most}, d);
}

Bounds compare(const UOp* u, Bounds a, Bounds b) {
  const UOp *x = u->src[0], *y = u->src[1];
  if (is_float(x->dtype)) return {0, 1};
  bool same = x == y;
  switch (u->op) {
    case Op::CMPLT: return a.hi < b.lo ? Bounds{1, 1} : a.lo >= b.hi || same ? Bounds{0, 0} : Bounds{0, 1};
    case Op::CMPLE: return a.hi <= b.lo || same ? Bounds{1, 1} : a.lo > b.hi ? Bounds{0, 0} : Bounds{0, 1};
    default: break;
  }
  bool apart = a.hi < b.lo || b.hi < a.lo, equal = same || (a.is_const() && b.is_const() && a.lo == b.lo), is_eq = u->op == Op::CMPEQ;
  return apart ? Bounds{!is_eq, !is_eq} : equal ? Bounds{is_eq, is_eq} : Bounds{0, 1};
}

Bounds unary(const UOp* u, Bounds a) {
  DType d = u->dtype;
  switch (u->op) {
    case Op::NEG: return fit(-Wide{a.hi}, -Wide{a.lo}, d);
    case Op::ABS: {
      Wide p = a.lo < 0 ? -Wide{a.lo} : Wide{a.lo}, q = a.hi < 0 ? -Wide{a.hi} : Wide{a.hi};
      return fit(a.lo <= 0 && a.hi >= 0 ? 0 : std::min(p, q), std::max(p, q), d);
    }
    case Op::NOT: return is_signed(d) ? Bounds{~a.hi, ~a.lo} : dtype_bounds(d);
    case Op::CAST: return is_float(u->src[0]->dtype) || !known(a) ? dtype_bounds(d) : fit(a.lo, a.hi, d);
    default: return dtype_bounds(d);
  }
}

Bounds boolean(const UOp* u, Bounds a, Bounds b) {
  switch (u->op) {
    case Op::AND: case Op::MUL: case Op::MIN: return {a.lo & b.lo, a.hi & b.hi};
    case Op::OR: case Op::ADD: case Op::MAX: return {a.lo | b.lo, a.hi | b.hi};
    case Op::XOR: case Op::SUB: return a.is_const() && b.is_const() ? Bounds{a.lo ^ b.lo, a.lo ^ b.lo} : Bounds{0, 1};
    case Op::NOT: return {1 - a.hi, 1 - a.lo};
    case Op::CAST:
      if (is_float(u->src[0]->dtype)) return {0, 1};
      return a.lo > 0 || a.hi < 0 ? Bounds{1, 1} : a.lo == 0 && a.hi == 0 ? a : Bounds{0, 1};
    case Op::NEG: case Op::ABS: return a;
    default: return {0, 1};
  }
}

Bounds binary(const UOp* u, Bounds a, Bounds b) {
  DType d = u->dtype;
  if (!known(a) || !known(b)) {
    if (u->op == Op::MOD && d == DType::i64) return remainder(a, b, d);
    if (u->op == Op::AND && (a.lo >= 0 || b.lo >= 0)) return {0, a.lo >= 0 ? a.hi : b.hi};
    if (d == DType::u64 && u->op == Op::MOD && known(b) && b.lo > 0) return {0, b.hi - 1};
    if (d == DType::u64) return kUnknown;
  }
  switch (u->op) {
    case Op::ADD: return fit(Wide{a.lo} + b.lo, Wide{a.hi} + b.hi, d);
    case Op::SUB: return fit(Wide{a.lo} - b.hi, Wide{a.hi} - b.lo, d);
    case Op::MUL: return of_corners({Wide{a.lo} * b.lo, Wide{a.lo} * b.hi, Wide{a.hi} * b.lo, Wide{a.hi} * b.hi}, d);
    case Op::IDIV: return quotient(a, b, d);
    case Op::MOD: return remainder(a, b, d);
    case Op::MAX: return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    case Op::MIN: return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    case Op::AND: case Op::OR: case Op::XOR: return bitwise(u->op, a, b, d);
    case Op::SHL: case Op::SHR: return shift(u->op, a, b, d);
    default: return dtype_bounds(d);
  }
}

/// The values that a CHECK lets through: those of src0 that meet the comparisons of src0 with constants in its condition.
Bounds checked(const UOp* u) {
  Bounds b = facts(u->src[0]).bounds;
  const UOp* rest = u->src[1];
  for (int i = 0; i < 8 && rest; ++i) {
    const UOp* c = rest->is(Op::AND) ? rest->src[1] : rest;
    rest = rest->is(Op::AND) ? rest->src[0] : nullptr;
    if (c->is(Op::AND)) std::swap(c, rest);  // (a & (b & c)) as well as ((a & b) & c)
    if (!c->is(Op::CMPLT) && !c->is(Op::CMPLE)) continue;
    Bounds x = facts(c->src[0]).bounds, y = facts(c->src[1]).bounds;
    int64_t strict = c->is(Op::CMPLT);
    if (c->src[0] == u->src[0] && y.is_const() && y.hi > INT64_MIN) b.hi = std::min(b.hi, y.hi - strict);
    if (c->src[1] == u->src[0] && x.is_const() && x.lo < INT64_MAX) b.lo = std::max(b.lo, x.lo + strict);
  }
  return b.lo > b.hi ? Bounds{0, 0} : Bounds{std::min<int64_t>(b.lo, 0), std::max<int64_t>(b.hi, 0)};
}

Bounds join(Bounds a, Bounds b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

Bounds find_bounds(const UOp* u) {
  DType d = u->dtype;
  if (is_float(d) || d == DType::void_) return kUnknown;
  auto b = [u](int i) { return facts(u->src[i]).bounds; };
  switch (u->op) {
    case Op::CONST: return d == DType::u64 && (u->arg.i < 0 || u->arg.i == INT64_MAX) ? kUnknown : Bounds{u->arg.i, u->arg.i};
    case Op::RANGE: return {0, std::max<int64_t>(b(0).hi - 1, 0)};
    case Op::LANES: return {0, u->numel - 1};
    case Op::WHERE: return b(0).is_const() ? b(b(0).lo ? 1 : 2) : join(b(1), b(2));
    case Op::LANE: return b(0);
    case Op::CHECK: return checked(u);
    case Op::STACK: {
      Bounds all = b(0);
      for (int i = 1; i < u->nsrc; ++i) all = join(all, b(i));
      return all;
    }
    default: break;
  }
  if (!is_elementwise(u->op) || u->is(Op::BITCAST) || u->is(Op::MULACC) || u->is(Op::THREEFRY)) return dtype_bounds(d);
  if (has(u->op, group::Cmp)) return compare(u, b(0), b(1));
  if (is_bool(d)) return boolean(u, b(0), u->nsrc > 1 ? b(1) : Bounds{0, 1});
  return u->nsrc == 1 ? unary(u, b(0)) : binary(u, b(0), b(1));
}

/// Any factor of the true value if it cannot wrap; else its powers of two, which wrapping keeps.
int64_t kept_factor(const UOp* u, Wide f, Wide lo, Wide hi) {
  Bounds all = dtype_bounds(u->dtype);
  if (u->dtype == DType::u64) all.lo = 0;
  if (f <= INT64_MAX && lo >= all.lo && hi <= all.hi) return static_cast<int64_t>(f);
  int64_t power = static_cast<int64_t>(f & -f & ((Wide{1} << 62) - 1)), most = int64_t{1} << std::min(62, info(u->dtype).bits - 1);
  return power ? std::min(power, most) : most;
}

int64_t magnitude(int64_t v) { return v < 0 ? (v == INT64_MIN ? int64_t{1} << 62 : -v) : v; }

int64_t find_factor(const UOp* u, Bounds self) {
  if (!is_int(u->dtype)) return 1;
  if (self.is_const()) return magnitude(self.lo);
  auto f = [u](int i) { return facts(u->src[i]).factor; };
  auto b = [u](int i) { return facts(u->src[i]).bounds; };
  switch (u->op) {
    case Op::ADD: return kept_factor(u, std::gcd(f(0), f(1)), Wide{b(0).lo} + b(1).lo, Wide{b(0).hi} + b(1).hi);
    case Op::SUB: return kept_factor(u, std::gcd(f(0), f(1)), Wide{b(0).lo} - b(1).hi, Wide{b(0).hi} - b(1).lo);
    case Op::MUL: {
      Wide c[] = {Wide{b(0).lo} * b(1).lo, Wide{b(0).lo} * b(1).hi, Wide{b(0).hi} * b(1).lo, Wide{b(0).hi} * b(1).hi};
      return kept_factor(u, Wide{f(0)} * f(1), std::min({c[0], c[1], c[2], c[3]}), std::max({c[0], c[1], c[2], c[3]}));
    }
    case Op::NEG: return kept_factor(u, f(0), -Wide{b(0).hi}, -Wide{b(0).lo});
    case Op::WHERE: case Op::MAX: case Op::MIN: return std::max<int64_t>(1, std::gcd(f(u->nsrc - 2), f(u->nsrc - 1)));
    case Op::MOD: return b(1).is_const() ? std::max<int64_t>(1, std::gcd(f(0), f(1))) : 1;
    case Op::IDIV: return b(1).is_const() && b(1).lo > 0 && f(0) % b(1).lo == 0 ? std::max<int64_t>(1, f(0) / b(1).lo) : 1;
    case Op::LANE: case Op::CHECK: return std::max<int64_t>(1, f(0));
    default: return 1;
  }
}

int32_t find_depth(const UOp* u) {
  if (u->numel > 1) return kVectorDepth;
  if (u->is(Op::RANGE)) return static_cast<int32_t>(std::min<int64_t>(range_number(u) + 1, kVectorDepth - 1));
  int32_t d = 0;
  for (const UOp* s : u->sources()) d = std::max(d, std::min(facts(s).depth, kVectorDepth - 1));
  return d;
}

uint16_t find_terms(const UOp* u) {
  if (!is_int(u->dtype)) return 1;
  auto t = [u](int i) -> uint16_t { return facts(u->src[i]).terms; };
  switch (u->op) {
    case Op::ADD: case Op::SUB: return static_cast<uint16_t>(std::min(t(0) + t(1), int{kManyTerms}));
    case Op::NEG: return t(0);
    case Op::MUL: return u->src[1]->is(Op::CONST) ? t(0) : u->src[0]->is(Op::CONST) ? t(1) : 1;
    default: return 1;
  }
}

bool find_folds(const UOp* u) {
  if (u->is(Op::IDIV) || u->is(Op::MOD) || u->is(Op::MAX) || u->is(Op::MIN) || u->is(Op::WHERE) || has(u->op, group::Cmp)) return true;
  return std::any_of(u->src, u->src + u->nsrc, [](const UOp* s) { return facts(s).folds; });
}

}  // namespace

Bounds dtype_bounds(DType d) {
  if (is_float(d) || d == DType::u64 || d == DType::void_) return kUnknown;
  if (is_bool(d)) return {0, 1};
  int bits = info(d).bits;
  if (is_unsigned(d)) return {0, (int64_t{1} << bits) - 1};
  return {INT64_MIN >> (64 - bits), INT64_MAX >> (64 - bits)};
}

Facts find_facts(const UOp* u) {
  Bounds b = find_bounds(u);
  return {0, b, find_factor(u, b), nullptr, find_depth(u), find_terms(u), find_folds(u)};
}

Bounds bounds(const UOp* u) { return facts(u).bounds; }

int64_t known_factor(const UOp* u) {
  int64_t f = facts(u).factor;
  return f ? f : int64_t{1} << 62;
}

}  // namespace tiny
