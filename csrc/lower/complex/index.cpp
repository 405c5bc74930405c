#include "lower/index.h"

#include "lower/complex/complex.h"
#include "lower/complex/parts.h"
#include "lower/nn_util.h"
#include "lower/scatter.h"

namespace tiny::lower::complex {
namespace {

constexpr int kSelf = 0, kSource = 3;

void set(Args& a, int i, const Complex& x) {
  a.values[i] = {};
  a.values[i].kind = ArgKind::Tensor;
  a.values[i].tensor = x.re, a.values[i].imaginary = x.im;
}

Complex scattered_parts(Args& a, Lowering1 f) {
  const int data[] = {kSelf, kSource};
  return on_parts(a, f, nullptr, data)[0];
}

}  // namespace

/// The source times alpha, added part by part.
Complex index_add(Args& a) {
  if (a.has(4)) {
    set(a, kSource, a.complex(kSource) * a.complex_as(4, a.tensor(kSource).dtype()));
    a.values[4] = {};
    a.values[4].kind = ArgKind::Int, a.values[4].i = 1;
  }
  return scattered_parts(a, lower::index_add);
}

Complex nonzero_static(Args& a) {
  replace_by_nonzero(a);
  return {lower::nonzero_static(a), {}};
}

namespace {

/// Real numbers `src` written by a real lowering to `start` at the call's index.
Tensor scattered(Args& a, Lowering1 f, double start, const Tensor& src, const char* reduce) {
  Dims sizes = a.tensor(kSelf).sizes();
  set(a, kSelf, {full(sizes, constant(DType::f64, start)), {}});
  set(a, kSource, {src, {}});
  a.values[4].text = reduce;
  return f(a);
}

/// For each element of self the product of what is written to it: its size is the product of the sizes, its angle the sum of the angles. In
/// f64, so that the result is right to the last bit or two.
Complex factors(Args& a, Lowering1 f, const char* sum, const char* product) {
  const Complex x = a.complex_as(kSource, DType::f64);
  const Tensor size = scattered(a, f, 1, lower::abs(x), product), turn = scattered(a, f, 0, lower::angle(x), sum);
  return {size * turn.unary(Op::COS), size * turn.unary(Op::SIN)};
}

}  // namespace

Complex scatter_reduce(Args& a) {
  const DType d = a.tensor(kSelf).dtype();
  const Dims sizes = a.tensor(2).sizes();
  const bool number = a.values[kSource].kind != ArgKind::Tensor;
  const Complex source = a.complex_as(kSource, d), self = a.complex_as(kSelf, DType::f64);
  set(a, kSource, number ? both(source, [&](const Tensor& t) { return full(sizes, t); }) : source);
  if (a.text(4) != "multiply") return scattered_parts(a, lower::scatter_src_reduce);
  return cast(self * factors(a, lower::scatter_src_reduce, "add", "multiply"), d);
}

Complex scatter_reduce_two(Args& a) {
  const DType d = a.tensor(kSelf).dtype();
  const std::string reduce(a.text(4));
  if (reduce == "sum" || reduce == "mean") return scattered_parts(a, lower::scatter_reduce);
  if (reduce != "prod")
    fail(ErrorKind::NotImplemented,
         "\"scatter_gather_tensor_cpu_reduce_" + reduce + "\" not implemented for '" + complex_type_name(d) + "'");
  Complex self = a.complex_as(kSelf, DType::f64);
  if (!a.flag(5)) {
    a.values[5].i = 1;
    const Complex source = a.complex(kSource);
    const Tensor ones = full(a.tensor(kSource).sizes(), constant(DType::f64, 1.0));
    const Tensor hit = ne(scattered(a, lower::scatter_reduce, 0, ones, "sum"), constant(DType::f64, 0.0));
    self = where(hit, like(self, 1), self);
    set(a, kSource, source);
  }
  return cast(self * factors(a, lower::scatter_reduce, "sum", "prod"), d);
}

}  // namespace tiny::lower::complex
