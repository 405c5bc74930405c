#include <cmath>

#include "lower/complex/complex.h"
#include "lower/complex/parts.h"
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

Complex uniform(Args& a) { return draw(a, lower::uniform); }

}  // namespace tiny::lower::complex
