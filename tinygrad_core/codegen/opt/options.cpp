#include "codegen/opt/options.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace tiny {
namespace {

constexpr double kGroupCost = 16384;   // scalar operations from which a workgroup is worth its dispatch
constexpr int64_t kGroupsPerThread = 4;
/// Terms that are added to an accumulator one after the other, and how many of them are a part of a longer sum. Products are in tiles whose
/// accumulators fill the registers: parts are dear there.
constexpr int64_t kLongSum = 256, kSumPart = 64, kLongProduct = 2048, kProductPart = 512;

bool is_global(const UOp* r) { return range_axis(r) == Axis::Global || range_axis(r) == Axis::Local; }

/// Global ranges whose turns must run in order become Loops.
void serialise(Splitter& s) {
  std::vector<UOp*> found;
  for (UOp* u : toposort(std::vector<UOp*>{s.sink()}))
    if (u->is(Op::ORDERED) || u->is(Op::PREFIX) || u->is(Op::FOLD))
      for (UOp* r : named_ranges(u))
        if (is_global(r) && std::find(found.begin(), found.end(), r) == found.end()) found.push_back(r);
  for (UOp* r : found) s.replace(r, range_number(r), Axis::Loop);
}

/// The Global ranges of each source of the SINK.
std::vector<std::vector<UOp*>> globals_of_stores(UOp* sink) {
  Nest nest(sink);
  std::vector<std::vector<UOp*>> out;
  for (UOp* s : sink->sources()) {
    std::vector<UOp*> mine;
    nest.loops(s).each([&](size_t r) { if (is_global(nest.ranges[r])) mine.push_back(nest.ranges[r]); });
    out.push_back(std::move(mine));
  }
  return out;
}

std::vector<UOp*> both(const std::vector<UOp*>& a, const std::vector<UOp*>& b) {
  std::vector<UOp*> out;
  for (UOp* r : a)
    if (std::find(b.begin(), b.end(), r) != b.end()) out.push_back(r);
  return out;
}

/// Several nests with Global ranges of their own (many small tensors in one kernel): each takes part in every group, with a share of its
/// elements.
void share_groups(Splitter& s, const std::vector<std::vector<UOp*>>& globals, double cost, const Caps& caps) {
  std::vector<UOp*> all;
  for (const auto& g : globals)
    for (UOp* r : g)
      if (std::find(all.begin(), all.end(), r) == all.end()) all.push_back(r);
  double wanted = std::min<double>(cost / kGroupCost, static_cast<double>(kGroupsPerThread * caps.threads));
  UOp* groups = wanted < 2 ? nullptr : range(static_cast<int64_t>(wanted), 0, Axis::Global).u;
  std::vector<UOp*> shared;
  for (const auto& mine : globals) {
    if (!groups || mine.empty() || !both(mine, shared).empty()) continue;
    std::vector<UOp*> common = mine;  // ranges of all stores that have to do with these
    for (const auto& other : globals)
      if (!both(mine, other).empty()) common = both(common, other);
    if (!common.empty())
      shared.push_back(
          *std::max_element(common.begin(), common.end(), [](UOp* a, UOp* b) { return most_turns(a) < most_turns(b); }));
  }
  for (UOp* r : all) {
    if (std::find(shared.begin(), shared.end(), r) != shared.end()) {
      s.share(r, groups);
    } else {
      s.replace(r, range_number(r), Axis::Loop);
    }
  }
}

/// After it, every store depends on every Global range, or on none.
void agree_on_groups(Splitter& s, const Caps& caps) {
  std::vector<std::vector<UOp*>> globals = globals_of_stores(s.sink());
  std::vector<UOp*> common;
  bool first = true, agree = true;
  for (const auto& g : globals) {
    agree &= g == globals[0];
    if (g.empty()) continue;
    common = first ? g : both(common, g);
    first = false;
  }
  if (agree) return;
  if (common.empty()) {
    share_groups(s, globals, Analysis(s.sink()).total_cost(), caps);
    return;
  }
  for (const auto& g : globals)
    for (UOp* r : g)
      if (std::find(common.begin(), common.end(), r) == common.end()) s.replace(r, range_number(r), Axis::Loop);
}

/// Stores that do not depend on all of the final groups and lanes run in one of them.
void run_rest_once(Splitter& s) {
  std::vector<std::vector<UOp*>> globals = globals_of_stores(s.sink());
  std::vector<UOp*> all;
  for (const auto& g : globals)
    for (UOp* r : g)
      if (std::find(all.begin(), all.end(), r) == all.end()) all.push_back(r);
  std::vector<UOp*> stores(s.sink()->src, s.sink()->src + s.sink()->nsrc);
  for (size_t i = 0; i < stores.size(); ++i) {
    std::vector<UOp*> missing;
    for (UOp* r : all)
      if (std::find(globals[i].begin(), globals[i].end(), r) == globals[i].end()) missing.push_back(r);
    if (!missing.empty()) s.run_once(stores[i], missing);
  }
}

/// Sums of floats over loops of `least` turns are made of sums of parts, of `part` terms at least, lest rounding
/// errors grow with the length.
void shorten_sums(Splitter& s, int64_t least, int64_t part) {
  std::vector<UOp*> sums, no;
  auto add = [](std::vector<UOp*>& to, UOp* r) { if (std::find(to.begin(), to.end(), r) == to.end()) to.push_back(r); };
  Nest nest(s.sink());
  for (UOp* u : nest.nodes) {
    if (u->is(Op::STORE)) nest.loops(u).each([&](size_t r) { add(no, nest.ranges[r]); });
    if (u->is(Op::FOLD))
      for (UOp* r : named_ranges(u)) {
        if (static_cast<Op>(u->arg.i) == Op::ADD && u->dtype == DType::f32 && most_turns(r) >= least) add(sums, r);
        if (is_reduced_float(u->dtype) || u->src[0]->is(Op::BLOCK)) add(no, r);
      }
    if (u->is(Op::PREFIX) || u->is(Op::ORDERED))
      for (UOp* r : named_ranges(u)) add(no, r);
  }
  for (UOp* r : sums)
    if (std::find(no.begin(), no.end(), r) == no.end() && range_axis(r) == Axis::Reduce) {
      int64_t size = part;
      while (size * size < most_turns(r)) size *= 2;
      s.nest_folds(r, size);
    }
}

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/// A chunk of about `wanted` elements of `n`: a multiple of `unit`, and a divisor of n if one is near.
int64_t chunk_size(int64_t n, int64_t wanted, int64_t unit) {
  int64_t c = std::min(round_up(std::max<int64_t>(wanted, 1), unit), round_up(n, unit));
  if (c >= n) return n;
  for (int64_t d = c; d * 2 >= c && d >= unit; d -= unit)
    if (n % d == 0) return d;
  for (int64_t d = c; d <= 2 * c && d < n; d += unit)
    if (n % d == 0) return d;
  return round_up((n + (n + c - 1) / c - 1) / ((n + c - 1) / c), unit);  // chunks of about one size
}

}  // namespace

