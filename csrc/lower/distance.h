// Distances between rows, and the cross product.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

Tensor cdist(Args& a);           // _cdist_forward(x1, x2, p, compute_mode)
Tensor cdist_backward(Args& a);  // (grad, x1, x2, p, cdist)
Tensor pdist(Args& a);           // _pdist_forward(self, p)
Tensor pdist_backward(Args& a);  // (grad, self, p, pdist)
Tensor cross(Args& a);           // linalg_cross(self, other, *, dim)

}  // namespace tiny::lower
