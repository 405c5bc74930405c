// The Python interpreter's lock. Order of locks: the GIL may be held while taking the graph lock, never the other way round; whoever
// waits for the device, or for a compile, gives the GIL up first.
#pragma once
#include <Python.h>

namespace tiny::glue {

/// Gives the GIL up for its lifetime, if this thread holds it.
class WithoutGil {
 public:
  WithoutGil() {
    if (Py_IsInitialized() && PyGILState_Check()) state_ = PyEval_SaveThread();
  }
  ~WithoutGil() {
    if (state_) PyEval_RestoreThread(state_);
  }
  WithoutGil(const WithoutGil&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

}  // namespace tiny::glue
