#include "uop/linear.h"

#include <algorithm>
#include <numeric>

namespace tiny {
namespace {

/// `v` modulo the dtype's size, as a signed number: a coefficient of -1 stays -1 in unsigned types.
int64_t wrap_signed(uint64_t v, DType d) {
  int drop = 64 - info(d).bits;
  return static_cast<int64_t>(v << drop) >> drop;
}

int64_t product_of(int64_t a, int64_t b, DType d) { return wrap_signed(static_cast<uint64_t>(a) * static_cast<uint64_t>(b), d); }
int64_t sum_of(int64_t a, int64_t b, DType d) { return wrap_signed(static_cast<uint64_t>(a) + static_cast<uint64_t>(b), d); }

/// Outer loops before inner ones, so that the head of a sum is loop-invariant; then any order that does not change from run to run.
bool before(const Term& a, const Term& b) {
  int32_t da = facts(a.u).depth, db = facts(b.u).depth;
  if (da != db) return da < db;
  if (a.u == b.u) return false;
  if (da == kVectorDepth && a.u->is(Op::LANES) != b.u->is(Op::LANES)) return b.u->is(Op::LANES);
  return a.u->refs != b.u->refs ? a.u->refs < b.u->refs : a.u->slot < b.u->slot;
}

bool is_positive_const(const UOp* u) { return u->is(Op::CONST) && u->arg.i > 0; }

/// Whether x and y leave the same remainder by m, both not negative.
bool congruent(UOp* x, UOp* y, int64_t m) {
  if (x == y) return facts(x).bounds.lo >= 0;
  Linear d(x->dtype), a(x->dtype), b(x->dtype);
  if (!parse_linear(x, a) || !parse_linear(y, b) || !fits(sum_bounds(a), d.dtype) || !fits(sum_bounds(b), d.dtype)) return false;
  if (sum_bounds(a).lo < 0 || sum_bounds(b).lo < 0) return false;
  d = a;
  d.k = 0;
  for (Term t : b.terms) d.terms.push_back({t.u, -t.c});
  std::sort(d.terms.begin(), d.terms.end(), before);
  for (size_t i = 0; i < d.terms.size();) {
    Wide c = 0;
    UOp* u = d.terms[i].u;
    for (; i < d.terms.size() && d.terms[i].u == u; ++i) c += d.terms[i].c;
    if (c % m != 0) return false;
  }
  return (Wide{a.k} - b.k) % m == 0;
}

/// Two terms that are digits of one number, as one: (x/c)*(c*k) + (x%c)*k = x*k, and with (x/c)%d for x/c: (x % (c*d))*k.
/// The digits may be written with numbers that differ by multiples of c. Null if they are no such pair.
UOp* join_digits(const Term& high, const Term& low, int64_t& k) {
  if (!low.u->is(Op::MOD) || !is_positive_const(low.u->src[1])) return nullptr;
  int64_t c = low.u->src[1]->arg.i;
  const UOp* divided = high.u;
  int64_t d = 0;
  if (high.u->is(Op::MOD) && is_positive_const(high.u->src[1])) d = high.u->src[1]->arg.i, divided = high.u->src[0];
  if (!divided->is(Op::IDIV) || !divided->src[1]->is_const(c)) return nullptr;
  if (high.c / c != low.c || high.c % c != 0 || !congruent(divided->src[0], low.u->src[0], c)) return nullptr;
  k = low.c;
  if (d == 0) return divided->src[0];
  if (d > (low.u->dtype == DType::u64 ? INT64_MAX : dtype_bounds(low.u->dtype).hi) / c) return nullptr;
  return alu(Op::MOD, {divided->src[0], const_(low.u->dtype, c * d)});
}

}  // namespace

bool Linear::add(UOp* root, int64_t coefficient) {
  SmallVec<Term, 16> work;
  work.push_back({root, coefficient});
  while (!work.empty()) {
    auto [u, c] = work.back();
    work.pop_back();
    if (u->is(Op::CONST) || facts(u).bounds.is_const()) {
      k = sum_of(k, product_of(u->is(Op::CONST) ? u->arg.i : facts(u).bounds.lo, c, dtype), dtype);
      continue;
    }
    switch (u->op) {
      case Op::NEG: work.push_back({u->src[0], product_of(c, -1, dtype)}); continue;
      case Op::ADD: case Op::SUB:
        if (facts(u).terms >= kManyTerms && u != root) break;  // a term of its own: deep sums cost no more than shallow ones
        work.push_back({u->src[1], u->is(Op::ADD) ? c : product_of(c, -1, dtype)});
        work.push_back({u->src[0], c});
        continue;
      case Op::MUL:
        if (!u->src[1]->is(Op::CONST)) break;
        work.push_back({u->src[0], product_of(c, u->src[1]->arg.i, dtype)});
        continue;
      default: break;
    }
    if (terms.size() >= kManyTerms) return false;
    if (c != 0) terms.push_back({u, c});
  }
  return true;
}

void Linear::normalise() {
  for (bool again = true; again;) {
    again = false;
    if (!std::is_sorted(terms.begin(), terms.end(), before)) std::sort(terms.begin(), terms.end(), before);
    size_t n = 0;
    for (size_t i = 0; i < terms.size(); ++i) {
      if (n && terms[n - 1].u == terms[i].u) terms[n - 1].c = sum_of(terms[n - 1].c, terms[i].c, dtype);
      else terms[n++] = terms[i];
      if (terms[n - 1].c == 0) --n;
    }
    terms.resize(n, Term{});
    for (size_t low = 0; low < terms.size() && !again; ++low) {
      if (!terms[low].u->is(Op::MOD)) continue;
      for (size_t high = 0; high < terms.size() && !again; ++high) {
        int64_t c = 0;
        UOp* joined = high == low ? nullptr : join_digits(terms[high], terms[low], c);
        if (!joined || terms.size() + facts(joined).terms > kManyTerms) continue;
        terms.erase(std::max(low, high));
        terms.erase(std::min(low, high));
        add(joined, c);
        again = true;
      }
    }
  }
}

UOp* Linear::build() const {
  Arena& arena = current_arena();
  auto make = [&](Op op, UOp* a, UOp* b) {
    UOp* src[2] = {a, b};
    return arena.make(op, dtype, std::max(a->numel, b ? b->numel : 1), {}, {src, b ? size_t{2} : size_t{1}});
  };
  UOp* sum = nullptr;
  for (auto [u, c] : terms) {
    if (c == -1) {
      sum = sum ? make(Op::SUB, sum, u) : make(Op::NEG, u, nullptr);
    } else {
      UOp* t = c == 1 ? u : make(Op::MUL, u, const_(dtype, c));
      sum = sum ? make(Op::ADD, sum, t) : t;
    }
  }
  if (!sum) return const_(dtype, k);
  return k ? make(Op::ADD, sum, const_(dtype, k)) : sum;
}

bool parse_linear(UOp* u, Linear& out) {
  if (!out.add(u)) return false;
  out.normalise();
  return true;
}

WideBounds term_bounds(const Term& t) {
  Bounds b = facts(t.u).bounds;
  Wide p = Wide{b.lo} * t.c, q = Wide{b.hi} * t.c;
  return p < q ? WideBounds{p, q} : WideBounds{q, p};
}

WideBounds sum_bounds(const Linear& l) {
  constexpr Wide huge = Wide{1} << 90;
  WideBounds all{l.k, l.k};
  for (const Term& t : l.terms) {
    WideBounds b = term_bounds(t);
    if (b.lo < -huge || b.hi > huge) return {-huge, huge};  // fits nothing
    all.lo += b.lo, all.hi += b.hi;
  }
  return all;
}

bool fits(WideBounds b, DType d) {
  if (d == DType::u64) return b.lo >= 0 && b.hi < INT64_MAX;
  Bounds all = dtype_bounds(d);
  return b.lo >= all.lo && b.hi <= all.hi;
}

namespace {

Wide floor_div(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/// num = divisor*multiple + rest, with 0 <= least rest < divisor. False if num may be negative or wrap.
struct Split {
  Linear multiple, rest;
  explicit Split(DType d) : multiple(d), rest(d) {}
};

/// Moves a constant from `rest` to `multiple`, so that the least value of `rest` lies in 0 .. divisor-1.
bool balance(Split& s, int64_t divisor) {
  Wide q = floor_div(sum_bounds(s.rest).lo, divisor), k = s.multiple.k + q, r = s.rest.k - q * divisor;
  if (k > INT64_MAX || k < INT64_MIN || r > INT64_MAX || r < INT64_MIN) return false;
  s.multiple.k = static_cast<int64_t>(k), s.rest.k = static_cast<int64_t>(r);
  return fits(sum_bounds(s.rest), s.rest.dtype);
}

/// How a coefficient that the divisor does not divide is shared out.
enum class Residue { Whole, Least, Nearest };

bool split(const Linear& num, int64_t divisor, Residue residue, Split& s) {
  s.rest.k = num.k;
  for (Term t : num.terms) {
    int64_t r = t.c % divisor;
    if (r != 0 && residue == Residue::Whole) r = t.c;
    if (r < 0 && residue == Residue::Least) r += divisor;
    if (residue == Residue::Nearest && r > divisor / 2) r -= divisor;
    if (residue == Residue::Nearest && r < -(divisor / 2)) r += divisor;
    if (t.c != r) s.multiple.terms.push_back({t.u, static_cast<int64_t>((Wide{t.c} - r) / divisor)});
    if (r) s.rest.terms.push_back({t.u, r});
  }
  return balance(s, divisor);
}

/// rest = g*head + tail with 0 <= tail < g, g > 1 a divisor of `divisor`.
struct Nested {
  int64_t g = 0;
  Linear head, tail;
  explicit Nested(DType d) : head(d), tail(d) {}
};

bool try_factor(const Linear& rest, int64_t g, Nested& n) {
  n.head.terms.clear(), n.tail.terms.clear();
  n.head.k = n.tail.k = 0;  // an earlier try may have left its own
  for (Term t : rest.terms) {
    if (t.c % g == 0) n.head.terms.push_back({t.u, t.c / g});
    else n.tail.terms.push_back(t);
  }
  Wide q = floor_div(sum_bounds(n.tail).lo + rest.k, g);
  n.g = g, n.head.k = static_cast<int64_t>(q), n.tail.k = static_cast<int64_t>(rest.k - q * g);
  return sum_bounds(n.tail).hi < g && fits(sum_bounds(n.head), rest.dtype);
}

bool find_factor(const Linear& rest, int64_t divisor, Nested& n) {
  int64_t last = 0;
  for (const Term& t : rest.terms) {
    int64_t g = std::gcd(t.c, divisor);
    if (g > 1 && g != last && g < divisor && try_factor(rest, g, n)) return true;
    last = g;
  }
  return false;
}

bool parse_dividend(UOp* u, Linear& out, WideBounds& b) {
  if (facts(u).terms >= kManyTerms || !parse_linear(u, out)) return false;
  b = sum_bounds(out);
  return fits(b, out.dtype);
}

UOp* finish_quotient(Linear& multiple, UOp* more) {
  if (!fits(sum_bounds(multiple), multiple.dtype)) return nullptr;
  if (more && !multiple.add(more)) return nullptr;
  multiple.normalise();
  return multiple.build();
}

bool inside(const Linear& l, int64_t divisor) {
  WideBounds b = sum_bounds(l);
  return b.lo >= 0 && b.hi < divisor;
}

}  // namespace

UOp* divide_linear(UOp* u, int64_t divisor) {
  Linear num(u->dtype);
  WideBounds b;
  if (!parse_dividend(u, num, b)) return nullptr;
  Split whole(u->dtype);
  if (!split(num, divisor, Residue::Whole, whole)) return nullptr;
  if (whole.rest.terms.empty() && whole.rest.k == 0) return finish_quotient(whole.multiple, nullptr);  // exact, of any sign
  if (b.lo < 0) return nullptr;
  if (inside(whole.rest, divisor)) return finish_quotient(whole.multiple, nullptr);
  for (Residue r : {Residue::Least, Residue::Nearest}) {
    Split shared(u->dtype);
    if (split(num, divisor, r, shared) && inside(shared.rest, divisor)) return finish_quotient(shared.multiple, nullptr);
  }
  Nested n(u->dtype);
  if (find_factor(whole.rest, divisor, n))
    return finish_quotient(whole.multiple, alu(Op::IDIV, {n.head.build(), const_(u->dtype, divisor / n.g)}));
  if (whole.multiple.terms.empty() && whole.multiple.k == 0) return nullptr;
  return finish_quotient(whole.multiple, alu(Op::IDIV, {whole.rest.build(), const_(u->dtype, divisor)}));
}

UOp* remainder_linear(UOp* u, int64_t divisor) {
  Linear num(u->dtype);
  WideBounds b;
  if (!parse_dividend(u, num, b) || b.lo < 0) return nullptr;
  bool peeled = false;
  for (size_t i = 0; i < num.terms.size(); ++i) {  // (x % (m*divisor) + ...) % divisor = (x + ...) % divisor
    UOp* t = num.terms[i].u;
    if (!t->is(Op::MOD) || !is_positive_const(t->src[1]) || t->src[1]->arg.i % divisor != 0 || facts(t->src[0]).bounds.lo < 0) continue;
    Linear peel = num;
    peel.terms.erase(i);
    if (!peel.add(t->src[0], num.terms[i].c)) continue;
    peel.normalise();
    WideBounds p = sum_bounds(peel);
    if (p.lo < 0 || !fits(p, num.dtype)) continue;
    num = peel, peeled = true, i = SIZE_MAX;
  }
  for (Residue r : {Residue::Whole, Residue::Least, Residue::Nearest}) {
    Split s(u->dtype);
    if (split(num, divisor, r, s) && inside(s.rest, divisor)) {
      s.rest.normalise();
      return s.rest.build();
    }
  }
  Split s(u->dtype);
  if (!split(num, divisor, Residue::Least, s)) return nullptr;
  Nested n(u->dtype);
  if (find_factor(s.rest, divisor, n)) {
    UOp* head = alu(Op::MOD, {n.head.build(), const_(u->dtype, divisor / n.g)});
    if (!n.tail.add(head, n.g)) return nullptr;
    n.tail.normalise();
    return n.tail.build();
  }
  bool same = !peeled && s.rest.k == num.k && s.rest.terms.size() == num.terms.size();
  for (size_t i = 0; same && i < num.terms.size(); ++i) same = s.rest.terms[i].c == num.terms[i].c;
  if (same) return nullptr;
  return alu(Op::MOD, {s.rest.build(), const_(u->dtype, divisor)});
}

}  // namespace tiny
