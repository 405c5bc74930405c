// Sorting and order statistics. NaN sorts as greatest; equal elements keep their order.
#pragma once
#include "lower/args.h"

namespace tiny::lower {

Results sort_stable(Args& a);      // (self, stable, dim, descending) -> values, indices
Results topk(Args& a);             // (self, k, dim, largest, sorted)
Results kthvalue(Args& a);         // (self, k, dim, keepdim)
Results mode(Args& a);             // (self, dim, keepdim): the most frequent value, the least of several
Results median_dim(Args& a);       // (self, dim, keepdim): lower median; NaN if there is one
Results nanmedian_dim(Args& a);
Tensor median(Args& a);            // over all elements
Tensor nanmedian(Args& a);
Tensor searchsorted(Args& a);      // (sorted_sequence, self tensor or number, out_int32, right, side, sorter)
Tensor bucketize(Args& a);         // (self tensor or number, boundaries, out_int32, right)

/// How many elements of the sorted rows come before each value: a binary search in a fixed number of steps.
/// rows [.., n] (or [n], for all values), values [.., m]; right: elements equal to the value come before it.
Tensor count_before(const Tensor& rows, const Tensor& values, bool right, const Tensor* sorter = nullptr);

}  // namespace tiny::lower
