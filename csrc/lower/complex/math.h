// Arithmetic and functions of complex numbers, given by their parts. Both parts are floats of a type that operators compute in (f32, f64).
// Special values (zeros with signs, infinities, NaN) are those of C99, annex G, where the CPU has them.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

inline Complex operator+(const Complex& a, const Complex& b) { return {a.re + b.re, a.im + b.im}; }
inline Complex operator-(const Complex& a, const Complex& b) { return {a.re - b.re, a.im - b.im}; }
inline Complex operator-(const Complex& a) { return {-a.re, -a.im}; }
inline Complex operator*(const Complex& a, const Complex& b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
inline Complex operator*(const Complex& a, const Tensor& real) { return {a.re * real, a.im * real}; }
inline Complex operator*(const Complex& a, double real) { return {a.re * real, a.im * real}; }
inline Complex conj(const Complex& a) { return {a.re, -a.im}; }
inline Complex times_i(const Complex& a) { return {-a.im, a.re}; }
inline Complex over_i(const Complex& a) { return {a.im, -a.re}; }
inline Complex where(const Tensor& c, const Complex& a, const Complex& b) { return {where(c, a.re, b.re), where(c, a.im, b.im)}; }
Complex operator/(const Complex& a, const Complex& b);

/// Constants of the parts' type of `x`.
inline Complex like(const Complex& x, double re, double im = 0) { return {like(x.re, re), like(x.re, im)}; }
/// Both parts in another dtype.
inline Complex cast(const Complex& x, DType d) { return {x.re.cast(d), x.im.cast(d)}; }
/// f of both parts: movement.
template <class F> Complex both(const Complex& x, F f) { return {f(x.re), f(x.im)}; }

Tensor eq(const Complex& a, const Complex& b);
/// Not 0.
Tensor nonzero(const Complex& x);
/// sqrt(x^2 + y^2) without overflow; infinite if either is, even beside NaN.
Tensor hypotenuse(const Tensor& x, const Tensor& y);
Tensor abs(const Complex& x);
Tensor squared_abs(const Complex& x);
/// -pi to pi
Tensor angle(const Complex& x);
/// x / |x|; 0 for 0.
Complex sgn(const Complex& x);

Complex exp(const Complex& x);
Complex expm1(const Complex& x);
Complex log(const Complex& x);
Complex log1p(const Complex& x);
Complex sqrt(const Complex& x);
Complex recip(const Complex& x);
Complex sin(const Complex& x);
Complex cos(const Complex& x);
Complex tan(const Complex& x);
Complex sinh(const Complex& x);
Complex cosh(const Complex& x);
Complex tanh(const Complex& x);
Complex asin(const Complex& x);
Complex acos(const Complex& x);
Complex atan(const Complex& x);
Complex asinh(const Complex& x);
Complex acosh(const Complex& x);
Complex atanh(const Complex& x);
/// 1 / (1 + exp(-x))
Complex logistic(const Complex& x);
Complex pow(const Complex& x, const Complex& y);
/// log(e^x + e^y)
Complex log_add_exp(const Complex& x, const Complex& y);

/// "ComplexFloat": PyTorch's name of the complex type with parts of type d.
std::string complex_type_name(DType d);
/// The type of the parts of torch.result_type over the arguments, if that is complex. bfloat16 has no complex type: it goes with complex64.
DType parts_dtype(const Args& a, std::initializer_list<int> positions);
/// Argument i in the type in which an operator of common parts `d` computes (pointwise.h).
Complex complex_operand(const Args& a, int i, DType d);

}  // namespace tiny::lower
