#include "codegen/opt/analysis.h"

#include <algorithm>
#include <numeric>

#include "codegen/estimate.h"
#include "uop/symbolic.h"

namespace tiny {
namespace {

constexpr double kGatherCost = 1.6;  // a lane of a gather or scatter, in scalar operations

UOp* base_array(UOp* u) {
  while (u->is(Op::AFTER)) u = u->src[0];
  return u;
}

bool is_access(const UOp* u) { return u->is(Op::LOAD) || u->is(Op::STORE); }

}  // namespace

Analysis::Analysis(UOp* sink) : nest(sink) {
  for (size_t r = 0; r < nest.ranges.size(); ++r)
    loops.push_back({nest.ranges[r], nest.extent(r), range_axis(nest.ranges[r]) == Axis::Global, false, false, false});
  for (UOp* u : nest.nodes) {
    if (is_access(u)) accesses.push_back(u);
    if (u->is(Op::FOLD)) folds.push_back(u);
    if (u->is(Op::FOLD))
      for (UOp* r : named_ranges(u)) loops[static_cast<size_t>(nest.number(r))].reduces = true;
    if (u->is(Op::PREFIX) || u->is(Op::ORDERED))
      for (UOp* r : named_ranges(u)) loops[static_cast<size_t>(nest.number(r))].sequential = true;
  }
  find_data();
  find_arrays();
  forms_.resize(loops.size());
  forms_lanes_.assign(loops.size(), 0);
}

void Analysis::find_data() {
  data_.assign(current_arena().size(), 0);
  for (size_t i = nest.nodes.size(); i-- > 0;) {
    UOp* u = nest.nodes[i];
    bool stores = u->is(Op::SINK) || u->is(Op::ORDERED) || u->is(Op::AFTER);
    if (!stores && !data_[u->slot]) continue;
    if (u->is(Op::RANGE) || u->is(Op::INDEX)) continue;
    for (UOp* s : u->sources())
      if (!s->is(Op::INDEX) && !s->is(Op::RANGE)) data_[s->slot] = 1;
  }
}

/// A loop within which a LOCAL array is written and read back runs one turn after the other, on the one array.
void Analysis::find_arrays() {
  for (UOp* u : nest.nodes) {
    if (!u->is(Op::AFTER) || !base_array(u)->is(Op::LOCAL)) continue;
    nest.loops(u).each([&](size_t r) { loops[r].holds_array = true; });
  }
}

std::vector<Analysis::Form>& Analysis::forms(size_t r, int64_t lanes) {
  std::vector<Form>& f = forms_[r];
  if (forms_lanes_[r] == lanes) return f;
  forms_lanes_[r] = lanes;
  f.assign(nest.nodes.size(), Form{0, 1});
  auto of = [&](const UOp* u) { return f[static_cast<size_t>(nest.position(u))]; };
  for (size_t i = 0; i < nest.nodes.size(); ++i) {
    UOp* u = nest.nodes[i];
    if (!nest.loops(u).has(r)) {
      f[i] = {0, is_int(u->dtype) ? known_factor(u) : 1};
      continue;
    }
    f[i] = {kIrregular, 1};
    if (u == nest.ranges[r]) f[i] = {1, lanes};
    if (u->nsrc != 2 || u->dtype != kIndex) continue;
    Form a = of(u->src[0]), b = of(u->src[1]);
    if (a.stride == kIrregular || b.stride == kIrregular) continue;
    int64_t c = u->src[1]->is(Op::CONST) ? u->src[1]->arg.i : 0, g = std::gcd(a.factor, c);
    switch (u->op) {
      case Op::ADD: f[i] = {a.stride + b.stride, std::gcd(a.factor, b.factor)}; break;
      case Op::SUB: f[i] = {a.stride - b.stride, std::gcd(a.factor, b.factor)}; break;
      case Op::MUL:
        if (c) f[i] = {a.stride * c, std::min<int64_t>(a.factor, 1 << 20) * std::min<int64_t>(std::abs(c), 1 << 20)};
        break;
      case Op::IDIV:
        if (c > 0 && a.stride >= 0 && a.stride * (lanes - 1) < g) f[i] = {0, a.factor % c == 0 ? a.factor / c : 1};
        break;
      case Op::MOD:
        if (c > 0 && a.stride >= 0 && a.stride * (lanes - 1) < g) f[i] = {a.stride, g};
        break;
      default: break;
    }
    if (f[i].factor < 1) f[i].factor = 1;
  }
  return f;
}

int64_t Analysis::stride(const UOp* u, size_t r, int64_t lanes) { return forms(r, lanes)[static_cast<size_t>(nest.position(u))].stride; }

double Analysis::turns(const UOp* u) {
  double n = 1;
  nest.loops(u->is(Op::FOLD) ? u->src[0] : u).each([&](size_t r) { n *= static_cast<double>(loops[r].extent); });
  return n;
}

int64_t Analysis::lanes(size_t r, const Caps& caps) {
  lanes_.resize(loops.size());
  if (!lanes_[r]) lanes_[r] = find_lanes(r, caps);
  return lanes_[r];
}

int64_t Analysis::find_lanes(size_t r, const Caps& caps) {
  const LoopFacts& l = loops[r];
  if (l.sequential || l.holds_array || caps.vector_bytes == 0) return 1;
  for (const LoopFacts& inner : loops)  // lanes would have loops of different lengths
    if (nest.loops(inner.range->src[0]).has(r)) return 1;
  int64_t widest = 1;
  for (UOp* u : nest.nodes) {
    if (!nest.loops(u->is(Op::FOLD) ? u->src[0] : u).has(r)) continue;
    DType d = u->is(Op::STORE) ? u->src[1]->dtype : u->dtype;
    if (!is_data(u) && !u->is(Op::STORE)) continue;
    if (!is_access(u) && !is_elementwise(u->op) && !u->is(Op::FOLD)) continue;
    // Indices as values are narrowed, so count only what comes from memory.
    if (d == DType::i64 && !u->is(Op::LOAD) && !u->is(Op::STORE) && bounds(u).lo >= INT32_MIN && bounds(u).hi <= INT32_MAX) continue;
    widest = std::max(widest, is_bool(d) && !is_access(u) ? 1 : itemsize(compute_dtype(d)));
  }
  int64_t n = caps.vector_bytes / widest;
  while (n > 1 && n > l.extent) n /= 2;
  return n;
}

double Analysis::body_cost(size_t r) {
  double c = 0;
  for (UOp* u : nest.nodes) {
    LoopSet own = nest.loops(u->is(Op::FOLD) ? u->src[0] : u);
    if (!own.has(r) || own.last() != static_cast<int>(r)) continue;
    if (is_access(u)) c += 1;
    if (is_data(u)) c += op_cost(u);
  }
  return c;
}

double Analysis::total_cost() { return cost_with({}, Caps{}); }

int64_t Analysis::folds_over(size_t r) {
  return std::count_if(folds.begin(), folds.end(),
                       [&](UOp* f) { return std::find(f->src + 1, f->src + f->nsrc, loops[r].range) != f->src + f->nsrc; });
}

int64_t Analysis::folds_inside(size_t r) {
  return std::count_if(folds.begin(), folds.end(), [&](UOp* f) { return nest.loops(f).has(r); });
}

double Analysis::cost_with(const std::vector<size_t>& vectors, const Caps& caps) {
  std::vector<int64_t> width;
  std::vector<double> ratio;  // turns left of each element's
  for (size_t v : vectors) {
    int64_t w = std::max<int64_t>(1, lanes(v, caps)), n = std::max<int64_t>(1, loops[v].extent);
    width.push_back(w);
    ratio.push_back(static_cast<double>(n / w + n % w) / static_cast<double>(n));
  }
  double total = 0;
  for (UOp* u : nest.nodes) {
    bool access = is_access(u);
    double c = access ? 1 : is_data(u) || u->is(Op::FOLD) ? op_cost(u) : 0;
    if (c == 0) continue;
    LoopSet own = nest.loops(u->is(Op::FOLD) ? u->src[0] : u);
    double part = 1;
    for (size_t k = 0; k < vectors.size(); ++k) {
      if (!own.has(vectors[k]) || width[k] == 1) continue;
      int64_t s = access ? access_stride(u, vectors[k], width[k]) : 1;
      bool fine = s == 1 || s == -1 || (s == 0 && u->is(Op::LOAD));
      part = fine ? ratio[k] : kGatherCost + (u->is(Op::STORE) ? 0.1 : 0);  // stores contiguous before loads, where both cannot be
    }
    total += c * part * turns(u);
  }
  return total;
}

}  // namespace tiny
