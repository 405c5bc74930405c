// Events of the one in-order queue of a device.
#pragma once
#include <memory>

#include "allocator.h"

namespace tiny::glue {

/// A mark in a device's queue; it knows when the queue passed it.
class Event {
 public:
  /// Submits what is pending, and puts the mark behind it.
  void record(c10::DeviceIndex device);
  bool recorded() const { return mark_ != nullptr; }
  bool done() const;              // true if never recorded
  void synchronize() const;
  /// Milliseconds from this event to `end`, both recorded and done; throws otherwise.
  double elapsed_ms(const Event& end) const;

 private:
  struct Mark;
  std::shared_ptr<Mark> mark_;
};

}  // namespace tiny::glue
