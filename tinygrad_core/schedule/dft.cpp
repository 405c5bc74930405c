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

/// Whether passes first .. last-1 may share a kernel. Passes without a radix need whole transforms.
bool fits(const Dft& d, size_t first, size_t last, DType dtype, const Caps& caps) {
  if (last - first == 1) return true;
  if (caps.has_local) return false;  // there a lane takes one butterfly
  bool halves = d.is_split(first) || d.is_join(last - 1);
  if (halves && last - first < d.passes()) return false;
  size_t begin = d.radix_of(first), end = d.radix_of(last - 1) + !d.is_join(last - 1);
  int64_t columns = d.done(begin) * d.inner * d.remaining(end), arrays = last - first == 2 ? 2 : 4;
  int64_t elements = d.remaining(begin) / d.remaining(end) * std::min(columns, columns_of_block(dtype));
  return arrays * elements * itemsize(dtype) <= caps.local_bytes;
}

class Kernel {
 public:
  Kernel(const Dft& d, DType dtype, const DftAccess& io) : d_(d), dtype_(dtype), io_(io), alone_(d.last - d.first == 1) {
    bool halves = d.is_split(d.first) || d.is_join(d.last - 1);
    begin_ = halves ? 0 : d.radix_of(d.first);
    size_t end = halves ? d.radices.size() : d.radix_of(d.last - 1) + 1;
    length_ = d.remaining(begin_) / d.remaining(end);
    rest_ = d.remaining(end);
    columns_ = d.done(begin_) * d.inner;
  }

