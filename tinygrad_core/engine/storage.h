// Storage: the memory behind one PyTorch storage. What it holds is a *value*: a node of the graph that is computed when someone reads
// it. Writing all of it replaces the value; writing through a view makes an ASSIGN. All of it needs the graph lock.
#pragma once
#include "base/error.h"
#include "runtime/device.h"
#include "tensor/tensor.h"

namespace tiny {

struct Fault;

class Storage {
 public:
  Storage(Device& device, size_t nbytes);
  ~Storage();
  Storage(const Storage&) = delete;

  Device& device() const { return *device_; }
  size_t nbytes() const { return nbytes_; }
  void resize(size_t nbytes);            // keeps the common part of the contents

  /// The elements at offset + sum i_k*strides_k, offset and strides in elements of `dtype`. Bounds are the caller's to check.
  Tensor read(DType dtype, const Dims& sizes, const Dims& strides, int64_t offset);
  /// Writes `value` (of the same sizes and dtype) to those elements.
  void write(const Dims& sizes, const Dims& strides, int64_t offset, const Tensor& value);

  /// Bytes from and to the host. copy_out and pin flush and wait: call them without the graph lock. They raise errors found while running.
  void copy_in(size_t offset, const void* src, size_t nbytes);
  void copy_out(void* dst, size_t offset, size_t nbytes);
  /// Real memory whose address stays: flushes, and pins the storage to its buffer from now on.
  void* pin();
  bool pinned() const { return pinned_; }
  /// Pinned, and the host reads and writes it at any time: operators that touch it are run before they return.
  void share_with_host();
  bool is_pending() const;               // holds a value that is not computed yet

 private:
  friend class Engine;
  Ref& as(DType dtype);                  // value_ as elements of dtype, reinterpreted if need be
  int64_t elements(DType dtype) const;   // that cover the storage: the last one may reach beyond it
  Ref own(Ref value);                    // the value, or a copy of it where this storage must not share it
  void set(Ref value);                   // replaces the value and puts the storage at the end of the pending list
  void realize(const char* cause);       // value_ is a BUFFER afterwards
  void own_buffer();                     // realized in a block that nobody else reads
  Buffer* settle(const char* cause, bool pin);  // realized, and pinned; the caller owns a reference
  void finish(Buffer* b);                // waits for b, raises faults; gives the reference back
  void check_readable();
  void spoil(const Fault& fault);        // every read raises it from now on
  Buffer* buffer() const { return value_->arg.buf; }

  Device* device_;
  size_t nbytes_;
  Ref value_;                            // null: uninitialised; BUFFER: realized
  bool pinned_ = false;
  Buffer* pinned_buffer_ = nullptr;      // of a pinned storage; owned
  bool host_shared_ = false;
  bool linked_ = false;                  // in the engine's list
  uint64_t flush_ = 0;                   // number of the flush that computed the value; 0: none did
  bool suspect_ = false;                 // the value may depend on a CHECK that failed
  std::string failed_;                   // why the value could not be computed: every read raises it again
  ErrorKind failed_kind_ = ErrorKind::Index;
  Storage *prev_ = nullptr, *next_ = nullptr;  // the engine's list of pending storages, in the order of their last write
};

}  // namespace tiny
