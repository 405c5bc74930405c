#include "lower/segment.h"

#include <cmath>

#include <fmt/format.h>

#include "lower/nn_util.h"
#include "lower/sort.h"

namespace tiny::lower {
namespace {

/// Data as [B, N, R], the segment of each of the N places (S: none), and how long the segments are.
struct Segments {
  Tensor segment, length;   // [B, N], [B, S]
  int64_t b, n, r, s;
  Dims out;                 // sizes of the result
};

Segments read_segments(const Tensor& x, const Tensor& lengths, const Tensor& offsets, int64_t axis, bool check_total) {
  if (!lengths.defined() && !offsets.defined()) fail(ErrorKind::Runtime, "segment_reduce(): Either lengths or offsets must be defined.");
  const Tensor& given = lengths.defined() ? lengths : offsets;
  if (x.dim() == 0) fail(ErrorKind::Runtime, "segment_reduce(): Expected data to have at least one dimension");
  axis = wrap_dim(axis, x.dim());
  if (given.dim() == 0 || axis != given.dim() - 1)
    fail(ErrorKind::Runtime, fmt::format("segment_reduce(): Expected axis to be the last dimension of {} but got {}.",
        lengths.defined() ? "lengths" : "offsets", axis));
  for (int64_t d = 0; d < axis; ++d)
    if (given.size(d) != x.size(d)) fail(ErrorKind::Runtime, "segment_reduce(): Expected the leading sizes of lengths or offsets to "
        "be those of data");
  Segments r{{}, {}, 1, x.size(axis), 1, given.size(-1) - (lengths.defined() ? 0 : 1), x.sizes()};
  for (int64_t d = 0; d < axis; ++d) r.b *= x.size(d);
  for (int64_t d = axis + 1; d < x.dim(); ++d) r.r *= x.size(d);
  r.out[axis] = r.s;
  if (r.b == 0 || r.s <= 0) return r;
  Tensor ends, first = index_constant(0), table = given.cast(DType::i64).reshape({r.b, given.size(-1)});
  if (lengths.defined()) {
    Tensor known = check(table, ge(table, index_constant(0)), "lengths contains negative value!", 0);
    ends = known.scan(Op::ADD, 1);
    if (check_total) {
      Tensor last = eq(iota_along(2, 1, r.s), index_constant(r.s - 1));
      ends = check(ends, (!last) | eq(ends, index_constant(r.n)),
          "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe, but got {}", r.n);
    }
    r.length = known;
  } else {
    ends = table.slice(1, 1, r.s + 1), first = table.slice(1, 0, 1);
    r.length = ends - table.slice(1, 0, r.s);
  }
  Tensor place = iota_along(2, 1, r.n).expand({r.b, r.n});
  r.segment = r.n == 0 ? zeros({r.b, 0}, DType::i64) : count_before(ends.contiguous(), place, true);
  if (!lengths.defined()) r.segment = where(lt(place, first), index_constant(r.s), r.segment);
  return r;
}

Op word_op(std::string_view word) {
  if (word == "sum" || word == "mean") return Op::ADD;
  if (word == "prod") return Op::MUL;
  if (word == "max") return Op::MAX;
  if (word == "min") return Op::MIN;
  fail(ErrorKind::Runtime, "Unsupported reduction type: " + std::string(word));
}

double identity_of(std::string_view word) { return word == "max" ? -INFINITY : word == "min" ? INFINITY : word == "prod" ? 1 : 0; }

/// Flat positions of the data's elements in the result [B, S, R]; -1 outside of the segments.
Tensor places(const Segments& s) {
  Tensor inside = lt(s.segment, index_constant(s.s)), row = s.segment + iota_along(2, 0, s.b, s.s);
  Tensor base = where(inside, row * index_constant(s.r), index_constant(-s.r)).reshape({s.b, s.n, 1});
  return where(lt(base, index_constant(0)), index_constant(-1), base + iota_along(3, 2, s.r)).expand({s.b, s.n, s.r});
}

Tensor gathered(const Tensor& per_segment, const Tensor& place) {
  return gather_flat(per_segment, maximum(place, index_constant(0)));
}

}  // namespace

// Both round after every step, as the CPU does.

Tensor segment_reduce(Args& a) {
  const Tensor& x = a.tensor(0);
  std::string_view word = a.text(1);
  Op op = word_op(word);
  if (a.has(3)) fail(ErrorKind::Runtime, "segment_reduce(): indices based reduction is not supported yet.");
  Segments s = read_segments(x, a.has(2) ? a.tensor(2) : Tensor(), a.has(4) ? a.tensor(4) : Tensor(), a.integer(5, 0), !a.flag(6));
  DType d = x.dtype(), c = compute_dtype(d);
  if (any_zero(s.out)) return zeros(s.out, d);
  bool initial = a.has(7);
  Tensor start = initial ? scalar(d, a.number(7)) : constant(d, identity_of(word));
  Tensor r = full({s.b * s.s * s.r}, start);
  if (s.n > 0) r = scatter_flat(r, places(s), x.reshape({s.b, s.n, s.r}), op);
  if (word == "mean") {
    Tensor length = s.length.reshape({s.b * s.s, 1}), none = eq(length, index_constant(0));
    Tensor mean = r.reshape({s.b * s.s, s.r}).cast(c) / maximum(length, index_constant(1)).cast(d).cast(c);
    r = where(none, initial ? start : constant(d, NAN), mean.cast(d));
  }
  return r.reshape(s.out);
}

Tensor segment_reduce_backward(Args& a) {
  const Tensor &x = a.tensor(2), zero_index = index_constant(0);
  std::string_view word = a.text(3);
  Segments s = read_segments(x, a.has(4) ? a.tensor(4) : Tensor(), a.has(5) ? a.tensor(5) : Tensor(), a.integer(6, 0), false);
  DType d = x.dtype(), c = compute_dtype(d);
  if (x.numel() == 0 || any_zero(s.out)) return zeros(x.sizes(), d);
  Tensor place = places(s), v = x.cast(c).reshape({s.b, s.n, s.r}), g = gathered(a.tensor(0).cast(c), place);
  Tensor zero = constant(c, 0.0), one = constant(c, 1.0), r;
  auto total = [&](const Tensor& each) { return gathered(scatter_flat(zeros({s.b * s.s * s.r}, c), place, each, Op::ADD), place); };
  if (word == "sum") r = g;
  if (word == "mean") {
    Tensor lengths = maximum(s.length, index_constant(1)).cast(d).cast(c);
    r = g / gathered(lengths, maximum(place, zero_index) / index_constant(s.r));
  }
  if (word == "max" || word == "min") {  // shared among equal elements
    Tensor chosen = eq(v, gathered(a.tensor(1).cast(c), place)) | ne(v, v);
    r = where(chosen, g / total(chosen.cast(c)), zero);
  }
  if (word == "prod") {  // the product of the others: of the plain elements, if no other is zero or NaN
    Tensor is_zero = eq(v, zero), is_nan = ne(v, v), plain = where(is_zero | is_nan, one, v);
    Tensor start = a.has(7) ? scalar(d, a.number(7)) : constant(d, 1.0);
    Tensor product = gathered(scatter_flat(full({s.b * s.s * s.r}, start), place, plain.cast(d), Op::MUL).cast(c), place);
    Tensor zeros_elsewhere = total(is_zero.cast(c)) - is_zero.cast(c), nans_elsewhere = total(is_nan.cast(c)) - is_nan.cast(c);
    Tensor others = where(gt(nans_elsewhere, zero), constant(c, NAN), where(gt(zeros_elsewhere, zero), zero, product));
    Tensor of_all = rounded(g * gathered(a.tensor(1).cast(c), place), d);
    r = where(is_zero | is_nan, g * others, of_all / v);
  }
  return where(lt(place, zero_index), zero, r).reshape(x.sizes()).cast(d);
}

}  // namespace tiny::lower
