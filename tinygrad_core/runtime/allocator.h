// The caching allocator of a device. Freed blocks stay reserved and are handed out again; only empty() and shortage give them back.
// Small blocks (up to kSmallLimit) are carved from slabs and kept in one list a size class. Large blocks are cut from segments,
// merged with their free neighbours when freed, and found by segregated fit.
// Source of the segregated fit: Masmano, Ripoll, Crespo, Real, "TLSF: a new dynamic memory allocator for real-time systems", ECRTS 2004.
#pragma once
#include <mutex>
#include <vector>

#include "runtime/device.h"

namespace tiny {

/// "1.50 MiB"
std::string bytes_text(size_t n);

/// Size classes: multiples of `Unit` up to Steps of them, then Steps classes a doubling, so that rounding up wastes at most 1/Steps.
template <size_t Unit, int Steps>
struct SizeClasses {
  static constexpr int kBits = __builtin_ctz(Steps);
  /// The class whose blocks have room for n > 0 bytes.
  static constexpr int holding(size_t n) {
    size_t u = (n - 1) / Unit;
    if (u < Steps) return static_cast<int>(u);
    int e = 63 - __builtin_clzll(u) - kBits;
    return Steps * e + static_cast<int>(u >> e);
  }
  static constexpr size_t bytes(int c) {
    if (c < 2 * Steps) return static_cast<size_t>(c + 1) * Unit;
    int e = c / Steps - 1;
    return static_cast<size_t>(c - Steps * e + 1) * Unit << e;
  }
  /// The greatest class whose size does not exceed n >= Unit.
  static constexpr int within(size_t n) {
    int c = holding(n);
    return bytes(c) == n ? c : c - 1;
  }
};

class Device::Cache {
 public:
  explicit Cache(Device& device) : device_(device) {}
  Buffer* alloc(size_t n);
  void give_back(Buffer* buffer);
  void empty();
  MemoryStats stats();
  void reset_peaks();
  void set_limit(size_t bytes);
  /// A block of its own that the statistics do not count, never freed.
  Buffer* alloc_uncounted(size_t n);

  std::mutex mutex;  // taken around fork as well

 private:
  static constexpr size_t kSmallLimit = size_t{64} << 10, kSlabBytes = size_t{1} << 20;
  static constexpr size_t kPage = 4096, kSegmentUnit = size_t{2} << 20, kSharedSegment = size_t{16} << 20, kSharedLimit = size_t{4} << 20;
  static constexpr size_t kGreatest = size_t{1} << 46;  // beyond any machine; keeps the arithmetic below from wrapping
  static constexpr int kLooks = 4;                      // free blocks of a class tried for one that no queued work uses
  using Small = SizeClasses<64, 8>;
  using Large = SizeClasses<kPage, 16>;
  static constexpr int kSmallClasses = Small::holding(kSmallLimit) + 1, kLargeClasses = Large::holding(kGreatest) + 1;

  struct Slab {
    char* base;
    size_t used = 0;
    int64_t live = 0;
  };
  struct Block : Buffer {
    size_t capacity = 0;
    int bin = 0;
    bool large = false, free = false;
    Slab* slab = nullptr;                      // small
    Block *before = nullptr, *after = nullptr; // large: neighbours in the segment
    Block *prev = nullptr, *next = nullptr;    // in a list of free blocks
  };

  Block* take_small(size_t n);
  Block* take_large(size_t n);
  Block* from_list(Block*& head, size_t n);
  Block* carve(int size_class);
  Block* new_segment(size_t n);
  void split(Block* b, size_t n);
  Block* merge(Block* first, Block* second);
  void put(Block* b);
  void unlink(Block* b);
  Block*& list_of(Block* b) { return b->large ? large_[b->bin] : small_[b->bin]; }
  int next_bin(int from) const;
  void* reserve(size_t n);
  void release_segment(Block* b);
  void recycle(size_t n);
  void release_free(uint64_t safe);
  uint64_t last_use_of_free();
  Block* new_block();
  void drop_block(Block* b);
  [[noreturn]] void out_of_memory(size_t n);

  Device& device_;
  size_t limit_ = 0;
  MemoryStats stats_;
  Block* small_[kSmallClasses] = {};
  Block* large_[kLargeClasses] = {};
  uint64_t large_used_[kLargeClasses / 64 + 1] = {};  // bit b: large_[b] is not empty
  std::vector<Slab*> slabs_;
  Block* spare_ = nullptr;                            // Block structs without memory
};

}  // namespace tiny
