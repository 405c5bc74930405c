#include "renderer/c_load.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

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

/// A path of `fd` that no other call gets. The loader takes two libraries of one path for one library, and the numbers of closed files are
/// given again; so each path spells its own number in steps that lead nowhere.
std::string own_path(int fd) {
  static std::atomic<uint32_t> loads{0};
  std::string path = "/proc/self/fd/";
  for (uint32_t n = loads.fetch_add(1), bit = 0; bit < 32; ++bit) path += n >> bit & 1 ? "./" : "/";
  return path + std::to_string(fd);
}

class SharedCode final : public CpuCode {
 public:
  SharedCode(const Binary& object, const std::string& symbol) {
    MemoryFile file(symbol.substr(0, 200));
    file.write(object);
    library_ = Dylib::open(own_path(file.fd));
    entry = library_.symbol<CpuKernel>(symbol.c_str());
  }

 private:
  Dylib library_;
};

}  // namespace

std::unique_ptr<CpuCode> c_load(const Binary& object, const std::string& symbol) { return std::make_unique<SharedCode>(object, symbol); }

}  // namespace tiny
