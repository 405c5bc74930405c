// Values of operators that PyTorch makes of others, as it makes them: in the type that they compute in, rounded where it rounds.
#pragma once
#include "lower/args.h"

namespace tiny::lower {

/// x [.., K] times the transpose of weight [N, K], plus bias [N] if it is defined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);
/// x over the root of the mean of its squares plus eps, over the last `dims` dimensions; times `weight` if it is defined.
Tensor rms_norm(const Tensor& x, int64_t dims, const Tensor& weight, double eps);
/// softmax(q k^T scale + mask) v with all scores at hand: q [.., L, D], k [.., S, D], v [.., S, E]. The mask broadcasts against the scores;
/// one of bool says which keys are seen. A query that sees none gets zeros.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, double scale);

}  // namespace tiny::lower
