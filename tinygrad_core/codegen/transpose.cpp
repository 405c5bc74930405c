// Gathers that together read a block, and scatters that together write one. Copies 0..k-1 of a body that read lane l at
// first + stride*l + copy, k as many as lanes, need k vectors of consecutive elements, turned by shuffles, instead of k*k single
// loads. Where k is the stride, no element of the block is left out: then copies of any number share vectors, and stores may too.
#include <algorithm>
#include <bit>
#include <span>
#include <tuple>

#include "codegen/lane_form.h"
#include "codegen/lower.h"

namespace tiny {
namespace {

/// A LOAD or STORE of lanes at rest + offset + stride * lane.
struct Access {
  UOp *node, *array, *rest;
  int64_t stride, offset, lanes;
  /// Accesses of one block agree in all but the offset.
  auto block() const { return std::tuple(array->slot, rest->slot, stride, lanes); }
};

bool is_strided(UOp* u, Op op, Access* out) {
  size_t sources = op == Op::LOAD ? 1 : 2;  // no gate
  if (!u->is(op) || u->nsrc != sources || u->src[0]->src[1]->numel < 2) return false;
  int64_t lanes = u->src[0]->src[1]->numel;
  if ((op == Op::LOAD ? u : u->src[1])->numel != lanes) return false;
  LaneForm f = lane_form(u->src[0]->src[1]);
  if (!f.first || f.stride == 0 || f.stride == 1) return false;
  UOp* rest = f.first;
  int64_t offset = 0;
  if (rest->is(Op::CONST)) offset = rest->arg.i, rest = index_const(0);
  if (rest->is(Op::ADD) && rest->src[1]->is(Op::CONST)) offset = rest->src[1]->arg.i, rest = rest->src[0];
  *out = {u, u->src[0]->src[0], rest, f.stride, offset, lanes};
  return true;
}

/// All of a kind, those of one block side by side in the order of their offsets.
std::vector<Access> find_strided(UOp* sink, Op op) {
  std::vector<Access> found;
  for (UOp* u : toposort({&sink, 1})) {
    Access a;
    if (is_strided(u, op, &a)) found.push_back(a);
  }
  std::stable_sort(found.begin(), found.end(), [](const Access& a, const Access& b) {
    return std::tuple(a.block(), a.offset) < std::tuple(b.block(), b.offset);
  });
  return found;
}

/// True if `count` accesses from number i on are of one block, at consecutive offsets.
bool consecutive(const std::vector<Access>& all, size_t i, int64_t count) {
  size_t last = i + static_cast<size_t>(count) - 1;
  return last < all.size() && all[last].block() == all[i].block() && all[last].offset == all[i].offset + count - 1;
}

UOp* index_of(const Access& a, int64_t offset) { return node(Op::INDEX, a.array->dtype, {a.array, U(a.rest) + offset}); }
UOp* lane(UOp* vector, int64_t i) { return node(Op::LANE, vector->dtype, {vector}, Arg(i), 1); }

/// Element `offset` of each of the block's lanes, out of the vectors that start at `from`.
UOp* turned(const Access& g, int64_t from) {
  std::vector<UOp*> elements;
  for (int64_t l = 0; l < g.lanes; ++l) {
    UOp* row = node(Op::LOAD, g.node->dtype, {index_of(g, from + g.stride * l)}, {}, g.lanes);
    elements.push_back(lane(row, g.offset - from));
  }
  return node(Op::STACK, g.node->dtype, elements);
}

using Vectors = std::vector<UOp*>;

/// Lane l is element l of `elements`, which are numbered through `vectors`, in shuffles of two vectors each.
UOp* picked(const Vectors& vectors, const std::vector<int64_t>& elements) {
  int64_t lanes = static_cast<int64_t>(elements.size());
  Vectors distinct;
  for (int64_t e : elements)
    if (std::find(distinct.begin(), distinct.end(), vectors[e / lanes]) == distinct.end()) distinct.push_back(vectors[e / lanes]);
  UOp* out = distinct[0];
  for (size_t k = 1; k < std::max<size_t>(2, distinct.size()); ++k) {
    Vectors made;
    for (int64_t l = 0; l < lanes; ++l) {
      UOp* from = vectors[elements[l] / lanes];
      bool now = k < distinct.size() && from == distinct[k], first = k == 1 && from == distinct[0];
      made.push_back(now || first ? lane(from, elements[l] % lanes) : lane(out, l));
    }
    out = node(Op::STACK, out->dtype, made);
  }
  return out;
}

/// The lanes of k vectors, in turn: element e is lane e / k of vector e % k.
Vectors interleaved(const Vectors& x) {
  int64_t k = static_cast<int64_t>(x.size()), lanes = x[0]->numel, ways = 2;
  if (k == 1) return x;
  if (k % lanes == 0) {  // squares: renderers know how to turn them
    Vectors out;
    for (int64_t e = 0; e < k * lanes; e += lanes) {
      Vectors column;
      for (int64_t l = 0; l < lanes; ++l) column.push_back(lane(x[(e + l) % k], e / k));
      out.push_back(node(Op::STACK, x[0]->dtype, column));
    }
    return out;
  }
  while (k % ways) ++ways;
  Vectors parts, out;  // each of `ways` sequences of k / ways vectors
  for (int64_t w = 0; w < ways; ++w) {
    Vectors part;
    for (int64_t i = w; i < k; i += ways) part.push_back(x[i]);
    part = interleaved(part);
    parts.insert(parts.end(), part.begin(), part.end());
  }
  for (int64_t v = 0; v < k; ++v) {
    std::vector<int64_t> elements;
    for (int64_t e = v * lanes; e < (v + 1) * lanes; ++e) elements.push_back(e % ways * (k / ways * lanes) + e / ways);
    out.push_back(picked(parts, elements));
  }
  return out;
}

/// Number of shuffles that interleaved() takes for k vectors.
int64_t shuffles(int64_t k, int64_t lanes) {
  if (k == 1) return 0;
  int64_t ways = 2;
  if (k % lanes == 0) return k * std::bit_width(static_cast<uint64_t>(lanes));
  while (k % ways) ++ways;
  return ways * shuffles(k / ways, lanes) + k * (ways - 1);
}

/// Shares the block's vectors among the gathers all[i] .. all[i + stride - 1], which leave no element out.
void share_vectors(const std::vector<Access>& all, size_t i, std::vector<UOp*>& map) {
  const Access& first = all[i];
  Vectors vectors;
  for (int64_t v = 0; v < first.stride; ++v)
    vectors.push_back(node(Op::LOAD, first.node->dtype, {index_of(first, first.offset + v * first.lanes)}, {}, first.lanes));
  for (int64_t k = 0; k < first.stride; ++k) {
    std::vector<int64_t> elements;
    for (int64_t l = 0; l < first.lanes; ++l) elements.push_back(k + l * first.stride);
    UOp* by = picked(vectors, elements);
    map.resize(current_arena().size());
    map[all[i + static_cast<size_t>(k)].node->slot] = by;
  }
}

/// True if no value that the scatters write depends on one of them having been written.
bool independent(std::span<const Access> scatters) {
  Vectors values;
  for (const Access& a : scatters) values.push_back(a.node->src[1]);
  for (UOp* u : toposort(values))
    if (u->is(Op::STORE) && std::any_of(scatters.begin(), scatters.end(), [u](const Access& a) { return a.node == u; })) return false;
  return true;
}

}  // namespace

UOp* turn_forwards(UOp* sink) {
  return rebuild(sink, [](UOp* u, std::span<UOp* const> src) -> UOp* {
    if (!u->is(Op::LOAD) && !u->is(Op::STORE)) return nullptr;
    UOp *array = src[0]->src[0], *index = src[0]->src[1];
    int64_t lanes = index->numel;
    LaneForm f = lane_form(index);
    if (lanes == 1 || !f.first || f.stride >= 0 || -f.stride >= lanes) return nullptr;
    auto backwards = [lanes](UOp* v) -> UOp* {
      if (v->numel == 1) return v;
      Vectors elements;
      for (int64_t l = lanes; l-- > 0;) elements.push_back(lane(v, l));
      return node(Op::STACK, v->dtype, elements);
    };
    U first = U(f.first) + f.stride * (lanes - 1), numbers = node(Op::LANES, kIndex, {}, {}, lanes);
    Vectors made{node(Op::INDEX, src[0]->dtype, {array, first + numbers * -f.stride})};
    for (UOp* s : src.subspan(1)) made.push_back(backwards(s));
    UOp* forwards = node(u->op, u->dtype, made, u->arg);
    return u->is(Op::LOAD) ? backwards(forwards) : forwards;
  });
}

UOp* transpose_loads(UOp* sink) {
  std::vector<Access> gathers = find_strided(sink, Op::LOAD);
  std::vector<UOp*> map(current_arena().size());
  bool any = false;
  for (size_t i = 0; i < gathers.size();) {
    int64_t lanes = gathers[i].lanes, stride = gathers[i].stride;
    if (stride > 1 && stride < lanes && consecutive(gathers, i, stride)) {
      share_vectors(gathers, i, map);
      any = true, i += static_cast<size_t>(stride);
    } else if (consecutive(gathers, i, lanes)) {
      for (size_t k = i; k < i + static_cast<size_t>(lanes); ++k) {
        UOp* by = turned(gathers[k], gathers[i].offset);
        map.resize(current_arena().size());
        map[gathers[k].node->slot] = by;
      }
      any = true, i += static_cast<size_t>(lanes);
    } else {
      ++i;
    }
  }
  return any ? substitute(sink, map) : sink;
}

UOp* transpose_stores(UOp* sink) {
  std::vector<Access> scatters = find_strided(sink, Op::STORE);
  std::vector<UOp*> map(current_arena().size());
  bool any = false;
  for (size_t i = 0; i < scatters.size();) {
    const Access& first = scatters[i];
    int64_t k = first.stride, lanes = first.lanes;
    size_t end = i + static_cast<size_t>(std::max<int64_t>(k, 1));
    bool block = k > 1 && consecutive(scatters, i, k) && shuffles(k, lanes) < k * lanes;
    if (!block || !independent(std::span(scatters).subspan(i, static_cast<size_t>(k)))) {
      ++i;
      continue;
    }
    Vectors values;
    for (; i < end; ++i) values.push_back(scatters[i].node->src[1]);
    values = interleaved(values);
    for (int64_t v = 0; v < k; ++v) {
      U places = U(first.rest) + (first.offset + v * lanes) + node(Op::LANES, kIndex, {}, {}, lanes);
      UOp* by = node(Op::STORE, DType::void_, {node(Op::INDEX, first.array->dtype, {first.array, places}), values[v]});
      map.resize(current_arena().size());
      map[scatters[end - static_cast<size_t>(k - v)].node->slot] = by;
    }
    any = true;
  }
  return any ? substitute(sink, map) : sink;
}

}  // namespace tiny
