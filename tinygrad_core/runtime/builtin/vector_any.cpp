// Vectors of 16 bytes, on any processor; and the choice among the sets.
#include "runtime/builtin/vector_attention.h"
#include "runtime/builtin/vector_loops.h"
#include "runtime/builtin/vector_lstm.h"

namespace tiny {

const VectorKernelSet kKernelsAny = {kernels_of<float, 16, 2, 4>(), kernels_of<double, 16, 2, 4>(),
                                    Attention<float, 16>::kernels(), Attention<double, 16>::kernels(),
                                    Lstm<float, 16>::kernels(), Lstm<double, 16>::kernels()};

namespace {

const VectorKernelSet& best_kernels() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) return kKernelsAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kKernelsAvx2;
#endif
  return kKernelsAny;
}

}  // namespace

template <>
const VectorKernels<float>& vector_kernels() {
  static const VectorKernels<float>& k = best_kernels().f32;
  return k;
}
template <>
const VectorKernels<double>& vector_kernels() {
  static const VectorKernels<double>& k = best_kernels().f64;
  return k;
}
template <>
const AttentionKernels<float>& attention_kernels() {
  static const AttentionKernels<float>& k = best_kernels().attention_f32;
  return k;
}
template <>
const AttentionKernels<double>& attention_kernels() {
  static const AttentionKernels<double>& k = best_kernels().attention_f64;
  return k;
}

template <>
const LstmKernels<float>& lstm_kernels() {
  static const LstmKernels<float>& k = best_kernels().lstm_f32;
  return k;
}
template <>
const LstmKernels<double>& lstm_kernels() {
  static const LstmKernels<double>& k = best_kernels().lstm_f64;
  return k;
}

}  // namespace tiny
