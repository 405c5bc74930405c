// Random numbers by rejection: all rounds are drawn at once and the first that is accepted counts.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

Tensor binomial(Args& a);         // (count, prob, generator?)
Tensor poisson(Args& a);          // (self, generator?)
Tensor sample_dirichlet(Args& a); // _sample_dirichlet(self, generator?)
Tensor standard_gamma(Args& a);   // _standard_gamma(self, generator?)

}  // namespace tiny::lower