  std::vector<UOp*> run() {
    if (!alone_) choose_block();
    batch_ = globals(d_.batch, (d_.kind == DftKind::FromHalf ? d_.n + 1 : d_.n) * d_.inner);
    if (!blocked_ || block_columns_) rest_index_ = globals(rest_, 0);
    if (!blocked_ || !block_columns_) column_ = globals(columns_, 1);
    if (blocked_) first_of_block_ = one_loop((extent() + block_ - 1) / block_, Axis::Global) * block_;
    for (size_t i = d_.first; i < d_.last; ++i) {
      after_[0].clear(), after_[1].clear();
      if (d_.is_split(i)) split(i);
      else if (d_.is_join(i)) join(i);
      else radix(i);
      if (i + 1 < d_.last) between_ = {after(arrays(i).re, after_[0]), after(arrays(i).im, after_[1])};
    }
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

  UOp* after(UOp* array, std::vector<UOp*>& stores) {
    stores.insert(stores.begin(), array);
    return node(Op::AFTER, dtype_, stores, {}, 1);
  }

  /// The loop over a block's columns, for the next part of a kernel; its gate.
  struct Columns {
    U block = index_const(0), gate;
  };
  Columns columns() {
    Columns c;
    if (!blocked_) return c;
    c.block = one_loop(block_, Axis::Loop);
    U at = first_of_block_ + c.block;
    if (extent() % block_) c.gate = lt(at, index_const(extent()));
    (block_columns_ ? column_ : rest_index_) = at;
    return c;
  }

  void radix(size_t i) {
    size_t radix = d_.radix_of(i);
    int64_t r = d_.radices[radix], done = d_.done(radix) / d_.done(begin_), remaining = length_ / done / r;
    number_ = kPassNumbers * static_cast<int64_t>(i - d_.first + 1);
    U p = one_loop(remaining, Axis::Loop), s = one_loop(done, Axis::Loop);
    Columns c = columns();
    std::vector<Complex> x;
    for (int64_t k = 0; k < r; ++k) x.push_back(read(i, (p + k * remaining) * done + s, c));
    x = butterfly(std::move(x), d_.inverse);
    for (int64_t j = 0; j < r; ++j) {
      Complex y = multiplied(x[j], radix, j, p * rest_ + rest_index_, block_columns_ ? U() : c.gate);
      write(i, (p * r + j) * done + s, y, c);
    }
  }

  /// Numbers k and n-k of a half's transform, in pairs: k = 1 .. n/2. Each is made of both.
  template <class F> void in_pairs(size_t i, F f) {
    number_ = kPassNumbers * static_cast<int64_t>(i - d_.first + 1) + 10;
    if (d_.n < 2) return;
    U k = one_loop(d_.n / 2, alone_ ? Axis::Global : Axis::Loop) + 1;
    Columns c = columns();
    f(k, index_const(d_.n) - k, constant_root(k), c);
  }
  Complex constant_root(U k) {
    U at = k + d_.roots_before(d_.radices.size());
    return {io_.root(at, U()), io_.root(at + (d_.n / 2 + 1), U())};
  }
  /// a + b * c
  static U plus(U a, U b, U c) { return alu(Op::MULACC, {b, c, a}); }
  static U minus(U a) { return alu(Op::NEG, {a}); }

  /// x (X[k] and its mirror's conjugate added) + w * -i * (their difference), over 2; the mirror gets the conjugate of x - ..
  void join(size_t i) {
    number_ = kPassNumbers * static_cast<int64_t>(i - d_.first + 1);
    Columns c = columns();
    Complex z = read(i, index_const(0), c);
    result(index_const(0), {z.re + z.im, U()}, c, 1), result(index_const(d_.n), {z.re - z.im, U()}, c, 1);
    in_pairs(i, [&](U k, U mirror, const Complex& w, const Columns& c) {
      Complex a = read(i, k, c), b = read(i, mirror, c);
      U sum = a.re + b.re, rest = a.im - b.im, even = a.im + b.im, odd = a.re - b.re;
      U re = plus(w.re * even, w.im, odd), im = plus(w.im * even, minus(w.re), odd);
      result(k, {sum + re, rest + im}, c, 0.5), result(mirror, {sum - re, im - rest}, c, 0.5);
    });
  }

  /// The inverse of join(), twice as large.
  void split(size_t i) {
    number_ = kPassNumbers * static_cast<int64_t>(i - d_.first + 1);
    Columns c = columns();
    U low = read(i, index_const(0), c).re, high = read(i, index_const(d_.n), c).re;
    write(i, index_const(0), {low + high, low - high}, c);
    in_pairs(i, [&](U k, U mirror, const Complex& w, const Columns& c) {
      Complex a = read(i, k, c), b = read(i, mirror, c);
      U sum = a.re + b.re, rest = a.im - b.im, even = a.re - b.re, odd = a.im + b.im;
      U re = plus(w.im * even, minus(w.re), odd), im = plus(w.re * even, w.im, odd);
      write(i, k, {sum + re, rest + im}, c), write(i, mirror, {sum - re, im - rest}, c);
    });
  }

  /// Element `at` of the kernel's part of the transform, before pass i.
  Complex read(size_t i, U at, const Columns& c) {
    if (i > d_.first) return {local_load(between_.re, at * block_ + c.block), local_load(between_.im, at * block_ + c.block)};
    int64_t length = d_.is_split(i) ? length_ + 1 : length_;
    U index = ((batch_ * length + at) * rest_ + rest_index_) * columns_ + column_;
    Complex x{io_.real(index, c.gate), io_.imaginary ? io_.imaginary(index, c.gate) : U()};
    if (!x.im.u && d_.kind != DftKind::Numbers) x.im = const_(dtype_, 0.0);
    return x;
  }

  /// The same after pass i.
  void write(size_t i, U at, const Complex& y, const Columns& c) {
    if (i + 1 < d_.last) {
      Arrays to = arrays(i);
      U index = at * block_ + c.block;
      after_[0].push_back(local_store(to.re, index, y.re)), after_[1].push_back(local_store(to.im, index, y.im));
      return;
    }
    U index = ((batch_ * rest_ + rest_index_) * length_ + at) * columns_ + column_;
    if (i + 1 == d_.passes()) store(index, y, c.gate, d_.result, d_.elements_out(), d_.scale);
    else store(index, y, c.gate, DftResult::Planar, d_.elements_between(), 1);
  }

  /// Number k of a half.
  void result(U k, const Complex& y, const Columns& c, double scale) {
    U index = (batch_ * (d_.n + 1) + k) * d_.inner + column_;
    store(index, y, c.gate, d_.result, d_.elements_out(), scale * d_.scale);
  }

  void store(U at, const Complex& y, U gate, DftResult layout, int64_t plane, double scale) {
    auto put = [&](U index, U v) {
      if (!v.u) v = const_(dtype_, 0.0);
      else if (scale != 1) v = v * const_(dtype_, scale);
      stores_.push_back(io_.store(index, v, gate));
    };
    switch (layout) {
      case DftResult::Planar: put(at, y.re), put(at + plane, y.im); break;
      case DftResult::Pairs: put(at * 2, y.re), put(at * 2 + 1, y.im); break;
      case DftResult::Real: put(at, y.re); break;
    }
  }

  /// By exp(-+ 2 pi i j p / remaining(radix)).
  Complex multiplied(const Complex& y, size_t radix, int64_t j, U p, U gate) {
    int64_t rest = d_.remaining(radix + 1), plane = (d_.radices[radix] - 1) * rest;
    if (j == 0 || rest == 1) return y;
    U at = p + (d_.roots_before(radix) + (j - 1) * rest);
    U cos = io_.root(at, gate), sin = io_.root(at + plane, gate);
    if (!y.im.u) return {y.re * cos, d_.inverse ? minus(y.re * sin) : y.re * sin};
    U minus_sin = minus(sin);
    if (d_.inverse) std::swap(sin, minus_sin);
    return {plus(y.re * cos, y.im, minus_sin), plus(y.im * cos, y.re, sin)};
  }

  const Dft& d_;
  DType dtype_;
  const DftAccess& io_;
  bool alone_;                  // one pass
  size_t begin_ = 0;            // the first radix
  int64_t length_;              // of the part of the transform that this kernel does
  int64_t rest_, columns_;      // the input is [batch, length, rest, columns], the result [batch, rest, length, columns]
  bool blocked_ = false, block_columns_ = false;
  int64_t block_ = 1, number_ = 0;
  U batch_, rest_index_, column_, first_of_block_;
  Arrays between_;
  std::vector<UOp*> after_[2], stores_;
};

}  // namespace

std::vector<size_t> dft_kernels(const Dft& d, DType dtype, const Caps& caps) {
  std::vector<size_t> cuts{0};
  if (!fits(d, 0, d.passes(), dtype, caps))
    for (size_t i = 1; i < d.passes(); ++i)
      if (!fits(d, cuts.back(), i + 1, dtype, caps)) cuts.push_back(i);
  cuts.push_back(d.passes());
  return cuts;
}

std::vector<UOp*> dft_stores(const Dft& d, DType dtype, const DftAccess& access) { return Kernel(d, dtype, access).run(); }

}  // namespace tiny::sched
