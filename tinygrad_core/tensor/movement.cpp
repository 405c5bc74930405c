// Movement: every function ends in make_view, which keeps a chain of affine movements one VIEW.
#include <fmt/format.h>

#include "base/error.h"
#include "tensor/detail.h"

namespace tiny {
namespace detail {
namespace {

struct Geometry {
  Dims sizes, strides;
  int64_t offset = 0;
};

/// Without dimensions of size 1, and with neighbours that one stride covers merged. The order of the elements stays.
Geometry canonical(const Dims& sizes, const Dims& strides, int64_t offset) {
  Geometry g;
  g.offset = offset;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] == 1) continue;
    if (!g.sizes.empty() && g.strides.back() == strides[k] * sizes[k]) {
      g.sizes.back() *= sizes[k];
      g.strides.back() = strides[k];
    } else {
      g.sizes.push_back(sizes[k]);
      g.strides.push_back(strides[k]);
    }
  }
  return g;
}

/// Digits of the flat position `p` in the mixed base `sizes`.
Dims digits(int64_t p, const Dims& sizes) {
  Dims d(sizes.size());
  for (size_t k = sizes.size(); k-- > 0;) d[k] = p % sizes[k], p /= sizes[k];
  return d;
}

/// A dimension (size, stride > 0) that runs over several dimensions of the lower view, cut at their borders (`weights`: the lower
/// view's row-major strides). Appends to `out`, outer first.
void split_at_borders(int64_t size, int64_t stride, bool flipped, const Dims& weights, Geometry& out, SmallVec<uint8_t, 8>& flips) {
  int64_t inner = 1;  // elements that fit below the next border
  for (size_t j = weights.size(); j-- > 0;) {
    if (weights[j] <= stride || weights[j] % stride != 0) continue;
    int64_t q = weights[j] / stride;
    if (q < size && size % q == 0) inner = q;  // the outermost border that divides: cut there, then the rest again
  }
  if (inner == 1) {
    out.sizes.push_back(size), out.strides.push_back(stride), flips.push_back(flipped);
    return;
  }
  out.sizes.push_back(size / inner), out.strides.push_back(stride * inner), flips.push_back(flipped);
  split_at_borders(inner, stride, flipped, weights, out, flips);
}

/// The view `top` of the flat elements of `low`, as one view of what `low` views; false where that is not affine: some position of
/// `top` would carry from one digit of `low` into the next.
bool compose(const Geometry& top, const Geometry& low, Geometry& result) {
  Dims weights = contiguous_strides(low.sizes);
  Geometry cut;
  SmallVec<uint8_t, 8> flips;
  int64_t start = top.offset;
  for (size_t k = 0; k < top.sizes.size(); ++k) {
    int64_t size = top.sizes[k], stride = top.strides[k];
    if (stride == 0) {
      cut.sizes.push_back(size), cut.strides.push_back(0), flips.push_back(0);
      continue;
    }
    if (stride < 0) start += stride * (size - 1);
    split_at_borders(size, stride < 0 ? -stride : stride, stride < 0, weights, cut, flips);
  }
  Dims reach = digits(start, low.sizes);  // greatest digit reached
  int64_t offset = low.offset;
  for (size_t j = 0; j < reach.size(); ++j) offset += reach[j] * low.strides[j];
  Dims strides(cut.sizes.size());
  for (size_t k = 0; k < cut.sizes.size(); ++k) {
    Dims step = digits(cut.strides[k], low.sizes);
    for (size_t j = 0; j < step.size(); ++j) {
      reach[j] += step[j] * (cut.sizes[k] - 1);
      strides[k] += step[j] * low.strides[j];
    }
  }
  for (size_t j = 0; j < reach.size(); ++j)
    if (reach[j] >= low.sizes[j]) return false;
  for (size_t k = 0; k < cut.sizes.size(); ++k) {
    if (!flips[k]) continue;
    offset += strides[k] * (cut.sizes[k] - 1);
    strides[k] = -strides[k];
  }
  result = canonical(cut.sizes, strides, offset);
  return true;
}

