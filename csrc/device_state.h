// Which tiny device is current on a thread, and which devices this process has opened. Opens nothing by itself.
#pragma once
#include "pch.h"

namespace tiny::glue {

/// Number of tiny devices; 0 when TINY_DEVICE cannot be understood. Opens nothing.
c10::DeviceIndex count_devices() noexcept;
c10::DeviceIndex current_device();
/// Throws for an index out of range.
void set_current_device(c10::DeviceIndex index);
void set_current_device_unchecked(c10::DeviceIndex index) noexcept;
/// The index itself, or the current device's for -1; throws for an index out of range.
c10::DeviceIndex checked_device(c10::DeviceIndex index);

bool device_opened(c10::DeviceIndex index);
void mark_opened(c10::DeviceIndex index);

/// Makes the process safe to fork: no child inherits the graph lock in a locked state, and devices know that they are in a child.
void register_fork_handlers();

}  // namespace tiny::glue
