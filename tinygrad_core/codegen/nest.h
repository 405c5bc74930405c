// The loop nest of a kernel, read off the graph: which loops each node depends on, and which loops enclose which.
#pragma once
#include <vector>

#include "uop/ir.h"

namespace tiny {

/// Loops in the order of nesting: Global, Local, then the others by number; outer loops come first.
bool nests_before(const UOp* a, const UOp* b);

/// The extent of a RANGE, or the greatest that it may have.
int64_t most_turns(const UOp* range);

/// A set of the loops of one Nest, one bit a loop.
class LoopSet {
 public:
  LoopSet(uint64_t* words, size_t n) : words_(words), n_(n) {}
  bool has(size_t i) const { return words_[i / 64] >> (i % 64) & 1; }
  void add(size_t i) { words_[i / 64] |= uint64_t{1} << (i % 64); }
  void remove(size_t i) { words_[i / 64] &= ~(uint64_t{1} << (i % 64)); }
  /// Adds the members of `o`; true if that changed anything.
  bool add_all(LoopSet o) {
    uint64_t fresh = 0;
    for (size_t i = 0; i < n_; ++i) fresh |= o.words_[i] & ~words_[i], words_[i] |= o.words_[i];
    return fresh != 0;
  }
  void copy(LoopSet o) { std::copy(o.words_, o.words_ + n_, words_); }
  void clear() { std::fill(words_, words_ + n_, 0); }
  bool empty() const { return last() < 0; }
  bool same(LoopSet o) const { return std::equal(words_, words_ + n_, o.words_); }
  /// The innermost loop, -1 if there is none.
  int last() const {
    for (size_t i = n_; i-- > 0;)
      if (words_[i]) return static_cast<int>(i * 64 + 63 - static_cast<size_t>(__builtin_clzll(words_[i])));
    return -1;
  }
  /// Calls f(number) from the outermost loop inwards.
  template <class F> void each(F f) const {
    for (size_t i = 0; i < n_; ++i)
      for (uint64_t w = words_[i]; w; w &= w - 1) f(i * 64 + static_cast<size_t>(__builtin_ctzll(w)));
  }

 private:
  uint64_t* words_;
  size_t n_;
};

class Nest {
 public:
  /// `sink` may be an AST or already have ACC, UPDATE and AFTER in place of FOLD and PREFIX.
  explicit Nest(UOp* sink);
  Nest(const Nest&) = delete;

  std::vector<UOp*> nodes;   // sources first
  std::vector<UOp*> ranges;  // outer loops first

  /// Loops in whose bodies `u` must stand. A FOLD's own are not among them, nor those that an AFTER waits for.
  LoopSet loops(const UOp* u) { return set(static_cast<size_t>(position_[u->slot])); }
  /// Loops around loop number `r`.
  LoopSet around(size_t r) { return LoopSet(&around_[r * words_], words_); }
  int number(const UOp* range) const { return number_[range->slot]; }
  /// True if loop r lies inside loop `outer`.
  bool inside(size_t r, size_t outer) { return around(r).has(outer); }
  /// Greatest number of turns of the loop.
  int64_t extent(size_t r) const;
  size_t words() const { return words_; }
  bool contains(const UOp* u) const { return u->slot < position_.size() && position_[u->slot] >= 0; }
  int position(const UOp* u) const { return position_[u->slot]; }

 private:
  LoopSet set(size_t position) { return LoopSet(&sets_[position * words_], words_); }
  void find_loops(UOp* u);
  void find_users();
  bool close();
  void enclose();

  size_t words_ = 1;
  std::vector<int> position_, number_;    // by slot
  std::vector<uint64_t> sets_, around_, users_;
  bool orders_arrays_ = false;            // some AFTER waits for stores
};

/// The ranges that a FOLD, PREFIX, ORDERED or ACC names.
inline std::span<UOp* const> named_ranges(const UOp* u) { return u->sources().subspan(1); }

}  // namespace tiny
