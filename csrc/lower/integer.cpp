#include "lower/integer.h"

#include <algorithm>
#include <cmath>

#include "lower/nn_util.h"
#include "lower/reduce.h"

namespace tiny::lower {
namespace {

Tensor magnitude(const Tensor& x) { return is_unsigned(x.dtype()) ? x : abs(x); }

/// Euclid's algorithm in as many steps as the type can need: Fibonacci's numbers are the slowest, log(2) / log(golden ratio) steps a bit.
Tensor greatest_divisor(Tensor x, Tensor y) {
  int steps = static_cast<int>(std::ceil(info(x.dtype()).bits * 1.4405)) + 1;
  for (int k = 0; k < steps; ++k) {
    Tensor rest = binary(Op::MOD, x, y);  // 0 for y = 0
    x = where(eq(y, like(y, 0)), x, y);
    y = rest;
  }
  return magnitude(x);
}

/// 0 + 1 + .. + (n - 1)
Tensor pairs_of(const Tensor& n) { return binary(Op::SHR, n * (n - index_constant(1)), index_constant(1)); }

/// `rows` rows of first, first + step, .. places.
struct Triangle {
  int64_t first, step, rows;
};

/// The row of place k: the root of a quadratic, put right by comparison.
Tensor row_in_trapezoid(const Tensor& k, const Triangle& t) {
  auto before = [&](const Tensor& row) {
    Tensor pairs = pairs_of(row);
    return row * index_constant(t.first) + (t.step > 0 ? pairs : -pairs);
  };
  double b = static_cast<double>(t.first) - 0.5 * static_cast<double>(t.step);
  Tensor x = k.cast(DType::f64), root = sqrt(maximum(x * (2.0 * static_cast<double>(t.step)) + b * b, constant(DType::f64, 0.0)));
  Tensor row = ((root - b) * static_cast<double>(t.step)).unary(Op::FLOOR).cast(DType::i64);
  row = minimum(maximum(row, index_constant(0)), index_constant(t.rows - 1));
  Tensor one = index_constant(1);
  row = where(gt(before(row), k), row - one, row);
  return where(lt(row, index_constant(t.rows - 1)) & le(before(row + one), k), row + one, row);
}

Tensor index_pair(const Tensor& row, const Tensor& column, DType d) {
  Tensor parts[] = {row.unsqueeze(0), column.unsqueeze(0)};
  return cat(parts, 0).cast(d);
}

struct Request {
  int64_t rows, columns, offset;
  DType dtype;
};

Request request(const Args& a) {
  Request r{a.integer(0), a.integer(1), a.integer(2, 0), a.dtype(3, DType::i64)};
  if (r.rows < 0) fail(ErrorKind::Runtime, "row must be non-negative, got" + std::to_string(r.rows));
  if (r.columns < 0) fail(ErrorKind::Runtime, "col must be non-negative, got" + std::to_string(r.columns));
  return r;
}

}  // namespace

Tensor gcd(Args& a) {
  DType d = a.common({0, 1});
  require_integer(a, d, false);
  return greatest_divisor(a.as(0, d), a.as(1, d));
}

Tensor lcm(Args& a) {
  DType d = a.common({0, 1});
  require_integer(a, d, false);
  Tensor x = a.as(0, d), y = a.as(1, d), quotient = x / greatest_divisor(x, y);  // a quotient by 0 is 0
  DType wide = itemsize(d) < 4 ? DType::i32 : d;                                 // small types wrap after the absolute value, as in C
  return magnitude(quotient.cast(wide) * y.cast(wide)).cast(d);
}

/// The exclusive or of all elements' 64 bits, halving what is left: floats as f64, integers as i64.
Tensor hash_tensor(Args& a) {
  const Tensor& x = a.tensor(0);
  Dims axes = reduced_axes(a, 1, x.dim()), order, kept;
  int64_t n = x.dim() ? reduced_count(x, axes) : 1;
  for (int64_t d = 0; d < x.dim(); ++d) {
    bool reduced = std::find(axes.begin(), axes.end(), d) != axes.end();
    if (!reduced) order.push_back(d), kept.push_back(x.size(d));
    else if (a.flag(2)) kept.push_back(1);
  }
  int64_t rows = product(std::span<const int64_t>(kept));
  if (n == 0 || rows == 0) return zeros(kept, DType::u64);
  order.append(axes.begin(), axes.end());
  Tensor wide = is_float(x.dtype()) ? x.cast(DType::f64).bitcast(DType::i64) : x.cast(DType::i64);
  Tensor v = (x.dim() ? wide.permute(order) : wide).reshape({rows, n});
  while (n > 1) {
    int64_t half = n / 2;
    Tensor low = v.slice(1, 0, half), high = v.slice(1, half, 2 * half), both = binary(Op::XOR, low, high);
    if (n % 2) {
      Tensor parts[] = {both, v.slice(1, n - 1, n)};
      both = cat(parts, 1);
    }
    v = both.contiguous(), n = half + n % 2;
  }
  return v.bitcast(DType::u64).reshape(kept);
}

/// The exponent's bits, after numbers below the normal ones were scaled up; zero, infinity and NaN have exponent 0.
Results frexp(Args& a) {
  const Tensor& given = a.tensor(0);
  DType d = given.dtype();
  if (!is_float(d)) fail(ErrorKind::Runtime, std::string("torch.frexp() only supports floating-point dtypes"));
  Tensor x = given.cast(compute_dtype(d));
  bool wide = x.dtype() == DType::f64;
  DType bits = wide ? DType::i64 : DType::i32;
  int shift = wide ? 52 : 23, bias = wide ? 1022 : 126;
  int64_t ones = wide ? 0x7ff : 0xff;
  Tensor small = lt(abs(x), like(x, std::ldexp(1.0, 1 - bias))), scaled = where(small, x * std::ldexp(1.0, shift + 1), x);
  Tensor i = scaled.bitcast(bits), field = binary(Op::SHR, i, constant(bits, int64_t{shift})) & constant(bits, ones);
  Tensor mantissa = ((i & constant(bits, ~(ones << shift))) | constant(bits, int64_t{bias} << shift)).bitcast(x.dtype());
  Tensor exponent = field - constant(bits, int64_t{bias}) - where(small, constant(bits, int64_t{shift + 1}), constant(bits, int64_t{0}));
  Tensor plain = eq(x, like(x, 0)) | eq(field, constant(bits, ones));
  return {where(plain, x, mantissa).cast(d), where(plain, constant(bits, int64_t{0}), exponent).cast(DType::i32)};
}

/// Row i has the columns 0 .. i + offset.
Tensor tril_indices(Args& a) {
  Request r = request(a);
  int64_t start = std::max<int64_t>(0, -r.offset);                                  // rows before it are empty
  int64_t full_from = std::clamp<int64_t>(r.columns - r.offset - 1, start, std::max(start, r.rows));  // from here on whole rows
  int64_t first = start + r.offset + 1, grow = std::max<int64_t>(0, full_from - start),
      whole = std::max<int64_t>(0, r.rows - std::max(start, full_from));
  int64_t in_trapezoid = grow * first + grow * (grow - 1) / 2, total = in_trapezoid + whole * r.columns;
  if (r.columns == 0 || r.rows == 0 || total <= 0) return zeros({2, 0}, r.dtype);
  Tensor k = iota(total), row = index_constant(0), column = index_constant(0);
  if (grow > 0) {
    row = row_in_trapezoid(k, {first, 1, grow});
    column = k - (row * index_constant(first) + pairs_of(row));
  }
  if (whole > 0) {
    Tensor rest = k - index_constant(in_trapezoid), low = lt(rest, index_constant(0)), width = index_constant(r.columns);
    row = where(low, row, index_constant(grow) + rest / width), column = where(low, column, binary(Op::MOD, rest, width));
  }
  return index_pair(row + index_constant(start), column, r.dtype);
}

/// Row i has the columns max(i + offset, 0) .. columns - 1.
Tensor triu_indices(Args& a) {
  Request r = request(a);
  int64_t whole = std::clamp<int64_t>(1 - r.offset, 0, r.rows);                     // rows that begin at column 0
  int64_t end = std::clamp<int64_t>(r.columns - r.offset, 0, r.rows), shrink = std::max<int64_t>(0, end - whole);
  int64_t first = r.columns - (whole + r.offset), before = whole * r.columns;
  int64_t total = before + shrink * first - shrink * (shrink - 1) / 2;
  if (r.columns == 0 || r.rows == 0 || total <= 0) return zeros({2, 0}, r.dtype);
  Tensor k = iota(total), width = index_constant(r.columns), row = k / width, column = binary(Op::MOD, k, width);
  if (shrink > 0) {
    Tensor rest = k - index_constant(before), low = lt(rest, index_constant(0)), inside = maximum(rest, index_constant(0));
    Tensor i = row_in_trapezoid(inside, {first, -1, shrink});
    Tensor past = i * index_constant(first) - pairs_of(i);
    row = where(low, row, i + index_constant(whole));
    column = where(low, column, inside - past + i + index_constant(whole + r.offset));
  }
  return index_pair(row, column, r.dtype);
}

}  // namespace tiny::lower
