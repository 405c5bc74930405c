// The scheduler: a tensor graph becomes a list of kernels, copies and builtins with their buffers.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "renderer/caps.h"
#include "uop/ir.h"

namespace tiny {

/// A buffer of a schedule. Leaf: a BUFFER node of the graph, by its number among the leaves. Output: the value of a root.
/// Temp: lives only inside the schedule. Error: the device's error record.
struct ScheduledBuffer {
  enum Kind { Leaf, Output, Temp, Error } kind;
  int number;        // of the leaf or the root
  int64_t nbytes;
  int alias = -1;    // holds the bytes of this other buffer, overwritten in place (its last use is the item that writes here)
};

struct ScheduledItem {
  enum Kind { Kernel, Copy, Sort } kind;
  UOp* sink = nullptr;             // Kernel: its AST, in the schedule's arena
  std::string name;
  std::vector<int> buffers;        // PARAM number -> buffer of the schedule; Copy and Sort: {to, from}
  std::vector<int> scalars;        // VAR number -> number of the SCALAR leaf
  std::vector<int64_t> ints;       // Sort: {rows, columns, descending, dtype}; Copy: {bytes}
};

struct Schedule {
  Arena arena;
  std::vector<ScheduledBuffer> buffers;
  std::vector<ScheduledItem> items;
};

/// `nodes`: every node of the graph, sources first; each node's `slot` is its position. `roots`: positions whose values must be realized;
/// `donated`: by leaf number, whether the leaf's buffer may be overwritten once its old contents are not needed.
/// The same input always gives the same schedule. Linear in the number of nodes.
std::unique_ptr<Schedule> make_schedule(std::span<UOp* const> nodes, std::span<const int> roots, const std::vector<bool>& donated, const Caps& caps);

}  // namespace tiny
