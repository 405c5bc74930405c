// The sets of vector loops that this processor has, for tests that run a builtin with each.
#pragma once
#include <vector>

#include "runtime/builtin/vector_kernels.h"

namespace tiny::testing {

inline std::vector<const VectorKernelSet*> usable_vector_sets() {
  std::vector<const VectorKernelSet*> sets{&kKernelsAny};
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) sets.push_back(&kKernelsAvx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    sets.push_back(&kKernelsAvx512);
#endif
  return sets;
}

}  // namespace tiny::testing
