#include "runtime/ref/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>

#include "base/error.h"
#include "codegen/block.h"
#include "unordered_dense/unordered_dense.h"
#include "uop/eval.h"

namespace tiny {
namespace {

/// Where a value is: `lanes` registers from `at` on.
struct Place {
  int at = -1;
  int lanes = 0;
  int lane(int i) const { return at + (lanes == 1 ? 0 : i); }
};

struct Array {
  bool local;
  int number;
  DType dtype;
  int64_t length;
};

struct Step {
  Op op;
  DType dtype, source;   // source: of the first operand
  Place to;
  SmallVec<Place, 3> from;
  int64_t arg = 0;
  int array = -1;        // LOAD, STORE, BLOCK; COPY: to
  int from_array = -1;   // COPY. Its `from` = index to, index from, gate
  bool gated = false;    // LOAD: from = index, gate, other. STORE: from = index, value, gate
  int match = -1;        // RANGE and END: the other one
};

struct Fixed {           // a value that stays the same in the whole run
  int at;
  Arg value;
};
struct Digit {           // a Global or Local range
  int at;
  int64_t extent;
};

}  // namespace

struct Interpreter::Code {
  ProgramInfo info;
  std::vector<Step> steps;
  std::vector<Array> arrays;
  std::vector<Fixed> constants;
  std::vector<Digit> globals, locals;
  int registers = 0;

  // ---- making the code
  ankerl::unordered_dense::map<const UOp*, Place> places;
  ankerl::unordered_dense::map<const UOp*, int> array_of;
  ankerl::unordered_dense::map<const UOp*, int> opened;  // RANGE -> its step

