// Complex numbers from real ones.
#include <fmt/format.h>

#include <cmath>

#include "lower/complex/complex.h"
#include "lower/complex/math.h"
#include "lower/nn_util.h"

namespace tiny::lower::complex {
namespace {

void check_parts(const Args& a) {
  for (int i : {0, 1})
    if (a.is_complex(i) || !is_float(a.tensor(i).dtype()) || a.tensor(i).dtype() == DType::bf16)
      fail(ErrorKind::Runtime, fmt::format("Expected both inputs to be Half, Float or Double tensors but got {} and {}",
                                           scalar_type_name(a.tensor(0).dtype()), scalar_type_name(a.tensor(1).dtype())));
  if (a.tensor(0).dtype() != a.tensor(1).dtype())
    fail(ErrorKind::Runtime, fmt::format("Expected object of scalar type {} but got scalar type {} for second argument",
                                         scalar_type_name(a.tensor(0).dtype()), scalar_type_name(a.tensor(1).dtype())));
  const DType d = a.tensor(0).dtype();  // nothing is cast to the type of `out=`
  for (const OutInfo& out : a.outs) {
    if (out.complex && out.dtype == d) continue;
    fail(ErrorKind::Runtime, fmt::format("Expected object of scalar type {} but got scalar type {} for argument 'out'",
                                         complex_type_name(d), out.complex ? complex_type_name(out.dtype) : scalar_type_name(out.dtype)));
  }
}

}  // namespace

Complex make(Args& a) {
  check_parts(a);
  Dims sizes = broadcast_sizes(a.tensor(0).sizes(), a.tensor(1).sizes());
  return {a.tensor(0).expand(sizes), a.tensor(1).expand(sizes)};
}

Complex polar(Args& a) {
  check_parts(a);
  DType d = a.tensor(0).dtype();
  Tensor size = widened(a, 0), angle = widened(a, 1);
  return cast({size * angle.unary(Op::COS), size * angle.unary(Op::SIN)}, d);
}

Complex linspace(Args& a) {
  DType d = a.out_dtype(0, a.default_float), c = compute_dtype(d);
  const int64_t steps = a.integer(2);
  if (steps < 0) fail(ErrorKind::Runtime, "number of steps must be non-negative");
  Complex start = a.complex_as(0, c), end = a.complex_as(1, c);
  if (steps == 0) return {empty_value({0}, d), empty_value({0}, d)};
  if (steps == 1) return cast(both(start, [](const Tensor& t) { return t.reshape({1}); }), d);
  Complex step = (end - start) * recip(scalar(c, static_cast<double>(steps - 1)));
  Tensor i = iota(steps), from_end = index_constant(steps - 1) - i, first = lt(i, index_constant(steps / 2));
  return cast(where(first, start + step * i.cast(c), end - step * from_end.cast(c)), d);
}

/// Powers of the base; base 0 needs exponents other than these, so it goes through pow() like any.
Complex logspace(Args& a) {
  DType d = a.out_dtype(0, a.default_float), c = compute_dtype(d);
  Complex x = cast(linspace(a), c);
  const Tensor base = scalar(c, a.number(3, 10));
  return cast(lower::pow({full(x.re.sizes(), base), zeros(x.re.sizes(), c)}, x), d);
}

}  // namespace tiny::lower::complex
