// tiny::Tensor: a lazy array with a shape. Functions build the graph and compute nothing. The value is dense and row-major in
// `sizes`; strided memory is read and written through Storage (storage.h). No torch, usable alone; all of it needs the graph lock.
// dtypes must agree where an operator takes two tensors (promotion is the caller's); shapes broadcast as in PyTorch.
// Wrong arguments throw Error(Value) naming the function and the shapes.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "uop/builtins.h"
#include "uop/dft.h"
#include "uop/graph.h"

namespace tiny {

class Tensor {
 public:
  Tensor() = default;
  Tensor(Ref node, Dims sizes);
  bool defined() const { return static_cast<bool>(node_); }
  UOp* node() const { return node_.get(); }
  const Ref& ref() const { return node_; }
  DType dtype() const { return node_->dtype; }
  const Dims& sizes() const { return sizes_; }
  int64_t size(int64_t d) const { return sizes_[d < 0 ? d + dim() : d]; }
  int64_t dim() const { return static_cast<int64_t>(sizes_.size()); }
  int64_t numel() const { return node_ && !sizes_.empty() ? product(sizes_) : 1; }

  // ---- movement: all affine ones become one VIEW
  Tensor reshape(Dims sizes) const;                       // one size may be -1
  Tensor permute(std::span<const int64_t> order) const;
  Tensor transpose(int64_t a, int64_t b) const;
  Tensor expand(Dims sizes) const;                        // broadcast; -1 keeps a size
  Tensor slice(int64_t d, int64_t start, int64_t end, int64_t step = 1) const;  // 0 <= start <= end <= size, step >= 1
  Tensor select(int64_t d, int64_t i) const;
  Tensor flip(std::span<const int64_t> dims) const;
  Tensor unsqueeze(int64_t d) const;
  Tensor squeeze(int64_t d) const;
  Tensor view(Dims sizes, Dims strides, int64_t offset) const;  // of the flat value; strides may be 0 or negative
  Tensor pad(std::span<const int64_t> lo, std::span<const int64_t> hi) const;   // zeros; negative crops
  Tensor pad(std::span<const int64_t> lo, std::span<const int64_t> hi, const Tensor& fill) const;
  Tensor contiguous() const;                              // a cut: realized in memory of its own

  // ---- elementwise
  Tensor cast(DType d) const;
  Tensor bitcast(DType d) const;
  Tensor unary(Op op) const;

  // ---- reductions over `axes` (empty: all), in the tensor's own dtype
  Tensor reduce(Op op, std::span<const int64_t> axes, bool keepdim = false) const;
  Tensor sum(std::span<const int64_t> axes = {}, bool keepdim = false) const { return reduce(Op::ADD, axes, keepdim); }
  Tensor amax(std::span<const int64_t> axes = {}, bool keepdim = false) const { return reduce(Op::MAX, axes, keepdim); }
  Tensor amin(std::span<const int64_t> axes = {}, bool keepdim = false) const { return reduce(Op::MIN, axes, keepdim); }
  /// Index of the first greatest (least) element along `axis`, i64; NaN counts as greatest (least).
  Tensor argmax(int64_t axis, bool keepdim = false) const;
  Tensor argmin(int64_t axis, bool keepdim = false) const;
  Tensor scan(Op op, int64_t axis) const;                 // inclusive
  /// Stable order of the elements along the last axis, i64; NaN sorts as greatest.
  Tensor argsort(bool descending) const;

