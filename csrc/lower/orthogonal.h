// Orthogonal polynomials of a degree that is data: (x, n).
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

Tensor hermite_h(Args& a);
Tensor hermite_he(Args& a);
Tensor laguerre_l(Args& a);
Tensor legendre_p(Args& a);

}  // namespace tiny::lower
