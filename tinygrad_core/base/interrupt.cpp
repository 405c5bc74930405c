#include "base/interrupt.h"

#include <atomic>

namespace tiny {
namespace {
std::atomic<void (*)()> current_check{nullptr};
thread_local int depth = 0;
}  // namespace

void set_interrupt_check(void (*check)()) { current_check.store(check); }

void check_interrupt() {
  if (auto* check = current_check.load(); check && depth > 0) check();
}

Interruptible::Interruptible() { ++depth; }
Interruptible::~Interruptible() { --depth; }
bool Interruptible::active() { return depth > 0; }

}  // namespace tiny
