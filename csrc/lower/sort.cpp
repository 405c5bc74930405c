#include "lower/sort.h"

#include <fmt/format.h>

#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

/// Rows along `dim`, and how to put results back.
struct Rows {
  Tensor values;          // dim last; a 0-d tensor as [1]
  int64_t dim;
  bool scalar;
};

Rows rows_of(const Tensor& x, int64_t dim) {
  int64_t d = wrap_dim(dim, x.dim());
  return {move_last(at_least_1d(x), d), d, x.dim() == 0};
}

/// `t` (dim last) with the dimension where it was.
Tensor back(const Rows& r, const Tensor& t) { return r.scalar ? t.reshape({}) : move_from_last(t, r.dim); }
/// `t` without the last dimension, or with size 1 at dim.
Tensor reduced(const Rows& r, const Tensor& t, bool keepdim) {
  if (r.scalar) return t.reshape({});
  return keepdim ? move_from_last(t.unsqueeze(-1), r.dim) : t;
}

/// values[.., index[.., j]] of each row.
Tensor pick(const Tensor& rows, const Tensor& index) {
  if (index.numel() == 0) return zeros(index.sizes(), rows.dtype());
  int64_t n = rows.size(-1), k = index.size(-1), count = index.numel() / k;
  Tensor flat = index.reshape({count, k}) + iota_along(2, 0, count, n);
  return gather_flat(rows, flat).reshape(index.sizes());
}

Results sorted(const Tensor& x, int64_t dim, bool descending) {
  Rows r = rows_of(x, dim);
  Tensor order = r.values.argsort(descending);
  return {back(r, pick(r.values, order)), back(r, order)};
}

/// One element of each row: values and indices at `order[.., position]`.
Results at_position(const Rows& r, const Tensor& order, const Tensor& position, bool keepdim) {
  Tensor p = position.dim() == order.dim() ? position : position.unsqueeze(-1);
  Dims sizes = order.sizes();
  sizes.back() = 1;
  Tensor index = pick(order, p.expand(sizes));
  Dims out(sizes.begin(), sizes.end() - 1);
  return {reduced(r, pick(r.values, index).reshape(out), keepdim), reduced(r, index.reshape(out), keepdim)};
}

Results median_along(Args& a, bool ignore_nan) {
  const Tensor& x = a.tensor(0);
  Rows r = rows_of(x, a.integer(1));
  int64_t n = r.values.size(-1), last[] = {-1};
  if (n == 0)
    fail(ErrorKind::Index, fmt::format("median(): Expected reduction dim {} to have non-zero size.", r.dim));
  Dims sizes(r.values.sizes().begin(), r.values.sizes().end() - 1);
  if (x.numel() == 0) return {reduced(r, zeros(sizes, x.dtype()), a.flag(2)), reduced(r, zeros(sizes, DType::i64), a.flag(2))};
  Tensor order = r.values.argsort(false), middle = full(sizes, index_constant((n - 1) / 2));
  if (is_float(x.dtype())) {
    Tensor nans = is_nan(r.values).cast(DType::i64).sum(last), numbers = index_constant(n) - nans;
    middle = ignore_nan ? maximum(numbers - index_constant(1), index_constant(0)) / index_constant(2)
                        : where(lt(index_constant(0), nans), numbers, middle);
  }
  return at_position(r, order, middle, a.flag(2));
}

Tensor median_all(Args& a, bool ignore_nan) {
  const Tensor& x = a.tensor(0);
  if (x.numel() == 0) return is_float(x.dtype()) ? constant(x.dtype(), __builtin_nan("")) : lowest(x.dtype());
  Args flat;
  flat.op = a.op;
  for (int k = 0; k < 3; ++k) flat.values.emplace_back();
  flat.values[0].kind = ArgKind::Tensor;
  flat.values[0].tensor = x.reshape({x.numel()});
  flat.values[1].kind = ArgKind::Int;
  flat.values[2].kind = ArgKind::Bool;
  return median_along(flat, ignore_nan)[0];
}

}  // namespace

