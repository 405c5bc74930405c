// Matrix products. Reduced floats accumulate in f32 and round once, after bias and scale; integers wrap exactly.
#pragma once
#include "lower/args.h"

namespace tiny::lower {

Tensor mm(Args& a);        // self [M,K], mat2 [K,N]
Tensor bmm(Args& a);       // self [B,M,K], mat2 [B,K,N]
Tensor addmm(Args& a);     // beta*self + alpha*(mat1 @ mat2); beta == 0 ignores self, NaN included
Tensor baddbmm(Args& a);
Tensor addmv(Args& a);     // beta*self + alpha*(mat @ vec)
Tensor addbmm(Args& a);    // beta*self + alpha*sum_b batch1[b] @ batch2[b]
Tensor addr(Args& a);      // beta*self + alpha*outer(vec1, vec2)
Tensor dot(Args& a);       // also vdot: real types have no conjugate

}  // namespace tiny::lower
