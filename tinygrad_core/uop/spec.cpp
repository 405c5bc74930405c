#include "uop/spec.h"

#include <algorithm>

#include "unordered_dense/unordered_dense.h"
#include "uop/linear.h"

namespace tiny {
namespace {

bool scalar(const UOp* u) { return u->numel == 1; }
bool is_index(const UOp* u) { return u->dtype == DType::i64 || u->dtype == DType::i32; }
bool is_array(const UOp* u) {
  while (u->is(Op::AFTER)) u = u->src[0];
  return u->is(Op::PARAM) || u->is(Op::LOCAL);
}
bool names_ranges(const UOp* u) {
  return std::all_of(u->src + 1, u->src + u->nsrc, [](const UOp* r) { return r->is(Op::RANGE); });
}
bool reduces(const UOp* u) { return u->arg.bits < static_cast<uint64_t>(Op::count) && has(static_cast<Op>(u->arg.i), group::Red); }
bool same_dtype(const UOp* u) {
  return std::all_of(u->src, u->src + u->nsrc, [u](const UOp* s) { return s->dtype == u->dtype; });
}
bool gate_at(const UOp* u, int i) { return u->nsrc <= i || is_bool(u->src[i]->dtype); }
bool lanes_agree(const UOp* u) {
  return std::all_of(u->src, u->src + u->nsrc, [u](const UOp* s) { return s->numel == 1 || s->numel == u->numel; });
}

// ---- elementwise operators, by what types they take
bool floats_only(Op op) {
  switch (op) {
    case Op::FLOOR: case Op::CEIL: case Op::TRUNC: case Op::ROUND: case Op::SQRT: case Op::RECIP: case Op::FDIV: return true;
    default: return has(op, group::Trans);
  }
}
bool no_floats(Op op) {
  switch (op) {
    case Op::IDIV: case Op::AND: case Op::OR: case Op::XOR: case Op::NOT: case Op::SHL: case Op::SHR: case Op::THREEFRY: return true;
    default: return false;
  }
}

const char* elementwise_fault(const UOp* u) {
  if (!lanes_agree(u)) return "the sources have other numbers of lanes";
  switch (u->op) {
    case Op::CAST: return u->dtype == DType::void_ || u->src[0]->dtype == DType::void_ ? "void is not a value" : nullptr;
    case Op::BITCAST: return info(u->dtype).bits != info(u->src[0]->dtype).bits ? "BITCAST between different sizes" : nullptr;
    case Op::WHERE:
      if (!is_bool(u->src[0]->dtype)) return "the condition is not bool";
      return u->src[1]->dtype != u->dtype || u->src[2]->dtype != u->dtype ? "the branches have other dtypes" : nullptr;
    case Op::DOT2:
      if (u->src[0]->dtype != DType::u32 || u->src[1]->dtype != DType::u32) return "the pairs are not u32";
      return u->dtype != DType::f32 || u->src[2]->dtype != DType::f32 ? "the sum is not f32" : nullptr;
    default: break;
  }
  DType operand = u->src[0]->dtype;
  if (has(u->op, group::Cmp)) {
    if (!is_bool(u->dtype)) return "a comparison is bool";
    return u->src[1]->dtype != operand ? "comparison of different dtypes" : nullptr;
  }
  if (!same_dtype(u)) return "the sources have other dtypes";
  if (floats_only(u->op) && !is_float(operand)) return "the operator is for floats";
  if (no_floats(u->op) && is_float(operand)) return "the operator is not for floats";
  return operand == DType::void_ ? "void is not a value" : nullptr;
}

// ---- the other operators
const char* unless(bool holds, const char* says) { return holds ? nullptr : says; }

const char* leaf_fault(const UOp* u) {
  switch (u->op) {
    case Op::CONST:
      if (u->dtype == DType::void_ || !scalar(u)) return "a constant is one value";
      return unless(is_float(u->dtype) || const_arg(u->dtype, u->arg.i).i == u->arg.i, "the constant is not one of its dtype");
    case Op::PARAM: case Op::LOCAL: return unless(u->src[0]->is(Op::CONST) && u->arg.i >= 0, "an array takes its length and a number");
    case Op::VAR: return unless(u->dtype == DType::f64 || u->dtype == DType::i64 || u->dtype == DType::u64, "VAR is f64, i64 or u64");
    case Op::RANGE:
      if (range_number(u) < 0 || range_number(u) >= kStandInNumbers) return "a RANGE that stands for another value has leaked";
      if (u->src[0]->dtype != u->dtype) return "RANGE has the dtype of its extent";
      return unless(is_index(u) && scalar(u) && scalar(u->src[0]), "RANGE and its extent are scalar indices");
    case Op::LANES: return unless(is_index(u), "LANES are indices");
    default: return nullptr;
  }
}

const char* memory_fault(const UOp* u) {
  const UOp* first = u->nsrc ? u->src[0] : nullptr;
  switch (u->op) {
    case Op::INDEX:
      if (!is_array(first)) return "INDEX into what is no array";
      if (!is_index(u->src[1])) return "an index is i64 or i32";
      // Until vector indices are lowered, a scalar index may stand for the same element in each lane.
      return unless(u->dtype == first->dtype && (u->numel == u->src[1]->numel || scalar(u->src[1])),
                    "INDEX has the array's dtype and the index's lanes");
    case Op::LOAD:
      if ((u->nsrc != 1 && u->nsrc != 3) || !first->is(Op::INDEX)) return "LOAD takes an INDEX, or INDEX, gate and value";
      if (u->dtype != first->dtype || (u->nsrc == 3 && u->src[2]->dtype != u->dtype)) return "LOAD has the dtype of its INDEX";
      return unless(gate_at(u, 1) && lanes_agree(u), "gate or lanes of a LOAD");
    case Op::STORE:
      if ((u->nsrc != 2 && u->nsrc != 3) || !first->is(Op::INDEX)) return "STORE takes INDEX, value and perhaps a gate";
      if (u->dtype != DType::void_ || u->src[1]->dtype != first->dtype) return "STORE is void, and its value has the dtype of its INDEX";
      return unless(gate_at(u, 2) && lanes_agree(u), "gate or lanes of a STORE");
    case Op::BLOCK:
      if (u->nsrc != 3 || !first->is(Op::INDEX) || !u->src[1]->is(Op::INDEX)) return "BLOCK takes two INDEXes and sums";
      if (first->dtype != u->src[1]->dtype) return "the operands of a BLOCK have one dtype";
      if (u->dtype != DType::f32 || u->src[2]->dtype != DType::f32) return "the sums of a BLOCK are f32";
      return unless(scalar(u->src[2]) || u->src[2]->numel == u->numel, "a BLOCK adds to as many sums as it makes");
    case Op::COPY:
      if ((u->nsrc != 2 && u->nsrc != 3) || !first->is(Op::INDEX) || !u->src[1]->is(Op::INDEX))
        return "COPY takes two INDEXes, perhaps a gate";
      return unless(u->dtype == DType::void_ && first->dtype == u->src[1]->dtype && gate_at(u, 2), "COPY is void, within one dtype");
    case Op::AFTER:
      return unless((is_array(u) || first->is(Op::ACC)) && u->dtype == first->dtype, "AFTER orders an array or an accumulator");
    default: return nullptr;
  }
}

const char* loop_fault(const UOp* u) {
  const UOp* first = u->nsrc ? u->src[0] : nullptr;
  bool keeps = first && u->dtype == first->dtype;
  switch (u->op) {
    case Op::FOLD:
      if (!reduces(u)) return "FOLD by an operator that does not reduce";
      return unless(u->nsrc >= 2 && keeps && names_ranges(u), "FOLD takes a value of its dtype and RANGEs");
    case Op::PREFIX:
      return unless(keeps && names_ranges(u) && reduces(u), "PREFIX takes a value of its dtype, a RANGE and an operator that reduces");
    case Op::ORDERED:
      if (!first->is(Op::STORE) || !names_ranges(u)) return "ORDERED takes a STORE and RANGEs";
      return unless(reduces(u) || static_cast<Op>(u->arg.i) == Op::NOOP, "ORDERED combines by an operator that reduces, or NOOP");
    case Op::CHECK: return unless(keeps && is_bool(u->src[1]->dtype) && u->arg.rec, "CHECK takes a value, a bool and a Record");
    case Op::ACC: return unless(u->nsrc >= 2 && keeps && names_ranges(u), "ACC takes its start and RANGEs");
    case Op::UPDATE: return unless(first->is(Op::ACC) && u->src[1]->dtype == first->dtype, "UPDATE takes an ACC and a value of its dtype");
    case Op::END: return unless(first->is(Op::RANGE), "END closes a RANGE");
    case Op::LANE: return unless(keeps && scalar(u) && u->arg.i >= 0 && u->arg.i < first->numel, "LANE is one of its source's");
    case Op::FOLDLANES: return unless(keeps && scalar(u) && reduces(u), "FOLDLANES makes one value with an operator that reduces");
    case Op::STACK:
      if (u->numel != u->nsrc || !same_dtype(u)) return "STACK has a lane of its dtype for each source";
      return unless(std::all_of(u->src, u->src + u->nsrc, scalar), "STACK takes scalars");
    default: return nullptr;
  }
}

std::string fault(const std::string& says, const UOp* u) { return says + ":\n" + print(u); }

std::string node_fault(const UOp* u) {
  if (!has(u->op, group::Kernel)) return fault("an operator of the tensor graph in a kernel", u);
  if (info(u->op).nsrc >= 0 && info(u->op).nsrc != u->nsrc) return fault("wrong number of sources", u);
  if (info(u->op).nsrc < 0 && u->nsrc == 0 && !u->is(Op::SINK) && !u->is(Op::BARRIER)) return fault("no sources", u);
  if (u->numel < 1) return fault("no lanes", u);
  const char* says = is_elementwise(u->op) ? elementwise_fault(u) : leaf_fault(u);
  if (!says) says = memory_fault(u);
  if (!says) says = loop_fault(u);
  return says ? fault(says, u) : "";
}

bool allowed_in_ast(Op op) {
  switch (op) {
    case Op::LANES: case Op::FOLDLANES: case Op::LANE: case Op::STACK: return false;
    case Op::ACC: case Op::UPDATE: case Op::END: case Op::BARRIER: return false;
    case Op::BLOCK: case Op::COPY: case Op::COMMIT: case Op::WAIT: return false;
    default: return true;
  }
}

/// An affine index of RANGEs with constant extents: its bounds are exact, so it must not leave the array.
bool leaves_array(const UOp* index) {
  const UOp* array = index->src[0];
  while (array->is(Op::AFTER)) array = array->src[0];
  Linear l(index->src[1]->dtype);
  if (!parse_linear(index->src[1], l)) return false;
  for (const Term& t : l.terms)
    if (!t.u->is(Op::RANGE) || !t.u->src[0]->is(Op::CONST) || t.u->src[0]->arg.i < 1) return false;
  WideBounds b = sum_bounds(l);
  return b.lo < 0 || b.hi >= array->src[0]->arg.i;
}

bool in_empty_loop(const std::vector<UOp*>& nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [](const UOp* u) { return u->is(Op::RANGE) && u->src[0]->is_const(0); });
}

}  // namespace

