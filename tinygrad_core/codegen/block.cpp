#include "codegen/block.h"

namespace tiny {

// From the lowest bits: engine 4, k_inner 2 x 1, rows / 8 2 x 8, depth / 8 8, teams 2 x 8, slots 8.
Arg Block::pack() const {
  auto n = [](int64_t v) { return static_cast<uint64_t>(v); };
  uint64_t bits = n(slots);
  for (int64_t t : teams) bits = bits << 8 | n(t);
  bits = bits << 8 | n(depth / 8);
  for (int64_t r : rows) bits = bits << 8 | n(r / 8);
  for (bool k : k_inner) bits = bits << 1 | n(k);
  return Arg(static_cast<int64_t>(bits << 4 | n(static_cast<int64_t>(engine))));
}

Block Block::unpack(Arg arg) {
  uint64_t bits = arg.bits;
  auto take = [&bits](int width) {
    int64_t v = static_cast<int64_t>(bits & ((1u << width) - 1));
    bits >>= width;
    return v;
  };
  Block b;
  b.engine = static_cast<Engine>(take(4));
  for (int side : {1, 0}) b.k_inner[side] = take(1) != 0;
  for (int side : {1, 0}) b.rows[side] = take(8) * 8;
  b.depth = take(8) * 8;
  for (int side : {1, 0}) b.teams[side] = take(8);
  b.slots = take(8);
  return b;
}

}  // namespace tiny