  Place place(const UOp* u) const {
    auto found = places.find(u);
    TINY_ASSERT(found != places.end(), fmt::format("{}: an operand stands behind its use:\n{}", info.name, print(u)));
    return found->second;
  }
  Place make_place(const UOp* u) {
    Place p{registers, static_cast<int>(std::max<int64_t>(u->numel, 1))};
    registers += p.lanes;
    return places[u] = p;
  }
  Step& add(const UOp* u) {
    steps.push_back({u->op, u->dtype, u->nsrc ? u->src[0]->dtype : u->dtype, {}, {}, u->arg.i});
    return steps.back();
  }
  void translate(const UOp* u);
  void translate_range(const UOp* u);
  void translate_access(const UOp* u);
  void translate_after(const UOp* u);
  void translate_block(const UOp* u);
  void translate_copy(const UOp* u);
};

void Interpreter::Code::translate(const UOp* u) {
  switch (u->op) {
    case Op::NOOP: return;
    case Op::CONST: {
      Place p = make_place(u);
      for (int i = 0; i < p.lanes; ++i) constants.push_back({p.at + i, u->arg});
      return;
    }
    case Op::PARAM:
    case Op::LOCAL:
      array_of[u] = static_cast<int>(arrays.size());
      return void(arrays.push_back({u->is(Op::LOCAL), static_cast<int>(u->arg.i), u->dtype, const_int(u->src[0])}));
    case Op::INDEX: return;  // part of its LOAD or STORE
    case Op::RANGE: return translate_range(u);
    case Op::LOAD:
    case Op::STORE: return translate_access(u);
    case Op::AFTER: return translate_after(u);
    case Op::END: {
      auto range = opened.find(u->src[0]);
      TINY_ASSERT(range != opened.end(), info.name + ": END of a loop that is not open");
      Step& s = add(u);
      s.match = range->second;
      s.to = steps[s.match].to, s.from = steps[s.match].from;
      steps[s.match].match = static_cast<int>(steps.size()) - 1;
      return;
    }
    case Op::UPDATE: {
      Step& s = add(u);
      s.to = place(u->src[0]);
      s.from.push_back(place(u->src[1]));
      places[u] = s.to;
      return;
    }
    case Op::ACC: {
      Step& s = add(u);
      s.from.push_back(place(u->src[0]));
      s.to = make_place(u);
      return;
    }
    case Op::BARRIER: case Op::COMMIT: case Op::WAIT: return void(add(u));
    case Op::BLOCK: return translate_block(u);
    case Op::COPY: return translate_copy(u);
    case Op::VAR:
    case Op::LANES:
    case Op::LANE:
    case Op::FOLDLANES:
    case Op::STACK: break;
    default: TINY_ASSERT(is_elementwise(u->op), fmt::format("{}: no place in a linear list for\n{}", info.name, print(u)));
  }
  Step& s = add(u);
  for (const UOp* x : u->sources()) s.from.push_back(place(x));
  s.to = make_place(u);
}

void Interpreter::Code::translate_range(const UOp* u) {
  Axis axis = range_axis(u);
  if (axis == Axis::Global || axis == Axis::Local)
    return void((axis == Axis::Global ? globals : locals).push_back({make_place(u).at, const_int(u->src[0])}));
  bool loops = axis == Axis::Loop || axis == Axis::Reduce || axis == Axis::GroupReduce;
  TINY_ASSERT(loops, info.name + ": a RANGE that codegen should have expanded");
  Step& s = add(u);
  s.from.push_back(place(u->src[0]));
  s.to = make_place(u);
  opened[u] = static_cast<int>(steps.size()) - 1;
}

void Interpreter::Code::translate_access(const UOp* u) {
  const UOp* index = u->src[0];
  TINY_ASSERT(index->is(Op::INDEX), fmt::format("{}: {} without INDEX", info.name, tiny::info(u->op).name));
  auto array = array_of.find(index->src[0]);
  TINY_ASSERT(array != array_of.end(), fmt::format("{}: INDEX of what is no array:\n{}", info.name, print(index)));
  Step& s = add(u);
  s.array = array->second;
  s.from.push_back(place(index->src[1]));
  for (const UOp* x : u->sources().subspan(1)) s.from.push_back(place(x));
  s.gated = u->nsrc == 3;
  int64_t lanes = 1;
  if (u->is(Op::LOAD)) s.to = make_place(u), lanes = s.to.lanes;
  for (Place p : s.from) lanes = std::max<int64_t>(lanes, p.lanes);
  s.to.lanes = static_cast<int>(lanes);
  TINY_ASSERT((u->is(Op::LOAD) ? u->dtype : u->src[1]->dtype) == arrays[s.array].dtype,
              fmt::format("{}: dtype differs from that of the array:\n{}", info.name, print(u)));
}

void Interpreter::Code::translate_block(const UOp* u) {
  Step& s = add(u);
  s.array = array_of.at(u->src[0]->src[0]);
  TINY_ASSERT(array_of.at(u->src[1]->src[0]) == s.array, info.name + ": the tiles of a BLOCK in two arrays");
  for (const UOp* x : {u->src[0]->src[1], u->src[1]->src[1], u->src[2]}) s.from.push_back(place(x));
  s.to = make_place(u);
}

void Interpreter::Code::translate_copy(const UOp* u) {
  Step& s = add(u);
  s.array = array_of.at(u->src[0]->src[0]), s.from_array = array_of.at(u->src[1]->src[0]);
  s.from.push_back(place(u->src[0]->src[1])), s.from.push_back(place(u->src[1]->src[1]));
  if ((s.gated = u->nsrc == 3)) s.from.push_back(place(u->src[2]));
  s.to.lanes = static_cast<int>(u->numel);
}

void Interpreter::Code::translate_after(const UOp* u) {
  if (auto array = array_of.find(u->src[0]); array != array_of.end()) {
    int number = array->second;
    array_of[u] = number;
    return;
  }
  Step& s = add(u);
  s.from.push_back(place(u->src[0]));
  s.to = make_place(u);
}

Interpreter::Interpreter(const ProgramInfo& info, const std::vector<UOp*>& linear) : code_(std::make_unique<Code>()) {
  code_->info = info;
  for (const UOp* u : linear) code_->translate(u);
  for (const Step& s : code_->steps) TINY_ASSERT(s.op != Op::RANGE || s.match >= 0, info.name + ": a loop without END");
}

Interpreter::~Interpreter() = default;

// ---- running

class Interpreter::Run {
 public:
  Run(const Code& code, void* const* buffers, const uint64_t* scalars) : code_(code), scalars_(scalars) {
    for (const Digit& d : code.locals) lanes_ *= static_cast<int>(d.extent);
    for (const Array& a : code.arrays) {
      if (!a.local) {
        memory_.push_back(static_cast<char*>(buffers[a.number]));
        continue;
      }
      local_.emplace_back(new char[static_cast<size_t>(a.length * itemsize(a.dtype))]);
      memory_.push_back(local_.back().get());
    }
    writers_.resize(code.arrays.size());
    registers_.resize(static_cast<size_t>(code.registers) * lanes_);
    asleep_.assign(lanes_, -1);
    batches_.resize(lanes_);
    for (int lane = 0; lane < lanes_; ++lane) {
      for (const Fixed& c : code.constants) reg(lane, c.at) = c.value;
      set_digits(code.locals, lane, lane);
    }
  }

