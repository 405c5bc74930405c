// Vectors of 32 bytes and 16 registers: tiles of 12 accumulators.
#ifdef __x86_64__
#pragma GCC target("avx2,fma")
#include "runtime/builtin/vector_attention.h"
#include "runtime/builtin/vector_loops.h"
#include "runtime/builtin/vector_lstm.h"

namespace tiny {
const VectorKernelSet kKernelsAvx2 = {kernels_of<float, 32, 2, 6>(), kernels_of<double, 32, 2, 6>(),
                                    Attention<float, 32>::kernels(), Attention<double, 32>::kernels(),
                                    Lstm<float, 32>::kernels(), Lstm<double, 32>::kernels()};
}  // namespace tiny
#endif