Tensor count_before(const Tensor& rows, const Tensor& values, bool right, const Tensor* sorter) {
  int64_t n = rows.size(-1), m = values.dim() ? values.size(-1) : 1;
  if (values.numel() == 0 || n == 0) return zeros(values.sizes(), DType::i64);
  bool shared = rows.dim() == 1;
  int64_t count = shared ? 1 : values.numel() / m;
  Tensor v = values.reshape({count, values.numel() / count}), base = iota_along(2, 0, count, n), before = zeros(v.sizes(), DType::i64);
  int64_t step = 1;
  while (step * 2 <= n) step *= 2;
  for (; step > 0; step /= 2) {
    Tensor next = before + index_constant(step);
    Tensor inside = le(next, index_constant(n)), at = minimum(next, index_constant(n)) - index_constant(1);
    if (sorter) at = gather_flat(*sorter, at + base);
    Tensor element = gather_flat(rows, at + base);
    // Not "element < value": a NaN value then comes after everything, as in PyTorch.
    Tensor stays = right ? gt(element, v) : ge(element, v);
    before = where(binary(Op::AND, inside, stays.unary(Op::NOT)), next, before);
  }
  return before.reshape(values.sizes());
}

namespace {

Tensor search(Args& a, const Tensor& rows, int values_at, bool int32, bool right, const Tensor* sorter) {
  bool number = a.values[values_at].kind != ArgKind::Tensor;
  DType d = rows.dtype();
  Tensor values;
  if (number) {
    if (a.values[values_at].kind == ArgKind::Double && !is_float(d)) d = DType::f32;
    values = a.as(values_at, d);
  } else {
    values = a.tensor(values_at);
    if (values.dtype() != d)
      fail(ErrorKind::Runtime,
           fmt::format("torch.searchsorted(): boundary tensor and input value tensor should have same dtype, but got boundary tensor "
                       "dtype {} and input value tensor dtype {}",
                       scalar_type_name(d), scalar_type_name(values.dtype())));
  }
  Tensor r = count_before(rows.cast(d), values, right, sorter);
  return int32 ? r.cast(DType::i32) : r;
}

}  // namespace

Results sort_stable(Args& a) { return sorted(a.tensor(0), a.integer(2, -1), a.integer(3, 0) != 0); }

Results topk(Args& a) {
  const Tensor& x = a.tensor(0);
  int64_t k = a.integer(1);
  bool largest = a.integer(3, 1) != 0;
  Rows r = rows_of(x, a.integer(2, -1));
  if (k < 0 || k > r.values.size(-1)) fail(ErrorKind::Runtime, "selected index k out of range");
  Tensor index;
  if (k == 1 && largest && x.numel() > 0) {
    index = r.values.argmax(-1, true);
  } else {
    index = r.values.argsort(largest).slice(-1, 0, k);
  }
  return {back(r, pick(r.values, index)), back(r, index)};
}

Results kthvalue(Args& a) {
  const Tensor& x = a.tensor(0);
  Rows r = rows_of(x, a.integer(2, -1));
  int64_t k = a.integer(1), n = r.values.size(-1);
  bool keepdim = a.integer(3, 0) != 0;
  if (n == 0) fail(ErrorKind::Index, fmt::format("kthvalue(): Expected reduction dim {} to have non-zero size.", r.dim));
  if (k < 1 || k > n) fail(ErrorKind::Runtime, "kthvalue(): selected number k out of range for dimension " + std::to_string(r.dim));
  Dims sizes(r.values.sizes().begin(), r.values.sizes().end() - 1);
  if (x.numel() == 0) return {reduced(r, zeros(sizes, x.dtype()), keepdim), reduced(r, zeros(sizes, DType::i64), keepdim)};
  return at_position(r, r.values.argsort(false), full(sizes, index_constant(k - 1)), keepdim);
}

