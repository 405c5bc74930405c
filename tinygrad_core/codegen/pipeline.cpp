#include "codegen/pipeline.h"

#include <algorithm>
#include <chrono>

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "codegen/decomp.h"
#include "codegen/estimate.h"
#include "codegen/linearize.h"
#include "codegen/lower.h"
#include "codegen/stages.h"
#include "uop/spec.h"
#include "uop/symbolic.h"

namespace tiny {
namespace {

namespace pass {
UOp* simplify_ast(UOp* sink, PassContext&) { return simplify(sink); }
UOp* estimate_cost(UOp* sink, PassContext& c) { return estimate(sink, c.info), sink; }
UOp* choose_options(UOp* sink, PassContext& c) { return apply_options(sink, c.caps, c.flags, c.choice); }
UOp* lower_checks(UOp* sink, PassContext& c) { return tiny::lower_checks(sink, c.record); }
UOp* lower_folds(UOp* sink, PassContext& c) { return tiny::lower_folds(sink, c.caps); }
UOp* transpose_blocks(UOp* sink, PassContext&) { return transpose_stores(transpose_loads(turn_forwards(sink))); }
UOp* lower_indices(UOp* sink, PassContext&) { return lower_vector_indices(sink); }
UOp* narrow_indices(UOp* sink, PassContext&) { return tiny::narrow_indices(sink); }
UOp* decompose_ops(UOp* sink, PassContext& c) { return decompose(sink, c.caps); }
}  // namespace pass

struct PassRow {
  const char* name;
  Pass run;
  const char* meaning;
};
constexpr PassRow kPasses[] = {
#define PASS(name, meaning) {#name, pass::name, meaning},
#define BEFORE(a, b, why)
#include "codegen/passes.def"
};

constexpr size_t place_of(std::string_view name) {
  size_t i = 0;
  while (i < std::size(kPasses) && name != kPasses[i].name) ++i;
  return i;
}
#define PASS(name, meaning)
#define BEFORE(a, b, why) static_assert(place_of(#a) < place_of(#b) && place_of(#b) < std::size(kPasses), why);
#include "codegen/passes.def"

/// Parameters, groups and scratch, read off the linear list.
void describe(const std::vector<UOp*>& linear, ProgramInfo* info) {
  info->groups = 1, info->lanes = 1;
  std::vector<int64_t> locals;
  const bool barriers = std::any_of(linear.begin(), linear.end(), [](UOp* u) { return u->is(Op::BARRIER); });
  for (UOp* u : linear) {
    size_t number = static_cast<size_t>(u->arg.i);
    switch (u->op) {
      case Op::PARAM:
        if (info->params.size() <= number) info->params.resize(number + 1, ParamInfo{DType::u8, 0, false, false});
        info->params[number].dtype = u->dtype, info->params[number].numel = const_int(u->src[0]);
        break;
      case Op::VAR: info->scalars = std::max(info->scalars, static_cast<int>(u->arg.i) + 1); break;
      case Op::LOCAL:
        if (locals.size() <= number) locals.resize(number + 1);
        TINY_ASSERT(barriers || locals[number] == 0, info->name + ": two LOCAL arrays in one place, and no BARRIER between them");
        locals[number] = std::max(locals[number], const_int(u->src[0]) * itemsize(u->dtype));
        break;
      case Op::RANGE:
        if (range_axis(u) == Axis::Global) info->groups *= const_int(u->src[0]);
        if (range_axis(u) == Axis::Local) info->lanes *= const_int(u->src[0]);
        break;
      case Op::LOAD: case Op::STORE: case Op::COPY: {
        UOp* array = u->src[u->is(Op::COPY) ? 1 : 0]->src[0];
        while (array->is(Op::AFTER)) array = array->src[0];
        if (array->is(Op::PARAM))
          (!u->is(Op::STORE) ? info->params[static_cast<size_t>(array->arg.i)].read
                           : info->params[static_cast<size_t>(array->arg.i)].written) = true;
        break;
      }
      default: break;
    }
  }
  info->scratch_bytes = 0;
  for (int64_t n : locals) info->scratch_bytes += (n + 63) / 64 * 64;
}

int64_t local_lanes(const std::vector<UOp*>& nodes) {
  int64_t n = 1;
  for (UOp* u : nodes)
    if (u->is(Op::RANGE) && range_axis(u) == Axis::Local) n *= const_int(u->src[0]);
  return n;
}

/// The list as text, in its order; nodes by slot.
std::string listing(const std::vector<UOp*>& linear) {
  std::string text;
  int depth = 0;
  for (UOp* u : linear) {
    if (u->is(Op::END)) --depth;
    text += fmt::format("{:{}}%{} = {}.{}[{}] {}", "", 2 * depth, u->slot, info(u->op).name, info(u->dtype).name, u->numel, u->arg.i);
    for (UOp* s : u->sources()) text += fmt::format(" %{}", s->slot);
    text += '\n';
    if (u->is(Op::RANGE) && range_axis(u) != Axis::Global && range_axis(u) != Axis::Local) ++depth;
  }
  return text;
}

/// PARAM number of the error record; takes it off the SINK, if it is there.
int64_t take_record(UOp** sink) {
  int64_t number = 0;
  for (UOp* u : toposort({sink, 1}))
    if (u->is(Op::PARAM)) number = std::max(number, u->arg.i + 1);
  std::vector<UOp*> stores;
  for (UOp* s : (*sink)->sources()) {
    if (s->is(Op::PARAM)) number = s->arg.i;
    else stores.push_back(s);
  }
  *sink = node(Op::SINK, DType::void_, stores, {}, 1);
  return number;
}

double microseconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - t).count();
}

/// `fault` is what the verifier says of what `stage` has made.
void expect_valid(const std::string& fault, const ProgramInfo& info, const char* stage) {
  TINY_ASSERT(fault.empty(), fmt::format("{} after {}: {}", info.name, stage, fault));
}

}  // namespace

Program lower_kernel(UOp* sink, const Caps& caps, std::string name, int flags, int choice) {
  Program p;
  p.info.name = std::move(name);
  int64_t spec = env_int(Env::TINY_SPEC);
  if (spec >= 1) expect_valid(verify_kernel(sink), p.info, "the scheduler");
  PassContext context{caps, flags, &p.info, take_record(&sink), {choice}};
  for (const PassRow& row : kPasses) {
    auto begin = std::chrono::steady_clock::now();
    sink = row.run(sink, context);
    TINY_LOG(3, pass, "{}: {} {:.0f} us, {} nodes", p.info.name, row.name, microseconds_since(begin), toposort({&sink, 1}).size());
    TINY_LOG(6, graph, "{} after {}:\n{}", p.info.name, row.name, print(sink));
    if (spec >= 2) expect_valid(verify_nodes(sink), p.info, row.name);
  }
  p.choices = context.choice.count;
  auto begin = std::chrono::steady_clock::now();
  p.linear = stage_copies(linearize(sink, local_lanes(toposort({&sink, 1}))), caps);
  describe(p.linear, &p.info);
  TINY_LOG(3, pass, "{}: linearize {:.0f} us, {} instructions", p.info.name, microseconds_since(begin), p.linear.size());
  TINY_LOG(6, graph, "{} linear:\n{}", p.info.name, listing(p.linear));
  if (spec >= 1) expect_valid(verify_program(p.linear), p.info, "linearize");
  return p;
}

}  // namespace tiny
