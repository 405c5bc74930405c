// The CUDA device on a driver that is not there: memory is the host's, kernels are functions of this file. What is submitted once, twice
// and then as a graph must compute the same.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/cuda/driver.h"
#include "runtime_kernels.h"

namespace tiny {
namespace {

using namespace cuda;
using testing::bits_of;

/// to[i] = from[i] + scalar: what the kernel "add_GROUPS_INNER" means.
struct FakeFunction {
  std::string name;
  int64_t elements;
  void run(void* to, void* from, double scalar) const {
    for (int64_t i = 0; i < elements; ++i) static_cast<float*>(to)[i] = static_cast<float*>(from)[i] + static_cast<float>(scalar);
  }
};
struct FakeNode {
  const FakeFunction* function = nullptr;
  void *to = nullptr, *from = nullptr;
  double scalar = 0;
  size_t bytes = 0;   // of a copy
  size_t number = 0;
  void run() const {
    if (function) function->run(to, from, scalar);
    else if (bytes) std::memcpy(to, from, bytes);
  }
};
struct FakeGraph {
  std::vector<std::unique_ptr<FakeNode>> nodes;
};
struct FakeExec {
  std::vector<FakeNode> nodes;  // copies: they live on without their graph, but are named by its nodes
};

struct Calls {
  int launches = 0, graph_launches = 0, changes = 0, graphs = 0, execs = 0, edges = 0, empty_nodes = 0;
};
Calls calls;
size_t memory_left = SIZE_MAX;
Result stream_result = 0, instantiate_result = 0;
std::map<std::string, FakeFunction> functions;
std::map<DevicePtr, size_t> blocks;
std::set<const FakeNode*> living;  // nodes of graphs that were not destroyed

void read_parameters(FakeNode& n, const FakeFunction* f, void** parameters) {
  n.function = f, n.to = *static_cast<void**>(parameters[0]), n.from = *static_cast<void**>(parameters[1]);
  std::memcpy(&n.scalar, parameters[2], sizeof n.scalar);
}
const FakeFunction* function_of(Function f) { return reinterpret_cast<const FakeFunction*>(f); }
FakeNode* node_of(GraphNode n) { return reinterpret_cast<FakeNode*>(n); }
FakeNode* add_node(Graph graph, const GraphNode* after, size_t count) {
  auto& nodes = reinterpret_cast<FakeGraph*>(graph)->nodes;
  nodes.push_back(std::make_unique<FakeNode>());
  nodes.back()->number = nodes.size() - 1;
  living.insert(nodes.back().get());
  for (size_t i = 0; i < count; ++i) EXPECT_LT(node_of(after[i])->number, nodes.back()->number);
  calls.edges += static_cast<int>(count);
  return nodes.back().get();
}

Driver fake() {
  Driver d;
  d.version = 13000;
  d.cuInit = [](unsigned) { return 0; };
  d.cuDeviceGetCount = [](int* n) { return *n = 1, 0; };
  d.cuDeviceGet = [](int* device, int) { return *device = 0, 0; };
  d.cuDeviceGetAttribute = [](int* v, int which, int) {
    *v = which == kMajor ? 9 : which == kMinor ? 0 : which == kMultiprocessors ? 132 : which == kThreadsPerBlock ? 1024 : 49152;
    return 0;
  };
  d.cuDevicePrimaryCtxRetain = [](Context* c, int) { return *c = reinterpret_cast<Context>(1), 0; };
  d.cuCtxSetCurrent = [](Context) { return 0; };
  d.cuMemGetInfo_v2 = [](size_t* free_bytes, size_t* total) { return *free_bytes = *total = size_t{1} << 40, 0; };
  d.cuMemAlloc_v2 = [](DevicePtr* p, size_t n) {
    if (n > memory_left) return kOutOfMemory;
    *p = reinterpret_cast<DevicePtr>(std::malloc(n));
    blocks[*p] = n;
    return 0;
  };
  d.cuMemFree_v2 = [](DevicePtr p) { return blocks.erase(p), std::free(reinterpret_cast<void*>(p)), 0; };
  d.cuMemHostAlloc = [](void** p, size_t n, unsigned) { return *p = std::malloc(n), 0; };
  d.cuMemcpyHtoDAsync_v2 = [](DevicePtr to, const void* from, size_t n, Stream) {
    return std::memcpy(reinterpret_cast<void*>(to), from, n), 0;
  };
  d.cuMemcpyDtoHAsync_v2 = [](void* to, DevicePtr from, size_t n, Stream) {
    return std::memcpy(to, reinterpret_cast<void*>(from), n), 0;
  };
  d.cuMemcpyDtoDAsync_v2 = [](DevicePtr to, DevicePtr from, size_t n, Stream) {
    return std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), n), 0;
  };
  d.cuModuleLoadData = [](Module* m, const void*) { return *m = reinterpret_cast<Module>(1), 0; };
  d.cuModuleUnload = [](Module) { return 0; };
  d.cuModuleGetFunction = [](Function* f, Module, const char* name) {
    int groups = 0, inner = 0;
    EXPECT_EQ(std::sscanf(name, "add_%d_%d", &groups, &inner), 2) << name;
    FakeFunction& made = functions[name] = {name, int64_t{groups} * inner};
    return *f = reinterpret_cast<Function>(&made), 0;
  };
  d.cuFuncSetAttribute = [](Function, int, int) { return 0; };
  d.cuLaunchKernel = [](Function f, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void** parameters,
                        void**) {
    FakeNode n;
    read_parameters(n, function_of(f), parameters);
    n.run();
    return ++calls.launches, 0;
  };
  d.cuLaunchHostFunc = [](Stream, void (*f)(void*), void* argument) { return f(argument), 0; };
  d.cuStreamCreate = [](Stream* s, unsigned) { return *s = reinterpret_cast<Stream>(1), 0; };
  d.cuStreamSynchronize = [](Stream) { return stream_result; };
  d.cuEventCreate = [](DriverEvent* e, unsigned) { return *e = reinterpret_cast<DriverEvent>(1), 0; };
  d.cuEventRecord = [](DriverEvent, Stream) { return 0; };
  d.cuEventQuery = [](DriverEvent) { return stream_result; };
  d.cuEventSynchronize = [](DriverEvent) { return stream_result; };
  d.cuGraphCreate = [](Graph* g, unsigned) { return ++calls.graphs, *g = reinterpret_cast<Graph>(new FakeGraph), 0; };
  d.cuGraphDestroy = [](Graph g) {
    auto* graph = reinterpret_cast<FakeGraph*>(g);
    for (auto& n : graph->nodes) living.erase(n.get());
    return delete graph, 0;
  };
  d.cuGraphAddKernelNode_v2 = [](GraphNode* made, Graph g, const GraphNode* after, size_t n, const KernelNode* k) {
    FakeNode* node = add_node(g, after, n);
    read_parameters(*node, function_of(k->function), k->parameters);
    return *made = reinterpret_cast<GraphNode>(node), 0;
  };
  d.cuGraphAddMemcpyNode = [](GraphNode* made, Graph g, const GraphNode* after, size_t n, const MemoryCopy* c, Context) {
    FakeNode* node = add_node(g, after, n);
    node->to = reinterpret_cast<void*>(c->to.device), node->from = reinterpret_cast<void*>(c->from.device);
    node->bytes = c->width * c->height * c->depth;
    return *made = reinterpret_cast<GraphNode>(node), 0;
  };
  d.cuGraphAddEmptyNode = [](GraphNode* made, Graph g, const GraphNode* after, size_t n) {
    return ++calls.empty_nodes, *made = reinterpret_cast<GraphNode>(add_node(g, after, n)), 0;
  };
  d.cuGraphInstantiateWithFlags = [](GraphExec* e, Graph g, unsigned long long) {
    if (instantiate_result) return instantiate_result;
    auto* made = new FakeExec;
    for (auto& n : reinterpret_cast<FakeGraph*>(g)->nodes) made->nodes.push_back(*n);
    return ++calls.execs, *e = reinterpret_cast<GraphExec>(made), 0;
  };
  d.cuGraphExecDestroy = [](GraphExec e) { return --calls.execs, delete reinterpret_cast<FakeExec*>(e), 0; };
  d.cuGraphExecKernelNodeSetParams_v2 = [](GraphExec e, GraphNode n, const KernelNode* k) {
    if (!living.contains(node_of(n))) return 1;
    read_parameters(reinterpret_cast<FakeExec*>(e)->nodes[node_of(n)->number], function_of(k->function), k->parameters);
    return ++calls.changes, 0;
  };
  d.cuGraphExecMemcpyNodeSetParams = [](GraphExec e, GraphNode n, const MemoryCopy* c, Context) {
    if (!living.contains(node_of(n))) return 1;
    FakeNode& node = reinterpret_cast<FakeExec*>(e)->nodes[node_of(n)->number];
    node.to = reinterpret_cast<void*>(c->to.device), node.from = reinterpret_cast<void*>(c->from.device);
    return ++calls.changes, 0;
  };
  d.cuGraphLaunch = [](GraphExec e, Stream) {
    for (const FakeNode& n : reinterpret_cast<FakeExec*>(e)->nodes) n.run();
    return ++calls.graph_launches, 0;
  };
  // The driver keeps the addresses of its options until the end, and writes its words there.
  static void* log = nullptr;
  d.cuLinkCreate_v2 = [](unsigned n, int*, void** values, LinkState* state) {
    return log = n ? values[0] : nullptr, *state = reinterpret_cast<LinkState>(1), 0;
  };
  d.cuLinkAddData_v2 = [](LinkState, int, void* data, size_t n, const char*, unsigned, int*, void**) {
    EXPECT_EQ(static_cast<const char*>(data)[n - 1], '\0');
    return std::strcpy(static_cast<char*>(log), "ptxas fatal: Unresolved extern function"), 218;
  };
  d.cuLinkDestroy = [](LinkState) { return 0; };
  d.cuGetErrorName = [](Result, const char** text) { return *text = "FAKE_ERROR", 0; };
  d.cuGetErrorString = [](Result, const char** text) { return *text = "a fault of the test", 0; };
  return d;
}

