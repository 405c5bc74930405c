// The fused paths of nn.MultiheadAttention and nn.TransformerEncoderLayer in inference, made of other operators: what they fuse by hand is
// fused anyway.
#include "tensor.h"

namespace tiny::glue {
namespace {

/// query, key, value of B sequences of T rows times their parts of the weight [3D, D], with bias: [3, B, heads, T, D / heads].
at::Tensor project(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& weight,
                   const at::Tensor& bias, int64_t heads) {
  const int64_t batch = query.size(0), rows = query.size(1), width = bias.size(0) / 3;
  at::Tensor all;
  if (query.is_same(key) && key.is_same(value)) {
    all = at::linear(query, weight, bias);
  } else {
    const auto w = weight.chunk(3), b = bias.chunk(3);
    all = at::cat({at::linear(query, w[0], b[0]), at::linear(key, w[1], b[1]), at::linear(value, w[2], b[2])}, -1);
  }
  return all.view({batch, rows, 3, heads, width / heads}).permute({2, 0, 3, 1, 4});
}

std::tuple<at::Tensor, at::Tensor> multi_head_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                                        int64_t width, int64_t heads, const at::Tensor& weight, const at::Tensor& bias,
                                                        const at::Tensor& out_weight, const at::Tensor& out_bias,
                                                        const std::optional<at::Tensor>& mask, bool need_weights, bool average_weights,
                                                        std::optional<int64_t> mask_type) {
  TORCH_CHECK(query.dim() == 3, "expected 3-D `query`, got ", query.dim(), "-D tensor");
  TORCH_CHECK(query.size(2) == width, "passed-in embed_dim ", width, " didn't match last dim of query ", query.size(2));
  TORCH_CHECK(query.sizes() == key.sizes() && key.sizes() == value.sizes(), "expected `query`/`key`/`value` shapes to match");
  TORCH_CHECK(weight.dim() == 2, "expected 2-D `qkv_weight`, got ", weight.dim(), "-D tensor");
  TORCH_CHECK(width * 3 == weight.size(0), "expected `qkv_weight` first dim to be 3x embed_dim");
  TORCH_CHECK(width == weight.size(1), "expected `qkv_weight` second dim to be embed_Dim");
  TORCH_CHECK(bias.dim() == 1, "expected 1-D `qkv_bias`, got ", bias.dim(), "-D tensor");
  TORCH_CHECK(bias.size(0) == 3 * width, "expected `qkv_bias` first dim and first dim of query to be equal");
  TORCH_CHECK(width % heads == 0, "`embed_dim` must divide evenly by `num_heads`");
  const at::Tensor parts = project(query, key, value, weight, bias, heads);
  const double scale = 1 / std::sqrt(static_cast<double>(width / heads));
  at::Tensor scores = at::matmul(parts[0] * scale, parts[1].transpose(-2, -1));
  scores = mask ? at::_masked_softmax(scores, mask->to(at::kBool), -1, mask_type) : at::softmax(scores, -1);
  const at::Tensor context = at::matmul(scores, parts[2]).transpose(1, 2).flatten(2);
  at::Tensor out = at::linear(context, out_weight, out_bias);
  if (!need_weights) return {out, at::Tensor()};
  return {out, average_weights ? scores.mean(1) : scores};
}

at::Tensor transformer_encoder_layer(const at::Tensor& src, int64_t width, int64_t heads, const at::Tensor& weight, const at::Tensor& bias,
                                     const at::Tensor& out_weight, const at::Tensor& out_bias, bool use_gelu, bool norm_first, double eps,
                                     const at::Tensor& norm_weight_1, const at::Tensor& norm_bias_1, const at::Tensor& norm_weight_2,
                                     const at::Tensor& norm_bias_2, const at::Tensor& weight_1, const at::Tensor& bias_1,
                                     const at::Tensor& weight_2, const at::Tensor& bias_2, const std::optional<at::Tensor>& mask,
                                     std::optional<int64_t> mask_type) {
  if (src.numel() == 0) return src.clone();
  const auto norm_1 = [&](const at::Tensor& x) { return at::layer_norm(x, {width}, norm_weight_1, norm_bias_1, eps); };
  const auto norm_2 = [&](const at::Tensor& x) { return at::layer_norm(x, {width}, norm_weight_2, norm_bias_2, eps); };
  const auto attend = [&](const at::Tensor& x) {
    return std::get<0>(multi_head_attention(x, x, x, width, heads, weight, bias, out_weight, out_bias, mask, false, true, mask_type));
  };
  const auto feed_forward = [&](const at::Tensor& x) {
    const at::Tensor inner = at::linear(x, weight_1, bias_1);
    return at::linear(use_gelu ? at::gelu(inner) : at::relu(inner), weight_2, bias_2);
  };
  if (norm_first) {
    const at::Tensor x = src + attend(norm_1(src));
    return x + feed_forward(norm_2(x));
  }
  const at::Tensor x = norm_1(src + attend(src));
  return norm_2(x + feed_forward(x));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_native_multi_head_attention", TORCH_FN(multi_head_attention));
  m.impl("_transformer_encoder_layer_fwd", TORCH_FN(transformer_encoder_layer));
}

}  // namespace
}  // namespace tiny::glue
