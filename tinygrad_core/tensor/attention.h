// Attention as one operator whose scores are never stored. See attention and attention_backward in uop/builtins.def.
#pragma once
#include "tensor/tensor.h"
#include "uop/attention_blocks.h"

namespace tiny {

/// softmax(scale q k^T + bias) v of f32 or f64: q [B,H,L,D], k [B,H,S,D], v [B,H,S,E], none of them empty, D and E at most
/// kMostAttentionWidth. `bias`, if defined, has 4 dimensions, each as the scores [B,H,L,S] or 1. Causal: query i sees the keys 0 .. i.
struct AttentionMask {
  Tensor bias;
  bool causal = false;
};
inline constexpr int64_t kMostAttentionWidth = 256;
/// `log_sums` [B,H,L]: logarithm of the sum of the exponentials of each query's scores. A query that sees no key gets zeros.
struct Attention {
  Tensor out, log_sums;
};
Attention attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask, double scale);

struct AttentionGradients {
  Tensor q, k, v;
};
AttentionGradients attention_gradients(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Attention& made,
                                       const AttentionMask& mask, double scale);

/// The same on the tensor cores of a GPU (Caps::tensor_cores of at least 90): q, k, v, grad and results of f16 or bf16, D and E multiples
/// of AttentionBlocks::kElements, log_sums and bias of f32.
Attention attention_on_cores(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask, double scale);
AttentionGradients attention_gradients_on_cores(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                                                const Attention& made, const AttentionMask& mask, double scale);

}  // namespace tiny
