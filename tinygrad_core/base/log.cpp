#include "base/log.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <set>
#include <string>

#include "base/env.h"
#include "base/error.h"

namespace tiny {
namespace {

constexpr size_t kTopics = static_cast<size_t>(Topic::count);
constexpr const char* kNames[kTopics] = {
#define TOPIC(name, meaning) #name,
#include "base/log.def"
};
constexpr int kAll = 6;

bool to_level(std::string_view text, int* level) {
  auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), *level);
  return fault == std::errc() && end == text.data() + text.size() && *level >= 0 && *level <= kAll;
}

void set_topic(std::string_view word, int8_t (&levels)[kTopics]) {
  int level = kAll;
  if (to_level(word, &level)) {
    for (int8_t& l : levels) l = static_cast<int8_t>(level);
    return;
  }
  std::string_view name = word.substr(0, word.find('='));
  bool known = name.size() == word.size() || to_level(word.substr(name.size() + 1), &level);
  for (size_t i = 0; known && i < kTopics; ++i)
    if (name == kNames[i]) return void(levels[i] = static_cast<int8_t>(level));
  std::string topics = fmt::format("{}", fmt::join(kNames, ", "));
  throw Error(ErrorKind::Value, fmt::format("TINY_DEBUG: '{}' is no level 0..{} and no topic; topics are {}", word, kAll, topics));
}

/// One write call a line, so that lines of several threads and processes stay whole.
void print_line(std::string line) {
  line += '\n';
  ssize_t n = ::write(STDERR_FILENO, line.data(), line.size());
  static_cast<void>(n);  // a closed stderr is no reason to fail
}

}  // namespace

namespace detail {

std::atomic<int8_t> log_levels[kTopics] = {
#define TOPIC(name, meaning) kLogUnread,
#include "base/log.def"
};

int log_level(Topic t) {
  if (log_levels[static_cast<size_t>(t)].load(std::memory_order_relaxed) == kLogUnread) {
    try {
      set_log(env_text(Env::TINY_DEBUG));
    } catch (const Error& e) {  // a misspelt topic must not stop a computation from the middle of a kernel
      set_log("");
      warn_once(e.what());
    }
  }
  return log_levels[static_cast<size_t>(t)].load(std::memory_order_relaxed);
}

void log_write(Topic t, std::string_view text) { print_line(fmt::format("tiny {}: {}", kNames[static_cast<size_t>(t)], text)); }

}  // namespace detail

void set_log(std::string_view spec) {
  int8_t levels[kTopics] = {};
  while (!spec.empty()) {
    std::string_view word = spec.substr(0, spec.find(','));
    spec.remove_prefix(std::min(spec.size(), word.size() + 1));
    if (!word.empty()) set_topic(word, levels);
  }
  for (size_t i = 0; i < kTopics; ++i) detail::log_levels[i].store(levels[i], std::memory_order_relaxed);
}

void warn_once(std::string_view text) {
  static std::mutex* mutex = new std::mutex;
  static std::set<std::string, std::less<>>* seen = new std::set<std::string, std::less<>>;
  {
    std::lock_guard lock(*mutex);
    if (!seen->emplace(text).second) return;
  }
  print_line(fmt::format("torch-tiny warning: {}", text));
}

}  // namespace tiny
