#include "lower/bag.h"

#include <cmath>

#include <fmt/format.h>

#include "lower/nn_util.h"
#include "lower/sort.h"

namespace tiny::lower {
namespace {

enum Mode : int64_t { kSum, kMean, kMax };

constexpr const char* kNoSuchRow = "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {}";

/// The bag of each of n indices: how many offsets, but the first, are not after it.
Tensor bag_of_each(const Tensor& offsets, int64_t n) {
  Tensor known = check(offsets, ge(offsets, index_constant(0)) & le(offsets, index_constant(n)),
      "offsets can not be greater than input's length, but got an offset of {}", n);
  Tensor starts = ne(iota(offsets.numel()), index_constant(0)) | eq(known, index_constant(0));
  known = check(known, starts, "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0, but "
      "got {}", 0);
  return count_before(known.contiguous(), iota(n), true) - index_constant(1);
}

void check_indices(const Args& a, const Tensor& weight, const Tensor& indices, const Tensor& offsets) {
  auto integer = [](const Tensor& t) { return t.dtype() == DType::i64 || t.dtype() == DType::i32; };
  if (indices.dim() != 1 && indices.dim() != 2) fail(ErrorKind::Runtime,
      fmt::format("input has to be a 1D or 2D Tensor, but got Tensor of dimension {}", indices.dim()));
  if (offsets.dim() != 1) fail(ErrorKind::Runtime, fmt::format("offsets has to be a 1D Tensor, but got Tensor of dimension {}",
      offsets.dim()));
  if (weight.dim() != 2) fail(ErrorKind::Runtime, fmt::format("weight has to be a 2D Tensor, but got Tensor of dimension {}",
      weight.dim()));
  for (const Tensor& t : {indices, offsets})
    if (!integer(t))
      fail(ErrorKind::Runtime, fmt::format("Expected tensor for argument to have one of the following scalar types: Long, Int; but got {} "
                                           "instead (while checking arguments for embedding_bag)", scalar_type_name(t.dtype())));
  if (!is_float(weight.dtype()))
    fail(ErrorKind::Runtime, fmt::format("expected weight of a floating-point type, but got {} (while checking arguments for "
        "embedding_bag)",
                                         scalar_type_name(weight.dtype())));
  if (a.has(6) && a.integer(4) != kSum) fail(ErrorKind::Runtime, "embedding_bag: per_sample_weights only supported with mode='sum'");
  if (a.has(6) && (a.tensor(6).dim() != 1 || a.tensor(6).numel() != indices.numel()))
    fail(ErrorKind::Runtime, "embedding_bag: per_sample_weights must be 1-D with as many elements as the indices");
}

}  // namespace

Results embedding_bag(Args& a) {
  const Tensor& weight = a.tensor(0);
  check_indices(a, weight, a.tensor(1), a.tensor(2));
  int64_t mode = a.integer(4), n = a.tensor(1).numel(), width = weight.size(1), padding = a.integer(8, -1);
  bool last_is_end = a.flag(7);
  if (last_is_end && a.tensor(2).size(0) < 1) fail(ErrorKind::Runtime, "include_last_offset: number of offset should be at least 1");
  int64_t bags = a.tensor(2).size(0) - last_is_end;
  DType d = weight.dtype(), c = compute_dtype(d), i = promote(a.tensor(1).dtype(), a.tensor(2).dtype());
  if (padding < -1 || padding >= weight.size(0)) {
    if (padding < 0 && padding >= -weight.size(0)) padding += weight.size(0);
    else fail(ErrorKind::Runtime, "padding_idx must be within the number of embeddings");
  }
  Tensor no_maximum = zeros({mode == kMax ? bags : 0, mode == kMax ? width : 0}, i);
  if (n == 0 || bags == 0)
    return {zeros({bags, width}, d), zeros({n}, i), zeros({bags}, i), no_maximum};
  Tensor index = checked_index(a.tensor(1).reshape({n}), weight.size(0), kNoSuchRow, false), offsets = a.tensor(2).cast(DType::i64);
  Tensor bag = bag_of_each(last_is_end ? offsets.slice(0, 0, bags) : offsets, n), counted = full({n}, truth(true));
  if (padding >= 0) counted = ne(index, index_constant(padding));
  Tensor at = where(counted, bag, index_constant(-1));
  Tensor size = scatter_rows(zeros({bags}, DType::i64), at, full({n}, index_constant(1)), Op::ADD);
  if (width == 0) return {zeros({bags, 0}, d), bag.cast(i), size.cast(i), no_maximum};
  Tensor rows = take_rows(weight, index).cast(c), filled = gt(size, index_constant(0)).unsqueeze(-1);
  if (a.has(6)) rows = rows * a.tensor(6).cast(c).unsqueeze(-1);
  if (mode != kMax) {
    Tensor sum = scatter_rows(zeros({bags, width}, c), at, rows, Op::ADD);
    if (mode == kMean) sum = rounded(sum, d) / rounded(maximum(size, index_constant(1)).cast(c), d).unsqueeze(-1);  // as the CPU
    return {sum.cast(d), bag.cast(i), size.cast(i), no_maximum};
  }
  Tensor best = scatter_rows(full({bags, width}, lowest(c)), at, rows, Op::MAX);
  // The first place of a bag that attains its maximum, then the row that it names.
  Tensor attains = eq(rows, take_rows(best, maximum(at, index_constant(0)))) | ne(rows, rows);
  Tensor place = where(attains, iota(n).reshape({n, 1}), index_constant(n));
  Tensor first = scatter_rows(full({bags, width}, index_constant(n)), at, place.expand(rows.sizes()), Op::MIN);
  Tensor chosen = gather_flat(index, minimum(first, index_constant(n - 1)));
  return {where(filled, best, constant(c, 0.0)).cast(d), bag.cast(i), size.cast(i), where(filled, chosen, index_constant(0)).cast(i)};
}

Tensor embedding_bag_dense_backward(Args& a) {
  const Tensor& grad = a.tensor(0);
  int64_t rows = a.integer(5), mode = a.integer(7), padding = a.integer(9, -1), n = a.tensor(1).numel(), width = grad.size(1);
  DType d = grad.dtype(), c = compute_dtype(d);
  Tensor out = zeros({rows, width}, d);  // in reduced floats rounded after every row, as on the CPU
  if (n == 0 || grad.numel() == 0 || rows == 0) return out;
  Tensor index = a.tensor(1).cast(DType::i64).reshape({n}), bag = a.tensor(2).cast(DType::i64);
  if (mode == kMax) {  // each column of a bag goes to the row that won it
    Tensor best = a.tensor(4).cast(DType::i64), filled = gt(a.tensor(3), constant(a.tensor(3).dtype(), int64_t{0})).unsqueeze(-1);
    Tensor column = iota_along(2, 1, width), at = where(filled, best * index_constant(width) + column, index_constant(-1));
    int64_t bags = grad.size(0);
    return scatter_flat(out.reshape({rows * width}), at.reshape({1, bags, width}), grad.reshape({1, bags, width}),
        Op::ADD).reshape({rows, width});
  }
  Tensor scale = a.has(8) ? a.tensor(8).cast(c) : full({n}, constant(c, 1.0));
  if (a.flag(6)) {
    Tensor counts = scatter_rows(zeros({rows}, DType::i64), index, full({n}, index_constant(1)), Op::ADD);
    scale = scale / gather_flat(counts, index).cast(c);
  }
  if (mode == kMean) scale = scale / maximum(gather_flat(a.tensor(3).cast(DType::i64), bag), index_constant(1)).cast(c);
  Tensor source = (take_rows(grad, bag).cast(c) * rounded(scale, d).unsqueeze(-1)).cast(d);
  if (padding >= 0) index = where(eq(index, index_constant(padding)), index_constant(-1), index);
  return scatter_rows(out, index, source, Op::ADD);
}

Tensor embedding_bag_weights_backward(Args& a) {
  const Tensor &grad = a.tensor(0), &weight = a.tensor(1);
  if (a.integer(5) != kSum) fail(ErrorKind::Runtime, "embedding_bag_backward: per_sample_weights only supported for mode='sum'");
  int64_t n = a.tensor(2).numel(), padding = a.integer(6, -1), last[] = {-1};
  DType d = grad.dtype(), c = compute_dtype(d);
  if (n == 0) return zeros({0}, d);
  Tensor index = a.tensor(2).cast(DType::i64).reshape({n});
  Tensor bag = a.tensor(4).numel() ? a.tensor(4).cast(DType::i64) : bag_of_each(a.tensor(3).cast(DType::i64), n);
  Tensor dot = (take_rows(grad.cast(c), bag) * take_rows(weight.cast(c), index)).sum(last);
  return (padding >= 0 ? where(eq(index, index_constant(padding)), constant(c, 0.0), dot) : dot).cast(d);
}

/// Rows that the indices name, scaled down to max_norm where they are longer. A row that is named twice gets the same value twice.
Tensor embedding_renorm(Args& a) {
  const Tensor& weight = a.tensor(0);
  if (weight.dim() != 2) fail(ErrorKind::Runtime, fmt::format("Expected 2-dimensional tensor, but got {}-dimensional tensor",
      weight.dim()));
  int64_t n = a.tensor(1).numel(), last[] = {-1};
  if (n == 0 || weight.numel() == 0) return weight;
  double most = a.number(2), p = a.number(3);
  DType d = weight.dtype(), c = compute_dtype(d);
  Tensor index = checked_index(a.tensor(1).reshape({n}), weight.size(0), index_in_self_text(a.op, 0), false);
  Tensor rows = take_rows(weight, index).cast(c), size = abs(rows), norm;
  if (p == 2) norm = sqrt((rows * rows).sum(last, true));
  else if (p == 1) norm = size.sum(last, true);
  else if (std::isinf(p)) norm = size.amax(last, true);
  else if (p == 0) norm = ne(rows, like(rows, 0)).cast(c).sum(last, true);
  else norm = binary(Op::POW, binary(Op::POW, size, like(size, p)).sum(last, true), like(size, 1 / p));
  Tensor limit = scalar(c, most), scaled = where(gt(norm, limit), rows * (limit / (norm + 1e-7)), rows);
  return scatter_rows(weight, index, scaled.cast(d), Op::NOOP);
}

}  // namespace tiny::lower
