// The kernels of a DFT. A kernel does one or several passes: between passes the values are in local memory, where it has room for whole
// transforms, or for all that a block of neighbouring columns needs.
#pragma once
#include <functional>
#include <vector>

#include "renderer/caps.h"
#include "uop/dft.h"
#include "uop/ir.h"

namespace tiny::sched {

/// Where each kernel's passes begin, then the number of passes.
std::vector<size_t> dft_kernels(const Dft& d, DType dtype, const Caps& caps);

/// How a kernel gets at memory. Where a gate (null: always) does not hold, nothing is touched.
struct DftAccess {
  std::function<U(U index, U gate)> real, imaginary;   // of the input; no `imaginary`: 0
  std::function<U(U index, U gate)> root;
  std::function<UOp*(U index, U value, U gate)> store;
  std::vector<int64_t> breaks;                         // positions in the input at which loops begin that suit it
};

/// The stores of the kernel that does passes d.first .. d.last-1.
std::vector<UOp*> dft_stores(const Dft& d, DType dtype, const DftAccess& access);

}  // namespace tiny::sched
