#include "codegen/lane_form.h"

#include <numeric>

#include "uop/symbolic.h"

namespace tiny {
namespace {

constexpr int kDepth = 64;  // of the vector part of an index, which is a few operators deep

LaneForm form_of(UOp* u, int depth) {
  if (u->numel == 1) return {u, 0};
  if (depth > kDepth || u->dtype != kIndex) return {};
  if (u->is(Op::LANES)) return {const_(u->dtype, 0), 1};
  if (u->nsrc != 2) return {};
  LaneForm a = form_of(u->src[0], depth + 1);
  if (!a.first) return {};
  int64_t c = u->src[1]->is(Op::CONST) ? u->src[1]->arg.i : 0;
  switch (u->op) {
    case Op::ADD: case Op::SUB: {
      LaneForm b = form_of(u->src[1], depth + 1);
      if (!b.first) return {};
      return {alu(u->op, {a.first, b.first}), u->is(Op::ADD) ? a.stride + b.stride : a.stride - b.stride};
    }
    case Op::MUL: return c ? LaneForm{alu(Op::MUL, {a.first, u->src[1]}), a.stride * c} : LaneForm{};
    case Op::IDIV: case Op::MOD:
      // With g dividing first and c, and lanes * stride below g: (first + stride*l) / c == first / c.
      if (c <= 0 || a.stride < 0 || bounds(a.first).lo < 0) return {};
      if (a.stride * (u->numel - 1) >= std::gcd(known_factor(a.first), c)) return {};
      return {alu(u->op, {a.first, u->src[1]}), u->is(Op::MOD) ? a.stride : 0};
    default: return {};
  }
}

}  // namespace

LaneForm lane_form(UOp* u) { return form_of(u, 0); }

}  // namespace tiny
