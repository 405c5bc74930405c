#include <cmath>

#include "lower/complex/complex.h"
#include "lower/complex/parts.h"
#include "lower/nn_util.h"
#include "lower/random.h"

namespace tiny::lower::complex {
namespace {

/// A real draw for both parts of each element of argument 0.
Complex draw(Args& a, Lowering1 f) {
  Dims sizes = a.tensor(0).sizes();
  sizes.push_back(2);
  a.values[0].tensor = empty_value(sizes, a.tensor(0).dtype());
  Tensor pairs = f(a);
  return {pairs.select(-1, 0), pairs.select(-1, 1)};
}

}  // namespace

/// Each part has half of the variance, and the mean.
Complex normal(Args& a) {
  ArgValue& deviation = a.values[2];
  deviation.d = a.number(2) / M_SQRT2, deviation.kind = ArgKind::Double;
  return draw(a, lower::normal);
}

/// Numbers of mean 0 and variance 1, scaled and moved.
Complex normal_of(Args& a) {
  if (a.is_complex(1)) fail(ErrorKind::Runtime, "normal expects standard deviation to be non-complex");
  const Complex mean = a.complex(0);
  const bool tensor = a.values[1].kind == ArgKind::Tensor;
  Dims sizes = tensor ? broadcast_sizes(mean.re.sizes(), a.tensor(1).sizes()) : mean.re.sizes();
  const Dims shape = sizes;
  sizes.push_back(2);
  // The real lowering checks the deviation, and draws around 0.
  ArgValue& first = a.values[0];
  first.tensor = zeros(sizes, mean.re.dtype()), first.imaginary = {};
  if (tensor) a.values[1].tensor = a.values[1].tensor.expand(shape).unsqueeze(-1);
  const Tensor pairs = lower::normal_of(a).cast(compute_dtype(mean.re.dtype())) * M_SQRT1_2;
  return cast(cast(mean, pairs.dtype()) + Complex{pairs.select(-1, 0), pairs.select(-1, 1)}, mean.re.dtype());
}

Complex uniform(Args& a) { return draw(a, lower::uniform); }

}  // namespace tiny::lower::complex