  void group(int64_t number) {
    for (int lane = 0; lane < lanes_; ++lane) set_digits(code_.globals, number, lane);
    for (auto& batches : batches_) batches.assign(1, {});
    for (size_t a = 0; a < code_.arrays.size(); ++a) {
      const Array& array = code_.arrays[a];
      if (!array.local) continue;
      std::memset(memory_[a], 0xFF, static_cast<size_t>(array.length * itemsize(array.dtype)));  // NaN, so that a read before a write shows
      if (lanes_ > 1) writers_[a].assign(static_cast<size_t>(array.length), -1);
    }
    for (int at = 0; at < static_cast<int>(code_.steps.size());) at = step(at);
  }

 private:
  Arg& reg(int lane, int at) { return registers_[static_cast<size_t>(lane) * code_.registers + at]; }

  void set_digits(const std::vector<Digit>& digits, int64_t number, int lane) {
    for (size_t i = digits.size(); i-- > 0; number /= digits[i].extent) reg(lane, digits[i].at) = Arg(number % digits[i].extent);
  }

  /// Runs one step on every lane that is awake; the step to go on with.
  int step(int at) {
    const Step& s = code_.steps[at];
    if (s.op == Op::RANGE) return begin_loop(s, at);
    if (s.op == Op::END) return end_loop(s, at);
    if (s.op == Op::BARRIER || s.op == Op::BLOCK)
      for (int lane = 0; lane < lanes_; ++lane)
        if (asleep_[lane] >= 0) fail(fmt::format("lane {} never reaches a barrier that others wait at", lane));
    if (s.op == Op::BARRIER) {
      for (auto& w : writers_) std::fill(w.begin(), w.end(), -1);
      return at + 1;
    }
    for (int lane = 0; lane < lanes_; ++lane)
      if (asleep_[lane] < 0) compute(s, lane);
    return at + 1;
  }

  /// A lane whose loop has ended sleeps until the others' have: asleep_ holds the loop's step.
  int begin_loop(const Step& s, int at) {
    for (int lane = 0; lane < lanes_; ++lane) {
      if (asleep_[lane] >= 0) continue;
      reg(lane, s.to.at) = Arg(int64_t{0});
      if (reg(lane, s.from[0].at).i <= 0) asleep_[lane] = at;
    }
    return go_on(at, at + 1, s.match + 1);
  }

  int end_loop(const Step& s, int at) {
    for (int lane = 0; lane < lanes_; ++lane) {
      if (asleep_[lane] >= 0) continue;
      if (++reg(lane, s.to.at).i >= reg(lane, s.from[0].at).i) asleep_[lane] = s.match;
    }
    return go_on(s.match, s.match + 1, at + 1);
  }

  int go_on(int loop, int body, int behind) {
    for (int lane : asleep_)
      if (lane < 0) return body;
    for (int& lane : asleep_)
      if (lane == loop) lane = -1;
    return behind;
  }

