// The steps of an LSTM's layer: a product with the weights of the last output, and the cell's functions on it while it is in registers.
// A tile is a few rows of the batch times the four gates of as many units as a vector has lanes.
// Source of the formulas: F. Gers, J. Schmidhuber, F. Cummins, Learning to forget (2000), and their derivatives.
#pragma once
#include "runtime/builtin/vector_math.h"

namespace tiny {
namespace {

template <class T, int Bytes>
struct Lstm {
  typedef VectorMath<T, Bytes> Math;
  typedef typename Math::V V;
  static constexpr int kLanes = Vector<T, Bytes>::lanes;
  static constexpr int kRows = Bytes >= 64 ? 6 : 2;  // of a tile: four accumulators for each
  static constexpr int kGroups = 4;                  // of units in a panel of the backward pass

  /// The first n of a vector's lanes.
  static V load(const T* p, int64_t n) {
    if (n >= kLanes) return at<T, Bytes>(p);
    V x{};
    for (int64_t i = 0; i < n; ++i) x[i] = p[i];
    return x;
  }
  static void store(T* p, V x, int64_t n) {
    if (n >= kLanes) {
      at<T, Bytes>(p) = x;
      return;
    }
    for (int64_t i = 0; i < n; ++i) p[i] = x[i];
  }

  template <int Rows>
  static void forward_tile(const LstmStep<T>& s, int64_t row, int64_t group) {
    const int64_t width = s.width, unit = group * kLanes, n = width - unit;
    V sum[Rows][4] = {};
    const T *w = s.weights + group * width * 4 * kLanes, *h = s.h_before + row * width;
    for (int64_t p = 0; p < width; ++p, w += 4 * kLanes, ++h) {
      V x[4];
      for (int k = 0; k < 4; ++k) x[k] = at<T, Bytes>(w + k * kLanes);
      for (int r = 0; r < Rows; ++r)
        for (int k = 0; k < 4; ++k) sum[r][k] += x[k] * h[r * width];
    }
    for (int r = 0; r < Rows; ++r) {
      const int64_t gates = (row + r) * 4 * width + unit, cell = (row + r) * width + unit;
      V g[4];
      for (int k = 0; k < 4; ++k) g[k] = sum[r][k] + load(s.inputs + gates + k * width, n);
      g[0] = Math::sigmoid(g[0]), g[1] = Math::sigmoid(g[1]), g[2] = Math::tanh(g[2]), g[3] = Math::sigmoid(g[3]);
      V c = g[1] * load(s.c_before + cell, n) + g[0] * g[2];
      for (int k = 0; k < 4; ++k) store(s.gates + gates + k * width, g[k], n);
      store(s.c + cell, c, n);
      store(s.h + cell, g[3] * Math::tanh(c), n);
    }
  }

  template <int Rows, int Groups>
  static void backward_tile(const LstmBackStep<T>& s, int64_t row, int64_t group) {
    const int64_t width = s.width;
    V sum[Rows][Groups] = {};
    if (s.grads_after) {
      const T *w = s.weights + group * 4 * width * kLanes, *g = s.grads_after + row * 4 * width;
      for (int64_t p = 0; p < 4 * width; ++p, w += Groups * kLanes, ++g) {
        V x[Groups];
        for (int k = 0; k < Groups; ++k) x[k] = at<T, Bytes>(w + k * kLanes);
        for (int r = 0; r < Rows; ++r)
          for (int k = 0; k < Groups; ++k) sum[r][k] += x[k] * g[r * 4 * width];
      }
    }
    for (int r = 0; r < Rows; ++r)
      for (int k = 0; k < Groups; ++k) back_cell(s, row + r, (group + k) * kLanes, sum[r][k]);
  }

  /// `dh`: the gradient of a cell's output that comes from the step after it.
  static void back_cell(const LstmBackStep<T>& s, int64_t row, int64_t unit, V dh) {
    const int64_t width = s.width, n = width - unit, cell = row * width + unit, gates = row * 4 * width + unit;
    if (s.grad_h) dh += load(s.grad_h + cell, n);
    if (s.grad_out) dh += load(s.grad_out + cell, n);
    if (!s.grads) return store(s.grad_h_before + cell, dh, n);
    V i = load(s.gates + gates, n), f = load(s.gates + gates + width, n), g = load(s.gates + gates + 2 * width, n),
      o = load(s.gates + gates + 3 * width, n), t = Math::tanh(load(s.c + cell, n));
    V dc = load(s.grad_c + cell, n) + dh * o * (1 - t * t);
    store(s.grads + gates, dc * g * (1 - i) * i, n);
    store(s.grads + gates + width, dc * load(s.c_before + cell, n) * (1 - f) * f, n);
    store(s.grads + gates + 2 * width, dc * i * (1 - g * g), n);
    store(s.grads + gates + 3 * width, dh * t * (1 - o) * o, n);
    store(s.grad_c + cell, dc * f, n);
  }

  /// Rows of the next tile: whole ones, or two halves of what is left.
  static int64_t next(int64_t left) { return left <= kRows ? left : left < 2 * kRows ? (left + 1) / 2 : kRows; }

  template <int Rows = kRows>
  static void forward_rows(const LstmStep<T>& s, int64_t row, int64_t rows, int64_t group) {
    if (rows == Rows) return forward_tile<Rows>(s, row, group);
    if constexpr (Rows > 1) forward_rows<Rows - 1>(s, row, rows, group);
  }
  template <int Groups, int Rows = kRows>
  static void backward_rows(const LstmBackStep<T>& s, int64_t row, int64_t rows, int64_t group) {
    if (rows == Rows) return backward_tile<Rows, Groups>(s, row, group);
    if constexpr (Rows > 1) backward_rows<Groups, Rows - 1>(s, row, rows, group);
  }

  static void forward(const LstmStep<T>& s, LstmPart part) {
    for (int64_t group = part.group; group < part.group_end; ++group)
      for (int64_t row = part.row, n; row < part.row_end; row += n) forward_rows(s, row, n = next(part.row_end - row), group);
  }

  static int panel(int64_t groups_left) { return groups_left >= 4 ? 4 : groups_left >= 2 ? 2 : 1; }

  static void backward(const LstmBackStep<T>& s, LstmPart part) {
    for (int64_t group = part.group; group < part.group_end; group += panel(part.group_end - group))
      for (int64_t row = part.row, n; row < part.row_end; row += n) {
        n = next(part.row_end - row);
        switch (panel(part.group_end - group)) {
          case 4: backward_rows<4>(s, row, n, group); break;
          case 2: backward_rows<2>(s, row, n, group); break;
          default: backward_rows<1>(s, row, n, group);
        }
      }
  }

  static constexpr LstmKernels<T> kernels() { return {kLanes, panel, forward, backward}; }
};

}  // namespace
}  // namespace tiny
