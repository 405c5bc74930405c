// compile_cached: from a kernel's key to a loaded kernel, through the cache on disk.
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "renderer/failure.h"
#include "runtime/disk_store.h"
#include "runtime/open.h"
#include "runtime/program_bytes.h"

namespace tiny {
namespace {

constexpr const char* kFile = "kernels-1.db";

/// A folder that the user named is trusted; ours must be the user's own, for what lies there is run.
struct CacheFolder {
  std::string path;
  bool named;
};

CacheFolder cache_folder() {
  if (std::string dir = env_text(Env::TINY_CACHE_DIR); !dir.empty()) return {dir, true};
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return {std::string(xdg) + "/torch-tiny", false};
  if (const char* home = std::getenv("HOME"); home && *home) return {std::string(home) + "/.cache/torch-tiny", false};
  return {fmt::format("/tmp/torch-tiny-{}", geteuid()), false};
}

/// Makes the folder where it is missing. False if it belongs to somebody else, or others may write to it.
bool is_own_folder(const std::string& path) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  mkdir(path.c_str(), 0700);
  struct stat s = {};
  return lstat(path.c_str(), &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

struct Stores {
  std::mutex mutex;
  std::string folder;
  int64_t mib = 0;
  std::shared_ptr<DiskStore> store;
};
Stores& stores() {
  static Stores* s = new Stores;  // never destroyed: kernels may be compiled while the process exits
  return *s;
}

/// The store that the environment names; null with TINY_CACHE_MB=0.
std::shared_ptr<DiskStore> store() {
  auto [folder, named] = cache_folder();
  int64_t mib = env_int(Env::TINY_CACHE_MB);
  if (mib <= 0) return nullptr;
  Stores& s = stores();
  std::lock_guard lock(s.mutex);
  if (s.folder != folder || s.mib != mib) {
    s.store = nullptr;
    if (named || is_own_folder(folder)) s.store = std::make_shared<DiskStore>(folder + "/" + kFile, mib << 20);
    else TINY_LOG(1, cache, "{} is not this user's own: kernels are not kept on disk", folder);
    s.folder = folder, s.mib = mib;
  }
  return s.store;
}

/// Which build of this library: codegen may make other code of the same kernel. Size and time of the file that holds this function.
const std::string& library_build() {
  static const std::string* build = [] {
    Dl_info where{};
    struct stat file = {};
    if (!dladdr(reinterpret_cast<void*>(&library_build), &where) || stat(where.dli_fname, &file) != 0) return new std::string("unknown");
    return new std::string(fmt::format("{} {}.{}", file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec));
  }();
  return *build;
}

}  // namespace

/// The switches that change what `lower` makes of a kernel are part of the key.
Hash128 compile_cache_key(Device& device, const Hash128& kernel) {
  return hash128(fmt::format("{:016x}{:016x}\n{}\n{}\n{}\n{}", kernel.hi, kernel.lo, device.caps().target, device.compiler().id(),
                             library_build(), env_text(Env::TINY_NOOPT)));
}

namespace {

/// Compile, with the kernel's name and the place of its source in whatever goes wrong.
Binary compile_named(Compiler& compiler, const Program& program) {
  try {
    return compiler.compile(program);
  } catch (const Error& e) {
    if (e.kind == ErrorKind::Compile && std::string_view(e.what()).find(program.info.name) != std::string_view::npos) throw;
    fail_compile(program.info.name, "txt", compiler.render(program), e.what());
  } catch (const std::exception& e) {
    fail_compile(program.info.name, "txt", compiler.render(program), e.what());
  }
}

std::unique_ptr<Executable> load_stored(Device& device, DiskStore& disk, const Hash128& key) {
  std::optional<std::string> bytes = disk.get(key);
  std::optional<StoredProgram> stored = bytes ? from_bytes(*bytes) : std::nullopt;
  if (!stored) return nullptr;
  try {
    std::unique_ptr<Executable> executable = device.load(stored->info, stored->binary);
    for (auto& [number, text] : stored->checks) add_check_text(number, std::move(text));
    TINY_LOG(2, cache, "hit {}", executable->info.name);
    return executable;
  } catch (const Error& e) {
    TINY_LOG(1, cache, "{} from the disk does not load and is compiled again: {}", stored->info.name, e.what());
    disk.erase(key);
    return nullptr;
  }
}

}  // namespace

std::unique_ptr<Executable> compile_cached(Device& device, const Hash128& key, const std::function<Program()>& lower) {
  std::shared_ptr<DiskStore> disk = store();
  Hash128 name = compile_cache_key(device, key);
  if (disk)
    if (auto executable = load_stored(device, *disk, name)) return executable;

  auto started = std::chrono::steady_clock::now();
  Compiler& compiler = device.compiler();
  Program program;
  StoredProgram made;
  made.checks = collect_checks([&] { program = lower(); });
  made.info = program.info;
  TINY_LOG(4, source, "{}\n{}", program.info.name, compiler.render(program));
  made.binary = compile_named(compiler, program);
  if (disk) disk->put(name, to_bytes(made));
  double millis = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - started).count();
  TINY_LOG(1, kernel, "{}: compiled in {:.1f} ms, {} bytes, {} workgroups, {:.3g} flop, {:.3g} bytes moved", made.info.name, millis,
           made.binary.size(), made.info.groups, made.info.flops, made.info.bytes);
  return device.load(made.info, made.binary);
}

std::optional<std::string> cached_text(Device& device, const Hash128& key) {
  std::shared_ptr<DiskStore> disk = store();
  return disk ? disk->get(compile_cache_key(device, key)) : std::nullopt;
}

void cache_text(Device& device, const Hash128& key, const std::string& text) {
  if (std::shared_ptr<DiskStore> disk = store()) disk->put(compile_cache_key(device, key), text);
}

std::shared_mutex& compiling() {
  static auto* m = new std::shared_mutex;
  return *m;
}

void compile_cache_at_fork(int stage) {
  Stores& s = stores();
  if (stage == 0) {
    s.mutex.lock();
    if (s.store) s.store->lock();
  } else {
    if (s.store) s.store->unlock(stage == 2);
    s.mutex.unlock();
  }
}

}  // namespace tiny
