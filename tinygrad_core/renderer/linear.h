// What every CPU renderer asks of a Program's linear list.
#pragma once
#include <algorithm>
#include <vector>

#include "base/error.h"
#include "codegen/codegen.h"

namespace tiny {

/// Ranges of an axis, the first the slowest.
inline std::vector<UOp*> ranges_of(const Program& p, Axis axis) {
  std::vector<UOp*> out;
  for (UOp* u : p.linear)
    if (u->is(Op::RANGE) && range_axis(u) == axis) out.push_back(u);
  return out;
}

inline size_t slot_count(const Program& p) {
  size_t n = 0;
  for (UOp* u : p.linear) {
    n = std::max<size_t>(n, u->slot + 1);
    for (UOp* s : u->sources()) n = std::max<size_t>(n, s->slot + 1);
  }
  return n;
}

inline constexpr int64_t kScratchAlign = 64;

/// Offset in the workgroup's scratch of each LOCAL, by its number: in order of the numbers, each aligned to a cache line.
inline std::vector<int64_t> local_offsets(const Program& p) {
  std::vector<int64_t> sizes, out;
  for (UOp* u : p.linear) {
    if (!u->is(Op::LOCAL)) continue;
    if (static_cast<size_t>(u->arg.i) >= sizes.size()) sizes.resize(u->arg.i + 1);
    sizes[u->arg.i] = std::max(sizes[u->arg.i], const_int(u->src[0]) * itemsize(u->dtype));
  }
  int64_t at = 0;
  for (int64_t n : sizes) out.push_back(at), at += (n + kScratchAlign - 1) / kScratchAlign * kScratchAlign;
  int64_t have = (p.info.scratch_bytes + kScratchAlign - 1) / kScratchAlign * kScratchAlign;
  TINY_ASSERT(at <= have, p.info.name + ": scratch_bytes is less than its LOCAL arrays");
  return out;
}

/// The PARAM or LOCAL behind AFTERs.
inline UOp* base_array(UOp* u) {
  while (u->is(Op::AFTER)) u = u->src[0];
  TINY_ASSERT(u->is(Op::PARAM) || u->is(Op::LOCAL), "INDEX of what is no array");
  return u;
}

/// AFTER of an array orders; AFTER of an accumulator is a value.
inline bool is_array(UOp* u) {
  while (u->is(Op::AFTER)) u = u->src[0];
  return u->is(Op::PARAM) || u->is(Op::LOCAL);
}

/// Parts of a LOAD or STORE, and its lanes.
struct Access {
  UOp *array, *index, *gate = nullptr, *other = nullptr, *value = nullptr;
  int64_t lanes;
  explicit Access(const UOp* u) {
    TINY_ASSERT(u->src[0]->is(Op::INDEX), "LOAD or STORE without INDEX");
    array = base_array(u->src[0]->src[0]), index = u->src[0]->src[1];
    lanes = std::max({u->numel, index->numel, int64_t{1}});
    bool load = u->is(Op::LOAD);
    if (!load) value = u->src[1];
    if (load && u->nsrc > 1) gate = u->src[1];
    if (load && u->nsrc > 2) other = u->src[2];
    if (!load && u->nsrc > 2) gate = u->src[2];
    for (UOp* s : {gate, other, value})
      if (s) lanes = std::max(lanes, s->numel);
    if (gate && gate->is(Op::CONST) && gate->arg.i) gate = nullptr;
  }
};

}  // namespace tiny