std::string verify_kernel(UOp* sink) {
  if (!sink->is(Op::SINK) || sink->dtype != DType::void_) return fault("a kernel is a SINK", sink);
  std::vector<UOp*> nodes = toposort({&sink, 1});
  ankerl::unordered_dense::map<int64_t, const UOp*> ranges;
  bool empty = in_empty_loop(nodes);
  for (const UOp* s : sink->sources())
    if (!s->is(Op::STORE) && !s->is(Op::ORDERED) && !s->is(Op::PARAM)) return fault("a kernel's roots are STOREs, and the error record", s);
  for (const UOp* u : nodes) {
    if (std::string f = node_fault(u); !f.empty()) return f;
    if (!allowed_in_ast(u->op)) return fault("made by codegen only", u);
    if (u->numel != 1) return fault("no vectors before codegen", u);
    if (u->is(Op::SINK) && u != sink) return fault("a SINK inside", u);
    if (u->is(Op::RANGE)) {
      Axis axis = range_axis(u);
      if (axis != Axis::Global && axis != Axis::Loop && axis != Axis::Reduce) return fault("an axis that codegen chooses", u);
      if (!ranges.emplace(range_number(u), u).second) return fault("two RANGEs with one number", u);
    }
    if (u->is(Op::FOLD) && std::any_of(u->src + 1, u->src + u->nsrc, [](const UOp* r) { return range_axis(r) != Axis::Reduce; }))
      return fault("FOLD over a range that is not Reduce", u);
    bool gated = (u->is(Op::LOAD) && u->nsrc == 3) || (u->is(Op::STORE) && u->nsrc == 3);
    bool access = u->is(Op::LOAD) || u->is(Op::STORE);
    if (access && !gated && !empty && leaves_array(u->src[0])) return fault("an index beyond the array", u);
  }
  return "";
}

