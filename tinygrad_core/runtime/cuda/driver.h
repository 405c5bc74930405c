// The CUDA driver's interface, loaded from libcuda.so.1 at run time: no toolkit, no header of NVIDIA's.
// Names, types and numbers are those of the CUDA Driver API reference, https://docs.nvidia.com/cuda/cuda-driver-api/.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tiny::cuda {

using Result = int;  // 0: success
using DevicePtr = unsigned long long;
using Context = struct ContextTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Stream = struct StreamTag*;
using DriverEvent = struct EventTag*;
using LinkState = struct LinkTag*;
using Graph = struct GraphTag*;
using GraphNode = struct GraphNodeTag*;
using GraphExec = struct GraphExecTag*;

inline constexpr Result kOutOfMemory = 2, kNotReady = 600;

enum Attribute : int {
  kMultiprocessors = 16, kMajor = 75, kMinor = 76, kL2Bytes = 38, kSharedPerBlock = 8, kThreadsPerBlock = 1, kSharedPerBlockOptIn = 97,
};
enum FunctionAttribute : int { kMaxDynamicShared = 8 };

/// CUDA_KERNEL_NODE_PARAMS_v2: a launch as a node of a graph. The parameters are copied when a node is made or changed.
struct KernelNode {
  Function function;
  unsigned grid[3], block[3], shared_bytes;
  void** parameters;
  void** extra;
  void* kernel;
  Context context;
};

/// CUDA_MEMCPY3D_v2, of which a copy in device memory needs two addresses and a width.
struct MemoryCopy {
  struct End {
    size_t x, y, z, level;
    unsigned memory_type;
    const void* host;
    DevicePtr device;
    void* array;
    void* reserved;
    size_t pitch, height;
  };
  End from, to;
  size_t width, height, depth;
};
inline constexpr unsigned kDeviceMemory = 2;  // CUmemorytype

/// The functions used, by their names with the version that the driver exports.
#define TINY_CUDA_FUNCTIONS(F) \
  F(cuInit, (unsigned flags)) \
  F(cuDriverGetVersion, (int* version)) \
  F(cuDeviceGetCount, (int* count)) \
  F(cuDeviceGet, (int* device, int ordinal)) \
  F(cuDeviceGetName, (char* name, int size, int device)) \
  F(cuDeviceGetAttribute, (int* value, int attribute, int device)) \
  F(cuDevicePrimaryCtxRetain, (Context* context, int device)) \
  F(cuCtxSetCurrent, (Context context)) \
  F(cuMemGetInfo_v2, (size_t* free_bytes, size_t* total_bytes)) \
  F(cuMemAlloc_v2, (DevicePtr* pointer, size_t bytes)) \
  F(cuMemFree_v2, (DevicePtr pointer)) \
  F(cuMemHostAlloc, (void** pointer, size_t bytes, unsigned flags)) \
  F(cuMemcpyHtoDAsync_v2, (DevicePtr to, const void* from, size_t bytes, Stream stream)) \
  F(cuMemcpyDtoHAsync_v2, (void* to, DevicePtr from, size_t bytes, Stream stream)) \
  F(cuMemcpyDtoDAsync_v2, (DevicePtr to, DevicePtr from, size_t bytes, Stream stream)) \
  F(cuModuleLoadData, (Module* module, const void* image)) \
  F(cuModuleUnload, (Module module)) \
  F(cuModuleGetFunction, (Function* function, Module module, const char* name)) \
  F(cuFuncSetAttribute, (Function function, int attribute, int value)) \
  F(cuLaunchKernel, (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
                     unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters, void** extra)) \
  F(cuLaunchHostFunc, (Stream stream, void (*function)(void*), void* argument)) \
  F(cuStreamCreate, (Stream* stream, unsigned flags)) \
  F(cuStreamSynchronize, (Stream stream)) \
  F(cuEventCreate, (DriverEvent* event, unsigned flags)) \
  F(cuEventRecord, (DriverEvent event, Stream stream)) \
  F(cuEventQuery, (DriverEvent event)) \
  F(cuEventSynchronize, (DriverEvent event)) \
  F(cuLinkCreate_v2, (unsigned options, int* names, void** values, LinkState* state)) \
  F(cuLinkAddData_v2, (LinkState state, int type, void* data, size_t bytes, const char* name, unsigned options, int* names, \
                       void** values)) \
  F(cuLinkComplete, (LinkState state, void** cubin, size_t* bytes)) \
  F(cuLinkDestroy, (LinkState state)) \
  F(cuGraphCreate, (Graph* graph, unsigned flags)) \
  F(cuGraphDestroy, (Graph graph)) \
  F(cuGraphAddKernelNode_v2, (GraphNode* node, Graph graph, const GraphNode* after, size_t count, const KernelNode* parameters)) \
  F(cuGraphAddMemcpyNode, (GraphNode* node, Graph graph, const GraphNode* after, size_t count, const MemoryCopy* copy, Context context)) \
  F(cuGraphAddEmptyNode, (GraphNode* node, Graph graph, const GraphNode* after, size_t count)) \
  F(cuGraphInstantiateWithFlags, (GraphExec* exec, Graph graph, unsigned long long flags)) \
  F(cuGraphExecDestroy, (GraphExec exec)) \
  F(cuGraphExecKernelNodeSetParams_v2, (GraphExec exec, GraphNode node, const KernelNode* parameters)) \
  F(cuGraphExecMemcpyNodeSetParams, (GraphExec exec, GraphNode node, const MemoryCopy* copy, Context context)) \
  F(cuGraphLaunch, (GraphExec exec, Stream stream)) \
  F(cuGetErrorName, (Result error, const char** text)) \
  F(cuGetErrorString, (Result error, const char** text))

struct Driver {
#define F(name, arguments) Result(*name) arguments = nullptr;
  TINY_CUDA_FUNCTIONS(F)
#undef F
  int version = 0;  // 13000 is CUDA 13.0
};

/// Loads and initialises the driver on first use. Throws Error(Runtime) with the reason: no library, no device, a failing driver.
const Driver& driver();

/// For tests: what driver() gives from now on, before anybody has asked for it.
void use_driver(const Driver& fake);

/// Throws for a result that is not success: Error(OutOfMemory) or Error(Runtime), naming the call, what it was for and the driver's words.
void check(Result result, const char* call, const char* about = "");
#define TINY_CUDA(name, ...) ::tiny::cuda::check(::tiny::cuda::driver().name(__VA_ARGS__), #name)

}  // namespace tiny::cuda
