// Joining, gathering and scattering.
#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "tensor/detail.h"

namespace tiny {
namespace {

using detail::make;

/// Up to this many parts a cat is a choice between padded parts, which fuses with its users; above, writes into one value.
constexpr size_t kSelectParts = 4;

/// The position along `d` of each element, with size 1 elsewhere: broadcasts against [.., n at d, ..].
Tensor position(int64_t n, int64_t d, int64_t dim) {
  Dims shape(dim, 1);
  shape[d] = n;
  return iota(n).reshape(shape);
}

Tensor cat_by_select(std::span<const Tensor> parts, int64_t d, const Dims& sizes) {
  Tensor at = position(sizes[d], d, sizes.size()), out;
  int64_t end = sizes[d];
  for (size_t k = parts.size(); k-- > 0;) {
    int64_t n = parts[k].size(d);
    Dims lo(sizes.size()), hi(sizes.size());
    lo[d] = end - n, hi[d] = sizes[d] - end;
    Tensor padded = parts[k].pad(lo, hi);
    out = out.defined() ? where(lt(at, constant(kIndex, end)), padded, out) : padded;
    end -= n;
  }
  return out;
}

Tensor cat_by_writes(std::span<const Tensor> parts, int64_t d, const Dims& sizes) {
  Tensor out = empty_value(sizes, parts[0].dtype());
  Dims strides = contiguous_strides(sizes);
  int64_t start = 0;
  for (const Tensor& p : parts) {
    out = assign_view(out, strides, start * strides[d], p);
    start += p.size(d);
  }
  return out;
}

Tensor scatter(const Tensor& x, const Tensor& index, const Tensor& src, Op op, Dims shape) {
  Record r;
  r.a = std::move(shape);
  r.n = static_cast<int64_t>(op);
  return Tensor(make(Op::SCATTER, x.dtype(), x.numel(), Arg(intern(std::move(r))), {x.node(), index.node(), src.node()}), x.sizes());
}

}  // namespace

Tensor cat(std::span<const Tensor> parts, int64_t d) {
  TINY_ASSERT(!parts.empty(), "cat of nothing");
  d = detail::wrap_dim(d, parts[0].dim());
  Dims sizes = parts[0].sizes();
  std::vector<Tensor> filled;
  sizes[d] = 0;
  for (const Tensor& p : parts) {
    TINY_ASSERT(p.dtype() == parts[0].dtype() && p.dim() == parts[0].dim(), "cat of different dtypes or dimensions");
    for (int64_t k = 0; k < p.dim(); ++k)
      if (k != d && p.size(k) != sizes[k])
        throw Error(ErrorKind::Value, fmt::format("Sizes of tensors must match except in dimension {}. Expected {} but got {}", d,
                                                  detail::text(parts[0].sizes()), detail::text(p.sizes())));
    sizes[d] += p.size(d);
    if (p.numel() > 0) filled.push_back(p);
  }
  if (filled.empty()) return Tensor(detail::nothing(parts[0].dtype()), std::move(sizes));
  if (filled.size() == 1) return filled[0];
  return filled.size() <= kSelectParts ? cat_by_select(filled, d, sizes) : cat_by_writes(filled, d, sizes);
}

Tensor interleave(const Tensor& a, const Tensor& b) {
  TINY_ASSERT(a.dtype() == b.dtype() && a.sizes() == b.sizes(), "interleaved values have one dtype and one shape");
  Dims sizes = a.sizes();
  sizes.push_back(2);
  if (a.numel() == 0) return Tensor(detail::nothing(a.dtype()), std::move(sizes));
  UOp *even = detail::broadcast_source(a.node()), *odd = detail::broadcast_source(b.node());
  return Tensor(make(Op::PAIRS, a.dtype(), a.numel() * 2, {}, {even, odd}), std::move(sizes));
}

Tensor check(const Tensor& value, const Tensor& ok, std::string text, int64_t limit) {
  TINY_ASSERT(is_bool(ok.dtype()) && (ok.numel() == value.numel() || ok.numel() == 1), "a check has one condition for each value");
  if (value.numel() == 0) return value;
  Record r;
  r.n = limit;
  r.text = std::move(text);
  UOp *u = detail::broadcast_source(value.node()), *holds = detail::broadcast_source(ok.node());
  int64_t width = std::max(u->numel, holds->numel);
  Ref node = make(Op::CHECK, value.dtype(), width, Arg(intern(std::move(r))), {u, holds});
  return width == value.numel() ? Tensor(std::move(node), value.sizes()) : full(value.sizes(), Tensor(std::move(node), {}));
}

namespace {
/// A view without the dimensions along which it repeats itself (they become 1); other tensors as they are.
Tensor without_repeats(const Tensor& x) {
  const UOp* u = x.node();
  if (!u->is(Op::VIEW) || u->arg.rec->a != x.sizes()) return x;
  Tensor narrow = x;
  for (int64_t d = 0; d < x.dim(); ++d)
    if (u->arg.rec->b[d] == 0 && x.size(d) > 1) narrow = narrow.slice(d, 0, 1);
  return narrow;
}
}  // namespace

Tensor checked_index(const Tensor& index, int64_t limit, std::string text, bool allow_negative) {
  TINY_ASSERT(is_int(index.dtype()), "an index is an integer");
  if (Tensor narrow = without_repeats(index); narrow.numel() < index.numel())
    return checked_index(narrow, limit, std::move(text), allow_negative).expand(index.sizes());
  Tensor i = index.cast(kIndex);
  if (i.numel() == 0) return i;
  Tensor low = constant(kIndex, allow_negative ? -limit : int64_t{0}), end = constant(kIndex, limit);
  Tensor ok = binary(Op::AND, ge(i, low), lt(i, end));
  Tensor checked = check(i, ok, std::move(text), limit);
  if (!allow_negative) return checked;
  return where(lt(checked, constant(kIndex, int64_t{0})), checked + end, checked);
}

Tensor gather_flat(const Tensor& x, const Tensor& index) {
  TINY_ASSERT(index.dtype() == kIndex, "an index within bounds is i64");
  if (index.numel() == 0) return Tensor(detail::nothing(x.dtype()), index.sizes());
  // Every index into nothing has failed its CHECK and is 0: the CHECK must still run.
  if (x.numel() == 0) return index.cast(x.dtype());
  UOp* at = detail::broadcast_source(index.node());
  Ref node = make(Op::GATHER, x.dtype(), at->numel, {}, {x.node(), at});
  return at->numel == index.numel() ? Tensor(std::move(node), index.sizes()) : full(index.sizes(), Tensor(std::move(node), {}));
}

Tensor take_rows(const Tensor& x, const Tensor& index) {
  TINY_ASSERT(x.dim() >= 1, "take_rows of a 0-d tensor");
  Dims out = index.sizes(), row(x.sizes().begin() + 1, x.sizes().end());
  out.append(row.begin(), row.end());
  int64_t width = product(row);
  if (product(out) == 0) return Tensor(detail::nothing(x.dtype()), std::move(out));
  Tensor first = index.reshape({index.numel(), 1});
  Tensor flat = gather_flat(x, width == 1 ? first : first * constant(kIndex, width) + iota(width));
  return Tensor(flat.ref(), std::move(out));
}

Tensor scatter_flat(const Tensor& x, const Tensor& index, const Tensor& src, Op op) {
  TINY_ASSERT(index.dtype() == kIndex && index.dim() == 3 && index.sizes() == src.sizes() && src.dtype() == x.dtype(),
              "index and source of a scatter have one shape [B, U, D]");
  if (x.numel() == 0 || index.numel() == 0) return x;
  return scatter(x, index, src, op, index.sizes());
}

Tensor scatter_rows(const Tensor& x, const Tensor& index, const Tensor& src, Op op) {
  TINY_ASSERT(x.dim() >= 1 && index.dtype() == kIndex && index.numel() == src.size(0) && src.dtype() == x.dtype(),
              "one index for each row of the source");
  if (x.numel() == 0 || src.numel() == 0) return x;
  return scatter(x, index, src, op, {1, index.numel(), x.numel() / x.size(0)});
}

Tensor assign_view(const Tensor& x, const Dims& strides, int64_t offset, const Tensor& src) {
  TINY_ASSERT(src.dtype() == x.dtype() && strides.size() == src.sizes().size(), "a write through a view keeps dtype and geometry");
  if (src.numel() == 0) return x;
  if (offset == 0 && src.numel() == x.numel() && strides == contiguous_strides(src.sizes())) return Tensor(src.ref(), x.sizes());
  Record r;
  r.a = src.sizes(), r.b = strides, r.n = offset;
  return Tensor(make(Op::ASSIGN, x.dtype(), x.numel(), Arg(intern(std::move(r))), {x.node(), src.node()}), x.sizes());
}

}  // namespace tiny
