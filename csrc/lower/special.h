// Special functions. Computed in f64 and rounded once: their float32 results are then exact to the last place or nearly so.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

Tensor airy_ai(Args& a);
Tensor bessel_j0(Args& a);
Tensor bessel_j1(Args& a);
Tensor bessel_y0(Args& a);
Tensor bessel_y1(Args& a);
Tensor erfcx(Args& a);
Tensor i0(Args& a);
Tensor i0e(Args& a);
Tensor i1(Args& a);
Tensor i1e(Args& a);
Tensor igamma(Args& a);          // (a, x)
Tensor igammac(Args& a);
Tensor log_ndtr(Args& a);
Tensor modified_bessel_k0(Args& a);
Tensor modified_bessel_k1(Args& a);
Tensor scaled_modified_bessel_k0(Args& a);
Tensor scaled_modified_bessel_k1(Args& a);
Tensor ndtri(Args& a);
Tensor polygamma(Args& a);       // (n, self)
Tensor spherical_bessel_j0(Args& a);
Tensor zeta(Args& a);            // (x, q)

}  // namespace tiny::lower
