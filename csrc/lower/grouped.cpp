#include "lower/grouped.h"

#include "lower/nn_util.h"
#include "lower/sort.h"

namespace tiny::lower {
namespace {

/// The group of each of n rows, [n]; -1 for rows behind the last. In memory: every element of a product reads it.
Tensor group_of_rows(const Tensor& ends, int64_t n) {
  Tensor group = count_before(ends.cast(DType::i64).contiguous(), iota(n), true);
  return where(lt(group, index_constant(ends.size(0))), group, index_constant(-1)).contiguous();
}

/// What every element of a row or column of the result reads, in the dtype of the sums: 16 bits are widened once.
Tensor widened(const Tensor& x) {
  const DType acc = compute_dtype(x.dtype());
  return x.dtype() == acc ? x : x.cast(acc).contiguous();
}

}  // namespace

Tensor grouped_rows(const Tensor& a, const Tensor& b, const Tensor& ends, bool transposed) {
  const int64_t rows = a.size(0), k = a.size(1), groups = b.size(0), n = b.size(transposed ? 1 : 2);
  const DType acc = compute_dtype(a.dtype());
  if (rows == 0 || k == 0 || n == 0 || groups == 0) return zeros({rows, n}, acc);
  Tensor group = group_of_rows(ends, rows).reshape({rows, 1, 1}), zero = index_constant(0);
  Tensor position = maximum(group, zero) * index_constant(k * n);
  position = position + iota_along(3, 1, n, transposed ? k : 1) + iota_along(3, 2, k, transposed ? 1 : n);
  Tensor product = (widened(a).reshape({rows, 1, k}) * gather_flat(b, position).cast(acc)).sum(Dims{2});
  return where(le(zero, group.reshape({rows, 1})), product, constant(acc, 0.0));
}

Tensor grouped_products(const Tensor& a, const Tensor& b, const Tensor& ends) {
  const int64_t m = a.size(0), rows = a.size(1), n = b.size(1), groups = ends.size(0);
  const DType acc = compute_dtype(a.dtype());
  if (rows == 0 || m == 0 || n == 0 || groups == 0) return zeros({groups, m, n}, acc);
  Tensor columns = a.cast(acc).contiguous();  // read by ascending row: side by side
  Tensor each = columns.transpose(0, 1).reshape({rows, m, 1}) * widened(b).reshape({rows, 1, n});
  return scatter_rows(zeros({groups, m, n}, acc), group_of_rows(ends, rows), each, Op::ADD);
}

}  // namespace tiny::lower
