// CUDA graphs of programs that are replayed: one call for a list of launches, whose arguments are changed where they differ.
#pragma once
#include <memory>
#include <unordered_dense/unordered_dense.h>
#include <vector>

#include "runtime/cuda/executable.h"

namespace tiny::cuda {

/// A stretch of a program's launches: kernels and copies, no builtins.
class ReplayGraph {
 public:
  ReplayGraph(size_t begin, size_t end, const Submission& work, Context context);
  ~ReplayGraph();
  ReplayGraph(const ReplayGraph&) = delete;

  void launch(const Submission& work, Stream stream);
  size_t end() const { return end_; }

 private:
  void add_nodes(const Submission& work);
  GraphNode add(const Launch& l, const Submission& work, const std::vector<GraphNode>& after) const;
  bool same_arguments(const Launch& l, const Submission& work) const;
  void change(GraphNode node, const Launch& l, const Submission& work) const;

  size_t begin_, end_;
  Context context_;
  Graph graph_ = nullptr;            // lives as long as its nodes are named
  GraphExec exec_ = nullptr;
  std::vector<GraphNode> nodes_;     // by launch
  std::vector<void*> buffers_;       // the arguments that the nodes have: of the whole submission
  std::vector<uint64_t> scalars_;
};

/// The graphs of the programs that this device replays.
class ReplayGraphs {
 public:
  explicit ReplayGraphs(Context context) : context_(context) {}
  /// The graphs for the program of `work`, by the launch where each begins; null until it was submitted some times.
  using Graphs = ankerl::unordered_dense::map<size_t, std::unique_ptr<ReplayGraph>>;
  const Graphs* find(const Submission& work);

 private:
  struct Known {
    std::weak_ptr<const void> owner;   // of the launches: their address may become another program's
    int submitted = 0;
    Graphs graphs;
  };
  void build(Known& known, const Submission& work) const;
  void forget_dead();

  Context context_;
  ankerl::unordered_dense::map<const void*, std::unique_ptr<Known>> known_;
  size_t sweep_at_ = 64;
};

}  // namespace tiny::cuda
