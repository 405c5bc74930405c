#include "uop/attention_blocks.h"

#include <bit>

namespace tiny {
namespace {

/// Calls f on each integer, in their order.
template <class Blocks, class F>
void visit(Blocks& b, F f) {
  f(b.batch), f(b.heads), f(b.queries), f(b.keys), f(b.depth), f(b.width);
  for (auto& p : b.places) f(p.offset), f(p.batch), f(p.head), f(p.row);
  for (auto& s : b.bias_steps) f(s);
}

}  // namespace

Dims AttentionBlocks::pack() const {
  Dims ints{static_cast<int64_t>(dtype), causal, has_bias, wants_k, wants_v, std::bit_cast<int64_t>(scale)};
  visit(*this, [&](int64_t n) { ints.push_back(n); });
  return ints;
}

AttentionBlocks AttentionBlocks::unpack(const int64_t* i) {
  AttentionBlocks b;
  b.dtype = static_cast<DType>(i[0]), b.causal = i[1] != 0, b.has_bias = i[2] != 0, b.wants_k = i[3] != 0, b.wants_v = i[4] != 0;
  b.scale = std::bit_cast<double>(i[5]);
  i += 6;
  visit(b, [&](int64_t& n) { n = *i++; });
  return b;
}

}  // namespace tiny