 private:
  Ref node_;
  Dims sizes_;
};

// ---- making
Tensor constant(DType d, double v);                        // 0-d, part of the key
Tensor constant(DType d, int64_t v);
/// 0-d run-time argument, cast to `d`: a changing value does not recompile. Values that usually never change (0, 1, -1, 2, 0.5, not
/// finite) become constants.
Tensor scalar(DType d, double v);
Tensor scalar(DType d, int64_t v);
Tensor full(Dims sizes, const Tensor& value);
Tensor zeros(Dims sizes, DType d);
Tensor iota(int64_t n);                                    // 0 .. n-1, i64
Tensor empty_value(Dims sizes, DType d);                   // uninitialised

// ---- elementwise with broadcasting
Tensor binary(Op op, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& c, const Tensor& a, const Tensor& b);
Tensor mulacc(const Tensor& a, const Tensor& b, const Tensor& c);
inline Tensor operator+(const Tensor& a, const Tensor& b) { return binary(Op::ADD, a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return binary(Op::SUB, a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return binary(Op::MUL, a, b); }
/// Floats FDIV, integers IDIV (towards zero).
Tensor operator/(const Tensor& a, const Tensor& b);
inline Tensor operator-(const Tensor& a) { return a.unary(Op::NEG); }
inline Tensor lt(const Tensor& a, const Tensor& b) { return binary(Op::CMPLT, a, b); }
inline Tensor le(const Tensor& a, const Tensor& b) { return binary(Op::CMPLE, a, b); }
inline Tensor gt(const Tensor& a, const Tensor& b) { return binary(Op::CMPLT, b, a); }
inline Tensor ge(const Tensor& a, const Tensor& b) { return binary(Op::CMPLE, b, a); }
inline Tensor eq(const Tensor& a, const Tensor& b) { return binary(Op::CMPEQ, a, b); }
inline Tensor ne(const Tensor& a, const Tensor& b) { return binary(Op::CMPNE, a, b); }
/// With a number: made a constant of the tensor's dtype.
inline Tensor operator+(const Tensor& a, double b) { return a + constant(a.dtype(), b); }
inline Tensor operator-(const Tensor& a, double b) { return a - constant(a.dtype(), b); }
inline Tensor operator*(const Tensor& a, double b) { return a * constant(a.dtype(), b); }
inline Tensor operator/(const Tensor& a, double b) { return a / constant(a.dtype(), b); }
/// The polynomial `name` (hermite_h, .. of builtins.def) of x; both of one type, f32 or f64.
Tensor orthogonal_polynomial(BuiltinName name, const Tensor& x, const Tensor& degree);
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
Dims broadcast_sizes(const Dims& a, const Dims& b);        // throws Error(Value) if they do not agree

// ---- joining, indexing
Tensor cat(std::span<const Tensor> parts, int64_t d);
/// a and b side by side in a new last dimension of 2. Selecting one of them again gives what it was.
Tensor interleave(const Tensor& a, const Tensor& b);
/// `index` (any integer dtype; negative counts from the end) checked against `limit` and made i64 in 0..limit-1; `text` as in check().
Tensor checked_index(const Tensor& index, int64_t limit, std::string text, bool allow_negative = true);
/// `value` where `ok` (bool, same sizes) holds, else 0 and an error at the next read: `text`, in which {} stands for the value, then
/// the limit. A text that begins with "IndexError: " raises that kind, without these words; others raise Runtime.
Tensor check(const Tensor& value, const Tensor& ok, std::string text, int64_t limit);
/// out[i...] = x.flat[index[i...]], index i64 within bounds.
Tensor gather_flat(const Tensor& x, const Tensor& index);
/// Rows: out[i..., j...] = x[index[i...], j...], index i64 within bounds.
Tensor take_rows(const Tensor& x, const Tensor& index);
/// x with x[index[u], :] op= src[u, :] for u in order (op NOOP: replace). x [S, D...], index i64 [U] (< 0 skips), src [U, D...].
Tensor scatter_rows(const Tensor& x, const Tensor& index, const Tensor& src, Op op);
/// x with x.flat[index[b,u,d]] op= src[b,u,d]; index, src [B,U,D]; the caller promises that indices of different b or d never meet.
Tensor scatter_flat(const Tensor& x, const Tensor& index, const Tensor& src, Op op);
/// x.flat with the elements at offset + sum i_k*strides_k replaced by src: a write through a view.
Tensor assign_view(const Tensor& x, const Dims& strides, int64_t offset, const Tensor& src);

// ---- contraction. Accumulates in `acc` (f32 for reduced floats), result in `acc`.
/// a [B..., M, K] times b [B..., K, N]; batch sizes broadcast.
Tensor matmul(const Tensor& a, const Tensor& b, DType acc);

// ---- Fourier transforms
/// `shape` (dft.h) of re + i im, of one float type and shape.elements_in() elements; an undefined im is 0. roots: shape.fill_roots() in
/// that type. The result is flat: shape.numel() elements.
Tensor dft(const Tensor& re, const Tensor& im, const Tensor& roots, const Dft& shape);

// ---- random: the same numbers for the same seed and offset on every device, whatever the fusion.
/// u64 bits, element i from counter offset + i and key seed (0-d u64 tensors).
Tensor random_bits(Dims sizes, const Tensor& seed, const Tensor& offset);

}  // namespace tiny
