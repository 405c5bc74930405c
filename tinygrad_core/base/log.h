// The log: one sink, stderr. TINY_DEBUG says which topics at which level; when it is off a log line costs one branch.
#pragma once
#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <string_view>

namespace tiny {

enum class Topic : uint8_t {
#define TOPIC(name, meaning) name,
#include "base/log.def"
  count
};

namespace detail {
inline constexpr int8_t kLogUnread = 127;  // until TINY_DEBUG was read, so that the first line gets to log_level()
extern std::atomic<int8_t> log_levels[static_cast<size_t>(Topic::count)];
int log_level(Topic t);  // reads TINY_DEBUG if that was not done yet
void log_write(Topic t, std::string_view text);
}  // namespace detail

inline bool log_on(int level, Topic t) {
  int have = detail::log_levels[static_cast<size_t>(t)].load(std::memory_order_relaxed);
  return __builtin_expect(level <= have, 0) && level <= detail::log_level(t);
}

/// Sets the levels as TINY_DEBUG would: "3", "alloc,flush=2". Throws Error(Value) naming the topics there are.
void set_log(std::string_view spec);

/// A warning for the user, printed whatever TINY_DEBUG says; each text once in a process.
void warn_once(std::string_view text);

}  // namespace tiny

/// TINY_LOG(level, topic, format, ...): TINY_LOG(2, alloc, "segment of {} bytes", n). Arguments are evaluated only when printed.
#define TINY_LOG(level, topic, ...) \
  (::tiny::log_on(level, ::tiny::Topic::topic) ? ::tiny::detail::log_write(::tiny::Topic::topic, ::fmt::format(__VA_ARGS__)) : void(0))
