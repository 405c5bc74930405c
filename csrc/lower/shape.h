// Operators that move or make elements: joining, flipping, triangles, sequences.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

Tensor arange(Args& a);             // arange.start_out(start, end, step)
Tensor cat(Args& a);                // (tensors, dim)
Tensor channel_shuffle(Args& a);    // (self, groups)
Tensor constant_pad(Args& a);       // constant_pad_nd(self, pad, value)
Tensor eye(Args& a);                // eye.out(n)
Tensor eye_m(Args& a);              // eye.m_out(n, m)
Tensor flip(Args& a);               // (self, dims)
Tensor linspace(Args& a);           // linspace.out(start, end, steps)
Tensor logspace(Args& a);           // logspace.out(start, end, steps, base)
Tensor pixel_shuffle(Args& a);      // (self, upscale_factor)
Tensor pixel_unshuffle(Args& a);    // (self, downscale_factor)
Tensor roll(Args& a);               // (self, shifts, dims)
Tensor tril(Args& a);               // (self, diagonal)
Tensor triu(Args& a);

}  // namespace tiny::lower
