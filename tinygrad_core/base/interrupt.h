// A thread that waits long for a device asks from time to time whether it should stop waiting (Ctrl-C).
#pragma once

namespace tiny {

/// `check` is called by waiting threads every now and then; it throws what ends the wait. The work that was waited for goes on.
void set_interrupt_check(void (*check)());
/// Calls it, if there is one and the thread is Interruptible.
void check_interrupt();

/// While one exists, waits of this thread may end by an exception of the check.
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  static bool active();
};

}  // namespace tiny
