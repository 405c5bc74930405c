// The loops of attention, for one panel of queries or of keys. As vector_loops.h: all in an anonymous namespace,
// and without the standard library.
//
// What the tiles read is packed (attention.cpp): a panel holds `panel` rows element by element, so that its rows are lanes; a group holds
// up to 12 rows or columns, whose numbers are broadcast. A tile adds up panel x group, the group's members one below the other.
// Source of the algorithm: T. Dao et al., FlashAttention (2022), algorithms 1 and 4; M. Milakov, N. Gimelshein, Online normalizer
// calculation for softmax (2018).
#pragma once
#include "runtime/builtin/vector_math.h"

namespace tiny {
namespace {

template <class T, int Bytes>
struct Attention {
  typedef VectorMath<T, Bytes> Math;
  typedef typename Math::V V;
  typedef typename Math::Bits Bits;
  static constexpr int kLanes = Vector<T, Bytes>::lanes, kVectors = 2, kPanel = kVectors * kLanes;
  static constexpr int kWidest = Bytes >= 64 ? 12 : 4;  // members of a group: as many accumulators as there are registers
  static constexpr int64_t kKeys = 96, kQueries = 48;   // of a block: what is made of it stays in the first cache
  static constexpr T kInfinity = __builtin_inf();

  static int group(int64_t left) { return kWidest == 4 || left <= 4 ? 4 : left < 9 ? 8 : 12; }

  static auto& at(T* p) { return tiny::at<T, Bytes>(p); }
  static const auto& at(const T* p) { return tiny::at<T, Bytes>(p); }
  static V all(T x) { return Math::all(x); }
  static V select(Bits c, V a, V b) { return Math::select(c, a, b); }
  static V exp(V x) { return Math::exp(x); }

  /// c[j] (+)= the sum over p of panel[p] * b[p * Step + j * Apart], for j < Count.
  template <int Count, int Step, int Apart, bool Add>
  static void tile(int64_t depth, const T* panel, const T* b, T* c, int64_t across) {
    V sum[Count][kVectors];
    for (int j = 0; j < Count; ++j)
      for (int v = 0; v < kVectors; ++v) sum[j][v] = Add ? V(at(c + j * across + v * kLanes)) : V{};
    for (int64_t p = 0; p < depth; ++p, panel += kPanel, b += Step) {
      V x[kVectors];
      for (int v = 0; v < kVectors; ++v) x[v] = at(panel + v * kLanes);
      for (int j = 0; j < Count; ++j)
        for (int v = 0; v < kVectors; ++v) sum[j][v] += x[v] * b[j * Apart];
    }
    for (int j = 0; j < Count; ++j)
      for (int v = 0; v < kVectors; ++v) at(c + j * across + v * kLanes) = sum[j][v];
  }

  /// Members first .. first+depth-1 of `whole` that the groups are deep; `columns` of them, a multiple of 4.
  template <bool Add>
  static void product(int64_t depth, const T* panel, const T* groups, int64_t whole, int64_t first, int64_t columns, T* c) {
    for (int64_t j = 0; j < columns;) {
      int w = group(columns - j);
      const T* b = groups + j * whole + first * w;
      if (w == 4) tile<4, 4, 1, Add>(depth, panel, b, c + j * kPanel, kPanel);
      else if (w == 8) tile<8, 8, 1, Add>(depth, panel, b, c + j * kPanel, kPanel);
      else tile<12, 12, 1, Add>(depth, panel, b, c + j * kPanel, kPanel);
      j += w;
    }
  }

  /// The same with a panel in place of groups, turned: its rows are the depth, its elements the columns.
  static void product_turned(int64_t depth, const T* panel, const T* turned, int64_t columns, T* c, int64_t across) {
    for (int64_t j = 0; j < columns;) {
      int w = group(columns - j);
      const T* b = turned + j * kPanel;
      if (w == 4) tile<4, 1, kPanel, true>(depth, panel, b, c + j * across, across);
      else if (w == 8) tile<8, 1, kPanel, true>(depth, panel, b, c + j * across, across);
      else tile<12, 1, kPanel, true>(depth, panel, b, c + j * across, across);
      j += w;
    }
  }

  static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
  static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

  /// Elements of the bias for one panel's rows, `step` apart in memory; those of rows that are not there are 0.
  static void read_bias(const T* from, int64_t step, int64_t rows, V* to) {
    if (step == 0) {
      for (int v = 0; v < kVectors; ++v) to[v] = all(*from);
    } else if (step == 1 && rows >= kPanel) {
      for (int v = 0; v < kVectors; ++v) to[v] = at(from + v * kLanes);
    } else {
      alignas(64) T x[kPanel] = {};
      for (int64_t i = 0; i < least(rows, kPanel); ++i) x[i] = from[i * step];
      for (int v = 0; v < kVectors; ++v) to[v] = at(x + v * kLanes);
    }
  }

  static V lane_numbers(int v) {
    V n{};
    for (int i = 0; i < kLanes; ++i) n[i] = static_cast<T>(v * kLanes + i);
    return n;
  }