void apply_plans(Splitter& splitter, std::vector<AxisPlan> plans) {
  std::stable_sort(plans.begin(), plans.end(), [](const AxisPlan& a, const AxisPlan& b) { return nests_before(b.range, a.range); });
  for (const AxisPlan& p : plans)
    if (p.segments.size() != 1 || p.segments[0].size() != 1) splitter.split(p.range, p.segments, p.elements);
}

void make_groups(Splitter& splitter, std::vector<GroupRange> order, double work, const Caps& caps, std::vector<AxisPlan>& plans) {
  double elements = 1;
  for (const GroupRange& g : order) elements *= static_cast<double>(most_turns(g.range));
  double each = std::max(work / std::max(elements, 1.0), 1e-3);  // cost of an element
  double threads = static_cast<double>(kGroupsPerThread * caps.threads);
  bool small = work < 2 * kGroupCost;
  double wanted = small ? elements : std::max(kGroupCost / each, std::min(elements / threads, 64 * kGroupCost / each));
  double have = 1;
  for (GroupRange& g : order) {
    int64_t n = most_turns(g.range);
    double room = wanted / have;
    int64_t size = small || static_cast<double>(n) <= 1.5 * room ? n : chunk_size(n, static_cast<int64_t>(room), g.unit);
    if (room < 1.5 && g.unit == 1) size = 1;
    if (g.limit && !small && size > g.limit) size = chunk_size(n, g.limit, g.unit);
    have *= static_cast<double>(size);
    const bool fixed = g.range->src[0]->is(Op::CONST);
    UOp* made = splitter.chunk(g.range, size, g.number);
    for (AxisPlan& p : plans)
      if (p.range == g.range) p.range = made, p.elements = fixed && size % g.unit == 0 && size < n ? n : 0;
  }
}

UOp* apply_options(UOp* sink, const Caps& caps, int flags, Choice& choice) {
  Splitter splitter(sink);
  serialise(splitter);
  agree_on_groups(splitter, caps);
  Analysis a(splitter.sink());
  if (!(flags & kNoOptions) && !a.loops.empty()) {
    const bool product = caps.has_local ? apply_blocks(splitter, a, caps) || apply_tiles_of_lanes(splitter, a, caps)
                                        : apply_contraction(splitter, a, caps, choice);
    if (!product) caps.has_local ? apply_lanes(splitter, a, caps) : apply_rows(splitter, a, caps, choice);
    product ? shorten_sums(splitter, kLongProduct, kProductPart) : shorten_sums(splitter, kLongSum, kSumPart);
  }
  run_rest_once(splitter);
  return splitter.sink();
}

}  // namespace tiny
