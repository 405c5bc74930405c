#include "runtime/disk_store.h"

#include <sqlite3.h>

#include <ctime>
#include <filesystem>

#include "base/log.h"

namespace tiny {
namespace {

constexpr int kBusyMillis = 5000, kRetryMillis = 10;
constexpr int kPutsPerTrim = 64;
constexpr int64_t kTouchSeconds = 3600;  // `used` is written at most once an hour: reading must not mean writing

// Values carry a hash of themselves, so a file damaged by a crash costs a miss and no wrong kernel. That is why NORMAL is enough.
constexpr const char* kSetup =
    "PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
    "CREATE TABLE IF NOT EXISTS entries(key BLOB PRIMARY KEY, check_lo INTEGER, check_hi INTEGER, bytes INTEGER, used INTEGER, value BLOB);"
    "CREATE INDEX IF NOT EXISTS by_use ON entries(used, bytes);";

/// A prepared statement; parameters are bound by position from 1.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) { code = sqlite3_prepare_v2(db, sql, -1, &s_, nullptr); }
  ~Statement() { sqlite3_finalize(s_); }
  Statement& bind(int i, int64_t v) {
    if (code == SQLITE_OK) code = sqlite3_bind_int64(s_, i, v);
    return *this;
  }
  Statement& bind(int i, const void* data, size_t n) {
    if (code == SQLITE_OK) code = sqlite3_bind_blob64(s_, i, data, n, SQLITE_STATIC);
    return *this;
  }
  int step() { return code = code == SQLITE_OK || code == SQLITE_ROW ? sqlite3_step(s_) : code; }
  int64_t integer(int column) { return sqlite3_column_int64(s_, column); }
  std::string blob(int column) {
    const char* p = static_cast<const char*>(sqlite3_column_blob(s_, column));
    return p ? std::string(p, static_cast<size_t>(sqlite3_column_bytes(s_, column))) : std::string();
  }
  int code = SQLITE_OK;

 private:
  sqlite3_stmt* s_ = nullptr;
};

bool damaged(int code) { return code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_ERROR || code == SQLITE_FORMAT; }

}  // namespace

DiskStore::~DiskStore() { close_file(); }

std::optional<std::string> DiskStore::get(const Hash128& key) {
  std::lock_guard lock(mutex_);
  if (!ready()) return std::nullopt;
  std::optional<std::string> found;
  int64_t used = 0, now = std::time(nullptr);
  int code;
  {
    Statement s(db_, "SELECT value, check_lo, check_hi, used FROM entries WHERE key=?1");
    code = s.bind(1, &key, sizeof key).step();
    if (code == SQLITE_ROW) {
      std::string value = s.blob(0);
      if (hash128(value) == Hash128{static_cast<uint64_t>(s.integer(1)), static_cast<uint64_t>(s.integer(2))}) found = std::move(value);
      used = s.integer(3);
    }
  }
  if (code != SQLITE_ROW && code != SQLITE_DONE) return failed("read", code), std::nullopt;
  if (found && now > used + kTouchSeconds) {
    Statement s(db_, "UPDATE entries SET used=?2 WHERE key=?1");
    s.bind(1, &key, sizeof key).bind(2, now).step();  // a read-only disk may refuse: the value is good all the same
  }
  return found;
}

void DiskStore::put(const Hash128& key, const std::string& value) {
  std::lock_guard lock(mutex_);
  int64_t size = static_cast<int64_t>(value.size());
  if (size > max_bytes_ || !ready()) return;
  Hash128 check = hash128(value);
  int code;
  {
    Statement s(db_, "INSERT OR REPLACE INTO entries VALUES(?1, ?2, ?3, ?4, ?5, ?6)");
    s.bind(1, &key, sizeof key).bind(2, static_cast<int64_t>(check.lo)).bind(3, static_cast<int64_t>(check.hi));
    code = s.bind(4, size).bind(5, std::time(nullptr)).bind(6, value.data(), value.size()).step();
  }
  if (code != SQLITE_DONE) return failed("write", code);
  if (++puts_ % kPutsPerTrim == 0) trim_locked();
}

void DiskStore::erase(const Hash128& key) {
  std::lock_guard lock(mutex_);
  if (!ready()) return;
  Statement s(db_, "DELETE FROM entries WHERE key=?1");
  s.bind(1, &key, sizeof key).step();
}

