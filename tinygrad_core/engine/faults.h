// Faults found while running, and whose values they spoil. A CHECK that fails on the device is seen when somebody waits; until then every
// value that depends on a CHECK is suspect, and so is what is computed from it. All of it needs the graph lock.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/walk.h"

namespace tiny {

struct Fault {
  uint64_t from, to;   // flushes among whose values it is
  bool all;            // spoils all values of these flushes (the queue failed), not only the suspect ones
  ErrorKind kind;
  std::string message;
};

class Faults {
 public:
  /// The fault that spoiled a value of this flush; null if none did, as far as is known.
  const Fault* of(uint64_t flush, bool suspect) const;
  /// A flush with CHECKs was submitted.
  void expect(uint64_t flush) { if (!unchecked_from_) unchecked_from_ = flush; }
  bool expected() const { return unchecked_from_ != 0; }
  /// The device's error record was read after flush `last`, and cleared.
  void look(const ErrorRecord& record, uint64_t last);
  /// The queue failed in some flush up to `last` that nobody had waited for.
  void queue_failed(const Error& error, uint64_t last);
  /// All work up to this flush has ended well.
  void trust(uint64_t flush) { trusted_ = flush; }
  const std::vector<Fault>& all() const { return faults_; }

  /// By node of the walk: Good, Suspect, or spoiled by fault number value - Spoiled, through the buffers that it reads.
  enum : int { Good, Suspect, Spoiled };
  std::vector<int> states(const Walk& walk) const;

 private:
  uint64_t unchecked_from_ = 0;   // first flush whose CHECKs were not looked at yet; 0: none
  uint64_t trusted_ = 0;
  std::vector<Fault> faults_;
};

}  // namespace tiny
