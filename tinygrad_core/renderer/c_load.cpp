#include "renderer/c_load.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/dylib.h"

namespace tiny {
namespace {

/// A file that exists only in memory; closed on destruction (a mapped library stays).
struct MemoryFile {
  int fd;
  explicit MemoryFile(const std::string& name) : fd(memfd_create(name.c_str(), MFD_CLOEXEC)) {
    if (fd < 0) throw Error(ErrorKind::Runtime, "memfd_create failed: no memory file for a kernel");
  }
  ~MemoryFile() { close(fd); }
  void write(const Binary& bytes) {
    for (size_t at = 0; at < bytes.size();) {
      ssize_t n = ::write(fd, bytes.data() + at, bytes.size() - at);
      if (n <= 0) throw Error(ErrorKind::Runtime, "cannot write a kernel to its memory file");
      at += static_cast<size_t>(n);
    }
  }
};

class SharedCode final : public CpuCode {
 public:
  SharedCode(const Binary& object, const std::string& symbol) {
    MemoryFile file(symbol.substr(0, 200));
    file.write(object);
    library_ = Dylib::open(fmt::format("/proc/self/fd/{}", file.fd));
    entry = library_.symbol<CpuKernel>(symbol.c_str());
  }

 private:
  Dylib library_;
};

}  // namespace

std::unique_ptr<CpuCode> c_load(const Binary& object, const std::string& symbol) { return std::make_unique<SharedCode>(object, symbol); }

}  // namespace tiny