const bool kReady = (setenv("TINY_DEVICE", "CUDA", 1), use_driver(fake()), true);

constexpr int64_t kElements = 64;

class CudaGraph : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(kReady);
    if (!make_ptx_compiler(Caps{.target = "sm_90:ptx83", .has_local = true})) GTEST_SKIP() << "built without LLVM's NVPTX target";
    d = &device(0);
    calls = {}, memory_left = SIZE_MAX, stream_result = instantiate_result = 0;
    ProgramInfo info;
    info.name = "add_1_64", info.scalars = 1, info.lanes = kElements;
    info.params = {{DType::f32, kElements, true, false}, {DType::f32, kElements, false, true}};
    kernel = d->load(info, "");
    for (int i = 0; i < 8; ++i) memory.push_back(d->alloc(kElements * 4));
  }
  void TearDown() override {
    for (Buffer* b : memory) b->release();
  }

  /// A program of `count` additions, each to what the one before made, from memory[first] on.
  std::shared_ptr<std::vector<Launch>> program(int count) {
    auto launches = std::make_shared<std::vector<Launch>>();
    for (int i = 0; i < count; ++i) {
      Launch l;
      l.kernel = kernel.get(), l.first_buffer = 2 * i, l.first_scalar = i, l.batch = i;
      launches->push_back(l);
    }
    return launches;
  }
  void submit(const std::shared_ptr<std::vector<Launch>>& launches, std::vector<int> chain, std::vector<double> terms) {
    auto work = std::make_unique<Submission>();
    work->launches = launches.get(), work->keep = launches;
    for (size_t i = 0; i + 1 < chain.size(); ++i)
      work->buffers.push_back(memory[chain[i + 1]]->ptr), work->buffers.push_back(memory[chain[i]]->ptr);
    for (double t : terms) work->scalars.push_back(bits_of(t));
    d->wait(d->submit(std::move(work), false));
  }
  void set(int i, float v) {
    std::vector<float> all(kElements, v);
    d->copy_in(memory[i], 0, all.data(), kElements * 4);
  }
  float get(int i) {
    std::vector<float> all(kElements);
    d->copy_out(all.data(), memory[i], 0, kElements * 4);
    for (float v : all) EXPECT_EQ(v, all[0]);
    return all[0];
  }

  Device* d = nullptr;
  std::unique_ptr<Executable> kernel;
  std::vector<Buffer*> memory;
};

