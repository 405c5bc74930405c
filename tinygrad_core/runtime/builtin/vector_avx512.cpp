// Vectors of 64 bytes and 32 registers: tiles of 24 accumulators.
#ifdef __x86_64__
#pragma GCC target("avx512f,avx512vl,avx512dq,fma")
#include "runtime/builtin/vector_attention.h"
#include "runtime/builtin/vector_loops.h"
#include "runtime/builtin/vector_lstm.h"

namespace tiny {
const VectorKernelSet kKernelsAvx512 = {kernels_of<float, 64, 2, 12>(), kernels_of<double, 64, 2, 12>(),
                                    Attention<float, 64>::kernels(), Attention<double, 64>::kernels(),
                                    Lstm<float, 64>::kernels(), Lstm<double, 64>::kernels()};
}  // namespace tiny
#endif