void DiskStore::trim() {
  std::lock_guard lock(mutex_);
  if (ready()) trim_locked();
}

/// Down to nine tenths, so that the next few values do not start it again.
void DiskStore::trim_locked() {
  if (number("SELECT total(bytes) FROM entries") <= max_bytes_) return;
  Statement s(db_,
              "DELETE FROM entries WHERE rowid IN (SELECT rowid FROM "
              "(SELECT rowid, sum(bytes) OVER (ORDER BY used DESC, rowid DESC) AS upto FROM entries) WHERE upto > ?1)");
  s.bind(1, max_bytes_ / 10 * 9).step();
  if (s.code != SQLITE_DONE) return failed("trim", s.code);
  run("PRAGMA incremental_vacuum");
}

int64_t DiskStore::count() {
  std::lock_guard lock(mutex_);
  return ready() ? number("SELECT count(*) FROM entries") : 0;
}

int64_t DiskStore::bytes() {
  std::lock_guard lock(mutex_);
  return ready() ? number("SELECT total(bytes) FROM entries") : 0;
}

int64_t DiskStore::number(const char* sql) {
  Statement s(db_, sql);
  return s.step() == SQLITE_ROW ? s.integer(0) : 0;
}

void DiskStore::unlock(bool in_child) {
  if (in_child) db_ = nullptr;  // leaked on purpose: closing it here would touch the parent's locks
  mutex_.unlock();
}

// ---- opening and faults

bool DiskStore::ready() {
  if (db_) return true;
  if (dead_) return false;
  if (open_file()) return true;
  int code = db_ ? sqlite3_extended_errcode(db_) & 255 : SQLITE_CANTOPEN;
  std::string why = db_ ? sqlite3_errmsg(db_) : "no memory";
  close_file();
  if (damaged(code) && !repaired_) {  // others that have it open keep their copy of the file
    repaired_ = true;
    std::error_code ignored;
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path_ + suffix, ignored);
    if (open_file()) {
      warn_once(fmt::format("the compile cache {} was damaged ({}) and has been started anew", path_, why));
      return true;
    }
    close_file();
  }
  give_up(why);
  return false;
}

bool DiskStore::open_file() {
  std::error_code ignored;
  std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  // The file holds code that will run: nobody else may write it.
  if (std::filesystem::create_directories(folder, ignored))
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, ignored);
  constexpr int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  if (sqlite3_open_v2(path_.c_str(), &db_, flags, nullptr) != SQLITE_OK) return false;
  sqlite3_busy_timeout(db_, kBusyMillis);
  if (run(kSetup)) return true;
  // A file that cannot be written may still be read.
  return sqlite3_db_readonly(db_, "main") == 1 && number("SELECT count(*) FROM sqlite_master WHERE name='entries'") == 1;
}

/// Retries where the busy handler does not: changing to WAL and recovering a log answer BUSY at once.
bool DiskStore::run(const char* sql) {
  for (int millis = 0;; millis += kRetryMillis) {
    int code = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) & 255;
    if ((code != SQLITE_BUSY && code != SQLITE_LOCKED) || millis >= kBusyMillis) return code == SQLITE_OK;
    sqlite3_sleep(kRetryMillis);
  }
}

void DiskStore::close_file() {
  if (db_) sqlite3_close_v2(db_);
  db_ = nullptr;
}

void DiskStore::give_up(const std::string& why) {
  dead_ = true;
  warn_once(fmt::format("no compile cache on disk: {}: {}", path_, why));
}

void DiskStore::failed(const char* doing, int code) {
  code &= 255;
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED) {
    TINY_LOG(1, cache, "{} of {} gave up after {} ms: {}", doing, path_, kBusyMillis, sqlite3_errstr(code));
    return;  // another process is at it; the next kernel tries again
  }
  std::string why = fmt::format("{}: {}", doing, sqlite3_errmsg(db_));
  if (code == SQLITE_READONLY) {
    warn_once(fmt::format("the compile cache {} cannot be written: {}", path_, why));
    return;  // what is in it still serves
  }
  close_file();
  if (damaged(code) && !repaired_) return;  // opened, and if need be started anew, at the next use
  give_up(why);
}

}  // namespace tiny
