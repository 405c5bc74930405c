// One pass over the pending graph: its nodes in order, its leaves and run-time arguments, and the key that names its structure.
#pragma once
#include <vector>

#include "base/hash.h"
#include "runtime/device.h"
#include "uop/graph.h"

namespace tiny {

struct Leaf {
  Buffer* buffer;
  uint32_t owners = 0;     // references to its nodes, in all
  uint32_t uses = 0;       // those of them that this graph holds
  uint32_t nodes = 0;      // BUFFER nodes that name the block
};

struct Walk {
  std::vector<UOp*> nodes;         // sources first; slot = position
  std::vector<Leaf> leaves;        // in order of first appearance
  std::vector<uint64_t> scalars;   // bits of the SCALARs, in order
  std::vector<int> roots;          // positions
  std::vector<bool> donated;       // by leaf: only this graph holds it
  Hash128 key;

  /// Walks what `roots` need. The vectors keep their memory from call to call. At most 50 ns a node.
  void run(std::span<UOp* const> roots);

 private:
  struct Frame {
    UOp* u;
    uint32_t next;
  };
  void finish(UOp* u);
  std::vector<Frame> stack_;
  uint32_t epoch_ = 0;
};

}  // namespace tiny
