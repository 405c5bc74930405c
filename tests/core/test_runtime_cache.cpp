// The compile cache on disk: hits, faults, bounds, several processes at once.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/env.h"
#include "base/error.h"
#include "runtime/disk_store.h"
#include "runtime/open.h"
#include "runtime/program_bytes.h"
#include "runtime_kernels.h"

namespace tiny {
namespace {

namespace fs = std::filesystem;
const bool kDevicesSet = setenv("TINY_DEVICE", "CPU,REF,NULL", 1) == 0;

struct CacheTest : ::testing::Test {
  std::string folder = (fs::temp_directory_path() / ("tiny_cache_" + std::to_string(getpid()) + "_" +
                                                     ::testing::UnitTest::GetInstance()->current_test_info()->name())).string();
  std::string file = folder + "/store.db";
  CacheTest() { fs::remove_all(folder); }
  ~CacheTest() override {
    std::error_code ignored;
    fs::permissions(folder, fs::perms::owner_all, ignored);
    fs::remove_all(folder, ignored);
  }
  static Hash128 key(int i) { return hash128(std::to_string(i)); }
};

TEST_F(CacheTest, ValuesSurviveReopening) {
  std::string big(3000000, 'x'), zeros("a\0b", 3);
  {
    DiskStore s(file, 64 << 20);
    EXPECT_FALSE(s.get(key(1)));
    s.put(key(1), zeros);
    s.put(key(2), big);
    s.put(key(3), "");
    s.put(key(1), zeros + "2");
  }
  DiskStore s(file, 64 << 20);
  EXPECT_EQ(s.get(key(1)), zeros + "2");
  EXPECT_EQ(s.get(key(2)), big);
  EXPECT_EQ(s.get(key(3)), "");
  s.erase(key(2));
  EXPECT_FALSE(s.get(key(2)));
  EXPECT_EQ(s.count(), 2);
}

TEST_F(CacheTest, BoundedByLastUse) {
  DiskStore s(file, 1 << 20);
  for (int i = 0; i < 200; ++i) s.put(key(i), std::string(20000, static_cast<char>(i)));
  s.trim();
  EXPECT_LE(s.bytes(), 1 << 20);
  EXPECT_GE(s.bytes(), 1 << 19);
  EXPECT_TRUE(s.get(key(199)));
  EXPECT_FALSE(s.get(key(0)));
  s.put(key(1000), std::string(2 << 20, 'x'));  // greater than the whole store
  EXPECT_FALSE(s.get(key(1000)));
  EXPECT_LE(fs::file_size(file), 4u << 20);
}

TEST_F(CacheTest, DamagedFileIsStartedAnew) {
  fs::create_directories(folder);
  std::ofstream(file) << std::string(10000, 'j');
  DiskStore s(file, 1 << 20);
  ::testing::internal::CaptureStderr();
  s.put(key(1), "one");
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("damaged"), std::string::npos);
  EXPECT_EQ(s.get(key(1)), "one");
}

TEST_F(CacheTest, DamagedValueIsAMiss) {
  std::string value(200000, 'v');
  { DiskStore(file, 1 << 24).put(key(1), value); }
  {
    std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(f)), {});
    size_t at = bytes.rfind("vvvvvvvvvvvv");
    ASSERT_NE(at, std::string::npos);
    f.clear();
    f.seekp(static_cast<long>(at));
    f.put('w');
  }
  DiskStore s(file, 1 << 24);
  EXPECT_FALSE(s.get(key(1)));
  s.put(key(1), value);
  EXPECT_EQ(s.get(key(1)), value);
}

TEST_F(CacheTest, NoPlaceToWriteWarnsOnceAndGoesOn) {
  std::string blocker = folder;
  std::ofstream(blocker) << "a file where the folder should be";
  DiskStore s(blocker + "/sub/store.db", 1 << 20);
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 5; ++i) {
    s.put(key(i), "x");
    EXPECT_FALSE(s.get(key(i)));
  }
  std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("no compile cache on disk"), std::string::npos);
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
  EXPECT_EQ(s.count(), 0);
}

