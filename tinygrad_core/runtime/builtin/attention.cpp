// Attention and its gradients: scores exist for a block of queries and keys at a time, in the first cache. The gradients make them again
// from the logarithm of each query's sum. Heads are packed in waves, so that the memory for it stays bounded; within a wave, panels of
// queries, or parts of the keys, go to the threads.
#include "runtime/builtin/attention.h"

#include <algorithm>
#include <bit>

#include "runtime/builtin/builtin.h"
#include "runtime/builtin/matrix.h"
#include "runtime/builtin/packing.h"
#include "runtime/builtin/vector_kernels.h"

namespace tiny {
namespace {

constexpr int64_t kMostElements = 256;            // of a key or value; tensor/attention.h promises it
constexpr int64_t kWaveBytes = int64_t{64} << 20;
constexpr int64_t kTasks = 32, kPartKeys = 128;   // parts of the keys: until there are so many tasks, or a part is so short
constexpr int64_t kMostPanel = 32;

/// One head of an operand: rows `step` elements apart.
template <class T>
struct Rows {
  T* data;
  int64_t step;
  T* operator[](int64_t i) const { return data + i * step; }
};

/// The integers of both builtins.
struct Shape {
  int64_t batch, heads, queries, keys, depth, width;
  bool causal;
  double scale;
  int64_t bias_sizes[4];  // 0: no bias
  bool rows_first[4];     // q and out, k, v, gradient: [batch, rows, heads, elements] instead of [batch, heads, rows, elements]

  explicit Shape(const int64_t* i)
      : batch(i[0]), heads(i[1]), queries(i[2]), keys(i[3]), depth(i[4]), width(i[5]), causal(i[7] != 0),
        scale(std::bit_cast<double>(i[8])), bias_sizes{i[9], i[10], i[11], i[12]},
        rows_first{i[13] != 0, i[14] != 0, i[15] != 0, i[16] != 0} {}

  int64_t heads_of_batch() const { return batch * heads; }
  template <class T>
  Rows<T> rows(T* data, int64_t number, int64_t n, int64_t elements, bool first) const {
    if (!first) return {data + number * n * elements, elements};
    return {data + (number / heads * n * heads + number % heads) * elements, heads * elements};
  }
  template <class T> Rows<T> q(T* data, int64_t number) const { return rows(data, number, queries, depth, rows_first[0]); }
  template <class T> Rows<T> k(T* data, int64_t number) const { return rows(data, number, keys, depth, rows_first[1]); }
  template <class T> Rows<T> v(T* data, int64_t number) const { return rows(data, number, keys, width, rows_first[2]); }
  template <class T> Rows<T> grad(T* data, int64_t number) const { return rows(data, number, queries, width, rows_first[3]); }
  template <class T> Rows<T> out(T* data, int64_t number) const { return rows(data, number, queries, width, rows_first[0]); }

  template <class T>
  AttentionHead<T> head(const T* bias, int64_t number) const {
    AttentionHead<T> h{};
    h.queries = queries, h.keys = keys, h.depth = depth, h.width = width, h.causal = causal;
    if (!bias || bias_sizes[0] == 0) return h;
    h.bias_across = bias_sizes[3] > 1, h.bias_down = bias_sizes[2] > 1 ? bias_sizes[3] : 0;
    int64_t matrix = bias_sizes[2] * bias_sizes[3], b = number / heads, k = number % heads;
    h.bias = bias + ((bias_sizes[0] > 1 ? b : 0) * bias_sizes[1] + (bias_sizes[1] > 1 ? k : 0)) * matrix;
    return h;
  }
};

template <class T>
class Packer {
 public:
  explicit Packer(const AttentionKernels<T>& k) : k_(k) {}

  using From = Rows<const T>;
  /// Groups of rows of x [n, m], or panels of them.
  void groups_of_rows(From x, int64_t n, int64_t m, T scale, T* to) const { rows(x, n, m, scale, to, false); }
  void panels_of_rows(From x, int64_t n, int64_t m, T scale, T* to) const { rows(x, n, m, scale, to, true); }
  /// Groups of columns, or panels of them.
  void groups_of_columns(From x, int64_t n, int64_t m, T scale, T* to) const { columns(x, n, m, scale, to, false); }
  void panels_of_columns(From x, int64_t n, int64_t m, T scale, T* to) const { columns(x, n, m, scale, to, true); }

 private:
  int64_t next(int64_t left, bool panel) const { return panel ? k_.panel : k_.group(up(left, 4)); }

  void rows(From x, int64_t n, int64_t m, T scale, T* to, bool panel) const {
    for (int64_t row = 0, w; row < n; row += w, to += m * w) {
      w = next(n - row, panel);
      int64_t here = std::min(w, n - row);
      for (int64_t j = 0; j < here; ++j) {
        const T* from = x[row + j];
        for (int64_t p = 0; p < m; ++p) to[p * w + j] = from[p] * scale;
      }
      for (int64_t p = 0; p < m && here < w; ++p) std::fill(to + p * w + here, to + (p + 1) * w, T{});
    }
  }