/// Whether `g` reads only one of the two sources of a PAIRS; then `g` becomes its view of source number `source`.
bool reads_one(Geometry& g, int* source) {
  for (int64_t s : g.strides)
    if (s % 2 != 0) return false;
  *source = static_cast<int>(g.offset % 2);
  for (int64_t& s : g.strides) s /= 2;
  g.offset /= 2;
  return true;
}

bool is_identity(const Geometry& g, int64_t src_numel) {
  if (g.offset != 0 || product(g.sizes) != src_numel) return false;
  return g.sizes.empty() || (g.sizes.size() == 1 && g.strides[0] == 1);
}

}  // namespace

Ref make_view(const Ref& src, const Dims& sizes, const Dims& strides, int64_t offset) {
  int64_t numel = product(sizes);
  if (numel == 0) return nothing(src->dtype);
  Geometry g = canonical(sizes, strides, offset);
  UOp* base = src.get();
  while (!is_identity(g, base->numel)) {
    if (base->is(Op::PAIRS)) {
      int source = 0;
      if (!reads_one(g, &source)) break;
      base = base->src[source];
      if (base->numel == 1) g = canonical(g.sizes, Dims(g.sizes.size()), 0);
      continue;
    }
    if (!base->is(Op::VIEW)) break;
    const Record* r = base->arg.rec;
    Geometry low{r->a, r->b, r->n}, merged;
    if (!compose(g, low, merged)) break;
    g = std::move(merged);
    base = base->src[0];
  }
  if (is_identity(g, base->numel)) return Ref::share(base);
  Record r;
  r.a = std::move(g.sizes), r.b = std::move(g.strides), r.n = g.offset;
  return make(Op::VIEW, base->dtype, numel, Arg(intern(std::move(r))), {base});
}

int64_t wrap_dim(int64_t d, int64_t dim) {
  int64_t n = dim == 0 ? 1 : dim;
  if (d < -n || d >= n)
    throw Error(ErrorKind::Index, fmt::format("Dimension out of range (expected to be in range of [{}, {}], but got {})", -n, n - 1, d));
  return d < 0 ? d + n : d;
}

std::string text(const Dims& d) {
  return fmt::format("[{}]", fmt::join(d.begin(), d.end(), ", "));
}

}  // namespace detail

using detail::make_view;
using detail::wrap_dim;

Tensor Tensor::view(Dims sizes, Dims strides, int64_t offset) const {
  Ref node = make_view(node_, sizes, strides, offset);
  return Tensor(std::move(node), std::move(sizes));
}

Tensor Tensor::reshape(Dims sizes) const {
  int64_t known = 1, free = -1;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] == -1) free = static_cast<int64_t>(k);
    else known *= sizes[k];
  }
  if (free >= 0 && known != 0) sizes[free] = numel() / known;
  if (product(sizes) != numel())
    throw Error(ErrorKind::Value, fmt::format("reshape: {} elements do not fill {}", numel(), detail::text(sizes)));
  return Tensor(node_, std::move(sizes));
}

Tensor Tensor::permute(std::span<const int64_t> order) const {
  TINY_ASSERT(static_cast<int64_t>(order.size()) == dim(), "permute needs every dimension once");
  Dims strides = contiguous_strides(sizes_), s, t;
  for (int64_t d : order) {
    d = wrap_dim(d, dim());
    s.push_back(sizes_[d]);
    t.push_back(strides[d]);
  }
  return view(std::move(s), std::move(t), 0);
}

Tensor Tensor::transpose(int64_t a, int64_t b) const {
  a = wrap_dim(a, dim()), b = wrap_dim(b, dim());
  if (a == b) return *this;
  Dims s = sizes_, t = contiguous_strides(sizes_);
  std::swap(s[a], s[b]);
  std::swap(t[a], t[b]);
  return view(std::move(s), std::move(t), 0);
}

