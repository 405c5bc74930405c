// Small helpers that the lowerings of neural-network operators share: error texts in PyTorch's words, geometry, constants.
#pragma once
#include <string>

#include "lower/args.h"

namespace tiny::lower {

[[noreturn]] void fail(ErrorKind kind, std::string text);
inline void require(bool condition, ErrorKind kind, const char* text) {
  if (!condition) fail(kind, text);
}

/// "[2, 3]", as PyTorch prints sizes.
std::string sizes_text(std::span<const int64_t> sizes);
/// "Float", "Long", ...: PyTorch's name of a dtype in error messages.
const char* scalar_type_name(DType d);

/// `dim` in 0..ndim-1 (a 0-d tensor counts as 1-d). Throws Error(Index) "Dimension out of range ...".
int64_t wrap_dim(int64_t dim, int64_t ndim);
/// `x`, a 0-d tensor as 1-d.
inline Tensor at_least_1d(const Tensor& x) { return x.dim() == 0 ? x.reshape({1}) : x; }

/// The text of a user's index that is wrong (tensor.h, check()), in the words of most operators; gather and scatter raise Runtime for it.
std::string index_text(std::string_view op, int64_t dim, bool is_index_error = true);
/// As embedding says it.
std::string index_in_self_text(std::string_view op, int64_t dim);

/// An int[n] argument: one number stands for n equal ones; an empty list gives `fallback`.
Dims expand_ints(const Dims& v, size_t n, const Dims& fallback, const char* what);

/// The least (greatest) value of `d`: minus (plus) infinity for floats.
Tensor lowest(DType d);
Tensor highest(DType d);
inline Tensor index_constant(int64_t v) { return constant(DType::i64, v); }

/// 0 .. sizes[d]-1 along dimension d of `sizes`, 1 elsewhere, so that it broadcasts; times `step`.
Tensor iota_along(size_t ndim, size_t d, int64_t n, int64_t step = 1);

/// Zero-padding of the trailing dimensions; returns `x` itself if there is none. Negative numbers crop.
Tensor pad_trailing(const Tensor& x, const Dims& lo, const Dims& hi, const Tensor* fill = nullptr);

/// `x` with dimension `d` last.
Tensor move_last(const Tensor& x, int64_t d);
/// The inverse of move_last.
Tensor move_from_last(const Tensor& x, int64_t d);

/// x reduced over `axes`, each element taken in row-major order and the value rounded to `step` after it: how the CPU's kernels do it that
/// keep a sum or product in a reduced float. That is written out, so it is for short reductions; longer ones are in the computing type,
/// more exact than the CPU's.
Tensor reduce_in_order(const Tensor& x, Op op, const Dims& axes, DType step);

inline bool any_zero(std::span<const int64_t> sizes) {
  for (int64_t s : sizes)
    if (s == 0) return true;
  return false;
}

/// True where a float is NaN; false for other types.
Tensor is_nan(const Tensor& x);

}  // namespace tiny::lower