std::string verify_nodes(UOp* sink) {
  if (!sink->is(Op::SINK)) return fault("a kernel is a SINK", sink);
  for (const UOp* s : sink->sources())
    if (s->dtype != DType::void_) return fault("a kernel's roots have effects, not values", s);
  ankerl::unordered_dense::set<int64_t> ranges;
  for (const UOp* u : toposort({&sink, 1})) {
    if (std::string f = node_fault(u); !f.empty()) return f;
    if (u->is(Op::RANGE) && !ranges.insert(u->arg.i).second) return fault("two RANGEs with one number and axis", u);
  }
  return "";
}

namespace {

/// Walks a linear list with the loops that are open.
class LinearCheck {
 public:
  std::string run(std::span<UOp* const> linear) {
    for (const UOp* u : linear) {
      const UOp* around = open_.empty() ? nullptr : open_.back();
      std::string f = node_fault(u);
      if (f.empty()) f = contract_fault(u);
      if (f.empty()) f = order_fault(u);
      if (f.empty()) f = scope_fault(u);
      if (!f.empty()) return f;
      if (!place_.emplace(u, around).second) return fault("listed twice", u);
    }
    return open_.empty() ? "" : fault("a loop without END", open_.back());
  }

 private:
  static std::string contract_fault(const UOp* u) {
    switch (u->op) {
      case Op::FOLD: case Op::PREFIX: case Op::ORDERED: case Op::CHECK: case Op::SINK: case Op::THREEFRY: return fault("not lowered", u);
      case Op::CAST: case Op::BITCAST: case Op::WHERE: return "";
      case Op::INDEX: return u->numel == u->src[1]->numel ? "" : fault("INDEX has the index's lanes", u);
      default: break;
    }
    bool reduced = is_reduced_float(u->dtype) || (u->nsrc && is_reduced_float(u->src[0]->dtype));
    return is_elementwise(u->op) && reduced ? fault("arithmetic on a reduced float", u) : "";
  }