TEST_F(CacheTest, ManyProcessesAtOnce) {
  std::vector<pid_t> children;
  for (int p = 0; p < 6; ++p) {
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      DiskStore s(file, 64 << 20);
      bool right = true;
      for (int i = 0; i < 60; ++i) {
        int k = (i * 7 + p * 11) % 60;
        std::optional<std::string> have = s.get(key(k));
        right = right && (!have || *have == std::string(static_cast<size_t>(k) * 500, 'k'));
        s.put(key(k), std::string(static_cast<size_t>(k) * 500, 'k'));
      }
      _exit(right ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  DiskStore s(file, 64 << 20);
  EXPECT_EQ(s.count(), 60);
  for (int k = 0; k < 60; ++k) EXPECT_EQ(s.get(key(k)), std::string(static_cast<size_t>(k) * 500, 'k'));
}

TEST(ProgramBytes, RoundTripAndDamage) {
  StoredProgram p;
  p.info.name = "r_4_4";
  p.info.params = {{DType::f32, 16, true, false}, {DType::bf16, 4, false, true}};
  p.info.scalars = 3, p.info.groups = 7, p.info.lanes = 32, p.info.scratch_bytes = 4096, p.info.flops = 1.5, p.info.bytes = 80;
  p.checks = {{77, "index {}"}};
  p.binary = std::string("\0\1\2", 3);
  std::string bytes = to_bytes(p);
  std::optional<StoredProgram> q = from_bytes(bytes);
  ASSERT_TRUE(q);
  EXPECT_EQ(to_bytes(*q), bytes);
  EXPECT_EQ(q->info.params[1].dtype, DType::bf16);
  EXPECT_EQ(q->info.lanes, 32);
  EXPECT_EQ(q->checks[0].second, "index {}");
  EXPECT_EQ(q->binary, p.binary);
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(from_bytes(bytes.substr(0, n))) << n;
  EXPECT_FALSE(from_bytes(bytes + "x"));
}

struct CompileCachedTest : CacheTest, ::testing::WithParamInterface<int> {
  EnvScope scope{Env::TINY_CACHE_DIR, folder};
  int lowered = 0;

  std::unique_ptr<Executable> compile(Device& d, int64_t groups) {
    testing::ListBuilder b;
    return compile_cached(d, key(static_cast<int>(groups)), [&] {
      ++lowered;
      Record r;
      r.text = "check of kernel " + std::to_string(groups);
      check_number(intern(r));
      testing::fill_add_kernel(b, "cached_add_" + std::to_string(groups), groups, 4);
      return b.program;
    });
  }
  float run(Device& d, Executable& k, int64_t groups) {
    size_t n = static_cast<size_t>(groups) * 4;
    Buffer *to = d.alloc(n * 4), *from = d.alloc(n * 4);
    std::vector<float> in(n, 2.5f), out(n);
    d.copy_in(from, 0, in.data(), n * 4);
    d.copy_in(to, 0, in.data(), n * 4);
    d.wait(d.submit(testing::submission({{.kernel = &k}}, {to->ptr, from->ptr}, {testing::bits_of(1)}, {to, from}), true));
    d.copy_out(out.data(), to, 0, n * 4);
    to->release(), from->release();
    return out[n - 1];
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, CompileCachedTest, ::testing::Values(0, 1, 2));

TEST_P(CompileCachedTest, LowersOnceAndTheLoadedKernelRuns) {
  ASSERT_TRUE(kDevicesSet);
  Device& d = device(GetParam());
  for (int round = 0; round < 3; ++round) {
    auto k = compile(d, 3);
    EXPECT_EQ(lowered, 1);
    EXPECT_EQ(k->info.name, "cached_add_3");
    EXPECT_EQ(k->info.groups, 3);
    EXPECT_EQ(run(d, *k, 3), d.name() == "NULL" ? 2.5f : 3.5f);
  }
  compile(d, 4);
  EXPECT_EQ(lowered, 2);
  {
    EnvScope plain(Env::TINY_NOOPT, "1");  // the same kernel, but lowered to other code
    compile(d, 3);
    EXPECT_EQ(lowered, 3);
    lowered = 2;
  }
  {
    EnvScope off(Env::TINY_CACHE_MB, "0");
    compile(d, 3);
    EXPECT_EQ(lowered, 3);
  }
  EXPECT_TRUE(fs::exists(folder + "/kernels-1.db"));
}

TEST_P(CompileCachedTest, CheckTextsComeBackFromTheDisk) {
  // In another process, which then hands the entry over through the disk.
  Device& d = device(GetParam());
  int64_t groups = 40 + GetParam();
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    compile(d, groups);
    _exit(lowered == 1 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  std::string text = "check of kernel " + std::to_string(groups);
  int64_t number = static_cast<int64_t>(hash128(text).lo >> 33 | 1);
  EXPECT_EQ(check_text(number), "");
  compile(d, groups);
  EXPECT_EQ(lowered, 0);
  EXPECT_EQ(check_text(number), text);
}

/// Kernels are machine code: a default folder that others may write to is not used.
TEST_P(CompileCachedTest, AFolderThatOthersMayWriteToIsNotUsed) {
  EnvScope none{Env::TINY_CACHE_DIR, ""};
  const char* before = std::getenv("XDG_CACHE_HOME");
  std::string kept = before ? before : "";
  setenv("XDG_CACHE_HOME", folder.c_str(), 1);
  std::string ours = folder + "/torch-tiny";
  std::filesystem::create_directories(ours);
  std::filesystem::permissions(ours, std::filesystem::perms::all);
  compile(device(GetParam()), 31);
  EXPECT_TRUE(std::filesystem::is_empty(ours));
  setenv("XDG_CACHE_HOME", (folder + "/other").c_str(), 1);
  compile(device(GetParam()), 32);
  EXPECT_FALSE(std::filesystem::is_empty(folder + "/other/torch-tiny"));
  if (before) setenv("XDG_CACHE_HOME", kept.c_str(), 1);
  else unsetenv("XDG_CACHE_HOME");
}

TEST_P(CompileCachedTest, AnEntryThatDoesNotLoadIsMadeAgain) {
  Device& d = device(GetParam());
  if (d.name() == "NULL") GTEST_SKIP() << "NULL loads anything";
  compile(d, 5);
  std::string path = folder + "/kernels-1.db";
  StoredProgram broken;
  broken.info.name = "cached_add_5";
  broken.binary = "no code";
  Hash128 name = compile_cache_key(d, key(5));
  {
    DiskStore s(path, 1 << 30);
    ASSERT_TRUE(s.get(name));
    s.put(name, to_bytes(broken));
  }
  lowered = 0;
  auto k = compile(d, 5);
  EXPECT_EQ(lowered, 1);
  EXPECT_EQ(run(d, *k, 5), 3.5f);
  lowered = 0;
  compile(d, 5);
  EXPECT_EQ(lowered, 0);
}

TEST_P(CompileCachedTest, ThreadsAndProcessesTogether) {
  Device& d = device(GetParam());
  std::vector<pid_t> children;
  auto work = [&](int seed) {
    bool right = true;
    for (int i = 0; i < 6; ++i) {
      int64_t groups = 1 + (i + seed) % 6;
      testing::ListBuilder b;
      auto k = compile_cached(d, key(static_cast<int>(groups)), [&] {
        testing::fill_add_kernel(b, "cached_add_" + std::to_string(groups), groups, 4);
        return b.program;
      });
      right = right && k->info.groups == groups;
    }
    return right;
  };
  for (int p = 0; p < 3; ++p) {
    pid_t child = fork();
    if (child == 0) {
      alarm(120);
      bool right = true;
      std::thread other([&] { right = work(p + 3); });
      bool mine = work(p);
      other.join();
      _exit(right && mine ? 0 : 1);
    }
    children.push_back(child);
  }
  EXPECT_TRUE(work(1));
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

TEST(CompileCached, AFailingCompilerNamesKernelAndSource) {
  struct Failing final : Compiler {
    std::string id() const override { return "failing"; }
    std::string render(const Program&) override { return "the source text"; }
    Binary compile(const Program&) override { throw std::runtime_error("register pressure"); }
  };
  struct Wrapper final : Device {
    Failing c;
    Wrapper() : Device("WRAP", 9) {}
    Compiler& compiler() override { return c; }
    std::unique_ptr<Executable> load(const ProgramInfo&, const Binary&) override { return nullptr; }
    void memory_info(size_t* a, size_t* b) override { *a = *b = 0; }
    uint64_t submit(std::unique_ptr<Submission>, bool) override { return 0; }
    void wait(uint64_t) override {}
    bool done(uint64_t) override { return true; }
    uint64_t last_ticket() override { return 0; }
    void copy_in(Buffer*, size_t, const void*, size_t) override {}
    void copy_out(void*, Buffer*, size_t, size_t) override {}
    void* raw_alloc(size_t) override { return nullptr; }
    void raw_free(void*, size_t) override {}
    void settle(uint64_t) override {}
  };
  static Wrapper* w = new Wrapper;
  EnvScope off(Env::TINY_CACHE_MB, "0");
  testing::ListBuilder b;
  testing::fill_add_kernel(b, "cannot_compile_me", 1, 1);
  try {
    compile_cached(*w, hash128("x"), [&] { return b.program; });
    FAIL();
  } catch (const Error& e) {
    std::string what = e.what();
    EXPECT_EQ(e.kind, ErrorKind::Compile);
    EXPECT_NE(what.find("cannot_compile_me"), std::string::npos);
    EXPECT_NE(what.find("register pressure"), std::string::npos);
    size_t from = what.find('/'), to = what.find('\n', from);
    std::ifstream source(what.substr(from, to - from));
    std::string text((std::istreambuf_iterator<char>(source)), {});
    EXPECT_EQ(text, "the source text") << what;
    fs::remove(what.substr(from, to - from));
  }
}

}  // namespace
}  // namespace tiny
