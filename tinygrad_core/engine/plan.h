// A program: the compiled form of one graph structure, replayed whenever a flush has its key.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "schedule/schedule.h"

namespace tiny {

/// A compiled kernel, and what it takes besides the SCALARs of the graph: the numbers of a symbolic kernel.
struct CompiledKernel {
  std::shared_ptr<Executable> executable;
  std::vector<uint64_t> numbers;
};

/// Kernels of this process's programs, by key. Programs share them; the last that goes takes its kernels along. A kernel whose numbers
/// change from flush to flush is compiled once more with these as arguments, and that one stays for the programs to come.
class KernelCache {
 public:
  explicit KernelCache(Device& device);
  /// The executables of these kernels, compiling what is missing, in parallel. `compiled` counts those.
  std::vector<CompiledKernel> get(const std::vector<const ScheduledItem*>& kernels, int* compiled);
  /// The kernels of builtins that this device has as such, and the numbers that they take; null for the others.
  std::vector<CompiledKernel> builtins(const std::vector<const ScheduledItem*>& items, int* compiled);

 private:
  Device& device_;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// A node of the graph that the program was made for, to say later what differs from it.
struct NodeSignature {
  Op op;
  DType dtype;
  int64_t numel;
  uint64_t arg;
  const Record* rec;
};

struct Plan {
  // ---- memory
  enum class Home : uint8_t { Leaf, Output, Arena, Error, None };
  struct Place {
    Home home = Home::None;
    int64_t number = 0;                  // leaf, output block, or offset in the arena
  };
  std::vector<Place> places;             // by buffer of the schedule
  std::vector<int64_t> output_bytes;     // blocks to allocate
  int64_t arena_bytes = 0, arena_bound = 0;  // what temporaries take, and the most of them alive at once
  std::vector<int> outputs;              // by root: buffer of the schedule
  std::vector<bool> checked;             // by root

  // ---- work
  std::vector<Launch> launches;
  std::vector<int> buffer_args;          // Launch::first_buffer points here: buffers of the schedule
  std::vector<int> scalar_args;          // numbers of SCALARs; below 0: ~number of a constant
  std::vector<uint64_t> constants;       // numbers of symbolic kernels
  std::vector<std::vector<int64_t>> ints, nbytes;  // by launch
  std::vector<std::shared_ptr<Executable>> kernels;

  // ---- for explain()
  std::vector<NodeSignature> nodes;
  std::shared_ptr<const std::vector<std::string>> names;  // of the launches
  double flops = 0, bytes = 0;
  int kernel_count = 0;
  uint64_t last_used = 0;
  bool has_check = false;
};

/// Lays out memory and launches of a schedule whose kernels are compiled. `kernels`: by Kernel item, in order; `builtins`: by Builtin item.
std::shared_ptr<Plan> make_plan(const Schedule& s, const std::vector<CompiledKernel>& kernels, const std::vector<CompiledKernel>& builtins);

}  // namespace tiny
