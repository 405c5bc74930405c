// A bounded table of key -> bytes in one SQLite file, shared by processes. It is an aid: no fault of the disk reaches the caller.
#pragma once
#include <mutex>
#include <optional>
#include <string>

#include "base/hash.h"

struct sqlite3;

namespace tiny {

class DiskStore {
 public:
  /// `path` of the file; its folder is made. Opened at the first use.
  DiskStore(std::string path, int64_t max_bytes) : path_(std::move(path)), max_bytes_(max_bytes) {}
  ~DiskStore();
  DiskStore(const DiskStore&) = delete;

  std::optional<std::string> get(const Hash128& key);
  void put(const Hash128& key, const std::string& value);
  void erase(const Hash128& key);
  /// Deletes the values used longest ago until what is left fits. put() calls it now and then.
  void trim();
  int64_t count();
  int64_t bytes();

  /// Around fork: nothing may be in flight before it. The child abandons the connection, which SQLite forbids to carry over, and opens
  /// its own at the next use.
  void lock() { mutex_.lock(); }
  void unlock(bool in_child);

 private:
  bool ready();                          // opens if need be; false: goes on without
  bool open_file();
  void close_file();
  void give_up(const std::string& why);  // warns once, then stays closed
  void failed(const char* doing, int code);
  bool run(const char* sql);
  void trim_locked();
  int64_t number(const char* sql);

  const std::string path_;
  const int64_t max_bytes_;
  std::mutex mutex_;
  sqlite3* db_ = nullptr;
  bool dead_ = false, repaired_ = false;
  int puts_ = 0;
};

}  // namespace tiny