  void columns(From x, int64_t n, int64_t m, T scale, T* to, bool panel) const {
    for (int64_t col = 0, w; col < m; col += w) {
      w = next(m - col, panel);
      int64_t here = std::min(w, m - col);
      for (int64_t row = 0; row < n; ++row, to += w) {
        const T* from = x[row] + col;
        for (int64_t j = 0; j < here; ++j) to[j] = from[j] * scale;
        std::fill(to + here, to + w, T{});
      }
    }
  }

  const AttentionKernels<T>& k_;
};

/// Calls f(first, count) for waves of heads with `elements` packed numbers each.
template <class T, class F>
void in_waves(int64_t heads, int64_t elements, F f) {
  int64_t wave = std::clamp<int64_t>(kWaveBytes / (elements * static_cast<int64_t>(sizeof(T))), 1, heads);
  for (int64_t first = 0; first < heads; first += wave) f(first, std::min(wave, heads - first));
}

/// The first `rows` of a panel whose elements lie below each other, as rows of `n` elements.
template <class T>
void unpack(const T* panel, int64_t step, int64_t rows, int64_t n, const T* factors, Rows<T> to) {
  for (int64_t i = 0; i < rows; ++i) {
    T* row = to[i];
    for (int64_t d = 0; d < n; ++d) row[d] = panel[d * step + i] * factors[i];
  }
}

template <class T>
void forward(const AttentionKernels<T>& kernels, const Shape& s, T* out, T* log_sums, const T* q, const T* k, const T* v, const T* bias,
             Device& device) {
  const Packer<T> pack(kernels);
  const int64_t panel = kernels.panel, panels = (s.queries + panel - 1) / panel;
  Areas<T> areas;
  const int64_t queries = areas.add(panels * panel * s.depth), keys = areas.add(up(s.keys, 4) * s.depth),
                values = areas.add(s.keys * up(s.width, 4));
  in_waves<T>(s.heads_of_batch(), areas.size(), [&](int64_t first, int64_t count) {
    Memory large;
    T* memory = scratch<T>(count * areas.size(), 2 * kWaveBytes, large);
    in_parallel(device, count, [&](int64_t i) {
      T* to = memory + i * areas.size();
      pack.panels_of_rows(s.q(q, first + i), s.queries, s.depth, static_cast<T>(s.scale), to + queries);
      pack.groups_of_rows(s.k(k, first + i), s.keys, s.depth, 1, to + keys);
      pack.groups_of_columns(s.v(v, first + i), s.keys, s.width, 1, to + values);
    });
    in_parallel(device, count * panels, [&](int64_t task) {
      alignas(64) T made[kMostElements * kMostPanel], greatest[kMostPanel], sums[kMostPanel];
      // The last panels of causal attention have the most to do, and begin first.
      int64_t i = task % count, row = (panels - 1 - task / count) * panel, number = first + i, here = std::min(panel, s.queries - row);
      AttentionHead<T> h = s.head(bias, number);
      const T* packed = memory + i * areas.size();
      h.key_groups = packed + keys, h.value_groups = packed + values;
      kernels.forward(h, row, packed + queries + row * s.depth, made, greatest, sums);
      for (int64_t r = 0; r < here; ++r) {
        log_sums[number * s.queries + row + r] = greatest[r] + std::log(sums[r]);
        sums[r] = sums[r] == 0 ? T(0) : 1 / sums[r];  // a query that sees no key gets zeros
      }
      Rows<T> to = s.out(out, number);
      unpack(made, panel, here, s.width, sums, {to[row], to.step});
    });
  });
}

template <class T>
struct Gradients {
  const T *grad, *q, *k, *v, *out, *log_sums, *bias;
  T *grad_q, *grad_k, *grad_v;
};

template <class T>
void backward(const AttentionKernels<T>& kernels, const Shape& s, const Gradients<T>& g, Device& device) {
  const Packer<T> pack(kernels);
  const int64_t panel = kernels.panel, panels = (s.keys + panel - 1) / panel, heads = s.heads_of_batch(), across = up(s.depth, panel);
  // The same parts on every machine: results do not depend on the number of threads.
  const int64_t parts = std::clamp<int64_t>(std::min((kTasks + heads - 1) / heads, s.keys / kPartKeys), 1, panels);
  const int64_t query_rows = up(s.queries, 4), depth = up(s.depth, 4), width = up(s.width, 4);
  Areas<T> areas;
  const int64_t query_groups = areas.add(query_rows * s.depth), grad_groups = areas.add(query_rows * s.width),
                query_columns = areas.add(s.queries * depth), grad_columns = areas.add(s.queries * width),
                key_columns = areas.add(s.keys * across), key_panels = areas.add(panels * panel * s.depth),
                value_panels = areas.add(panels * panel * s.width), deltas = areas.add(s.queries),
                query_grads = areas.add(parts * query_rows * across);
  in_waves<T>(heads, areas.size(), [&](int64_t first, int64_t count) {
    Memory large;
    T* memory = scratch<T>(count * areas.size(), 2 * kWaveBytes, large);
    in_parallel(device, count, [&](int64_t i) {
      T* to = memory + i * areas.size();
      const Rows<const T> q = s.q(g.q, first + i), k = s.k(g.k, first + i), v = s.v(g.v, first + i), grad = s.grad(g.grad, first + i),
                          out = s.out(g.out, first + i);
      const T scale = static_cast<T>(s.scale);
      pack.groups_of_rows(q, s.queries, s.depth, scale, to + query_groups);
      pack.groups_of_rows(grad, s.queries, s.width, 1, to + grad_groups);
      pack.groups_of_columns(q, s.queries, s.depth, scale, to + query_columns);
      pack.groups_of_columns(grad, s.queries, s.width, 1, to + grad_columns);
      pack.panels_of_columns(k, s.keys, s.depth, 1, to + key_columns);
      pack.panels_of_rows(k, s.keys, s.depth, 1, to + key_panels);
      pack.panels_of_rows(v, s.keys, s.width, 1, to + value_panels);
      for (int64_t r = 0; r < s.queries; ++r) to[deltas + r] = dot(s.width, out[r], 1, grad[r], 1);
      std::fill_n(to + query_grads, parts * query_rows * across, T{});
    });
    in_parallel(device, count * parts, [&](int64_t task) {
      alignas(64) T key_grad[kMostElements * kMostPanel], value_grad[kMostElements * kMostPanel], ones[kMostPanel];
      std::fill_n(ones, kMostPanel, T(1));
      const int64_t i = task % count, part = task / count, number = first + i;
      T* packed = memory + i * areas.size();
      AttentionHead<T> h = s.head(g.bias, number);
      h.query_groups = packed + query_groups, h.grad_groups = packed + grad_groups;
      h.query_columns = packed + query_columns, h.grad_columns = packed + grad_columns, h.key_columns = packed + key_columns;
      h.log_sums = g.log_sums + number * s.queries, h.deltas = packed + deltas;
      for (int64_t p = part; p < panels; p += parts) {
        const int64_t key = p * panel, here = std::min(panel, s.keys - key);
        const Rows<T> key_rows = s.k(g.grad_k, number), value_rows = s.v(g.grad_v, number);
        kernels.backward(h, key, {packed + key_panels + key * s.depth, packed + value_panels + key * s.width}, key_grad, value_grad,
                         packed + query_grads + part * query_rows * across);
        unpack(key_grad, panel, here, s.depth, ones, {key_rows[key], key_rows.step});
        unpack(value_grad, panel, here, s.width, ones, {value_rows[key], value_rows.step});
      }
    });
    in_parallel(device, count, [&](int64_t i) {
      const T* from = memory + i * areas.size() + query_grads;
      for (int64_t r = 0; r < s.queries; ++r) {
        T* to = s.q(g.grad_q, first + i)[r];
        std::fill_n(to, s.depth, T{});
        for (int64_t part = 0; part < parts; ++part)
          for (int64_t d = 0; d < s.depth; ++d) to[d] += from[(part * query_rows + r) * across + d] * static_cast<T>(s.scale);
      }
    });
  });
}

template <class T>
void run(const AttentionKernels<T>& kernels, void* const* buffers, const int64_t* ints, Device& device) {
  const Shape s(ints);
  auto at = [&](int i) { return static_cast<T*>(buffers[i]); };
  forward<T>(kernels, s, at(0), at(1), at(2), at(3), at(4), s.bias_sizes[0] ? at(5) : nullptr, device);
}

template <class T>
void run_backward(const AttentionKernels<T>& kernels, void* const* buffers, const int64_t* ints, Device& device) {
  const Shape s(ints);
  auto at = [&](int i) { return static_cast<T*>(buffers[i]); };
  backward<T>(kernels, s, {at(3), at(4), at(5), at(6), at(7), at(8), s.bias_sizes[0] ? at(9) : nullptr, at(0), at(1), at(2)}, device);
}

}  // namespace

void attention(const AttentionKernels<float>& k, void* const* buffers, const int64_t* ints, Device& device) {
  run(k, buffers, ints, device);
}
void attention(const AttentionKernels<double>& k, void* const* buffers, const int64_t* ints, Device& device) {
  run(k, buffers, ints, device);
}
void attention_backward(const AttentionKernels<float>& k, void* const* buffers, const int64_t* ints, Device& device) {
  run_backward(k, buffers, ints, device);
}
void attention_backward(const AttentionKernels<double>& k, void* const* buffers, const int64_t* ints, Device& device) {
  run_backward(k, buffers, ints, device);
}

void builtin_attention(void* const* buffers, const uint64_t*, const int64_t* ints, Device& device) {
  with_real_element(ints[6], [&](auto type) { attention(attention_kernels<decltype(type)>(), buffers, ints, device); });
}

void builtin_attention_backward(void* const* buffers, const uint64_t*, const int64_t* ints, Device& device) {
  with_real_element(ints[6], [&](auto type) { attention_backward(attention_kernels<decltype(type)>(), buffers, ints, device); });
}

}  // namespace tiny
