// Derivatives of samples with respect to the parameters of their distribution.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

Tensor standard_gamma_grad(Args& a);  // _standard_gamma_grad(self, output): of a sample `output` of Gamma(self, 1)
Tensor dirichlet_grad(Args& a);       // _dirichlet_grad(x, alpha, total)

}  // namespace tiny::lower
