#include "base/env.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace tiny {
namespace {

constexpr size_t kCount = static_cast<size_t>(Env::count);
constexpr EnvInfo kEnv[kCount] = {
#define ENV(name, fallback, meaning) {#name, fallback, meaning},
#include "base/env.def"
};

struct Values {
  std::mutex mutex;
  std::string text[kCount];
  Values() {
    for (size_t i = 0; i < kCount; ++i) {
      const char* v = std::getenv(kEnv[i].name);
      text[i] = v && *v ? v : kEnv[i].fallback;
    }
  }
};

Values& values() {
  static Values* v = new Values;  // never destroyed: other threads may still read at exit
  return *v;
}

std::string exchange_text(Env e, std::string_view value) {
  Values& v = values();
  std::lock_guard lock(v.mutex);
  return std::exchange(v.text[static_cast<size_t>(e)], std::string(value));
}

}  // namespace

const EnvInfo& info(Env e) { return kEnv[static_cast<size_t>(e)]; }

std::string env_text(Env e) {
  Values& v = values();
  std::lock_guard lock(v.mutex);
  return v.text[static_cast<size_t>(e)];
}

int64_t env_int(Env e) {
  std::string text = env_text(e);
  int64_t n = 0;
  auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (fault != std::errc() || end != text.data() + text.size())
    throw Error(ErrorKind::Value, fmt::format("{}={} is not an integer ({})", info(e).name, text, info(e).meaning));
  return n;
}

EnvScope::EnvScope(Env e, std::string_view value) : switch_(e), previous_(exchange_text(e, value)) {}
EnvScope::~EnvScope() { exchange_text(switch_, previous_); }

std::string env_help() {
  std::string out;
  for (const EnvInfo& e : kEnv) out += fmt::format("{:<18} {:<8} {}\n", e.name, *e.fallback ? e.fallback : "-", e.meaning);
  return out;
}

}  // namespace tiny
