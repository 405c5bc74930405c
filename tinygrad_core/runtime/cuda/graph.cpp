#include "runtime/cuda/graph.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"

namespace tiny::cuda {
namespace {

constexpr int kReplaysBefore = 2;   // submissions one by one, before a program is worth a graph
constexpr size_t kLeastNodes = 4;   // launches that cost less one by one
constexpr size_t kManyEdges = 16;   // between two batches, from which on they meet in an empty node

bool in_graph(const Launch& l) { return !l.builtin && (l.kernel || l.bytes); }

MemoryCopy copy_of(const Launch& l, void* const* buffers) {
  MemoryCopy c{};
  c.from.memory_type = c.to.memory_type = kDeviceMemory;
  c.to.device = address(buffers[0]), c.from.device = address(buffers[1]);
  c.width = l.bytes, c.height = c.depth = 1;
  return c;
}

size_t buffers_of(const Launch& l) { return l.kernel ? l.kernel->info.params.size() : 2; }
size_t scalars_of(const Launch& l) { return l.kernel ? static_cast<size_t>(l.kernel->info.scalars) : 0; }

}  // namespace

ReplayGraph::ReplayGraph(size_t begin, size_t end, const Submission& work, Context context)
    : begin_(begin), end_(end), context_(context), buffers_(work.buffers), scalars_(work.scalars) {
  try {
    TINY_CUDA(cuGraphCreate, &graph_, 0u);
    add_nodes(work);
    TINY_CUDA(cuGraphInstantiateWithFlags, &exec_, graph_, 0ull);
  } catch (...) {
    if (graph_) driver().cuGraphDestroy(graph_);
    throw;
  }
}

ReplayGraph::~ReplayGraph() {
  driver().cuGraphExecDestroy(exec_);
  driver().cuGraphDestroy(graph_);
}

/// Launches of one batch run side by side, after all of the batch before.
void ReplayGraph::add_nodes(const Submission& work) {
  const std::vector<Launch>& launches = *work.launches;
  std::vector<GraphNode> before, batch;
  for (size_t i = begin_; i < end_; ++i) {
    if (i > begin_ && launches[i].batch != launches[i - 1].batch) {
      before = std::exchange(batch, {});
      size_t next = i;
      while (next < end_ && launches[next].batch == launches[i].batch) ++next;
      if (before.size() > 1 && before.size() * (next - i) > kManyEdges) {
        GraphNode meet = nullptr;
        TINY_CUDA(cuGraphAddEmptyNode, &meet, graph_, before.data(), before.size());
        before = {meet};
      }
    }
    nodes_.push_back(add(launches[i], work, before));
    batch.push_back(nodes_.back());
  }
}

GraphNode ReplayGraph::add(const Launch& l, const Submission& work, const std::vector<GraphNode>& after) const {
  void* const* buffers = work.buffers.data() + l.first_buffer;
  GraphNode made = nullptr;
  if (l.kernel) {
    SmallVec<void*, 32> parameters;
    KernelNode k = static_cast<const CudaExecutable&>(*l.kernel).node(buffers, work.scalars.data() + l.first_scalar, parameters);
    check(driver().cuGraphAddKernelNode_v2(&made, graph_, after.data(), after.size(), &k), "cuGraphAddKernelNode",
          l.kernel->info.name.c_str());
  } else {
    MemoryCopy c = copy_of(l, buffers);
    TINY_CUDA(cuGraphAddMemcpyNode, &made, graph_, after.data(), after.size(), &c, context_);
  }
  return made;
}

bool ReplayGraph::same_arguments(const Launch& l, const Submission& work) const {
  const size_t b = static_cast<size_t>(l.first_buffer), s = static_cast<size_t>(l.first_scalar);
  return !std::memcmp(&buffers_[b], &work.buffers[b], buffers_of(l) * sizeof(void*)) &&
         (!scalars_of(l) || !std::memcmp(&scalars_[s], &work.scalars[s], scalars_of(l) * sizeof(uint64_t)));
}

void ReplayGraph::change(GraphNode node, const Launch& l, const Submission& work) const {
  void* const* buffers = work.buffers.data() + l.first_buffer;
  if (l.kernel) {
    SmallVec<void*, 32> parameters;
    KernelNode k = static_cast<const CudaExecutable&>(*l.kernel).node(buffers, work.scalars.data() + l.first_scalar, parameters);
    check(driver().cuGraphExecKernelNodeSetParams_v2(exec_, node, &k), "cuGraphExecKernelNodeSetParams", l.kernel->info.name.c_str());
  } else {
    MemoryCopy c = copy_of(l, buffers);
    TINY_CUDA(cuGraphExecMemcpyNodeSetParams, exec_, node, &c, context_);
  }
}

void ReplayGraph::launch(const Submission& work, Stream stream) {
  int changed = 0;
  for (size_t i = begin_; i < end_; ++i) {
    const Launch& l = (*work.launches)[i];
    if (same_arguments(l, work)) continue;
    change(nodes_[i - begin_], l, work);
    ++changed;
  }
  if (changed) buffers_ = work.buffers, scalars_ = work.scalars;
  TINY_LOG(3, device, "graph of {} launches, {} with other arguments than before", end_ - begin_, changed);
  TINY_CUDA(cuGraphLaunch, exec_, stream);
}

const ReplayGraphs::Graphs* ReplayGraphs::find(const Submission& work) {
  if (work.launches->size() < kLeastNodes) return nullptr;
  std::unique_ptr<Known>& slot = known_[work.launches];
  if (!slot || slot->owner.expired()) {
    slot = std::make_unique<Known>();
    slot->owner = work.keep;
    if (known_.size() >= sweep_at_) forget_dead();
    return nullptr;
  }
  if (++slot->submitted < kReplaysBefore) return nullptr;
  if (slot->submitted == kReplaysBefore) build(*slot, work);
  return &slot->graphs;
}

void ReplayGraphs::build(Known& known, const Submission& work) const {
  const std::vector<Launch>& launches = *work.launches;
  try {
    for (size_t begin = 0; begin < launches.size();) {
      size_t end = begin;
      while (end < launches.size() && in_graph(launches[end])) ++end;
      if (end - begin >= kLeastNodes) known.graphs.emplace(begin, std::make_unique<ReplayGraph>(begin, end, work, context_));
      begin = std::max(end, begin + 1);
    }
  } catch (const Error& e) {
    known.graphs.clear();
    TINY_LOG(1, device, "launches stay single: {}", e.what());
  }
}

void ReplayGraphs::forget_dead() {
  std::erase_if(known_, [](const auto& entry) { return entry.second->owner.expired(); });
  sweep_at_ = std::max<size_t>(64, 2 * known_.size());
}

}  // namespace tiny::cuda
