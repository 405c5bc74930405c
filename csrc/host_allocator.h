#pragma once
#include "pch.h"

namespace tiny::glue {

/// Page-aligned host memory for copies from and to a device; is_pinned() knows it.
at::HostAllocator* host_allocator();
bool is_pinned(const void* data);

}  // namespace tiny::glue
