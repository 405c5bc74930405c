// The integers of attention_blocks, attention_blocks_keys and attention_blocks_queries (builtins.def), as a structure.
#pragma once
#include <array>

#include "base/small.h"
#include "uop/dtype.h"

namespace tiny {

struct AttentionBlocks {
  int64_t batch = 1, heads = 1, queries = 0, keys = 0, depth = 0, width = 0;
  DType dtype = DType::f16;
  bool causal = false, has_bias = false;
  double scale = 1;
  bool wants_k = true, wants_v = true;  // of attention_blocks_keys

  /// Where rows of an operand or result lie in its buffer, in elements; those of a row are consecutive.
  struct Place {
    int64_t offset = 0, batch = 0, head = 0, row = 0;
    /// Rows begin at multiples of 16 bytes.
    bool is_aligned() const { return offset % 8 == 0 && batch % 8 == 0 && head % 8 == 0 && row % 8 == 0; }
  };
  enum Operand { Result, SecondResult, Grad, Q, K, V, kOperands };
  std::array<Place, kOperands> places;
  std::array<int64_t, 4> bias_steps{};  // in elements, by dimension of the scores

  /// Elements of a row: a multiple of this.
  static constexpr int64_t kElements = 8;
  /// Up to so many, one kernel makes the gradients of keys and values.
  static constexpr int64_t kBothGradients = 128;

  Dims pack() const;
  static AttentionBlocks unpack(const int64_t* ints);
};

}  // namespace tiny