  /// A panel of queries: their values, not yet divided by the sums, below each other; the greatest score and the sum of each.
  static void forward(const AttentionHead<T>& h, int64_t first, const T* queries, T* values, T* greatest, T* sums) {
    alignas(64) T s[kKeys * kPanel];
    int64_t width = up(h.width, 4), limit = h.causal ? least(h.keys, first + kPanel) : h.keys;
    V most[kVectors], sum[kVectors];
    for (int v = 0; v < kVectors; ++v) most[v] = all(-kInfinity), sum[v] = V{};
    for (int64_t i = 0; i < width * kPanel; i += kLanes) at(values + i) = V{};
    for (int64_t key = 0; key < limit; key += kKeys) {
      int64_t n = least(kKeys, limit - key);
      int64_t whole_groups = least(up(n, kWidest), up(h.keys, 4) - key);
      product<false>(h.depth, queries, h.key_groups + key * h.depth, h.depth, 0, whole_groups, s);
      V top[kVectors];
      for (int v = 0; v < kVectors; ++v) top[v] = most[v];
      for (int64_t j = 0; j < n; ++j) {
        V bias[kVectors];
        if (h.bias) read_bias(h.bias + first * h.bias_down + (key + j) * h.bias_across, h.bias_down, h.queries - first, bias);
        bool partly = h.causal && key + j > first;
        for (int v = 0; v < kVectors; ++v) {
          V x = at(s + j * kPanel + v * kLanes);
          if (h.bias) x += bias[v];
          if (partly) x = select(lane_numbers(v) < static_cast<T>(key + j - first), all(-kInfinity), x);
          if (h.bias || partly) at(s + j * kPanel + v * kLanes) = x;
          top[v] = select(x > top[v], x, top[v]);
        }
      }
      V base[kVectors], scale[kVectors], added[kVectors];
      Bits moved{};
      for (int v = 0; v < kVectors; ++v) {
        base[v] = select(top[v] == -kInfinity, V{}, top[v]);
        scale[v] = exp(most[v] - base[v]), added[v] = V{};
        moved |= top[v] != most[v], most[v] = top[v];
      }
      for (int64_t j = 0; j < n; ++j)
        for (int v = 0; v < kVectors; ++v) {
          V p = exp(at(s + j * kPanel + v * kLanes) - base[v]);
          at(s + j * kPanel + v * kLanes) = p, added[v] += p;
        }
      for (int v = 0; v < kVectors; ++v) sum[v] = sum[v] * scale[v] + added[v];
      bool any = false;
      for (int i = 0; i < kLanes; ++i) any |= moved[i] != 0;
      for (int64_t d = 0; any && key > 0 && d < width; ++d)
        for (int v = 0; v < kVectors; ++v) at(values + d * kPanel + v * kLanes) *= scale[v];
      product<true>(n, s, h.value_groups, h.keys, key, width, values);
    }
    for (int v = 0; v < kVectors; ++v) at(greatest + v * kLanes) = most[v], at(sums + v * kLanes) = sum[v];
  }

  /// A panel of keys: the gradients of keys and values, elements below each other; adds to those of the queries, as if scores were scaled
  /// by 1.
  static void backward(const AttentionHead<T>& h, int64_t first, const AttentionKeys<T>& k, T* key_grad, T* value_grad, T* query_grad) {
    alignas(64) T p[kQueries * kPanel], g[kQueries * kPanel];
    int64_t depth = up(h.depth, 4), width = up(h.width, 4), across = up(h.depth, kPanel), here = least(kPanel, h.keys - first);
    for (int64_t i = 0; i < depth * kPanel; i += kLanes) at(key_grad + i) = V{};
    for (int64_t i = 0; i < width * kPanel; i += kLanes) at(value_grad + i) = V{};
    for (int64_t query = h.causal ? first / kQueries * kQueries : 0; query < h.queries; query += kQueries) {
      int64_t n = least(kQueries, h.queries - query), wide = up(n, 4);
      product<false>(h.depth, k.keys, h.query_groups + query * h.depth, h.depth, 0, wide, p);
      product<false>(h.width, k.values, h.grad_groups + query * h.width, h.width, 0, wide, g);
      for (int64_t j = 0; j < n; ++j) {
        V bias[kVectors];
        T lse = h.log_sums[query + j], delta = h.deltas[query + j];
        if (h.bias) read_bias(h.bias + (query + j) * h.bias_down + first * h.bias_across, h.bias_across, here, bias);
        bool partly = h.causal && query + j < first + kPanel - 1;
        for (int v = 0; v < kVectors; ++v) {
          V x = at(p + j * kPanel + v * kLanes);
          if (h.bias) x += bias[v];
          if (partly) x = select(lane_numbers(v) > static_cast<T>(query + j - first), all(-kInfinity), x);
          x = exp(x - (lse == -kInfinity ? T(0) : lse));
          at(p + j * kPanel + v * kLanes) = x;
          at(g + j * kPanel + v * kLanes) = x * (at(g + j * kPanel + v * kLanes) - delta);
        }
      }
      product<true>(n, p, h.grad_columns, h.queries, query, width, value_grad);
      product<true>(n, g, h.query_columns, h.queries, query, depth, key_grad);
      for (int64_t d = 0; d < h.depth; d += kPanel)
        product_turned(here, h.key_columns + (d * h.keys + first * kPanel), g, wide, query_grad + query * across + d, across);
    }
  }

  static constexpr AttentionKernels<T> kernels() { return {kPanel, group, forward, backward}; }
};

}  // namespace
}  // namespace tiny
