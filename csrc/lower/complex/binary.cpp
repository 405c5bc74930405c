#include <cmath>

#include "lower/complex/complex.h"
#include "lower/nn_util.h"

namespace tiny::lower::complex {
namespace {

bool is_number(const Args& a, int i) { return a.values[i].kind != ArgKind::Tensor; }
/// Whether argument i is the number v.
bool is_value(const Args& a, int i, double v) {
  return is_number(a, i) && a.values[i].kind != ArgKind::Complex && a.number(i) == v;
}

/// Argument `factor` times x; the number 1 costs nothing, and a real one half.
Complex scaled(const Args& a, const Complex& x, int factor) {
  if (!a.has(factor) || is_value(a, factor, 1)) return x;
  if (!a.is_complex(factor)) return x * a.as(factor, x.re.dtype());
  return a.complex_as(factor, x.re.dtype()) * x;
}

/// x and y as they are promoted, f of both, rounded once.
template <class F> Complex of_arguments(Args& a, F f) {
  DType d = parts_dtype(a, {0, 1});
  return cast(f(complex_operand(a, 0, d), complex_operand(a, 1, d)), d);
}

void check_alpha(const Args& a, int alpha) {
  if (a.has(alpha) && a.values[alpha].kind == ArgKind::Bool) fail(ErrorKind::Runtime, "Boolean alpha only supported for Boolean results.");
}

bool is_bool_argument(const Args& a, int i) {
  return is_number(a, i) ? a.values[i].kind == ArgKind::Bool : is_bool(a.tensor(i).dtype());
}

void check_subtraction(const Args& a) {
  check_alpha(a, 2);
  if (is_bool_argument(a, 0) || is_bool_argument(a, 1))
    fail(ErrorKind::Runtime, "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use "
                             "the `~` or `logical_not()` operator instead.");
}

}  // namespace

Complex add(Args& a) {
  check_alpha(a, 2);
  return of_arguments(a, [&](const Complex& x, const Complex& y) { return x + scaled(a, y, 2); });
}
Complex sub(Args& a) {
  check_subtraction(a);
  return of_arguments(a, [&](const Complex& x, const Complex& y) { return x - scaled(a, y, 2); });
}
Complex rsub(Args& a) {
  check_subtraction(a);
  return of_arguments(a, [&](const Complex& x, const Complex& y) { return y - scaled(a, x, 2); });
}
Complex mul(Args& a) {
  return of_arguments(a, [](const Complex& x, const Complex& y) { return x * y; });
}
Complex div(Args& a) {
  return of_arguments(a, [](const Complex& x, const Complex& y) { return x / y; });
}

Complex div_mode(Args& a) {
  if (!a.has(2)) return div(a);
  const std::string mode(a.text(2));
  if (mode != "trunc" && mode != "floor")
    fail(ErrorKind::Runtime, "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '" + mode + "'");
  fail(ErrorKind::NotImplemented, "\"div_" + mode + "_cpu\" not implemented for '" + complex_type_name(parts_dtype(a, {0, 1})) + "'");
}

Complex addcmul(Args& a) {
  DType d = parts_dtype(a, {0, 1, 2});
  Complex t = scaled(a, complex_operand(a, 1, d), 3);
  return cast(complex_operand(a, 0, d) + t * complex_operand(a, 2, d), d);
}

Complex addcdiv(Args& a) {
  DType d = parts_dtype(a, {0, 1, 2});
  Complex t = scaled(a, complex_operand(a, 1, d), 3);
  return cast(complex_operand(a, 0, d) + t / complex_operand(a, 2, d), d);
}

Complex compare_eq(Args& a) {
  DType d = parts_dtype(a, {0, 1});
  return {eq(a.complex_as(0, d), a.complex_as(1, d)), {}};
}
Complex compare_ne(Args& a) {
  DType d = parts_dtype(a, {0, 1});
  return {!eq(a.complex_as(0, d), a.complex_as(1, d)), {}};
}

template <Op op> Complex logical(Args& a) {
  auto truth_of = [&](int i) { return a.is_complex(i) ? nonzero(a.complex(i)) : a.tensor(i).cast(DType::bool_); };
  return {tiny::binary(op, truth_of(0), truth_of(1)), {}};
}
template Complex logical<Op::AND>(Args&);
template Complex logical<Op::OR>(Args&);
template Complex logical<Op::XOR>(Args&);

Complex lerp(Args& a) {
  for (int i : {1, 2})
    if (!is_number(a, i) && (a.tensor(i).dtype() != a.tensor(0).dtype() || a.is_complex(i) != a.is_complex(0)))
      fail(ErrorKind::Runtime, std::string("expected dtype ") + scalar_type_name(a.tensor(0).dtype()) + " for `" +
                                 (i == 1 ? "end" : "weight") + "` but got dtype " + scalar_type_name(a.tensor(i).dtype()));
  DType d = parts_dtype(a, {0, 1});
  Complex start = complex_operand(a, 0, d), end = complex_operand(a, 1, d), w = complex_operand(a, 2, d), step = end - start;
  // Counted from the nearer end, so that weights 0 and 1 give the ends exactly.
  Tensor near = lt(lower::abs(w), like(w.re, 0.5));
  return cast(where(near, start + w * step, end - step * (like(w, 1) - w)), d);
}

Complex logaddexp(Args& a) { return of_arguments(a, log_add_exp); }

Complex pow(Args& a) {
  DType d = parts_dtype(a, {0, 1});
  Complex x = complex_operand(a, 0, d);
  if (is_number(a, 1) && !a.is_complex(1)) {  // exponents with a cheaper form
    const double e = a.number(1);
    if (e == 1) return cast(x, d);
    if (e == 2) return cast(x * x, d);
    if (e == 3) return cast(x * x * x, d);
    if (e == 0.5) return cast(sqrt(x), d);
    if (e == -0.5) return cast(recip(sqrt(x)), d);
    if (e == -1) return cast(recip(x), d);
    if (e == -2) return cast(recip(x * x), d);
  }
  return cast(lower::pow(x, complex_operand(a, 1, d)), d);
}

Complex xlogy(Args& a) {
  return of_arguments(a, [](const Complex& x, const Complex& y) {
    Tensor nan = ne(y.re, y.re) | ne(y.im, y.im);
    return where(nonzero(x) | nan, x * log(y), like(x, 0));
  });
}

}  // namespace tiny::lower::complex
