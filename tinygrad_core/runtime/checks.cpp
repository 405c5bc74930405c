// Numbers and texts of CHECKs.
#include <mutex>

#include "base/hash.h"
#include "runtime/open.h"
#include "unordered_dense/unordered_dense.h"

namespace tiny {
namespace {

struct Texts {
  std::mutex mutex;
  ankerl::unordered_dense::map<int64_t, std::string> by_number;
};
Texts& texts() {
  static Texts* t = new Texts;
  return *t;
}

thread_local std::vector<std::pair<int64_t, std::string>>* collected = nullptr;

}  // namespace

/// 31 bits: number and value travel in one word of the record. The limit is part of the text, so that the number stands for it too.
int64_t check_number(const Record* r) {
  std::string text = r->text;
  size_t value = text.find("{}"), limit = value == text.npos ? value : text.find("{}", value + 2);
  if (limit != text.npos) text.replace(limit, 2, std::to_string(r->n));
  int64_t number = static_cast<int64_t>(hash128(text).lo >> 33 | 1);
  add_check_text(number, text);
  if (collected) collected->emplace_back(number, text);
  return number;
}

std::string check_text(int64_t number) {
  Texts& t = texts();
  std::lock_guard lock(t.mutex);
  auto found = t.by_number.find(number);
  return found == t.by_number.end() ? "" : found->second;
}

ErrorKind take_check_kind(std::string* text) {
  constexpr std::string_view prefix = "IndexError: ";
  if (!text->starts_with(prefix)) return ErrorKind::Runtime;
  text->erase(0, prefix.size());
  return ErrorKind::Index;
}

void add_check_text(int64_t number, std::string text) {
  Texts& t = texts();
  std::lock_guard lock(t.mutex);
  t.by_number.try_emplace(number, std::move(text));
}

std::vector<std::pair<int64_t, std::string>> collect_checks(const std::function<void()>& body) {
  std::vector<std::pair<int64_t, std::string>> mine;
  auto* outer = std::exchange(collected, &mine);
  try {
    body();
  } catch (...) {
    collected = outer;
    throw;
  }
  collected = outer;
  return mine;
}

}  // namespace tiny