  void compute(const Step& s, int lane) {
    switch (s.op) {
      case Op::LOAD: return load(s, lane);
      case Op::STORE: return store(s, lane);
      case Op::VAR: reg(lane, s.to.at).bits = scalars_[s.arg]; return;
      case Op::LANE: reg(lane, s.to.at) = reg(lane, s.from[0].lane(static_cast<int>(s.arg))); return;
      case Op::LANES:
        for (int i = 0; i < s.to.lanes; ++i) reg(lane, s.to.at + i) = Arg(static_cast<int64_t>(i));
        return;
      case Op::STACK:
        for (int i = 0; i < s.to.lanes; ++i) reg(lane, s.to.at + i) = reg(lane, s.from[i].at);
        return;
      case Op::FOLDLANES: return fold_lanes(s, lane);
      case Op::ACC:
      case Op::UPDATE:
      case Op::AFTER: return copy(s, lane);
      case Op::BLOCK: return block(s, lane);
      case Op::COPY: return start_copy(s, lane);
      case Op::COMMIT: return void(batches_[lane].emplace_back());
      case Op::WAIT: return finish_copies(lane, static_cast<size_t>(s.arg));
      default: return elementwise(s, lane);
    }
  }

  void copy(const Step& s, int lane) {
    for (int i = 0; i < s.to.lanes; ++i) reg(lane, s.to.at + i) = reg(lane, s.from[0].lane(i));
  }

  void fold_lanes(const Step& s, int lane) {
    std::vector<Arg> lanes;
    for (int i = 0; i < s.from[0].lanes; ++i) lanes.push_back(reg(lane, s.from[0].at + i));
    auto combine = [&s](Arg a, Arg b) {
      Arg pair[2] = {a, b};
      return eval(static_cast<Op>(s.arg), s.dtype, s.dtype, pair);
    };
    std::optional<Arg> odd;
    while (lanes.size() > 1) {
      size_t half = lanes.size() / 2;
      if (lanes.size() % 2) odd = odd ? combine(*odd, lanes.back()) : lanes.back();
      for (size_t i = 0; i < half; ++i) lanes[i] = combine(lanes[i], lanes[half + i]);
      lanes.resize(half);
    }
    reg(lane, s.to.at) = odd ? combine(lanes[0], *odd) : lanes[0];
  }

  void elementwise(const Step& s, int lane) {
    Arg src[3];
    for (int i = 0; i < s.to.lanes; ++i) {
      for (size_t k = 0; k < s.from.size(); ++k) src[k] = reg(lane, s.from[k].lane(i));
      reg(lane, s.to.at + i) = eval(s.op, s.dtype, s.source, {src, s.from.size()});
    }
  }

  /// Sums of exact products, rounded once: hardware rounds more often, in an order of its own.
  void block(const Step& s, int lane) {
    const Block b = Block::unpack(Arg(s.arg));
    const DType d = code_.arrays[s.array].dtype;
    auto operand = [&](int side, int64_t row, int64_t k) {
      int64_t at = reg(lane, s.from[side].at).i + b.offset<int64_t>(side, row, k);
      uint64_t bits = 0;
      std::memcpy(&bits, address(s, at, "reads"), static_cast<size_t>(itemsize(d)));
      check_written(s, at, lane);
      return from_storage_bits(bits, d).f;
    };
    for (int i = 0; i < s.to.lanes; ++i) {
      auto at = b.position<int64_t>(lane, i);
      double sum = reg(lane, s.from[2].lane(i)).f;
      for (int64_t k = 0; k < b.depth; ++k) sum += operand(0, at.row, k) * operand(1, at.column, k);
      reg(lane, s.to.at + i) = const_arg(DType::f32, sum);
    }
  }

  struct Copied {
    int array;
    int64_t element;
    uint64_t bits;
  };
  /// What a COPY has read is in local memory no sooner than the lane waits for it.
  void start_copy(const Step& s, int lane) {
    const int64_t size = itemsize(code_.arrays[s.array].dtype), to = reg(lane, s.from[0].at).i, from = reg(lane, s.from[1].at).i;
    for (int i = 0; i < s.to.lanes; ++i) {
      uint64_t bits = 0;
      if (!s.gated || reg(lane, s.from[2].at).i)
        std::memcpy(&bits, address(s.from_array, from + i, "reads"), static_cast<size_t>(size));
      address(s.array, to + i, "writes");
      batches_[lane].back().push_back({s.array, to + i, bits});
    }
  }

