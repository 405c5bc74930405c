// Operands of contractions on GPUs, laid out so that their elements are copied to local memory in vectors.
#include <cstdlib>

#include "schedule/contract.h"

namespace tiny::sched {
namespace {

constexpr int64_t kVector = 8;  // elements of 16 bits in an access

/// Some digit goes along elements side by side, and all others by whole vectors.
bool is_in_vectors(const std::vector<Digit>& digits, int side, int64_t offset) {
  bool along = false;
  for (const Digit& d : digits) {
    if (d.stride[side] % kVector == 0) continue;
    if (d.stride[side] != 1 || d.extent % kVector || along) return false;
    along = true;
  }
  return along && offset % kVector == 0;
}

/// A value seen as [outer, channels, inner], and what becomes of the strides when it is laid out as [outer, inner, channels].
struct Channels {
  int64_t channels, inner;

  /// False if digits other than `c` go through channels, or carry from inner into channels.
  bool lay(std::vector<Digit>& digits, size_t c, int side, int64_t& offset) const {
    int64_t low = offset % inner, high = low, block = channels * inner;
    std::vector<int64_t> strides;
    for (size_t i = 0; i < digits.size(); ++i) {
      const int64_t s = digits[i].stride[side], reach = s * (digits[i].extent - 1);
      if (i == c) {
        strides.push_back(1);
      } else if (std::abs(s) < inner) {
        strides.push_back(s * channels);
        (s < 0 ? low : high) += reach;
      } else {
        if (s % block) return false;
        strides.push_back(s);
      }
    }
    if (low < 0 || high >= inner || offset / inner % channels) return false;
    for (size_t i = 0; i < digits.size(); ++i) digits[i].stride[side] = strides[i];
    offset = offset / block * block + offset % inner * channels;
    return true;
  }
};

}  // namespace

bool lay_channels_last(Work& w, std::vector<Digit>& digits, int side, Source& from, Layouts& layouts) {
  const int64_t n = w[from.base].numel;
  if (itemsize(w[from.base].dtype) != 2 || is_in_vectors(digits, side, from.offset)) return false;
  // Of those that suit, the one with the most inside of it, but rather not the outermost: of [images, channels, pixels], the channels.
  size_t best = digits.size();
  auto rank = [&](size_t i) {
    const int64_t inner = digits[i].stride[side];
    return std::pair(inner * digits[i].extent < n, inner);
  };
  for (size_t i = 0; i < digits.size(); ++i) {
    const Digit& d = digits[i];
    if (d.stride[side] <= 0 || d.extent % kVector || n % (d.stride[side] * d.extent)) continue;
    if (!d.column && !own_row(d, side)) continue;
    std::vector<Digit> tried = digits;
    int64_t offset = from.offset;
    if (!Channels{d.extent, d.stride[side]}.lay(tried, i, side, offset) || !is_in_vectors(tried, side, offset)) continue;
    if (best == digits.size() || rank(i) > rank(best)) best = i;
  }
  if (best == digits.size()) return false;
  const Channels c{digits[best].extent, digits[best].stride[side]};
  c.lay(digits, best, side, from.offset);
  const int view = w.add_view(from.base, {n / (c.channels * c.inner), c.inner, c.channels}, {c.channels * c.inner, 1, c.inner}, 0);
  auto [it, fresh] = layouts.try_emplace({from.base, w[view].arg.rec, 0}, -1);
  if (fresh) it->second = w.add(Op::CONTIGUOUS, w[view].dtype, n, {}, {view});
  from.base = it->second;
  return true;
}

}  // namespace tiny::sched
