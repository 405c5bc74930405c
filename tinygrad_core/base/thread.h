// Threads of the core: named, detached, and deaf to signals, which belong to the program's own threads.
#pragma once
#include <pthread.h>
#include <signal.h>

#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace tiny {

/// Starts body() on a thread of its own; false if the system has none left. The thread must never let an exception out.
template <class F>
bool start_thread(const std::string& name, F body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    std::thread t(std::move(body));
    pthread_setname_np(t.native_handle(), name.substr(0, 15).c_str());  // Linux keeps 15 characters
    t.detach();
  } catch (const std::system_error&) {
    started = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace tiny
