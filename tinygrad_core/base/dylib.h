// A shared library opened at run time: drivers and compiled kernels.
#pragma once
#include <dlfcn.h>
#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/error.h"

namespace tiny {

class Dylib {
 public:
  Dylib() = default;
  /// Empty if the library cannot be opened; `why` (if given) then says what the loader said.
  static Dylib try_open(const std::string& path, std::string* why = nullptr) {
    Dylib d;
    d.handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!d.handle_ && why) *why = last_fault();
    return d;
  }
  /// Throws Error(Runtime) with the loader's words.
  static Dylib open(const std::string& path) {
    std::string why;
    Dylib d = try_open(path, &why);
    if (!d) throw Error(ErrorKind::Runtime, fmt::format("cannot open {}: {}", path, why));
    return d;
  }
  Dylib(Dylib&& o) noexcept : handle_(std::exchange(o.handle_, nullptr)) {}
  Dylib& operator=(Dylib&& o) noexcept {
    std::swap(handle_, o.handle_);
    return *this;
  }
  ~Dylib() { if (handle_) ::dlclose(handle_); }
  explicit operator bool() const { return handle_ != nullptr; }

  /// Address of a symbol as a pointer of type F; null if there is none.
  template <class F> F find(const char* name) const { return reinterpret_cast<F>(::dlsym(handle_, name)); }
  /// The same; throws Error(Runtime) naming the symbol.
  template <class F> F symbol(const char* name) const {
    F f = find<F>(name);
    if (!f) throw Error(ErrorKind::Runtime, fmt::format("no symbol {}: {}", name, last_fault()));
    return f;
  }

 private:
  static std::string last_fault() {
    const char* e = ::dlerror();
    return e ? e : "unknown fault";
  }
  void* handle_ = nullptr;
};

}  // namespace tiny
