// Tables of constants that lowerings have the host compute: leaves in device memory, kept from call to call.
#pragma once
#include "lower/args.h"
#include "runtime/device.h"

namespace tiny::glue {

/// The table as numbers of type d, flat. Needs the graph lock.
tiny::Tensor table_on(Device& device, const lower::Table& table, DType d);
/// Forgets the device's tables; those that pending operators read live on.
void drop_tables(Device& device);

}  // namespace tiny::glue
