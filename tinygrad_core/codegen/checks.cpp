// Faults found while running: an index out of bounds, an integer division by zero.
#include "base/error.h"
#include "codegen/lower.h"

namespace tiny {

int64_t check_number(const Record* r);  // runtime/device.h

namespace {

UOp* any_lane(Op op, UOp* x) { return x->numel == 1 ? x : node(Op::FOLDLANES, x->dtype, {x}, Arg(static_cast<int64_t>(op)), 1).u; }

/// STOREs of {number and value, value} where `bad`, unless the record holds a fault already. With several lanes, the greatest bad value.
/// Threads that find faults of different CHECKs at once must not mix them: a store of one word is whole. The second word serves values of
/// more than 32 bits.
void record_fault(UOp* record, UOp* value, UOp* bad, const Record* check, std::vector<UOp*>* stores) {
  U seen = cast(value, DType::i64);
  if (seen->numel > 1 || bad->numel > 1) {
    seen = where(bad, seen, const_(DType::i64, INT64_MIN));
    seen = any_lane(Op::MAX, seen), bad = any_lane(Op::OR, bad);
  }
  auto field = [record](int64_t i) { return node(Op::INDEX, DType::i64, {record, index_const(i)}); };
  U before = node(Op::LOAD, DType::i64, {field(0), bad, const_(DType::i64, 1)});
  U gate = U(bad) & alu(Op::CMPEQ, {before, const_(DType::i64, 0)});
  U least = const_(DType::i64, int64_t{INT32_MIN}), greatest = const_(DType::i64, int64_t{INT32_MAX});
  U low = alu(Op::AND, {U(alu(Op::MAX, {U(alu(Op::MIN, {seen, greatest})), least})), const_(DType::i64, int64_t{UINT32_MAX})});
  UOp* values[] = {low + (check_number(check) << 32), seen};
  for (int64_t i = 0; i < 2; ++i) stores->push_back(node(Op::STORE, DType::void_, {field(i), values[i], gate}));
}

}  // namespace

UOp* lower_checks(UOp* sink, int64_t record_number) {
  std::vector<UOp*> nodes = toposort({&sink, 1}), faults;
  bool any = false;
  for (UOp* u : nodes) any |= u->is(Op::CHECK);
  if (!any) return sink;
  UOp* record = node(Op::PARAM, DType::i64, {index_const(4)}, Arg(record_number), 1);
  sink = rebuild(sink, [&](UOp* u, std::span<UOp* const> src) -> UOp* {
    if (!u->is(Op::CHECK)) return nullptr;
    record_fault(record, src[0], alu(Op::NOT, {src[1]}), u->arg.rec, &faults);
    return where(src[1], src[0], const_(u->dtype, 0));
  });
  std::vector<UOp*> stores(sink->src, sink->src + sink->nsrc);
  stores.insert(stores.end(), faults.begin(), faults.end());
  return node(Op::SINK, DType::void_, stores, {}, 1);
}

}  // namespace tiny
