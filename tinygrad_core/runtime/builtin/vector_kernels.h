// The innermost loops of linear algebra, one set for each kind of vector instructions.
#pragma once
#include <cstdint>

namespace tiny {

template <class T>
struct VectorKernels {
  /// c[tile_rows x tile_cols] += scale * a * b over `depth`: a packed by columns, b by rows; `across`: step between the columns of c.
  int tile_rows, tile_cols;
  void (*tile)(int64_t depth, const T* a, const T* b, T scale, T* c, int64_t across);

  /// `strip` systems of one triangular matrix: x[n][strip] in place of its right-hand sides, by forward substitution. l: its rows of n
  /// elements, of which those up to the diagonal are read.
  int strip;
  void (*substitute)(int64_t n, const T* l, bool unit, T* x);

  /// x[0..n) -= the sum of columns a[.., p] * u[p], p < cols.
  void (*subtract_columns)(int64_t n, int64_t cols, const T* a, int64_t across, const T* u, T* x);

  /// u[p] = the sum of a[.., p] * x[0..n), p < cols.
  void (*inner_products)(int64_t n, int64_t cols, const T* a, int64_t across, const T* x, T* u);

  /// `count` rotations of rows of `strip` elements: x and x + step become s * (x + step) + c * x and c * (x + step) - s * x, then the same
  /// from x + step on ...; turns: c and s of each.
  void (*rotate)(int64_t count, const T* turns, int64_t step, T* x);

  /// Position of the first element that is greatest by magnitude; NaN only if it is the first.
  int64_t (*greatest)(int64_t n, const T* x);
};

/// One head of attention: `queries` x `depth` against `keys` x `depth`, and values of `width` elements. The queries are scaled. Groups of
/// rows hold a group's rows element by element; groups of columns hold a group's elements row by row.
template <class T>
struct AttentionHead {
  int64_t queries, keys, depth, width;
  bool causal;                         // query i sees the keys 0 .. i
  const T* bias;                       // added to the scores; null: none
  int64_t bias_down, bias_across;      // steps from query to query and from key to key
  const T *key_groups, *value_groups;  // forward: of rows, of columns
  // ---- backward
  const T *query_groups, *grad_groups;    // of rows
  const T *query_columns, *grad_columns;  // of columns
  const T* key_columns;                   // panels of columns: `panel` elements of each key
  const T *log_sums, *deltas;             // of each query
};
template <class T>
struct AttentionKeys {
  const T *keys, *values;  // a panel of each
};

template <class T>
struct AttentionKernels {
  int panel;                    // rows of a panel
  int (*group)(int64_t left);   // members of the next group, where `left` are still to come; some of them may be zeros
  void (*forward)(const AttentionHead<T>& h, int64_t first, const T* queries, T* values, T* greatest, T* sums);
  void (*backward)(const AttentionHead<T>& h, int64_t first, const AttentionKeys<T>& k, T* key_grad, T* value_grad, T* query_grad);
};

/// A time step of an LSTM's layer. Arrays of the batch's rows by 4 * `width`: the gates i, f, g, o; by `width`: states.
template <class T>
struct LstmStep {
  int64_t width;
  const T* weights;              // for each group of `lanes` units and each unit before: the four gates' lanes, 0 where no unit is
  const T *inputs, *h_before, *c_before;
  T *gates, *h, *c;              // gates: activated
};
/// The same backwards. Without `grads` the step is the one before the first, and only grad_h_before is made.
template <class T>
struct LstmBackStep {
  int64_t width;
  const T* weights;              // for each panel of groups and each of the 4 * width gates: its units' lanes
  const T* grads_after;          // of the gates of the step after this one; null: none
  const T *grad_h, *grad_out;    // added to the gradient of h; null: nothing
  const T *gates, *c, *c_before;
  T *grad_c, *grads, *grad_h_before;
};
struct LstmPart {
  int64_t row, row_end, group, group_end;
};

template <class T>
struct LstmKernels {
  int lanes;                          // units of a group
  int (*panel)(int64_t groups_left);  // groups of the next panel
  void (*forward)(const LstmStep<T>& s, LstmPart part);
  void (*backward)(const LstmBackStep<T>& s, LstmPart part);
};

struct VectorKernelSet {
  VectorKernels<float> f32;
  VectorKernels<double> f64;
  AttentionKernels<float> attention_f32;
  AttentionKernels<double> attention_f64;
  LstmKernels<float> lstm_f32;
  LstmKernels<double> lstm_f64;
};

extern const VectorKernelSet kKernelsAny;
#ifdef __x86_64__
extern const VectorKernelSet kKernelsAvx2, kKernelsAvx512;
#endif

/// The best set for this processor.
template <class T>
const VectorKernels<T>& vector_kernels();
template <class T>
const AttentionKernels<T>& attention_kernels();
template <class T>
const LstmKernels<T>& lstm_kernels();

}  // namespace tiny
