// Connectionist temporal classification. Source: Graves et al., ICML 2006, equations 6 to 16, in logarithms.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

/// (log_probs [T, N, C], targets, input_lengths, target_lengths, blank, zero_infinity) -> neg_log_likelihood [N], log_alpha [N, T, 2S+1]
Results ctc_loss(Args& a);
/// (grad [N], log_probs, targets, input_lengths, target_lengths, neg_log_likelihood, log_alpha, blank, zero_infinity)
Tensor ctc_loss_backward(Args& a);

}  // namespace tiny::lower
