// Counter-based random bits. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#include "tensor/tensor.h"

namespace tiny {

Tensor random_bits(Dims sizes, const Tensor& seed, const Tensor& offset) {
  int64_t n = product(sizes);
  Tensor counter = iota(n).cast(DType::u64) + offset.reshape({});
  return binary(Op::THREEFRY, counter, seed.reshape({})).reshape(std::move(sizes));
}

}  // namespace tiny
