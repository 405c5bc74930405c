#include "codegen/symbolic_kernel.h"

#include <unordered_dense/unordered_dense.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"

namespace tiny {
namespace {

using Kind = KernelNumbers::Kind;
using Number = KernelNumbers::Number;
constexpr int64_t kAnyLength = int64_t{1} << 40;  // elements of a PARAM: nobody asks a program of many sizes how many there are

bool is_number(const UOp* u) {
  return u->is(Op::CONST) && (u->dtype == kIndex || u->dtype == DType::f32 || u->dtype == DType::f64);
}

/// Source k of u, a number that belongs to the form's list.
bool is_listed(const UOp* u, size_t k) { return !u->is(Op::PARAM) && is_number(u->src[k]); }

Number number_at(const UOp* u, size_t k) {
  const UOp* c = u->src[k];
  if (c->dtype != kIndex) return {Kind::Float, std::bit_cast<int64_t>(c->arg.f)};
  return {u->is(Op::RANGE) ? Kind::Extent : u->is(Op::LOCAL) ? Kind::Length : Kind::Integer, c->arg.i};
}

/// Twice what the next power of two is, so that what grows from step to step is served for a while.
int64_t bound_over(int64_t n) {
  return n > INT64_MAX / 8 ? INT64_MAX : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 8)))) * 2;
}

}  // namespace

KernelNumbers numbers_of(UOp* sink, int vars) {
  KernelNumbers out;
  ankerl::unordered_dense::map<const UOp*, uint64_t> position;
  std::vector<uint64_t> words{static_cast<uint64_t>(vars)};
  for (const UOp* u : toposort({&sink, 1})) {
    if (is_number(u)) continue;  // told where they are used: one node may be there by chance for two of them
    position.emplace(u, position.size());
    words.push_back(static_cast<uint64_t>(u->op) << 32 | static_cast<uint64_t>(u->dtype) << 16 | u->nsrc);
    words.push_back(static_cast<uint64_t>(u->numel));
    words.push_back(arg_hash(u->op, u->arg));
    for (size_t k = 0; k < u->nsrc; ++k) {
      const UOp* s = u->src[k];
      if (!is_number(s)) {
        words.push_back(position.at(s));
        continue;
      }
      words.push_back(UINT64_MAX - static_cast<uint64_t>(s->dtype));
      if (is_listed(u, k)) out.numbers.push_back(number_at(u, k));
    }
  }
  out.form = hash128(words.data(), words.size() * sizeof(uint64_t));
  return out;
}

SymbolicKernel::SymbolicKernel(const std::vector<std::vector<Number>>& examples, bool all_extents) {
  TINY_ASSERT(!examples.empty(), "a symbolic kernel is learned from examples");
  const std::vector<Number>& first = examples[0];
  std::vector<std::pair<uint64_t, size_t>> varying;  // by how far the values are apart: multiples follow from what they are multiples of
  for (size_t c = 0; c < first.size(); ++c) {
    columns_.push_back({first[c].kind, -1, 0, first[c].value});
    int64_t lo = first[c].value, hi = lo;
    for (const auto& e : examples) lo = std::min(lo, e[c].value), hi = std::max(hi, e[c].value);
    if (first[c].kind == Kind::Length) {
      columns_[c].b = lo == hi && !all_extents ? hi : bound_over(hi);
    } else if (lo != hi || (all_extents && first[c].kind == Kind::Extent)) {
      varying.push_back({first[c].kind == Kind::Float ? UINT64_MAX : static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo), c});
    }
  }
  std::stable_sort(varying.begin(), varying.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  for (auto [spread, c] : varying) learn(examples, c);
}

