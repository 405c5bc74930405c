#include "lower/nn_util.h"

#include <fmt/format.h>

#include <algorithm>

#include "lower/pointwise.h"

namespace tiny::lower {

void fail(ErrorKind kind, std::string text) { throw Error(kind, std::move(text)); }

std::string sizes_text(std::span<const int64_t> sizes) {
  std::string s = "[";
  for (size_t i = 0; i < sizes.size(); ++i) s += (i ? ", " : "") + std::to_string(sizes[i]);
  return s + "]";
}

const char* scalar_type_name(DType d) {
  switch (d) {
    case DType::bool_: return "Bool";
    case DType::u8: return "Byte";
    case DType::i8: return "Char";
    case DType::i16: return "Short";
    case DType::u16: return "UInt16";
    case DType::i32: return "Int";
    case DType::u32: return "UInt32";
    case DType::i64: return "Long";
    case DType::u64: return "UInt64";
    case DType::f8e4m3: return "Float8_e4m3fn";
    case DType::f8e5m2: return "Float8_e5m2";
    case DType::bf16: return "BFloat16";
    case DType::f16: return "Half";
    case DType::f32: return "Float";
    case DType::f64: return "Double";
    default: return "Undefined";
  }
}

int64_t wrap_dim(int64_t dim, int64_t ndim) {
  int64_t n = ndim == 0 ? 1 : ndim;
  if (dim < -n || dim >= n)
    fail(ErrorKind::Index, fmt::format("Dimension out of range (expected to be in range of [{}, {}], but got {})", -n, n - 1, dim));
  return dim < 0 ? dim + n : dim;
}

std::string index_text(std::string_view op, int64_t dim, bool is_index_error) {
  return fmt::format("{}{}: index {{}} is out of bounds for dimension {} with size {{}}", is_index_error ? "IndexError: " : "", op, dim);
}
std::string index_in_self_text(std::string_view op, int64_t dim) {
  return fmt::format("IndexError: {}: index out of range in self: index {{}} is out of bounds for dimension {} with size {{}}", op, dim);
}

Dims expand_ints(const Dims& v, size_t n, const Dims& fallback, const char* what) {
  if (v.empty() && !fallback.empty()) return fallback;
  if (v.size() == n) return v;
  if (v.size() == 1) return Dims(n, v[0]);
  fail(ErrorKind::Runtime, fmt::format("{} must either be a single int, or a tuple of {} ints", what, n));
}

static Tensor constant_from(DType d, Arg a) { return is_float(d) ? constant(d, a.f) : constant(d, a.i); }
Tensor lowest(DType d) { return constant_from(d, identity_arg(Op::MAX, d)); }
Tensor highest(DType d) { return constant_from(d, identity_arg(Op::MIN, d)); }

Tensor iota_along(size_t ndim, size_t d, int64_t n, int64_t step) {
  Dims sizes(ndim, 1);
  sizes[d] = n;
  Tensor i = iota(n).reshape(sizes);
  return step == 1 ? i : i * index_constant(step);
}

Tensor pad_trailing(const Tensor& x, const Dims& lo, const Dims& hi, const Tensor* fill) {
  bool none = true;
  for (size_t i = 0; i < lo.size(); ++i) none = none && lo[i] == 0 && hi[i] == 0;
  if (none) return x;
  size_t lead = x.sizes().size() - lo.size();
  Dims l(lead, 0), h(lead, 0);
  l.append(lo.begin(), lo.end());
  h.append(hi.begin(), hi.end());
  return fill ? x.pad(l, h, *fill) : x.pad(l, h);
}

Tensor move_last(const Tensor& x, int64_t d) {
  if (d == x.dim() - 1) return x;
  Dims order;
  for (int64_t i = 0; i < x.dim(); ++i)
    if (i != d) order.push_back(i);
  order.push_back(d);
  return x.permute(order);
}

Tensor move_from_last(const Tensor& x, int64_t d) {
  if (d == x.dim() - 1) return x;
  Dims order;
  for (int64_t i = 0; i < x.dim() - 1; ++i) order.push_back(i);
  order.insert(static_cast<size_t>(d), x.dim() - 1);
  return x.permute(order);
}

Tensor is_nan(const Tensor& x) {
  if (is_float(x.dtype())) return ne(x, x);
  return full(x.sizes(), constant(DType::bool_, int64_t{0}));
}

Tensor reduce_in_order(const Tensor& x, Op op, const Dims& axes, DType step) {
  constexpr int64_t kLongest = 32;
  int64_t count = 1;
  for (int64_t d : axes) count *= x.size(d);
  if (x.dtype() == step || count == 0 || count > kLongest) return x.reduce(op, axes);
  Dims sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  auto element = [&](int64_t k) {
    Tensor r = x;
    for (size_t i = sorted.size(); i-- > 0; k /= x.size(sorted[i])) r = r.select(sorted[i], k % x.size(sorted[i]));
    return r;
  };
  Tensor r = rounded(element(0), step);
  for (int64_t k = 1; k < count; ++k) r = rounded(binary(op, r, element(k)), step);
  return r;
}

}  // namespace tiny::lower
