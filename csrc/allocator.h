// Storages of tiny tensors: PyTorch's StorageImpl whose DataPtr context owns a tiny::Storage.
#pragma once
#include "api.h"
#include "pch.h"

namespace tiny::glue {

inline constexpr c10::DeviceType kTiny = c10::DeviceType::PrivateUse1;

/// The device's allocator. Its DataPtrs hold a Memory; their address faults when it is dereferenced until the storage is pinned.
c10::DeviceAllocator* allocator();

/// What a DataPtr of ours owns.
struct Memory {
  Memory(Device& device, size_t nbytes) : storage(device, nbytes) {}
  Storage storage;
};

/// A DataPtr with fresh uninitialised memory on tiny:index.
c10::DataPtr allocate_on(c10::DeviceIndex index, size_t nbytes);
/// A StorageImpl over it, whose mutable data_ptr() pins the memory and gives its real address (torch >= 2.13).
c10::intrusive_ptr<c10::StorageImpl> make_storage(c10::DeviceIndex index, size_t nbytes);

void delete_memory(void* context);

/// The Memory behind a storage. Throws if the storage was not made by our allocator (from_blob on the tiny device, a released storage).
Memory& memory_of(const c10::StorageImpl& storage);
/// Whether our allocator made it. Others are windows on memory whose address somebody asked for (torch.save and load make such).
bool is_ours(const c10::StorageImpl& storage);
inline Storage& storage_of(const c10::StorageImpl& storage) { return memory_of(storage).storage; }

/// Changes a storage's size, keeping the common part of its contents.
void resize_storage(c10::StorageImpl& storage, size_t nbytes);

/// Flushes, waits, pins; afterwards the storage's data pointer is the device address of its memory. Gives the GIL up while waiting.
void* materialize(c10::StorageImpl& storage);
/// PyTorch materialises once. After an operator read or wrote pinned memory, the next demand for the address has to do it again.
void expect_address_again(c10::StorageImpl& storage);
/// How often that happened; for tests that operators do not ask for addresses.
int64_t materialized();

}  // namespace tiny::glue
