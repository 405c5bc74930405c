// Writing by index. Cost is proportional to the elements written, not to the destination. Sums of reduced floats are made in f32.
#pragma once
#include "lower/args.h"

namespace tiny::lower {

Tensor index_put(Args& a);         // _index_put_impl_(self, indices, values, accumulate, unsafe)
Tensor index_add(Args& a);         // (self, dim, index, source, alpha)
Tensor index_copy(Args& a);        // (self, dim, index, source)
Tensor index_fill(Args& a);        // (self, dim, index, value)
Tensor index_reduce(Args& a);      // (self, dim, index, source, reduce, include_self)
Tensor scatter_src(Args& a);       // (self, dim, index, src)
Tensor scatter_value(Args& a);
Tensor scatter_src_reduce(Args& a);    // reduce "add" or "multiply"
Tensor scatter_value_reduce(Args& a);
Tensor scatter_add(Args& a);
Tensor scatter_reduce(Args& a);    // (self, dim, index, src, reduce, include_self): sum, prod, mean, amax, amin
Tensor put(Args& a);               // (self, index, source, accumulate)
Tensor masked_scatter(Args& a);    // (self, mask, source)

}  // namespace tiny::lower
