// Operators that note a value of the graph as their result.
#pragma once
#include "errors.h"
#include "tensor.h"

namespace tiny::glue {

/// A tensor on `device` whose value is `value()`, made under the graph's lock.
template <class F>
at::Tensor noted(c10::DeviceIndex device, F value) {
  at::Tensor out = guarded([&] {
    GraphLock lock;
    return make_result(value(), device);
  });
  after_operator(device_of(*out.unsafeGetTensorImpl()));
  return out;
}

}  // namespace tiny::glue