/// Column c follows from an argument found before, or becomes one.
void SymbolicKernel::learn(const std::vector<std::vector<Number>>& examples, size_t c) {
  Column& column = columns_[c];
  auto value = [&](size_t e, size_t k) { return examples[e][k].value; };
  const bool is_float = column.kind == Kind::Float;
  for (size_t k = 0; k < arguments_.size(); ++k) {
    size_t s = source_[k], other = 1;
    if (arguments_[k].is_float != is_float) continue;
    while (other < examples.size() && value(other, s) == value(0, s)) ++other;
    if (other == examples.size()) continue;
    __int128 dx = static_cast<__int128>(value(other, s)) - value(0, s), dy = static_cast<__int128>(value(other, c)) - value(0, c);
    __int128 a = is_float ? 1 : dy / dx, b = is_float ? 0 : value(0, c) - a * value(0, s);
    if (a == 0 || a > INT32_MAX || a < INT32_MIN || b > INT64_MAX / 4 || b < INT64_MIN / 4) continue;
    bool follows = true;
    for (size_t e = 0; e < examples.size(); ++e) follows &= a * value(e, s) + b == value(e, c);
    if (!follows) continue;
    column.argument = static_cast<int>(k), column.a = static_cast<int64_t>(a), column.b = static_cast<int64_t>(b);
    return;
  }
  int64_t lo = INT64_MAX, hi = INT64_MIN;
  for (size_t e = 0; e < examples.size(); ++e) lo = std::min(lo, value(e, c)), hi = std::max(hi, value(e, c));
  int64_t most = bound_over(std::max(hi, -std::max(lo, -INT64_MAX)));
  column.argument = static_cast<int>(arguments_.size()), column.a = 1, column.b = 0;
  arguments_.push_back({lo >= 1 ? 1 : lo >= 0 ? 0 : -most, most, is_float});
  source_.push_back(c);
}

std::optional<std::vector<uint64_t>> SymbolicKernel::arguments(const std::vector<Number>& numbers) const {
  if (numbers.size() != columns_.size()) return {};
  std::vector<uint64_t> out;
  for (size_t k = 0; k < arguments_.size(); ++k) {
    int64_t v = numbers[source_[k]].value;
    if (!arguments_[k].is_float && (v < arguments_[k].lo || v > arguments_[k].hi)) return {};
    out.push_back(static_cast<uint64_t>(v));
  }
  for (size_t c = 0; c < columns_.size(); ++c) {
    const Column& column = columns_[c];
    if (column.kind != numbers[c].kind) return {};
    int64_t v = numbers[c].value;
    if (column.kind == Kind::Length) {
      if (v > column.b) return {};
    } else if (column.argument < 0 || column.kind == Kind::Float) {
      if (v != (column.argument < 0 ? column.b : static_cast<int64_t>(out[static_cast<size_t>(column.argument)]))) return {};
    } else if (static_cast<__int128>(column.a) * static_cast<int64_t>(out[static_cast<size_t>(column.argument)]) + column.b != v) {
      return {};
    }
  }
  return out;
}

UOp* SymbolicKernel::spell(const Column& c, DType dtype, int vars) const {
  Arena& arena = current_arena();
  auto constant = [&](int64_t v) { return arena.make(Op::CONST, kIndex, 1, Arg(v), {}); };
  auto binary = [&](Op op, UOp* a, UOp* b) {
    UOp* src[] = {a, b};
    return arena.make(op, kIndex, 1, {}, src);
  };
  if (c.argument < 0) {
    Arg value = c.kind == Kind::Float ? Arg::from_double(std::bit_cast<double>(c.b)) : Arg(c.b);
    return arena.make(Op::CONST, dtype, 1, value, {});
  }
  const Argument& a = arguments_[static_cast<size_t>(c.argument)];
  UOp* var = arena.make(Op::VAR, a.is_float ? DType::f64 : kIndex, 1, Arg(static_cast<int64_t>(vars + c.argument)), {});
  if (a.is_float) return dtype == DType::f64 ? var : arena.make(Op::CAST, dtype, 1, {}, {&var, 1});
  UOp* x = binary(Op::MIN, binary(Op::MAX, var, constant(a.lo)), constant(a.hi));  // the bounds, for all who ask
  if (c.a != 1) x = binary(Op::MUL, x, constant(c.a));
  return c.b ? binary(Op::ADD, x, constant(c.b)) : x;
}

UOp* SymbolicKernel::rewrite(UOp* sink, int vars) const {
  Arena& arena = current_arena();
  ankerl::unordered_dense::map<const UOp*, UOp*> made;
  std::vector<UOp*> src;
  size_t next = 0;
  for (UOp* u : toposort({&sink, 1})) {
    if (is_number(u)) {
      made[u] = u;
      continue;
    }
    src.clear();
    for (size_t k = 0; k < u->nsrc; ++k) {
      if (u->is(Op::PARAM)) src.push_back(arena.make(Op::CONST, kIndex, 1, Arg(kAnyLength), {}));
      else if (is_listed(u, k)) src.push_back(spell(columns_[next++], u->src[k]->dtype, vars));
      else src.push_back(made.at(u->src[k]));
    }
    made[u] = arena.make(u->op, u->dtype, u->numel, u->arg, src);
  }
  TINY_ASSERT(next == columns_.size(), "a kernel of another form");
  return made.at(sink);
}

}  // namespace tiny