TEST_F(CudaGraph, AProgramThatIsReplayedBecomesOneLaunch) {
  auto p = program(5);
  for (int step = 0; step < 6; ++step) {
    set(0, static_cast<float>(step));
    submit(p, {0, 1, 2, 3, 4, 5}, {1, 2, 3, 4, 5});
    EXPECT_EQ(get(5), static_cast<float>(step + 15));
  }
  EXPECT_EQ(calls.launches, 10) << "the first two";
  EXPECT_EQ(calls.graph_launches, 4);
  EXPECT_EQ(calls.graphs, 1);
  EXPECT_EQ(calls.changes, 0) << "nothing differs from step to step";
  EXPECT_EQ(calls.edges, 4) << "one after the other";
}

TEST_F(CudaGraph, ArgumentsThatDifferAreChangedAndNoOthers) {
  auto p = program(5);
  set(0, 10);
  for (int step = 0; step < 5; ++step) {
    bool turned = step % 2;
    submit(p, {0, 1, 2, turned ? 6 : 3, 4, 5}, {1, 2, 3, 4, static_cast<double>(step)});
    EXPECT_EQ(get(5), static_cast<float>(20 + step)) << step;
  }
  EXPECT_EQ(calls.graph_launches, 3);
  EXPECT_EQ(calls.changes, 2 * 3) << "two launches that name the other buffer, one with the other number; twice";
}

