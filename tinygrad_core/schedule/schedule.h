// The scheduler: a tensor graph becomes a list of kernels, copies and builtins with their buffers.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "renderer/caps.h"
#include "uop/builtins.h"
#include "uop/ir.h"

namespace tiny {

/// A buffer of a schedule. Leaf: of the graph's BUFFER nodes, numbered by first appearance of the block. Output: made for the value of a
/// root. Temp: lives only inside the schedule. Error: the device's error record.
struct ScheduledBuffer {
  enum Kind { Leaf, Output, Temp, Error } kind;
  int number;        // of the leaf
  int64_t nbytes;    // 0 for a leaf: the block's own size
};

struct ScheduledItem {
  enum Kind { Kernel, Copy, Builtin } kind;
  UOp* sink = nullptr;             // Kernel: its AST, in the schedule's arena
  std::string name;
  std::vector<int> buffers;        // PARAM number -> buffer of the schedule; Copy: {to, from}; Builtin: results, then sources
  std::vector<int> scalars;        // VAR number -> number of the SCALAR leaf
  std::vector<int64_t> ints;       // Builtin: its own; Copy: {bytes}
  BuiltinName builtin = BuiltinName::count;
  std::vector<int64_t> nbytes;     // Builtin: of its results, then of its sources
  int results = 1;                 // Copy and Builtin: how many of the buffers are written
};

struct Schedule {
  Arena arena;
  std::vector<ScheduledBuffer> buffers;
  std::vector<ScheduledItem> items;
  std::vector<int> outputs;          // by root: the buffer that holds it at the end; a donated leaf if it was overwritten
  std::vector<bool> checked;         // by root: depends on a CHECK, so its value is only good once the error record was seen clear
};

/// `nodes`: every node of the graph, sources first; each node's `slot` is its position. `roots`: positions whose values must be realized
/// (no BUFFER; EMPTY gives an uninitialised buffer). Leaves are numbered by the first appearance of their block among the nodes, SCALARs in
/// order. `leaf_bytes`, `donated`: by leaf number, its size, and whether it may be overwritten once its old contents are not needed. The
/// same input always gives the same schedule. Linear in the number of nodes.
std::unique_ptr<Schedule> make_schedule(std::span<UOp* const> nodes, std::span<const int> roots, const std::vector<int64_t>& leaf_bytes,
                                        const std::vector<bool>& donated, const Caps& caps);

}  // namespace tiny
