#include "lower/args.h"

#include <fmt/format.h>

namespace tiny::lower {
namespace {

/// The greatest type of one category; DType::count: no argument is of that category.
DType join(DType a, DType b) {
  if (a == DType::count) return b;
  return b == DType::count ? a : promote(a, b);
}

/// What a lower category may change of a higher one: only bool to integer, or an integer to a float.
/// Source: torch.result_type, https://pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
DType combine(DType higher, DType lower) {
  if (higher == DType::count) return lower;
  if (is_float(higher)) return higher;
  if (is_bool(higher) || (lower != DType::count && is_float(lower))) return join(higher, lower);
  return higher;
}

DType number_dtype(const ArgValue& v, DType default_float) {
  switch (v.kind) {
    case ArgKind::Double:
    case ArgKind::Complex: return default_float;
    case ArgKind::Bool: return DType::bool_;
    case ArgKind::Int: return DType::i64;
    default: return is_float(v.tensor.dtype()) ? default_float : v.tensor.dtype();
  }
}

[[noreturn]] void mismatch(std::string_view op, int i, const char* wanted) {
  throw Error(ErrorKind::Type, fmt::format("{}: argument {} must be {}", op, i + 1, wanted));
}

}  // namespace

void ArgValue::reset() {
  kind = ArgKind::None, category = Category::Number;
  if (tensor.defined()) tensor = Tensor();
  if (imaginary.defined()) imaginary = Tensor();
  contiguous = true, channels_last = false, complex_dtype = false;
  i = 0, d = 0, imag = 0;
  ints.clear(), doubles.clear(), tensors.clear(), imaginaries.clear(), text.clear();
}

const Tensor& Args::tensor(int i) const {
  if (!has(i) || values[i].kind != ArgKind::Tensor) mismatch(op, i, "a tensor");
  return values[i].tensor;
}

int64_t Args::integer(int i) const {
  const ArgValue& v = values[i];
  if (v.kind == ArgKind::Double) return static_cast<int64_t>(v.d);
  if (v.kind != ArgKind::Int && v.kind != ArgKind::Bool) mismatch(op, i, "an integer");
  return v.i;
}

double Args::number(int i) const {
  const ArgValue& v = values[i];
  if (v.kind == ArgKind::Double) return v.d;
  if (v.kind != ArgKind::Int && v.kind != ArgKind::Bool) mismatch(op, i, "a number");
  return static_cast<double>(v.i);
}

Tensor Args::as(int i, DType d) const {
  const ArgValue& v = values[i];
  switch (v.kind) {
    case ArgKind::Tensor: return v.tensor.cast(d);
    case ArgKind::Int: return scalar(d, v.i);
    case ArgKind::Bool: return constant(d, v.i);
    case ArgKind::Double: return scalar(d, v.d);
    default: mismatch(op, i, "a tensor or a number");
  }
}

DType Args::common(std::initializer_list<int> positions) const {
  DType dimensioned = DType::count, zero_dim = DType::count, number = DType::count;
  for (int i : positions) {
    if (!has(i)) continue;
    const ArgValue& v = values[i];
    if (v.kind != ArgKind::Tensor || v.category == Category::Number) number = join(number, number_dtype(v, default_float));
    else if (v.category == Category::ZeroDim) zero_dim = join(zero_dim, v.tensor.dtype());
    else dimensioned = join(dimensioned, v.tensor.dtype());
  }
  return combine(dimensioned, combine(zero_dim, number));
}

DType Args::common_float(std::initializer_list<int> positions) const {
  DType d = common(positions);
  return is_float(d) ? d : default_float;
}

bool Args::is_complex(int i) const {
  if (!has(i)) return false;
  const ArgValue& v = values[i];
  return v.kind == ArgKind::Complex || v.complex_dtype || v.imaginary.defined() || !v.imaginaries.empty();
}

bool Args::any_complex(std::initializer_list<int> positions) const {
  for (int i : positions)
    if (is_complex(i)) return true;
  return false;
}

Complex Args::complex(int i) const {
  const Tensor& re = tensor(i);
  return {re, values[i].imaginary.defined() ? values[i].imaginary : zeros(re.sizes(), re.dtype())};
}

Complex Args::complex_as(int i, DType d) const {
  const ArgValue& v = values[i];
  if (v.kind == ArgKind::Complex) return {scalar(d, v.d), scalar(d, v.imag)};
  if (v.imaginary.defined()) return {v.tensor.cast(d), v.imaginary.cast(d)};
  Tensor re = as(i, d);
  return {re, zeros(re.sizes(), d)};
}

Tensor Args::table(const Table& t, DType d) {
  if (!table_hook) throw Error(ErrorKind::Runtime, fmt::format("{}: no tables", op));
  return table_hook(t, d);
}

Args::Rng Args::rng(int generator_position, int64_t numel) {
  if (!rng_hook) throw Error(ErrorKind::Runtime, fmt::format("{}: no random generator", op));
  return rng_hook(*this, generator_position, numel);
}

}  // namespace tiny::lower