Tensor Tensor::expand(Dims sizes) const {
  size_t extra = sizes.size() - sizes_.size();
  bool fits = sizes.size() >= sizes_.size(), same = extra == 0;
  Dims own = contiguous_strides(sizes_), strides(sizes.size());
  for (size_t k = 0; fits && k < sizes_.size(); ++k) {
    int64_t& want = sizes[k + extra];
    if (want == -1) want = sizes_[k];
    if (want == sizes_[k]) strides[k + extra] = own[k];
    else fits = sizes_[k] == 1, same = false;
  }
  if (!fits) throw Error(ErrorKind::Value, fmt::format("expand: {} does not broadcast to {}", detail::text(sizes_), detail::text(sizes)));
  if (same) return *this;
  return view(std::move(sizes), std::move(strides), 0);
}

Tensor Tensor::slice(int64_t d, int64_t start, int64_t end, int64_t step) const {
  d = wrap_dim(d, dim());
  TINY_ASSERT(dim() > 0 && start >= 0 && start <= end && end <= sizes_[d] && step >= 1, "slice out of bounds");
  if (start == 0 && end == sizes_[d] && step == 1) return *this;
  Dims s = sizes_, t = contiguous_strides(sizes_);
  s[d] = (end - start + step - 1) / step;
  int64_t offset = s[d] == 0 ? 0 : start * t[d];
  t[d] *= step;
  return view(std::move(s), std::move(t), offset);
}

Tensor Tensor::select(int64_t d, int64_t i) const {
  d = wrap_dim(d, dim());
  TINY_ASSERT(dim() > 0 && i >= 0 && i < sizes_[d], "select out of bounds");
  Dims s = sizes_, t = contiguous_strides(sizes_);
  int64_t offset = i * t[d];
  s.erase(d);
  t.erase(d);
  return view(std::move(s), std::move(t), offset);
}

Tensor Tensor::flip(std::span<const int64_t> dims) const {
  Dims t = contiguous_strides(sizes_);
  int64_t offset = 0;
  for (int64_t d : dims) {
    d = wrap_dim(d, dim());
    if (dim() == 0) continue;
    TINY_ASSERT(t[d] >= 0, "a dimension is flipped twice");
    offset += t[d] * (sizes_[d] - 1);
    t[d] = -t[d];
  }
  return view(sizes_, std::move(t), offset);
}

Tensor Tensor::unsqueeze(int64_t d) const {
  Dims s = sizes_;
  s.insert(wrap_dim(d, dim() + 1), 1);
  return Tensor(node_, std::move(s));
}

Tensor Tensor::squeeze(int64_t d) const {
  d = wrap_dim(d, dim());
  if (dim() == 0 || sizes_[d] != 1) return *this;
  Dims s = sizes_;
  s.erase(d);
  return Tensor(node_, std::move(s));
}

Tensor Tensor::pad(std::span<const int64_t> lo, std::span<const int64_t> hi) const {
  TINY_ASSERT(lo.size() == sizes_.size() && hi.size() == sizes_.size(), "pad needs two numbers for every dimension");
  Record r;
  r.a = sizes_, r.b = Dims(lo), r.c = sizes_;
  bool moves = false;
  for (size_t k = 0; k < lo.size(); ++k) {
    r.c[k] += lo[k] + hi[k];
    moves |= lo[k] != 0 || hi[k] != 0;
    if (r.c[k] < 0)
      throw Error(ErrorKind::Value, fmt::format("pad: dimension {} of {} would get size {}", k, detail::text(sizes_), r.c[k]));
  }
  if (!moves) return *this;
  Dims out = r.c;
  if (numel() == 0 || product(out) == 0) return zeros(std::move(out), dtype());
  int64_t n = product(out);
  return Tensor(detail::make(Op::PAD, dtype(), n, Arg(intern(std::move(r))), {node()}), std::move(out));
}

Tensor Tensor::pad(std::span<const int64_t> lo, std::span<const int64_t> hi, const Tensor& fill) const {
  Tensor inside = full(sizes_, constant(DType::bool_, int64_t{1})).pad(lo, hi);
  return where(inside, pad(lo, hi), fill);
}

Tensor Tensor::contiguous() const {
  if (numel() == 0) return *this;
  return Tensor(detail::make(Op::CONTIGUOUS, dtype(), numel(), {}, {node()}), sizes_);
}

}  // namespace tiny
