#include "schedule/dft.h"

#include <algorithm>

#include "base/error.h"
#include "schedule/butterfly.h"
#include "schedule/work.h"

namespace tiny::sched {
namespace {

constexpr int64_t kLineBytes = 64;      // columns are taken in blocks of this size: what is read of a row is a cache line
constexpr int64_t kPassNumbers = 100;   // loops of pass i of a kernel have numbers from (i+1) * this

int64_t columns_of_block(DType dtype) { return kLineBytes / itemsize(dtype); }

/// Elements of a block, if passes first .. last-1 share a kernel.
int64_t block_elements(const Dft& d, size_t first, size_t last, DType dtype) {
  int64_t columns = d.done(first) * d.inner * d.remaining(last);
  return d.remaining(first) / d.remaining(last) * std::min(columns, columns_of_block(dtype));
}

bool fits(const Dft& d, size_t first, size_t last, DType dtype, const Caps& caps) {
  if (last - first == 1) return true;
  if (caps.has_local) return false;  // there a lane takes one butterfly
  int64_t arrays = last - first == 2 ? 2 : 4;
  return arrays * block_elements(d, first, last, dtype) * itemsize(dtype) <= caps.local_bytes;
}

class Kernel {
 public:
  Kernel(const Dft& d, DType dtype, const DftAccess& io) : d_(d), dtype_(dtype), io_(io) {
    length_ = d.remaining(d.first) / d.remaining(d.last);
    rest_ = d.remaining(d.last);
    columns_ = d.done(d.first) * d.inner;
    whole_ = d.last == d.radices.size();
  }

  std::vector<UOp*> run() {
    if (d_.last - d_.first > 1) choose_block();
    batch_ = globals(d_.batch, d_.n * d_.inner);
    if (!blocked_ || block_columns_) rest_index_ = globals(rest_, 0);
    if (!blocked_ || !block_columns_) column_ = globals(columns_, 1);
    if (blocked_) first_of_block_ = one_loop((extent() + block_ - 1) / block_, Axis::Global) * block_;
    for (size_t i = d_.first; i < d_.last; ++i) pass(i);
    return std::move(stores_);
  }

 private:
  /// Columns side by side: of the inner dimension and what is done, or of what remains for other kernels.
  void choose_block() {
    block_columns_ = columns_ > 1;
    blocked_ = columns_ > 1 || rest_ > 1;
    if (!blocked_) return;
    block_ = std::min(extent(), columns_of_block(dtype_));
    for (int64_t b = block_; 2 * b > block_; --b)
      if (extent() % b == 0) {
        block_ = b;
        break;
      }
  }
  int64_t extent() const { return block_columns_ ? columns_ : rest_; }

  U one_loop(int64_t extent, Axis axis) { return extent == 1 ? index_const(0) : range(extent, number_++, axis); }

  /// 0 .. extent-1 as Global ranges, in digits where the input has breaks at multiples of `unit`; 0: anywhere.
  U globals(int64_t extent, int64_t unit) {
    std::vector<int64_t> chain{1};
    if (unit && d_.first == 0) {
      std::vector<int64_t> breaks;
      for (int64_t b : io_.breaks)
        if (b % unit == 0) breaks.push_back(b / unit);
      std::sort(breaks.begin(), breaks.end());
      for (int64_t b : breaks)
        if (b > chain.back() && b < extent && extent % b == 0 && b % chain.back() == 0) chain.push_back(b);
    }
    chain.push_back(extent);
    U index = index_const(0);
    for (size_t k = chain.size(); k-- > 1;) index = index + one_loop(chain[k] / chain[k - 1], Axis::Global) * chain[k - 1];
    return index;
  }

  struct Arrays {
    U re, im;
  };
  /// Local memory between passes: two pairs of arrays in turn.
  Arrays arrays(size_t pass) {
    int64_t number = static_cast<int64_t>((pass - d_.first) % 2 * 2);
    U size = index_const(length_ * block_);
    return {node(Op::LOCAL, dtype_, {size}, Arg(number)), node(Op::LOCAL, dtype_, {size}, Arg(number + 1))};
  }
  U local_load(U array, U index) { return node(Op::LOAD, dtype_, {node(Op::INDEX, dtype_, {array, index})}); }
  U local_store(U array, U index, U v) {
    return node(Op::STORE, DType::void_, {node(Op::INDEX, dtype_, {array, index}), v.u ? v : const_(dtype_, 0.0)});
  }

