#include "runtime/allocator.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace tiny {

std::string bytes_text(size_t n) {
  if (n >= size_t{1} << 30) return fmt::format("{:.2f} GiB", static_cast<double>(n) / (1 << 30));
  if (n >= size_t{1} << 20) return fmt::format("{:.2f} MiB", static_cast<double>(n) / (1 << 20));
  return fmt::format("{:.2f} KiB", static_cast<double>(n) / 1024);
}

namespace {

size_t round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

// ---- the interface

Buffer* Device::Cache::alloc(size_t n) {
  Block* b = nullptr;
  {
    std::lock_guard lock(mutex);
    if (n <= kGreatest) b = n <= kSmallLimit ? take_small(n) : take_large(n);
  }
  if (!b) {  // shortage: give the cache back, once the work that uses it is done, and try again
    if (n <= kGreatest) empty();
    std::lock_guard lock(mutex);
    ++stats_.retries;
    if (n <= kGreatest) b = n <= kSmallLimit ? take_small(n) : take_large(n);
    if (!b) out_of_memory(n);
  }
  b->nbytes = n;
  b->walk = 0;
  b->pinned = false;
  b->refs.store(1, std::memory_order_relaxed);
  TINY_LOG(3, alloc, "{} bytes at {} (block of {})", n, b->ptr, b->capacity);
  return b;
}

void Device::Cache::give_back(Buffer* buffer) {
  Block* b = static_cast<Block*>(buffer);
  TINY_LOG(3, alloc, "free {} bytes at {}", b->nbytes, b->ptr);
  std::lock_guard lock(mutex);
  stats_.allocated -= static_cast<int64_t>(b->capacity);
  stats_.total_freed += static_cast<int64_t>(b->capacity);
  ++stats_.frees;
  if (!b->large) {
    --b->slab->live;
  } else {
    if (b->before && b->before->free) unlink(b->before), b = merge(b->before, b);
    if (b->after && b->after->free) unlink(b->after), b = merge(b, b->after);
  }
  put(b);
}

void Device::Cache::empty() {
  uint64_t ticket;
  {
    std::lock_guard lock(mutex);
    ticket = last_use_of_free();
  }
  if (ticket) device_.settle(ticket);
  std::lock_guard lock(mutex);
  release_free(device_.done(ticket) ? ticket : 0);
}

MemoryStats Device::Cache::stats() {
  std::lock_guard lock(mutex);
  return stats_;
}

void Device::Cache::reset_peaks() {
  std::lock_guard lock(mutex);
  stats_.peak_allocated = stats_.allocated;
  stats_.peak_reserved = stats_.reserved;
}

void Device::Cache::set_limit(size_t bytes) {
  std::lock_guard lock(mutex);
  limit_ = bytes;
}

Buffer* Device::Cache::alloc_uncounted(size_t n) {
  std::lock_guard lock(mutex);
  void* p = device_.raw_alloc(n);
  if (!p) out_of_memory(n);
  Block* b = new_block();
  b->ptr = p;
  b->nbytes = b->capacity = n;
  return b;
}

// ---- taking

Device::Cache::Block* Device::Cache::take_small(size_t n) {
  int c = n == 0 ? 0 : Small::holding(n);
  Block* b = from_list(small_[c], Small::bytes(c));
  if (!b) b = carve(c);
  if (!b) return nullptr;
  ++b->slab->live;
  return b;
}

Device::Cache::Block* Device::Cache::take_large(size_t n) {
  int c = Large::holding(n);
  n = Large::bytes(c);
  int bin = next_bin(c);
  Block* b = bin >= 0 ? from_list(large_[bin], n) : nullptr;
  if (b) return b;
  b = new_segment(n);
  if (!b) return nullptr;
  put(b);
  return from_list(large_[b->bin], n);
}

/// The first block of a list that no queued work uses, among the first few; else the first one: later work may have it all the same.
Device::Cache::Block* Device::Cache::from_list(Block*& head, size_t n) {
  Block* b = head;
  if (!b) return nullptr;
  int looks = 0;
  for (Block* x = head; x && looks < kLooks; x = x->next, ++looks) {
    if (device_.done(x->last_use.load(std::memory_order_relaxed))) {
      b = x;
      break;
    }
  }
  unlink(b);
  if (b->large) split(b, n);
  stats_.allocated += static_cast<int64_t>(b->capacity);
  stats_.total_allocated += static_cast<int64_t>(b->capacity);
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  ++stats_.allocations;
  return b;
}

/// A new small block, put on its list and taken from there.
Device::Cache::Block* Device::Cache::carve(int size_class) {
  size_t n = Small::bytes(size_class);
  if (slabs_.empty() || slabs_.back()->used + n > kSlabBytes) {
    void* p = reserve(kSlabBytes);
    if (!p) return nullptr;
    slabs_.push_back(new Slab{static_cast<char*>(p)});
  }
  Slab* s = slabs_.back();
  Block* b = new_block();
  b->slab = s;
  b->ptr = s->base + s->used;
  b->capacity = n;
  s->used += n;
  put(b);
  return from_list(small_[size_class], n);
}

/// A free block that is a whole segment. Blocks of moderate size share segments; big ones have their own.
Device::Cache::Block* Device::Cache::new_segment(size_t n) {
  size_t want = n <= kSharedLimit ? kSharedSegment : round_up(n, kSegmentUnit);
  recycle(want);
  void* p = reserve(want);
  if (!p && want > n) p = reserve(want = n);
  if (!p) return nullptr;
  Block* b = new_block();
  b->ptr = p;
  b->capacity = want;
  b->large = true;
  return b;
}

void* Device::Cache::reserve(size_t n) {
  if (limit_ && static_cast<size_t>(stats_.reserved) + n > limit_) return nullptr;
  void* p = device_.raw_alloc(n);
  if (!p) return nullptr;
  stats_.reserved += static_cast<int64_t>(n);
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  TINY_LOG(2, alloc, "segment of {} bytes at {}, {} reserved", n, p, stats_.reserved);
  return p;
}

// ---- lists of free blocks

int Device::Cache::next_bin(int from) const {
  for (size_t word = static_cast<size_t>(from) / 64; word < std::size(large_used_); ++word) {
    uint64_t bits = large_used_[word];
    if (word == static_cast<size_t>(from) / 64) bits &= ~uint64_t{0} << (from % 64);
    if (bits) return static_cast<int>(word * 64) + __builtin_ctzll(bits);
  }
  return -1;
}

void Device::Cache::put(Block* b) {
  b->free = true;
  b->bin = b->large ? std::min(Large::within(b->capacity), kLargeClasses - 1) : Small::holding(b->capacity);
  Block*& head = list_of(b);
  b->prev = nullptr;
  b->next = head;
  if (head) head->prev = b;
  head = b;
  if (b->large) large_used_[b->bin / 64] |= uint64_t{1} << (b->bin % 64);
}

void Device::Cache::unlink(Block* b) {
  if (b->next) b->next->prev = b->prev;
  if (b->prev) {
    b->prev->next = b->next;
  } else {
    list_of(b) = b->next;
    if (b->large && !b->next) large_used_[b->bin / 64] &= ~(uint64_t{1} << (b->bin % 64));
  }
  b->free = false;
}

/// Cuts what a taken block does not need into a free block behind it.
void Device::Cache::split(Block* b, size_t n) {
  if (b->capacity - n < std::max(kSmallLimit, n / 16)) return;
  Block* rest = new_block();
  rest->large = true;
  rest->ptr = static_cast<char*>(b->ptr) + n;
  rest->capacity = b->capacity - n;
  rest->last_use.store(b->last_use.load(std::memory_order_relaxed), std::memory_order_relaxed);
  rest->before = b;
  rest->after = b->after;
  if (b->after) b->after->before = rest;
  b->after = rest;
  b->capacity = n;
  put(rest);
}

Device::Cache::Block* Device::Cache::merge(Block* first, Block* second) {
  first->capacity += second->capacity;
  first->after = second->after;
  if (second->after) second->after->before = first;
  uint64_t use = std::max(first->last_use.load(std::memory_order_relaxed), second->last_use.load(std::memory_order_relaxed));
  first->last_use.store(use, std::memory_order_relaxed);
  drop_block(second);
  return first;
}

// ---- giving back

void Device::Cache::release_segment(Block* b) {
  unlink(b);
  TINY_LOG(2, alloc, "segment of {} bytes at {} given back", b->capacity, b->ptr);
  device_.raw_free(b->ptr, b->capacity);
  stats_.reserved -= static_cast<int64_t>(b->capacity);
  drop_block(b);
}

/// Before a new segment of n bytes: gives back free segments of up to n bytes, all too small for what is asked. A program whose sizes
/// grow would else keep every segment it ever had; whoever needed the small ones can cut the new one.
void Device::Cache::recycle(size_t n) {
  size_t freed = 0;
  for (int bin = next_bin(0); bin >= 0 && freed < n; bin = bin + 1 < kLargeClasses ? next_bin(bin + 1) : -1) {
    for (Block *b = large_[bin], *next; b && freed < n; b = next) {
      next = b->next;
      if (b->before || b->after || freed + b->capacity > n || !device_.done(b->last_use)) continue;
      freed += b->capacity;
      release_segment(b);
    }
  }
}

uint64_t Device::Cache::last_use_of_free() {
  uint64_t ticket = 0;
  for (Block* head : small_)
    for (Block* b = head; b; b = b->next) ticket = std::max(ticket, b->last_use.load());
  for (Block* head : large_)
    for (Block* b = head; b; b = b->next) ticket = std::max(ticket, b->last_use.load());
  return ticket;
}

/// Gives back every segment and slab whose blocks are all free and were last used by submissions up to `safe`, which are done.
void Device::Cache::release_free(uint64_t safe) {
  auto busy = [&](const Block* b) { return b->last_use.load() > safe; };
  for (Block* head : large_)
    for (Block *b = head, *next; b; b = next) {
      next = b->next;
      if (!b->before && !b->after && !busy(b)) release_segment(b);
    }
  for (Block* head : small_)  // a slab with a busy block counts as live
    for (Block* b = head; b; b = b->next) b->slab->live += busy(b);
  auto dead = std::stable_partition(slabs_.begin(), slabs_.end(), [](const Slab* s) { return s->live > 0; });
  for (Block* head : small_)
    for (Block *b = head, *next; b; b = next) {
      next = b->next;
      if (busy(b)) {
        --b->slab->live;
      } else if (std::find(dead, slabs_.end(), b->slab) != slabs_.end()) {
        unlink(b);
        drop_block(b);
      }
    }
  for (auto s = dead; s != slabs_.end(); ++s) {
    device_.raw_free((*s)->base, kSlabBytes);
    stats_.reserved -= static_cast<int64_t>(kSlabBytes);
    delete *s;
  }
  slabs_.erase(dead, slabs_.end());
}

Device::Cache::Block* Device::Cache::new_block() {
  Block* b = spare_;
  if (b) {
    spare_ = b->next;
    b->next = nullptr;
  } else {
    b = new Block;
  }
  b->device = &device_;
  return b;
}

void Device::Cache::drop_block(Block* b) {
  b->slab = nullptr;
  b->before = b->after = b->prev = nullptr;
  b->large = b->free = false;
  b->last_use.store(0, std::memory_order_relaxed);
  b->next = spare_;
  spare_ = b;
}

void Device::Cache::out_of_memory(size_t n) {
  ++stats_.ooms;
  size_t available = 0, total = 0;
  device_.memory_info(&available, &total);
  std::string limit = limit_ ? bytes_text(limit_) : "none";
  std::string live = bytes_text(static_cast<size_t>(stats_.allocated));
  std::string cached = bytes_text(static_cast<size_t>(stats_.reserved - stats_.allocated));
  throw Error(ErrorKind::OutOfMemory, fmt::format("tiny:{} ({}) is out of memory: tried to allocate {}; {} in use, {} cached, limit {}, "
                                                  "the device has {} in all and {} free",
                                                  device_.index(), device_.name(), bytes_text(n), live, cached, limit, bytes_text(total),
                                                  bytes_text(available)));
}

}  // namespace tiny
