// nn.LSTM: a layer and direction is one operator, with the derivative that PyTorch has for the CPU's. PyTorch's kernel for every device
// calls several operators for each time step; it serves what this does not, and raises for wrong arguments.
#include <ATen/ops/lstm_native.h>

#include "autograd.h"
#include "tensor.h"

namespace tiny::glue {
namespace {

constexpr int64_t kLstm = 2;  // oneDNN's number for the mode, as torch/backends has it

using Result = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

struct Options {
  bool has_biases;
  int64_t layers;
  double dropout;
  bool train, bidirectional, batch_first;
};

/// All arguments as they should be, and nothing that needs single steps: projections, tangents.
bool serves(const at::Tensor& input, at::TensorList states, at::TensorList params, const Options& o) {
  const int64_t directions = o.bidirectional ? 2 : 1, of_layer = o.has_biases ? 4 : 2;
  if (states.size() != 2 || input.dim() != 3 || input.numel() == 0 || o.layers < 1) return false;
  if (static_cast<int64_t>(params.size()) != o.layers * directions * of_layer || !at::isFloatingType(input.scalar_type())) return false;
  const at::Tensor &hx = states[0], &cx = states[1];
  const int64_t rows = input.size(o.batch_first ? 0 : 1), width = hx.size(-1);
  const auto fits = [&](const at::Tensor& t, c10::IntArrayRef sizes) {
    return t.sizes() == sizes && t.scalar_type() == input.scalar_type() && t.device() == input.device() && !has_tangent(t);
  };
  if (hx.dim() != 3 || has_tangent(input) || width == 0) return false;
  if (!fits(hx, {o.layers * directions, rows, width}) || !fits(cx, hx.sizes())) return false;
  for (int64_t i = 0; i < o.layers * directions; ++i) {
    const int64_t wide = i < directions ? input.size(2) : directions * width;
    const at::TensorList p = params.slice(static_cast<size_t>(i * of_layer), static_cast<size_t>(of_layer));
    if (!fits(p[0], {4 * width, wide}) || !fits(p[1], {4 * width, width})) return false;
    if (o.has_biases && (!fits(p[2], {4 * width}) || !fits(p[3], {4 * width}))) return false;
  }
  return true;
}

Result layers(const at::Tensor& input, at::TensorList states, at::TensorList params, const Options& o) {
  const int64_t directions = o.bidirectional ? 2 : 1, of_layer = o.has_biases ? 4 : 2, width = states[0].size(2);
  const auto hx = states[0].unbind(0), cx = states[1].unbind(0);
  const at::Tensor none = o.has_biases ? at::Tensor() : at::zeros({4 * width}, input.options());
  at::Tensor x = o.batch_first ? input.transpose(0, 1) : input;
  std::vector<at::Tensor> last_h, last_c;
  for (int64_t layer = 0; layer < o.layers; ++layer) {
    std::vector<at::Tensor> outputs;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const size_t i = static_cast<size_t>(layer * directions + direction);
      const at::Tensor* p = &params[i * static_cast<size_t>(of_layer)];
      auto [y, hy, cy, kept] = at::mkldnn_rnn_layer(x, p[0], p[1], o.has_biases ? p[2] : none, o.has_biases ? p[3] : none, hx[i], cx[i],
                                                    direction == 1, {}, kLstm, width, o.layers, o.has_biases, o.bidirectional, false,
                                                    o.train);
      outputs.push_back(y), last_h.push_back(hy), last_c.push_back(cy);
    }
    x = directions == 1 ? outputs[0] : at::cat(outputs, -1);
    if (o.dropout > 0 && o.train && layer + 1 < o.layers) x = at::dropout(x, o.dropout, true);
  }
  return {o.batch_first ? x.transpose(0, 1) : x, at::stack(last_h), at::stack(last_c)};
}

Result lstm(const at::Tensor& input, at::TensorList states, at::TensorList params, bool has_biases, int64_t num_layers, double dropout,
            bool train, bool bidirectional, bool batch_first) {
  const Options o{has_biases, num_layers, dropout, train, bidirectional, batch_first};
  if (serves(input, states, params, o)) return layers(input, states, params, o);
  return at::native::lstm(input, states, params, has_biases, num_layers, dropout, train, bidirectional, batch_first);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("lstm.input", TORCH_FN(lstm)); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("lstm.input", TORCH_FN(lstm)); }

}  // namespace
}  // namespace tiny::glue
