#include "where.h"

#include <Python.h>
#include <frameobject.h>

#include "api.h"

namespace tiny::glue {
namespace {

thread_local std::string line;

std::vector<std::string>& library_folders() {
  static auto* v = new std::vector<std::string>;
  return *v;
}

bool is_library(const char* file) {
  const std::string_view name(file);
  if (name.empty() || name[0] == '<') return true;
  for (const std::string& folder : library_folders())
    if (name.substr(0, folder.size()) == folder) return true;
  return false;
}

std::string user_line() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;  // an exception may be on its way
  PyErr_Fetch(&type, &value, &trace);
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  std::string found;
  while (frame && found.empty()) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    if (file && !is_library(file)) found = std::string(file) + ":" + std::to_string(PyFrame_GetLineNumber(frame));
    Py_DECREF(code);
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  PyErr_Restore(type, value, trace);
  return found;
}

}  // namespace

void set_library_folders(std::vector<std::string> prefixes) { library_folders() = std::move(prefixes); }

void note_where() {
  if (!Py_IsInitialized() || _Py_IsFinalizing()) return;
  PyThreadState* own = PyGILState_GetThisThreadState();
  if (!own) return;  // a thread that Python does not know (autograd's) has no line
  const PyGILState_STATE state = PyGILState_Ensure();
  line = user_line();
  PyGILState_Release(state);
}

void install_where_hook() {
  Engine::set_where([] { return std::move(line); });
}

}  // namespace tiny::glue
