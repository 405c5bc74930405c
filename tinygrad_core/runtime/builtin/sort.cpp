#include "runtime/builtin/builtin.h"

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>
#include <fmt/format.h>

#include "base/error.h"
#include "runtime/device.h"

namespace tiny {
namespace {

// Every dtype becomes an unsigned key whose order is the wanted one, so one sort serves them all.

template <class K>
constexpr K kTop = static_cast<K>(K{1} << (8 * sizeof(K) - 1));

template <class K>
struct UnsignedKey {
  static K of(K bits) { return bits; }
};
template <class K>
struct SignedKey {
  static K of(K bits) { return bits ^ kTop<K>; }
};
/// Sign and magnitude. `Infinity`: bits of the greatest value that is no NaN.
template <class K, K Infinity>
struct FloatKey {
  static K of(K bits) {
    K magnitude = bits & static_cast<K>(~kTop<K>);
    if (magnitude > Infinity) return static_cast<K>(~K{0});
    return bits == magnitude ? static_cast<K>(kTop<K> | magnitude) : static_cast<K>(kTop<K> - magnitude);  // -0 and 0: the same key
  }
};

/// A key with its column; unique, so that any sort of them is stable. Keys of up to 32 bits share a word with the column.
struct Wide {
  uint64_t key;
  uint64_t index;
  friend bool operator<(const Wide& a, const Wide& b) { return a.key < b.key || (a.key == b.key && a.index < b.index); }
};
template <class K>
using Pair = std::conditional_t<(sizeof(K) > 4), Wide, uint64_t>;

template <class K>
Pair<K> make_pair(K key, size_t column) {
  if constexpr (sizeof(K) > 4) {
    return {key, column};
  } else {
    return static_cast<uint64_t>(key) << 32 | column;
  }
}
inline uint64_t digit(const Wide& p, int shift, uint64_t mask) { return p.key >> shift & mask; }
inline uint64_t digit(uint64_t p, int shift, uint64_t mask) { return p >> (32 + shift) & mask; }
inline int64_t column_of(const Wide& p) { return static_cast<int64_t>(p.index); }
inline int64_t column_of(uint64_t p) { return static_cast<int64_t>(p & 0xFFFFFFFF); }

constexpr size_t kRadixFrom = 512;  // rows at least this long are sorted digit by digit
constexpr int kDigitBits = 8;

/// Least significant digit first, skipping digits that are equal in the whole row. Returns where the result is: `a` or `b`.
template <class P>
P* radix_sort(P* a, P* b, size_t n, int key_bits) {
  constexpr uint64_t mask = (1 << kDigitBits) - 1;
  size_t counts[8][mask + 1] = {};
  int digits = key_bits / kDigitBits;
  for (size_t i = 0; i < n; ++i)
    for (int d = 0; d < digits; ++d) ++counts[d][digit(a[i], d * kDigitBits, mask)];
  for (int d = 0; d < digits; ++d) {
    size_t* count = counts[d];
    if (count[digit(a[0], d * kDigitBits, mask)] == n) continue;
    size_t at = 0;
    for (size_t v = 0; v <= mask; ++v) at += std::exchange(count[v], at);
    for (size_t i = 0; i < n; ++i) b[count[digit(a[i], d * kDigitBits, mask)]++] = a[i];
    std::swap(a, b);
  }
  return a;
}

struct Job {
  int64_t* to;
  const void* from;
  int64_t columns;
  bool descending;
};

template <class K, class Key>
void sort_rows(void* context, int64_t begin, int64_t end) {
  const Job& job = *static_cast<Job*>(context);
  size_t n = static_cast<size_t>(job.columns);
  bool radix = n >= kRadixFrom;
  std::unique_ptr<Pair<K>[]> memory(new Pair<K>[radix ? 2 * n : n]);
  for (int64_t row = begin; row < end; ++row) {
    const K* from = static_cast<const K*>(job.from) + row * job.columns;
    Pair<K>* pairs = memory.get();
    K flip = job.descending ? static_cast<K>(~K{0}) : K{0};
    for (size_t i = 0; i < n; ++i) pairs[i] = make_pair<K>(static_cast<K>(Key::of(from[i]) ^ flip), i);
    if (radix) {
      pairs = radix_sort(pairs, pairs + n, n, 8 * sizeof(K));
    } else {
      std::sort(pairs, pairs + n);
    }
    int64_t* to = job.to + row * job.columns;
    for (size_t i = 0; i < n; ++i) to[i] = column_of(pairs[i]);
  }
}

LoopBody sorter_of(DType d) {
  switch (d) {
    case DType::bool_:
    case DType::u8: return sort_rows<uint8_t, UnsignedKey<uint8_t>>;
    case DType::u16: return sort_rows<uint16_t, UnsignedKey<uint16_t>>;
    case DType::u32: return sort_rows<uint32_t, UnsignedKey<uint32_t>>;
    case DType::u64: return sort_rows<uint64_t, UnsignedKey<uint64_t>>;
    case DType::i8: return sort_rows<uint8_t, SignedKey<uint8_t>>;
    case DType::i16: return sort_rows<uint16_t, SignedKey<uint16_t>>;
    case DType::i32: return sort_rows<uint32_t, SignedKey<uint32_t>>;
    case DType::i64: return sort_rows<uint64_t, SignedKey<uint64_t>>;
    case DType::f8e4m3: return sort_rows<uint8_t, FloatKey<uint8_t, 0x7E>>;  // no infinity: 448 is the greatest
    case DType::f8e5m2: return sort_rows<uint8_t, FloatKey<uint8_t, 0x7C>>;
    case DType::bf16: return sort_rows<uint16_t, FloatKey<uint16_t, 0x7F80>>;
    case DType::f16: return sort_rows<uint16_t, FloatKey<uint16_t, 0x7C00>>;
    case DType::f32: return sort_rows<uint32_t, FloatKey<uint32_t, 0x7F800000>>;
    case DType::f64: return sort_rows<uint64_t, FloatKey<uint64_t, 0x7FF0000000000000>>;
    case DType::void_:
    case DType::count: break;
  }
  TINY_ASSERT(false, "sort of values without a dtype");
  return nullptr;
}

constexpr int64_t kElementsPerPiece = 4096;  // rows are handed to threads in pieces of about this size

}  // namespace

void builtin_argsort(void* const* buffers, const uint64_t*, const int64_t* ints, Device& device) {
  int64_t rows = ints[0], columns = ints[1];
  DType dtype = static_cast<DType>(ints[3]);
  if (rows == 0 || columns == 0) return;
  if (columns > INT64_C(0xFFFFFFFF) && itemsize(dtype) <= 4)
    throw Error(ErrorKind::NotImplemented, fmt::format("sort along a dimension of {} elements: at most 4294967295", columns));
  Job job{static_cast<int64_t*>(buffers[0]), buffers[1], columns, ints[2] != 0};
  device.parallel_for(rows, std::max<int64_t>(1, kElementsPerPiece / columns), sorter_of(dtype), &job);
}

}  // namespace tiny
