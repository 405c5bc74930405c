// Trace: a piece of the graph, from the values that go in to those that come out, that is built again on other values at a few
// nanoseconds a node: without the calls of operators that built it first. Needs the graph lock.
#pragma once
#include <vector>

#include "uop/graph.h"

namespace tiny {

class Trace {
 public:
  Trace() = default;
  /// What leads from `inputs` (nodes that stand for values) and `numbers` (SCALARs whose values change from time to time) to `results`.
  /// Other leaves are part of the trace: buffers that are reached stay alive with it.
  Trace(std::span<const Ref> inputs, std::span<const Ref> numbers, std::span<const Ref> results);

  /// The same graph on other values. inputs[k] and numbers[k] take the place of those given first; an input has its dtype and length.
  std::vector<Ref> replay(std::span<UOp* const> inputs, std::span<const uint64_t> numbers) const;

  /// Nodes that a replay makes.
  size_t size() const { return steps_.size(); }

 private:
  /// A node to be made; its sources are values: inputs, kept leaves, then steps in order.
  struct Step {
    Op op;
    DType dtype;
    int32_t number;        // SCALAR: which of `numbers`; -1: its own value
    uint32_t first, count; // in sources_
    int64_t numel;
    Arg arg;
    bool is_memory() const { return op == Op::EMPTY; }  // to write into: not the same as another one
  };
  uint64_t hash_of(const Step& s) const;
  bool same(const Step& a, const Step& b) const;
  std::vector<Step> steps_;
  std::vector<uint32_t> sources_, results_;
  std::vector<Ref> kept_;
  size_t inputs_ = 0;
};

}  // namespace tiny
