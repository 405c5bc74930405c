// Matrix products in groups (mixtures of experts): consecutive rows belong to one group, and every group has a matrix of its own. Where
// groups end is data, so shapes and kernels do not depend on it.
#pragma once
#include "lower/args.h"

namespace tiny::lower {

/// Row s of a [S, K] times the matrix of its group, b [G, K, N] (or [G, N, K], `transposed`): [S, N] in the compute dtype. Group g has the
/// rows from ends[g-1] up to ends[g]; rows behind the last end are 0.
Tensor grouped_rows(const Tensor& a, const Tensor& b, const Tensor& ends, bool transposed);
/// The columns of a [M, S] in a group times the rows of b [S, N] in it: [G, M, N] in the compute dtype.
Tensor grouped_products(const Tensor& a, const Tensor& b, const Tensor& ends);

}  // namespace tiny::lower