  /// Sources come first, in loops that are still open. ACC names loops that open later; AFTER and BARRIER look back into closed ones.
  std::string order_fault(const UOp* u) {
    bool looks_back = u->is(Op::AFTER) || u->is(Op::BARRIER) || u->is(Op::COMMIT) || u->is(Op::WAIT);
    for (int i = 0; i < u->nsrc; ++i) {
      const UOp* s = u->src[i];
      if (u->is(Op::ACC) && i > 0) continue;
      auto at = place_.find(s);
      if (at == place_.end()) return fault("a source that does not come first", u);
      if (looks_back || u->is(Op::END)) continue;
      if (at->second && !is_open(at->second)) return fault("a source in a loop that has ended", u);
      bool loop = s->is(Op::RANGE) && range_axis(s) != Axis::Global && range_axis(s) != Axis::Local;
      if (loop && !is_open(s)) return fault("a RANGE used outside its loop", u);
    }
    return "";
  }

  bool is_open(const UOp* loop) const { return std::find(open_.begin(), open_.end(), loop) != open_.end(); }

  std::string scope_fault(const UOp* u) {
    if (u->is(Op::RANGE)) {
      switch (range_axis(u)) {
        case Axis::Global: case Axis::Local:
          if (!open_.empty() || body_) return fault("Global and Local ranges come before the body", u);
          return u->src[0]->is(Op::CONST) ? "" : fault("Global and Local extents are constant", u);
        case Axis::Loop: case Axis::Reduce:
          open_.push_back(u);
          return "";
        default: return fault("an axis that no renderer sees", u);
      }
    }
    if (u->is(Op::END)) {
      if (open_.empty() || open_.back() != u->src[0]) return fault("END of a loop that is not the innermost open one", u);
      open_.pop_back();
    }
    if (u->is(Op::LOAD) || u->is(Op::STORE) || u->is(Op::ACC)) body_ = true;
    return "";
  }

  std::vector<const UOp*> open_;
  ankerl::unordered_dense::map<const UOp*, const UOp*> place_;  // the loop in which a node stands, null for none
  bool body_ = false;
};

}  // namespace

std::string verify_program(std::span<UOp* const> linear) { return LinearCheck().run(linear); }

}  // namespace tiny
