// Linear lists written by hand, for tests of devices: no scheduler, no codegen.
#pragma once
#include <string>
#include <vector>

#include "runtime/device.h"
#include "uop/ir.h"

namespace tiny::testing {

/// An arena and a list under construction in it.
struct ListBuilder {
  Arena arena;
  IrScope scope{arena};
  Program program;

  U add(Op op, DType d, std::initializer_list<UOp*> src, Arg arg = {}, int64_t numel = 1) {
    U u = node(op, d, src, arg, numel);
    for (UOp* have : program.linear)
      if (have == u.u) return u;
    program.linear.push_back(u);
    return u;
  }
  U number(int64_t v) { return add(Op::CONST, kIndex, {}, Arg(v)); }
  U param(int n, DType d, int64_t length, bool written) {
    program.info.params.push_back({d, length, written, !written});
    return add(Op::PARAM, d, {number(length)}, Arg(static_cast<int64_t>(n)));
  }
  U range(int64_t extent, int64_t n, Axis axis) { return add(Op::RANGE, kIndex, {number(extent)}, range_arg(n, axis)); }
  U at(U array, U index) { return add(Op::INDEX, array->dtype, {array, index}); }
  U load(U array, U index) { return add(Op::LOAD, array->dtype, {at(array, index)}); }
  void store(U array, U index, U value) { add(Op::STORE, DType::void_, {at(array, index), value}); }
  void end(U loop) { add(Op::END, DType::void_, {loop}); }
};

/// to[i] = from[i] + scalar, f32 buffers {to, from}, an f64 scalar; `groups` workgroups of `inner` elements. `read_at` shifts the reads.
inline void fill_add_kernel(ListBuilder& b, const std::string& name, int64_t groups, int64_t inner, int64_t read_at = 0) {
  b.program.info.name = name;
  b.program.info.groups = groups;
  b.program.info.scalars = 1;
  b.program.info.bytes = 8.0 * static_cast<double>(groups * inner);
  U to = b.param(0, DType::f32, groups * inner, true), from = b.param(1, DType::f32, groups * inner, false);
  U scalar = b.add(Op::VAR, DType::f64, {}, Arg(int64_t{0})), term = b.add(Op::CAST, DType::f32, {scalar});
  U width = b.number(inner), shift = b.number(read_at);
  U g = b.range(groups, 0, Axis::Global), i = b.range(inner, 1, Axis::Loop);
  U row = b.add(Op::MUL, kIndex, {g, width}), index = b.add(Op::ADD, kIndex, {row, i}), source = b.add(Op::ADD, kIndex, {index, shift});
  U sum = b.add(Op::ADD, DType::f32, {b.load(from, source), term});
  b.store(to, index, sum);
  b.end(i);
}

inline std::unique_ptr<Executable> make_add_kernel(Device& device, int64_t groups, int64_t inner) {
  ListBuilder b;
  fill_add_kernel(b, "add_" + std::to_string(groups) + "_" + std::to_string(inner), groups, inner);
  return device.load(b.program.info, device.compiler().compile(b.program));
}

inline uint64_t bits_of(double v) { return Arg::from_double(v).bits; }

/// A submission that owns its launches.
inline std::unique_ptr<Submission> submission(std::vector<Launch> launches, std::vector<void*> buffers, std::vector<uint64_t> scalars = {},
                                              std::vector<Buffer*> owned = {}) {
  auto kept = std::make_shared<const std::vector<Launch>>(std::move(launches));
  auto s = std::make_unique<Submission>();
  s->launches = kept.get();
  s->keep = kept;
  s->buffers = std::move(buffers);
  s->scalars = std::move(scalars);
  s->owned = std::move(owned);
  for (Buffer* b : s->owned) b->retain();
  return s;
}

}  // namespace tiny::testing
