#include "runtime/cuda/driver.h"

#include <fmt/format.h>

#include "base/dylib.h"

namespace tiny::cuda {
namespace {

Driver load() {
  static auto* library = new Dylib;  // never closed: the driver's own threads run in it
  std::string why;
  *library = Dylib::try_open("libcuda.so.1", &why);
  if (!*library) throw Error(ErrorKind::Runtime, fmt::format("TINY_DEVICE names CUDA, but the NVIDIA driver is not here: {}", why));
  Driver d;
#define F(name, arguments) d.name = library->symbol<Result(*) arguments>(#name);
  TINY_CUDA_FUNCTIONS(F)
#undef F
  if (Result r = d.cuInit(0)) {
    const char* text = nullptr;
    d.cuGetErrorString(r, &text);
    throw Error(ErrorKind::Runtime, fmt::format("the NVIDIA driver does not start (cuInit: {})", text ? text : std::to_string(r)));
  }
  d.cuDriverGetVersion(&d.version);
  return d;
}

const Driver* fake_driver = nullptr;

}  // namespace

void use_driver(const Driver& fake) { fake_driver = new Driver(fake); }

const Driver& driver() {
  static const Driver d = fake_driver ? *fake_driver : load();
  return d;
}

void check(Result result, const char* call, const char* about) {
  if (result == 0) return;
  const char *name = nullptr, *text = nullptr;
  driver().cuGetErrorName(result, &name);
  driver().cuGetErrorString(result, &text);
  throw Error(result == kOutOfMemory ? ErrorKind::OutOfMemory : ErrorKind::Runtime,
              fmt::format("{}{}{}: {} ({})", call, *about ? " for " : "", about, text ? text : "unknown error",
                          name ? name : std::to_string(result).c_str()));
}

}  // namespace tiny::cuda