/// The longest run in the sorted row; of equally long ones the first, so the least value. Its last element gives the index.
Results mode(Args& a) {
  const Tensor& x = a.tensor(0);
  Rows r = rows_of(x, a.integer(1, -1));
  int64_t n = r.values.size(-1), last = r.values.dim() - 1;
  bool keepdim = a.integer(2, 0) != 0;
  if (x.dim() == 0) return {x, zeros({}, DType::i64)};
  if (n == 0) fail(ErrorKind::Index, fmt::format("mode(): Expected reduction dim {} to have non-zero size.", r.dim));
  Dims sizes(r.values.sizes().begin(), r.values.sizes().end() - 1);
  if (x.numel() == 0) return {reduced(r, zeros(sizes, x.dtype()), keepdim), reduced(r, zeros(sizes, DType::i64), keepdim)};
  Tensor order = r.values.argsort(false).contiguous(), sorted = pick(r.values, order).contiguous(),
      place = iota_along(static_cast<size_t>(last) + 1, static_cast<size_t>(last), n);
  Dims lo(static_cast<size_t>(last) + 1, 0), hi = lo;
  lo.back() = 1, hi.back() = -1;
  Tensor starts = binary(Op::OR, eq(place, index_constant(0)), ne(sorted, sorted.pad(lo, hi)));
  Tensor length = place - where(starts, place, index_constant(0)).scan(Op::MAX, last);
  return at_position(r, order, length.argmax(last), keepdim);
}

Results median_dim(Args& a) { return median_along(a, false); }
Results nanmedian_dim(Args& a) { return median_along(a, true); }
Tensor median(Args& a) { return median_all(a, false); }
Tensor nanmedian(Args& a) { return median_all(a, true); }

Tensor searchsorted(Args& a) {
  const Tensor& rows = a.tensor(0);
  bool right = a.integer(3, 0) != 0;
  if (a.has(4)) {
    std::string_view side = a.text(4);
    if (side != "left" && side != "right")
      fail(ErrorKind::Runtime, "torch.searchsorted(): side can only be 'left' or 'right' but got " + std::string(side));
    if (right && side == "left")
      fail(ErrorKind::Runtime, "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True");
    right = side == "right";
  }
  if (rows.dim() == 0)
    fail(ErrorKind::Runtime,
         "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got "
         "boundaries tensor dim(0)");
  if (rows.dim() > 1) {
    const ArgValue& v = a.values[1];
    bool fits = v.kind == ArgKind::Tensor && v.tensor.dim() == rows.dim();
    for (int64_t d = 0; fits && d + 1 < rows.dim(); ++d) fits = v.tensor.size(d) == rows.size(d);
    if (!fits)
      fail(ErrorKind::Runtime,
           "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input "
           "value tensor must match, but we got boundaries tensor " +
               sizes_text(rows.sizes()) + " and input value tensor " + (v.kind == ArgKind::Tensor ? sizes_text(v.tensor.sizes()) : "[]"));
  }
  if (a.has(5)) {
    if (!(a.tensor(5).sizes() == rows.sizes()))
      fail(ErrorKind::Runtime, "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor " +
                                   sizes_text(rows.sizes()) + "and got sorter tensor " + sizes_text(a.tensor(5).sizes()));
    if (a.tensor(5).dtype() != DType::i64)
      fail(ErrorKind::Runtime, fmt::format("torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {}",
                                           scalar_type_name(a.tensor(5).dtype())));
  }
  bool int32 = a.integer(2, 0) != 0;
  if (!a.has(5) || rows.numel() == 0) return search(a, rows, 1, int32, right, nullptr);
  // All of the sorter is checked, also what the search does not come to.
  const Tensor &sorter = a.tensor(5), zero = index_constant(0);
  Tensor inside = binary(Op::AND, ge(sorter, zero), lt(sorter, index_constant(rows.size(-1))));
  Tensor safe = where(inside, sorter, zero), found = search(a, rows, 1, int32, right, &safe);
  return check(found, inside.reduce(Op::AND, {}), "torch.searchsorted(): sorter index out of range", 0);
}

Tensor bucketize(Args& a) {
  const Tensor& boundaries = a.tensor(1);
  if (boundaries.dim() != 1)
    fail(ErrorKind::Runtime, fmt::format("boundaries tensor must be 1 dimension, but got dim({})", boundaries.dim()));
  return search(a, boundaries, 0, a.integer(2, 0) != 0, a.integer(3, 0) != 0, nullptr);
}

}  // namespace tiny::lower
