// Schedules as a device would run them: every kernel lowered for its Caps and run by the interpreter.
#pragma once
#include <functional>
#include <set>

#include "codegen_kernels.h"
#include "graph_eval.h"
#include "schedule/schedule.h"
#include "uop/graph.h"

namespace tiny::testing {

inline std::vector<UOp*> nodes_below(UOp* root) {
  std::vector<UOp*> out;
  std::set<UOp*> seen;
  std::function<void(UOp*)> visit = [&](UOp* u) {
    if (!seen.insert(u).second) return;
    for (UOp* s : u->sources()) visit(s);
    u->slot = static_cast<uint32_t>(out.size());
    out.push_back(u);
  };
  visit(root);
  return out;
}

/// The value of `t` by its schedule for these caps, of kernels and copies alone. `look` sees each Program.
inline Value run_schedule(const Tensor& t, const Caps& caps, const std::function<void(const Program&)>& look = {}) {
  std::vector<UOp*> nodes = nodes_below(t.node());
  std::vector<int> roots{static_cast<int>(nodes.size()) - 1};
  std::vector<int64_t> leaf_bytes;
  std::vector<bool> donated;
  std::vector<void*> leaves;
  for (UOp* u : nodes)
    if (u->is(Op::BUFFER)) {
      leaf_bytes.push_back(static_cast<int64_t>(u->arg.buf->nbytes)), donated.push_back(false);
      leaves.push_back(u->arg.buf->ptr);
    }
  auto s = make_schedule(nodes, roots, leaf_bytes, donated, caps);
  std::vector<std::vector<uint8_t>> memory;
  std::vector<void*> at;
  for (const ScheduledBuffer& b : s->buffers) {
    memory.emplace_back(static_cast<size_t>(b.nbytes) + 64);
    at.push_back(b.kind == ScheduledBuffer::Leaf ? leaves[static_cast<size_t>(b.number)] : memory.back().data());
  }
  IrScope scope(s->arena);
  for (const ScheduledItem& i : s->items) {
    std::vector<void*> buffers;
    for (int b : i.buffers) buffers.push_back(at[static_cast<size_t>(b)]);
    if (i.kind == ScheduledItem::Copy) std::memcpy(buffers[0], buffers[1], static_cast<size_t>(i.ints[0]));
    if (i.kind == ScheduledItem::Copy) continue;
    EXPECT_EQ(i.kind, ScheduledItem::Kernel);
    Program p = lower_kernel(i.sink, caps, i.name);
    EXPECT_EQ(verify_program(p.linear), "");
    if (look) look(p);
    Interpreter(p.info, p.linear).run(buffers.data(), nullptr);
  }
  return load_value(t.dtype(), t.numel(), at[static_cast<size_t>(s->outputs[0])]);
}

}  // namespace tiny::testing
