#include "lower/complex/complex.h"
#include "lower/complex/parts.h"
#include "lower/scatter.h"

namespace tiny::lower::complex {

/// The source times alpha, added part by part.
Complex index_add(Args& a) {
  if (a.has(4)) {
    Complex source = a.complex(3) * a.complex_as(4, a.tensor(3).dtype());
    a.values[3].tensor = source.re, a.values[3].imaginary = source.im;
    a.values[4] = {};
    a.values[4].kind = ArgKind::Int, a.values[4].i = 1;
  }
  const int data[] = {0, 3};
  ComplexResults r = on_parts(a, lower::index_add, nullptr, data);
  return r[0];
}

}  // namespace tiny::lower::complex
