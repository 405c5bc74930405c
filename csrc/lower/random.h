// Random numbers, from counters: element i of a draw depends on seed, offset and i alone.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

Tensor bernoulli(Args& a);        // bernoulli.out(self = p, *, generator)
Tensor bernoulli_p(Args& a);      // bernoulli_.float, .Tensor(self, p, *, generator)
Tensor cauchy(Args& a);           // (self, median, sigma, *, generator)
Tensor exponential(Args& a);      // (self, lambd, *, generator)
Tensor geometric(Args& a);        // (self, p, *, generator)
Tensor log_normal(Args& a);       // (self, mean, std, *, generator)
Tensor multinomial(Args& a);      // (self, num_samples, replacement, *, generator)
Results native_dropout(Args& a);  // (input, p, train?) -> output, mask
Tensor native_dropout_backward(Args& a);  // (grad_output, mask, scale)
Tensor normal(Args& a);           // normal_(self, mean, std, *, generator)
Tensor normal_of(Args& a);        // normal.*(mean, std, *, generator), numbers or tensors
Tensor random(Args& a);           // random_(self, *, generator)
Tensor random_from(Args& a);      // random_.from(self, from, to?, *, generator)
Tensor random_to(Args& a);        // random_.to(self, to, *, generator)
Tensor randperm(Args& a);         // randperm.generator_out(n, *, generator) and randperm.out(n)
/// rrelu_with_noise(self, noise (a!), lower, upper, training, generator?) -> output, new noise
Results rrelu_with_noise(Args& a);
Tensor uniform(Args& a);          // (self, from, to, *, generator)

/// u64 bits for each element of `sizes`; a draw takes as many counters as it has elements.
Tensor bits_for(Args& a, int generator, const Dims& sizes);
/// Uniform in (0, 1): no end is reached.
Tensor uniform_open(const Tensor& bits, DType c);
/// Standard normal numbers of type c.
Tensor standard_normal(Args& a, int generator, const Dims& sizes, DType c);

}  // namespace tiny::lower