  void pass(size_t i) {
    int64_t r = d_.radices[i], done = d_.done(i) / d_.done(d_.first), remaining = length_ / done / r;
    number_ = kPassNumbers * static_cast<int64_t>(i - d_.first + 1);
    U p = one_loop(remaining, Axis::Loop), s = one_loop(done, Axis::Loop);
    U gate, block = index_const(0);
    if (blocked_) {
      block = one_loop(block_, Axis::Loop);
      U at = first_of_block_ + block;
      if (extent() % block_) gate = lt(at, index_const(extent()));
      (block_columns_ ? column_ : rest_index_) = at;
    }
    std::vector<Complex> x;
    for (int64_t k = 0; k < r; ++k) x.push_back(read(i, p + k * remaining, s, done, block, gate));
    x = butterfly(std::move(x), d_.inverse);
    Arrays to;
    std::vector<UOp*> after[2];
    for (int64_t j = 0; j < r; ++j) {
      Complex y = multiplied(x[j], i, j, p * rest_ + rest_index_, gate);
      if (i + 1 == d_.last) {
        write(s + j * done, y, gate);
        continue;
      }
      to = arrays(i);
      U at = ((p * r + j) * done + s) * block_ + block;
      after[0].push_back(local_store(to.re, at, y.re)), after[1].push_back(local_store(to.im, at, y.im));
    }
    if (i + 1 == d_.last) return;
    after[0].insert(after[0].begin(), to.re), after[1].insert(after[1].begin(), to.im);
    between_ = {node(Op::AFTER, dtype_, after[0], {}, 1), node(Op::AFTER, dtype_, after[1], {}, 1)};
  }

  Complex read(size_t i, U p, U s, int64_t done, U block, U gate) {
    if (i > d_.first) {
      U at = (p * done + s) * block_ + block;
      return {local_load(between_.re, at), local_load(between_.im, at)};
    }
    U at = ((batch_ * length_ + p) * rest_ + rest_index_) * columns_ + column_;
    return {io_.real(at, gate), io_.imaginary ? io_.imaginary(at, gate) : U()};
  }

  /// By exp(-+ 2 pi i j p / remaining(i)).
  Complex multiplied(const Complex& y, size_t i, int64_t j, U p, U gate) {
    int64_t rest = d_.remaining(i + 1), plane = (d_.radices[i] - 1) * rest;
    if (j == 0 || rest == 1) return y;
    U at = p + (d_.roots_before(i) + (j - 1) * rest);
    if (block_columns_) gate = U();
    U cos = io_.root(at, gate), sin = io_.root(at + plane, gate);
    if (!y.im.u) return {y.re * cos, d_.inverse ? alu(Op::NEG, {y.re * sin}) : y.re * sin};
    auto add = [](U a, U b, U c) { return alu(Op::MULACC, {a, b, c}); };
    U minus_sin = alu(Op::NEG, {sin});
    if (d_.inverse) std::swap(sin, minus_sin);
    return {add(y.im, minus_sin, y.re * cos), add(y.re, sin, y.im * cos)};
  }

  void write(U s, const Complex& y, U gate) {
    U at = ((batch_ * rest_ + rest_index_) * length_ + s) * columns_ + column_;
    DftResult result = whole_ ? d_.result : DftResult::Planar;
    auto put = [&](U index, U v) {
      if (!v.u) v = const_(dtype_, 0.0);
      if (whole_ && d_.scale != 1) v = v * const_(dtype_, d_.scale);
      stores_.push_back(io_.store(index, v, gate));
    };
    switch (result) {
      case DftResult::Planar: put(at, y.re), put(at + d_.elements(), y.im); break;
      case DftResult::Pairs: put(at * 2, y.re), put(at * 2 + 1, y.im); break;
      case DftResult::Real: put(at, y.re); break;
    }
  }

  const Dft& d_;
  DType dtype_;
  const DftAccess& io_;
  int64_t length_;              // of the part of the transform that this kernel does
  int64_t rest_, columns_;      // the input is [batch, length, rest, columns], the result [batch, rest, length, columns]
  bool whole_;                  // nothing remains
  bool blocked_ = false, block_columns_ = false;
  int64_t block_ = 1, number_ = 0;
  U batch_, rest_index_, column_, first_of_block_;
  Arrays between_;
  std::vector<UOp*> stores_;
};

}  // namespace

std::vector<size_t> dft_kernels(const Dft& d, DType dtype, const Caps& caps) {
  std::vector<size_t> cuts{0};
  for (size_t i = 1; i < d.radices.size(); ++i)
    if (!fits(d, cuts.back(), i + 1, dtype, caps)) cuts.push_back(i);
  cuts.push_back(d.radices.size());
  return cuts;
}

std::vector<UOp*> dft_stores(const Dft& d, DType dtype, const DftAccess& access) { return Kernel(d, dtype, access).run(); }

}  // namespace tiny::sched