  /// The last batch is open: COMMIT begins another.
  void finish_copies(int lane, size_t left) {
    auto& batches = batches_[lane];
    for (; batches.size() > left + 1; batches.pop_front())
      for (const Copied& c : batches.front()) {
        const int64_t size = itemsize(code_.arrays[c.array].dtype);
        std::memcpy(memory_[c.array] + c.element * size, &c.bits, static_cast<size_t>(size));
        if (lanes_ > 1) writers_[c.array][static_cast<size_t>(c.element)] = lane;
      }
  }

  int64_t element(const Step& s, int lane, int i) { return reg(lane, s.from[0].lane(i)).i + (s.from[0].lanes == 1 ? i : 0); }

  char* address(const Step& s, int64_t element, const char* verb) { return address(s.array, element, verb); }
  char* address(int array, int64_t element, const char* verb) {
    const Array& a = code_.arrays[array];
    if (element < 0 || element >= a.length)
      fail(fmt::format("{} element {} of {} {}, which has {} of {}", verb, element, a.local ? "local array" : "buffer", a.number, a.length,
                       info(a.dtype).name));
    return memory_[array] + element * itemsize(a.dtype);
  }

  void load(const Step& s, int lane) {
    const Array& a = code_.arrays[s.array];
    for (int i = 0; i < s.to.lanes; ++i) {
      if (s.gated && !reg(lane, s.from[1].lane(i)).i) {
        reg(lane, s.to.at + i) = reg(lane, s.from[2].lane(i));
        continue;
      }
      int64_t at = element(s, lane, i);
      uint64_t bits = 0;
      std::memcpy(&bits, address(s, at, "reads"), static_cast<size_t>(itemsize(a.dtype)));
      check_written(s, at, lane);
      reg(lane, s.to.at + i) = from_storage_bits(bits, a.dtype);
    }
  }

  void store(const Step& s, int lane) {
    const Array& a = code_.arrays[s.array];
    for (int i = 0; i < s.to.lanes; ++i) {
      if (s.gated && !reg(lane, s.from[2].lane(i)).i) continue;
      int64_t at = element(s, lane, i);
      uint64_t bits = storage_bits(reg(lane, s.from[1].lane(i)), a.dtype);
      std::memcpy(address(s, at, "writes"), &bits, static_cast<size_t>(itemsize(a.dtype)));
      if (a.local && lanes_ > 1) writers_[s.array][static_cast<size_t>(at)] = lane;
    }
  }

  void check_written(const Step& s, int64_t element, int lane) {
    if (lanes_ == 1 || !code_.arrays[s.array].local) return;
    int writer = writers_[s.array][static_cast<size_t>(element)];
    if (writer >= 0 && writer != lane)
      fail(fmt::format("lane {} reads element {} of local array {}, which lane {} wrote without a barrier between", lane, element,
                       code_.arrays[s.array].number, writer));
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::Runtime, fmt::format("kernel {} on REF: {}", code_.info.name, what));
  }

  const Code& code_;
  const uint64_t* scalars_;
  int lanes_ = 1;
  std::vector<Arg> registers_;
  std::vector<char*> memory_;                    // by array
  std::vector<std::unique_ptr<char[]>> local_;
  std::vector<std::vector<int>> writers_;        // of local arrays, by element: who wrote it since the last barrier, or -1
  std::vector<std::deque<std::vector<Copied>>> batches_;  // of COPYs, by lane
  std::vector<int> asleep_;                      // by lane: step of the loop that it has left before the others, or -1
};

void Interpreter::run(void* const* buffers, const uint64_t* scalars) const {
  int64_t groups = 1;
  for (const Digit& d : code_->globals) groups *= d.extent;
  const ProgramInfo& info = code_->info;
  TINY_ASSERT(groups == info.groups, fmt::format("{}: {} workgroups, its Global ranges make {}", info.name, info.groups, groups));
  Run run(*code_, buffers, scalars);
  for (int64_t g = 0; g < groups; ++g) run.group(g);
}

}  // namespace tiny