TEST_F(CudaGraph, HostFunctionsStandBetweenGraphs) {
  auto p = program(9);
  static int called = 0;
  called = 0;
  Launch host;
  host.builtin = [](void* const*, const uint64_t*, const int64_t*, Device&) { ++called; };
  p->insert(p->begin() + 4, host);
  for (int step = 0; step < 4; ++step) {
    set(0, static_cast<float>(step));
    submit(p, {0, 1, 2, 3, 4, 5, 1, 2, 3, 4}, {1, 1, 1, 1, 1, 1, 1, 1, 1});
    EXPECT_EQ(get(4), static_cast<float>(step + 9));
  }
  EXPECT_EQ(called, 4);
  EXPECT_EQ(calls.graphs, 2);
  EXPECT_EQ(calls.graph_launches, 4);
}

TEST_F(CudaGraph, CopiesAreNodes) {
  auto p = program(4);
  Launch copy;
  copy.bytes = kElements * 4, copy.first_buffer = 8, copy.batch = 4;
  p->push_back(copy);
  for (int step = 0; step < 4; ++step) {
    set(0, static_cast<float>(step));
    auto work = std::make_unique<Submission>();
    work->launches = p.get(), work->keep = p;
    for (int i = 0; i < 4; ++i) work->buffers.push_back(memory[i + 1]->ptr), work->buffers.push_back(memory[i]->ptr);
    int to = step % 2 ? 6 : 7;
    work->buffers.push_back(memory[to]->ptr), work->buffers.push_back(memory[4]->ptr);
    work->scalars.assign(4, bits_of(1.0));
    d->wait(d->submit(std::move(work), false));
    EXPECT_EQ(get(to), static_cast<float>(step + 4));
  }
  EXPECT_EQ(calls.graph_launches, 2);
}

TEST_F(CudaGraph, IndependentLaunchesRunSideBySide) {
  auto p = program(12);
  for (size_t i = 0; i < p->size(); ++i) (*p)[i].batch = i < 6 ? 0 : 1, (*p)[i].first_buffer = 0;
  for (int step = 0; step < 3; ++step) submit(p, {0, 1}, std::vector<double>(12, 1.0));
  EXPECT_EQ(calls.graph_launches, 1);
  EXPECT_EQ(calls.empty_nodes, 1);
  EXPECT_EQ(calls.edges, 6 + 6) << "not each with each";
}

TEST_F(CudaGraph, GraphsGoWithTheirPrograms) {
  for (int round = 0; round < 200; ++round) {
    auto p = program(5);
    for (int step = 0; step < 3; ++step) submit(p, {0, 1, 2, 3, 4, 5}, {1, 2, 3, 4, 5});
  }
  EXPECT_EQ(calls.graphs, 200) << "a new program at an old one's address is a new program";
  EXPECT_LT(calls.execs, 130);
}

TEST_F(CudaGraph, WhatMakesNoGraphRunsAsBefore) {
  instantiate_result = 1;
  auto p = program(5);
  for (int step = 0; step < 5; ++step) {
    set(0, static_cast<float>(step));
    submit(p, {0, 1, 2, 3, 4, 5}, {1, 2, 3, 4, 5});
    EXPECT_EQ(get(5), static_cast<float>(step + 15));
  }
  EXPECT_EQ(calls.launches, 25);
  EXPECT_EQ(calls.graph_launches, 0);
}

TEST_F(CudaGraph, UsableAfterOutOfMemory) {
  memory_left = 1 << 20;
  try {
    d->alloc(size_t{1} << 34)->release();
    ADD_FAILURE() << "there is no such memory";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::OutOfMemory);
  }
  memory_left = SIZE_MAX;
  auto p = program(5);
  set(0, 1);
  submit(p, {0, 1, 2, 3, 4, 5}, {1, 2, 3, 4, 5});
  EXPECT_EQ(get(5), 16);
}

TEST_F(CudaGraph, AKernelThatDoesNotCompileIsNamed) {
  testing::ListBuilder b;
  testing::fill_add_kernel(b, "add_2_32", 2, 32);
  try {
    d->compiler().compile(b.program);
    ADD_FAILURE() << "the driver refuses everything";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::Compile);
    EXPECT_NE(std::string(e.what()).find("add_2_32"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("Unresolved extern"), std::string::npos) << e.what();
  }
}

TEST_F(CudaGraph, AFaultNamesTheKernel) {
  auto p = program(5);
  stream_result = 700;
  try {
    submit(p, {0, 1, 2, 3, 4, 5}, {1, 2, 3, 4, 5});
    ADD_FAILURE() << "the fault was not raised";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("add_1_64"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("a fault of the test"), std::string::npos) << e.what();
  }
  stream_result = 0;
}

}  // namespace
}  // namespace tiny
