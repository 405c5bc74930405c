// Blocks of matrix products: C[m, n] = sum over k of A[m, k] * B[n, k] for bm x bn elements, by the lanes of one workgroup. Says which lane
// holds which sums, and where the elements of the operands' tiles lie in local memory. Codegen writes the tiles by it, renderers and the
// interpreter read them.
#pragma once
#include "uop/ir.h"

namespace tiny {

/// What multiplies. Lanes: each lane's own multiply-adds, f32. Warps and WarpGroups: tensor cores on bf16 or f16 with sums in f32, by 32
/// lanes (NVIDIA's mma.sync.m16n8k16) or 128 (wgmma.m64nNk16).
enum class Engine : uint8_t { Lanes, Warps, WarpGroups };

inline int64_t exclusive_or(int64_t a, int64_t b) { return a ^ b; }
inline U exclusive_or(U a, U b) { return alu(Op::XOR, {a, b}); }

struct Block {
  Engine engine = Engine::Lanes;
  int64_t rows[2] = {0, 0};        // bm, bn: of A's tile and of B's
  int64_t depth = 0;               // elements of k in a tile
  int64_t teams[2] = {1, 1};       // how many warps, or groups of four of them, share the rows of each
  int64_t slots = 1;               // pairs of tiles in local memory, used in turn
  bool k_inner[2] = {true, true};  // the tile has elements of consecutive k side by side, else consecutive rows. Lanes: always rows

  static constexpr int64_t kWarp = 32, kPad = 4;

  Arg pack() const;
  static Block unpack(Arg arg);

  int64_t team_lanes() const { return engine == Engine::WarpGroups ? 4 * kWarp : kWarp; }
  int64_t lanes() const { return teams[0] * teams[1] * team_lanes(); }
  /// Sums that one lane holds.
  int64_t sums() const { return rows[0] * rows[1] / lanes(); }
  /// Elements from one tile, one pair of tiles to the next.
  int64_t tile(int side) const { return engine == Engine::Lanes ? depth * (rows[side] + kPad) : depth * rows[side]; }
  int64_t slot() const { return tile(0) + tile(1); }
  /// Sums of neighbouring columns that a lane has side by side.
  int64_t run() const { return engine == Engine::Lanes ? 4 : 2; }

  /// Place of element (row, k) in the tile of `side`; I is int64_t, U, or what else has such
  /// arithmetic. For tensor cores rows of 128 bytes whose blocks of 16 bytes are
  /// exchanged by the row's number, modulo 8: no two of 8 rows have the same block in the same banks. This is the 128-byte swizzle of
  /// wgmma's matrix descriptors (PTX ISA, "Shared Memory Matrix Layout").
  template <class I> I offset(int side, I row, I k) const {
    if (engine == Engine::Lanes) return k * (rows[side] + kPad) + row;
    if (k_inner[side]) return row * 64 + exclusive_or(k / 8, row % 8) * 8 + k % 8;
    return (row / 64) * (64 * depth) + k * 64 + exclusive_or((row % 64) / 8, k % 8) * 8 + row % 8;
  }

  template <class I> struct Position {
    I row, column;
  };
  /// Which sum of the block is number `i` of lane `lane`. Tensor cores: PTX ISA, the figures of accumulator fragments of mma.m16n8k16 and
  /// wgmma.m64nNk16.
  template <class I> Position<I> position(I lane, int64_t i) const {
    I warp = lane / kWarp, l = lane % kWarp;
    if (engine == Engine::Lanes) {
      int64_t high = rows[0] / (4 * teams[0]), wide = rows[1] / (8 * teams[1]);  // of a lane; in pieces of 4, for 16-byte reads
      int64_t r = i / wide, c = i % wide;
      I lane_row = (warp / teams[1]) * 4 + l / 8, lane_column = (warp % teams[1]) * 8 + l % 8;
      return {lane_row * 4 + (r / 4 * (rows[0] / (high / 4)) + r % 4), lane_column * 4 + (c / 4 * (rows[1] / (wide / 4)) + c % 4)};
    }
    I team = lane / team_lanes();
    I row = (team / teams[1]) * (rows[0] / teams[0]), column = (team % teams[1]) * (rows[1] / teams[1]);
    int64_t wide = rows[1] / teams[1] / 8, part = i / 4 / wide, j = i % 4;  // part: which of the instructions above each other
    I inner = l / 4 + (part * (engine == Engine::Warps ? 16 : 64) + j / 2 * 8);
    if (engine == Engine::WarpGroups) inner = inner + (warp % 4) * 16;
    return {row + inner, column + ((l % 4) * 2 + (i / 4 % wide * 8 + j % 2))};
  }
};

}  // namespace tiny
