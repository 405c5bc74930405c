// Operands of contractions as loops: what the files that lay them out share.
#pragma once
#include <vector>

#include "schedule/work.h"

namespace tiny::sched {

struct Digit {
  int64_t extent;
  int64_t stride[2];  // of both operands
  bool column;
};

/// Rows that only `side` has.
inline bool own_row(const Digit& d, int side) { return !d.column && d.stride[side] != 0 && d.stride[1 - side] == 0; }

/// What an operand is read from.
struct Source {
  int base;
  int64_t offset;
  int64_t pair = 0;  // not 0: bf16, read as u32 that hold two of them, the second so many elements behind the first
};

/// For GPUs, whose lanes copy 16 bytes at a time: copies a value of 16-bit elements that is not laid out for that with the dimension last
/// along which it can be: channels, of images. True if it did.
bool lay_channels_last(Work& w, std::vector<Digit>& digits, int side, Source& from, Layouts& layouts);

}  // namespace tiny::sched
