#include "renderer/host_caps.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "base/env.h"
#include "renderer/llvm_jit.h"

namespace tiny {
namespace {

struct Feature {
  const char* name;  // LLVM's
  const char* flag;  // GCC's and Clang's
};
constexpr Feature kFeatures[] = {
  {"sse3", "-msse3"},         {"ssse3", "-mssse3"},       {"sse4.1", "-msse4.1"},     {"sse4.2", "-msse4.2"},
  {"popcnt", "-mpopcnt"},     {"avx", "-mavx"},           {"avx2", "-mavx2"},         {"fma", "-mfma"},
  {"f16c", "-mf16c"},         {"bmi", "-mbmi"},           {"bmi2", "-mbmi2"},         {"lzcnt", "-mlzcnt"},
  {"avx512f", "-mavx512f"},   {"avx512cd", "-mavx512cd"}, {"avx512bw", "-mavx512bw"}, {"avx512dq", "-mavx512dq"},
  {"avx512vl", "-mavx512vl"}, {"avx512vbmi2", "-mavx512vbmi2"}, {"avx512bf16", "-mavx512bf16"},
};

#if defined(__x86_64__)
constexpr const char* kHostArch = "x86-64";

/// The names of kFeatures that this processor and its system support. The builtin wants literals.
std::string host_features() {
  std::string s;
  auto add = [&](const char* name, bool on) {
    if (on) s += (s.empty() ? "" : ",") + std::string(name);
  };
#define FEATURE(name) add(name, __builtin_cpu_supports(name))
  FEATURE("sse3"), FEATURE("ssse3"), FEATURE("sse4.1"), FEATURE("sse4.2"), FEATURE("popcnt"), FEATURE("avx"), FEATURE("avx2");
  FEATURE("fma"), FEATURE("f16c"), FEATURE("bmi"), FEATURE("bmi2"), FEATURE("lzcnt");
  // AVX-512 only with the parts that our code needs; vbmi2 tells processors that keep their clock with 512-bit vectors.
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    FEATURE("avx512f"), FEATURE("avx512cd"), FEATURE("avx512bw"), FEATURE("avx512dq"), FEATURE("avx512vl"), FEATURE("avx512vbmi2"),
        FEATURE("avx512bf16");
#undef FEATURE
  return s;
}
#elif defined(__aarch64__)
constexpr const char* kHostArch = "aarch64";
std::string host_features() { return ""; }
#else
constexpr const char* kHostArch = "generic";
std::string host_features() { return ""; }
#endif

/// A size such as "512K" in one line of sysfs; 0 if it cannot be read.
int64_t sysfs_cache_bytes(int level) {
  for (int i = 0; i < 5; ++i) {
    std::string dir = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i), type;
    int found = 0;
    int64_t size = 0;
    char unit = 0;
    std::ifstream(dir + "level") >> found;
    std::ifstream(dir + "type") >> type;
    std::ifstream(dir + "size") >> size >> unit;
    if (found == level && type != "Instruction") return size * (unit == 'K' ? 1024 : unit == 'M' ? 1 << 20 : 1);
  }
  return 0;
}

int64_t cache_bytes(int name, int level, int64_t fallback) {
  int64_t n = sysconf(name);
  if (n <= 0) n = sysfs_cache_bytes(level);
  return n > 0 ? n : fallback;
}

std::vector<std::string> split(std::string_view s, char at) {
  std::vector<std::string> out;
  while (!s.empty()) {
    size_t n = std::min(s.find(at), s.size());
    out.emplace_back(s.substr(0, n));
    s.remove_prefix(std::min(n + 1, s.size()));
  }
  return out;
}

}  // namespace

bool CpuTarget::has(std::string_view feature) const {
  for (const std::string& f : features)
    if (f == feature) return true;
  return false;
}

CpuTarget parse_cpu_target(std::string_view text) {
  size_t a = text.find(':'), b = a == text.npos ? a : text.find(':', a + 1);
  if (b == text.npos) return {std::string(text.substr(0, a)), "", {}};
  return {std::string(text.substr(0, a)), std::string(text.substr(a + 1, b - a - 1)), split(text.substr(b + 1), ',')};
}

std::string_view feature_flag(std::string_view feature) {
  for (const Feature& f : kFeatures)
    if (feature == f.name) return f.flag;
  return "";
}

Caps cpu_caps(std::string_view target) {
  CpuTarget t = parse_cpu_target(target);
  Caps c;
  c.target = target;
  c.pack_operands = true;
  if (t.arch == "aarch64") {  // NEON, with fused multiply-add and f16 conversion, is part of the base
    c.vector_bytes = 16, c.registers = 32, c.has_fma = true, c.has_f16 = true;
    return c;
  }
  bool wide = t.has("avx512f") && t.has("avx512vl");
  c.vector_bytes = wide && t.has("avx512vbmi2") ? 64 : t.has("avx2") ? 32 : 16;
  c.registers = wide ? 32 : 16;
  c.has_fma = t.has("fma") && t.has("avx2");
  c.has_f16 = t.has("f16c") && t.has("avx2");
  // vcvtneps2bf16 takes denormals as zero, so bf16 is rounded by integer arithmetic everywhere on x86. Products of bf16 (vdpbf16ps) do so
  // too, as PyTorch's do on these processors.
  c.has_dot2 = c.vector_bytes == 64 && t.has("avx512bf16");
  return c;
}

Caps host_caps() {
  Caps c = cpu_caps(fmt::format("{}:{}:{}", kHostArch, llvm_host_cpu(), host_features()));
#ifdef _SC_LEVEL1_DCACHE_SIZE
  c.l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 1, c.l1_bytes);
  c.l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 2, c.l2_bytes);
#endif
  int64_t threads = env_int(Env::TINY_THREADS);
  c.threads = threads > 0 ? static_cast<int>(threads) : std::max(1u, std::thread::hardware_concurrency());
  return c;
}

}  // namespace tiny
