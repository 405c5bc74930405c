// Sorting, a builtin: it does not fit a loop nest.
#pragma once
#include <cstdint>

namespace tiny {

class Device;

/// Stable argsort of rows. ints = {rows, columns, descending, dtype (DType)}; buffers = {to: i64 positions within the row, from}.
/// Descending is stable too: equal elements keep their order. NaN is the greatest value, whatever its sign; -0 equals 0.
void builtin_argsort(void* const* buffers, const uint64_t* scalars, const int64_t* ints, Device& device);

}  // namespace tiny
