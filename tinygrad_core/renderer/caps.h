// What a target can do. Codegen reads only this, never the name of a device.
#pragma once
#include <cstdint>
#include <string>

namespace tiny {

struct Caps {
  std::string target;          // names the code that is made: "x86-64-v3:znver3"; part of every cache key
  int vector_bytes = 16;       // widest vector register; 0: scalar code only
  int registers = 16;          // vector registers: bounds the tile of accumulators
  int threads = 1;             // workers that run workgroups at once
  bool symbolic = false;       // kernels may take their extents as arguments (codegen/symbolic_kernel.h)
  bool has_local = false;      // workgroups have lanes, local memory and barriers (GPUs)
  int64_t max_local = 0;       // lanes of a workgroup at most
  int64_t local_bytes = 65536; // scratch of one workgroup
  int64_t block_bytes = 0;     // scratch of one workgroup that computes a block of a matrix product (codegen/block.h); 0: there are none
  int tensor_cores = 0;        // of NVIDIA: 80: instructions of a warp (mma.sync); 90: also of four (wgmma)
  bool async_copies = false;   // COPY from global to local memory
  int64_t l1_bytes = 32768, l2_bytes = 524288;
  bool has_fma = false;        // MULACC in one rounding
  bool has_f16 = false;        // converts f16 in hardware
  bool has_exp = false;        // EXP, EXP2 and TANH of f32, within 2 ulp
  bool has_dot2 = false;       // DOT2 of as many lanes as a vector register has, its half and its quarter
  int max_params = 96;         // buffers of one kernel at most
  bool pack_operands = false;  // contractions gain from operands copied into panels (CPUs: caches; GPUs use local memory)
};

}  // namespace tiny
