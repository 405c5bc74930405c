#include "uop/matcher.h"

#include <array>
#include <cstring>

#include "uop/facts.h"

namespace tiny {
namespace {

using pat::Kind;
using pat::Pat;
using pat::PatNode;

uint8_t dtype_kind(DType d) { return is_float(d) ? pat::floats : is_bool(d) ? pat::bools : pat::ints; }

/// Position after the subtree at `at`.
int skip(const Pat& p, int at) {
  int end = at + 1;
  for (int i = 0; i < p.n[at].nsrc; ++i) end = skip(p, end);
  return end;
}

bool is_literal(const PatNode& n, const UOp* u) {
  if (!u->is(Op::CONST)) return false;
  Arg want = n.negative_zero ? Arg::from_double(-0.0) : const_arg(u->dtype, int64_t{n.value});
  return (!n.negative_zero || is_float(u->dtype)) && u->arg.bits == want.bits;
}

/// Matches the subtree at `at` (patterns are at most 9 nodes: the recursion is as shallow).
bool match(const Pat& p, int at, UOp* u, Match& m) {
  const PatNode& n = p.n[at];
  switch (n.kind) {
    case Kind::Literal: return is_literal(n, u);
    case Kind::Const:
      if (!u->is(Op::CONST)) return false;
      [[fallthrough]];
    case Kind::Any: {
      UOp*& bound = m.slot[n.slot];
      if (!bound) bound = u;
      return bound == u;
    }
    case Kind::Node: break;
  }
  if (u->op != n.op || u->nsrc != n.nsrc) return false;
  if (n.either) {
    int second = skip(p, at + 1);
    Match before = m;
    if (match(p, at + 1, u->src[0], m) && match(p, second, u->src[1], m)) return true;
    m = before;
    return match(p, at + 1, u->src[1], m) && match(p, second, u->src[0], m);
  }
  for (int i = 0, s = at + 1; i < n.nsrc; ++i, s = skip(p, s))
    if (!match(p, s, u->src[i], m)) return false;
  return true;
}

/// Builds the subtree at `at`, advancing it. `dtype`: of a literal.
UOp* build(const Pat& p, int& at, const Match& m, DType dtype) {
  const PatNode& n = p.n[at++];
  if (n.kind == Kind::Literal) return const_(dtype, int64_t{n.value});
  if (n.kind != Kind::Node) return m.slot[n.slot];
  DType operand = has(n.op, group::Cmp) ? m.root->src[m.root->nsrc - 1]->dtype : dtype;
  for (int i = 0, s = at; i < n.nsrc; ++i, s = skip(p, s))  // a literal takes the dtype of a named neighbour
    if (p.n[s].kind <= Kind::Const && !(n.op == Op::WHERE && i == 0)) operand = m.slot[p.n[s].slot]->dtype;
  UOp* src[3] = {};
  for (int i = 0; i < n.nsrc; ++i) src[i] = build(p, at, m, n.op == Op::WHERE && i == 0 ? DType::bool_ : operand);
  if (n.op == Op::CAST) return cast(src[0], m.root->dtype);
  if (n.nsrc == 1) return alu(n.op, {src[0]});
  return n.nsrc == 2 ? alu(n.op, {src[0], src[1]}) : alu(n.op, {src[0], src[1], src[2]});
}

UOp* finish(const Rule& r, const Match& m) {
  if (r.condition && !r.condition(m)) return nullptr;
  UOp* made;
  if (r.body) {
    made = r.body(m);
  } else {
    int at = 0;
    made = build(r.rhs, at, m, m.root->dtype);
  }
  return made == m.root ? nullptr : made;
}

/// A rule under its root operator, with the operators that its first two sources must have (count: any).
struct Entry {
  const Rule* rule;
  Op first, second;
  uint8_t dtypes;
};

Op required(const Rule& r, int source) {
  if (r.lhs.n[0].either || r.lhs.n[0].nsrc <= source) return Op::count;
  const PatNode& n = r.lhs.n[source == 0 ? 1 : skip(r.lhs, 1)];
  return n.kind == Kind::Node ? n.op : n.kind == Kind::Any ? Op::count : Op::CONST;
}

using Index = std::array<std::vector<Entry>, static_cast<size_t>(Op::count)>;

const Index& rule_index() {
  static const Index index = [] {
    Index made;
    for (RuleTable table : rule_tables())
      for (const Rule& r : table) made[static_cast<size_t>(r.lhs.n[0].op)].push_back({&r, required(r, 0), required(r, 1), r.dtypes});
    return made;
  }();
  return index;
}

}  // namespace

const std::vector<RuleTable>& rule_tables() {
  static const std::vector<RuleTable> tables{simple_rules(), compare_rules(), cast_rules(),
                                             divmod_rules(), valid_rules(),   symbolic_rules()};
  return tables;
}

UOp* apply_rule(const Rule& rule, UOp* u) {
  Match m;
  m.root = u;
  if (u->nsrc == 0 || !(dtype_kind(u->src[u->nsrc - 1]->dtype) & rule.dtypes) || !match(rule.lhs, 0, u, m)) return nullptr;
  return finish(rule, m);
}

UOp* apply_rules(UOp* u) {
  const std::vector<Entry>& entries = rule_index()[static_cast<size_t>(u->op)];
  if (entries.empty() || u->nsrc == 0) return nullptr;
  uint8_t kind = dtype_kind(u->src[u->nsrc - 1]->dtype);
  Op first = u->src[0]->op, second = u->nsrc > 1 ? u->src[1]->op : Op::count;
  for (const Entry& e : entries) {
    if (!(e.dtypes & kind) || (e.first != Op::count && e.first != first) || (e.second != Op::count && e.second != second)) continue;
    Match m;
    m.root = u;
    if (!match(e.rule->lhs, 0, u, m)) continue;
    if (UOp* made = finish(*e.rule, m)) return made;
  }
  return nullptr;
}

namespace {

void print_pat(const Pat& p, int& at, std::string& out) {
  static constexpr const char* names[pat::kSlots] = {"x", "y", "z", "w", "c1", "c2", "c3", "c4"};
  const PatNode& n = p.n[at++];
  if (n.kind == Kind::Literal) out += n.negative_zero ? "-0.0" : std::to_string(n.value);
  else if (n.kind != Kind::Node) out += names[n.slot];
  else {
    out += info(n.op).name;
    out += '(';
    for (int i = 0; i < n.nsrc; ++i) {
      if (i) out += ", ";
      print_pat(p, at, out);
    }
    out += ')';
  }
}

}  // namespace

std::string print(const Rule& rule) {
  std::string out;
  int at = 0;
  print_pat(rule.lhs, at, out);
  out += " -> ";
  if (rule.body) out += "a function";
  else print_pat(rule.rhs, at = 0, out);
  const char* name = std::strrchr(rule.file, '/');
  return out + " (" + (name ? name + 1 : rule.file) + ":" + std::to_string(rule.line) + ")";
}

}  // namespace tiny
