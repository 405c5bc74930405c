// The conformance suite of devices: what every one of them must do.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "base/error.h"
#include "runtime_kernels.h"

namespace tiny {
namespace {

using testing::bits_of;
using testing::make_add_kernel;
using testing::submission;

const bool kDevicesSet = setenv("TINY_DEVICE", "CPU,REF,NULL,CPU:1", 1) == 0;
// A layer above may have its own handler that calls this, before or behind the devices' own.
const bool kHandlerSet = pthread_atfork(nullptr, nullptr, after_fork_in_child) == 0;

std::vector<float> counting(size_t n) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), 1.0f);
  return v;
}

/// A block that goes back at the end of the scope.
struct Block {
  Buffer* b;
  Block(Device& d, size_t n) : b(d.alloc(n)) {}
  ~Block() { b->release(); }
  Buffer* operator->() const { return b; }
  operator Buffer*() const { return b; }
};

class DeviceTest : public ::testing::TestWithParam<int> {
 protected:
  Device& d = device(GetParam());
  bool computes() const { return d.name() != "NULL"; }
  void TearDown() override { d.set_memory_limit(0); }

  std::vector<float> read(Buffer* b, size_t n) {
    std::vector<float> v(n);
    d.copy_out(v.data(), b, 0, n * 4);
    return v;
  }
};

INSTANTIATE_TEST_SUITE_P(All, DeviceTest, ::testing::Values(0, 1, 2, 3), [](const ::testing::TestParamInfo<int>& i) {
  return std::string(i.param == 3 ? "CPU1" : i.param == 2 ? "NULL" : i.param == 1 ? "REF" : "CPU");
});

TEST(Devices, ListedByTheEnvironment) {
  ASSERT_TRUE(kDevicesSet && kHandlerSet);
  EXPECT_EQ(device_count(), 4);
  EXPECT_EQ(device(1).name(), "REF");
  EXPECT_EQ(device(3).index(), 3);
  EXPECT_NE(&device(0), &device(3));
  EXPECT_THROW(device(4), Error);
  EXPECT_THROW(device(-1), Error);
}

TEST_P(DeviceTest, CopiesAtOffsets) {
  Block b(d, 4000);
  std::vector<float> in = counting(1000), zero(1000);
  d.copy_in(b, 0, zero.data(), 4000);
  d.copy_in(b, 40, in.data(), 400);
  d.copy_in(b, 3996, in.data(), 4);
  std::vector<float> out = read(b, 1000);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(out[i], i == 999 ? 1 : i >= 10 && i < 110 ? static_cast<float>(i - 9) : 0) << i;
  float one;
  d.copy_out(&one, b, 44, 4);
  EXPECT_EQ(one, 2);
}

TEST_P(DeviceTest, CopyOutsideIsRefused) {
  Block b(d, 100);
  char c[101];
  EXPECT_THROW(d.copy_in(b, 0, c, 101), Error);
  EXPECT_THROW(d.copy_out(c, b, 100, 1), Error);
  d.copy_in(b, 100, c, 0);
}

TEST_P(DeviceTest, BlocksAreAlignedDistinctAndUsable) {
  std::mt19937 random(7);
  std::vector<std::pair<Buffer*, char>> blocks;
  for (int i = 0; i < 400; ++i) {
    size_t n = i % 10 == 0 ? 0 : random() % (i % 7 == 0 ? 3000000 : 5000);
    Buffer* b = d.alloc(n);
    ASSERT_NE(b->ptr, nullptr);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(b->ptr) % 64, 0u);
    ASSERT_EQ(b->nbytes, n);
    std::string fill(n, static_cast<char>(i));
    d.copy_in(b, 0, fill.data(), n);
    blocks.push_back({b, static_cast<char>(i)});
    if (i % 3 == 2) {
      size_t k = random() % blocks.size();
      blocks[k].first->release();
      blocks.erase(blocks.begin() + static_cast<long>(k));
    }
  }
  for (auto [b, c] : blocks) {
    std::string have(b->nbytes, '?');
    d.copy_out(have.data(), b, 0, have.size());
    EXPECT_EQ(have, std::string(b->nbytes, c));
    b->release();
  }
}

TEST_P(DeviceTest, StatisticsFollowEveryBlock) {
  d.wait(d.last_ticket());
  d.reset_peak_stats();
  MemoryStats before = d.memory_stats();
  Buffer *a = d.alloc(1000), *b = d.alloc(5000000);
  MemoryStats held = d.memory_stats();
  EXPECT_GE(held.allocated - before.allocated, 5001000);
  EXPECT_LE(held.allocated - before.allocated, 5001000 * 9 / 8);
  EXPECT_EQ(held.allocations - before.allocations, 2);
  EXPECT_GE(held.reserved, held.allocated);
  EXPECT_EQ(held.peak_allocated, held.allocated);
  a->retain();
  a->release();
  EXPECT_EQ(d.memory_stats().allocated, held.allocated);
  a->release();
  b->release();
  MemoryStats after = d.memory_stats();
  EXPECT_EQ(after.allocated, before.allocated);
  EXPECT_EQ(after.frees - before.frees, 2);
  EXPECT_EQ(after.peak_allocated, held.allocated);
  EXPECT_EQ(after.total_allocated - before.total_allocated, after.total_freed - before.total_freed);
  d.reset_peak_stats();
  EXPECT_EQ(d.memory_stats().peak_allocated, before.allocated);
}

TEST_P(DeviceTest, FreedMemoryIsHandedOutAgain) {
  for (size_t n : {size_t{100}, size_t{100000}, size_t{10000000}}) {
    Buffer* a = d.alloc(n);
    void* p = a->ptr;
    a->release();
    MemoryStats before = d.memory_stats();
    Block b(d, n);
    EXPECT_EQ(b->ptr, p);
    EXPECT_EQ(d.memory_stats().reserved, before.reserved);
  }
}

TEST_P(DeviceTest, EmptyCacheGivesEverythingBack) {
  for (size_t n : {100, 70000, 100, 3000000, 40000000, 64}) d.alloc(n)->release();
  d.empty_cache();
  EXPECT_EQ(d.memory_stats().allocated, 0);
  EXPECT_EQ(d.memory_stats().reserved, 0);
  Block kept(d, 200);
  d.alloc(90000)->release();
  d.empty_cache();
  EXPECT_GT(d.memory_stats().reserved, 0);
  EXPECT_LE(d.memory_stats().reserved, 1 << 20);
}

TEST_P(DeviceTest, GrowingSizesDoNotPileUp) {
  d.empty_cache();
  size_t n = 20 << 20;
  for (int i = 0; i < 40; ++i, n += 2 << 20) d.alloc(n)->release();
  EXPECT_LE(d.memory_stats().reserved, static_cast<int64_t>(2 * n));
  d.empty_cache();
}

TEST_P(DeviceTest, ShortageEmptiesTheCacheThenTells) {
  d.empty_cache();
  d.set_memory_limit(64 << 20);
  MemoryStats before = d.memory_stats();
  d.alloc(40 << 20)->release();
  Block fits(d, 50 << 20);  // only without the 40 MiB
  MemoryStats held = d.memory_stats();
  EXPECT_LE(held.reserved, 64 << 20);
  try {
    d.alloc(30 << 20)->release();
    FAIL() << "allocated beyond the limit";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::OutOfMemory);
    std::string what = e.what();
    for (const char* part : {"30.00 MiB", "in use", "cached", "limit 64.00 MiB", "tiny:"})
      EXPECT_NE(what.find(part), std::string::npos) << what;
  }
  EXPECT_EQ(d.memory_stats().ooms - before.ooms, 1);
  EXPECT_GE(d.memory_stats().retries - before.retries, 1);
  Block small(d, 1000);  // still works
  EXPECT_THROW(d.alloc(SIZE_MAX - 5), Error);
  EXPECT_THROW(d.alloc(size_t{1} << 45), Error);
}

TEST_P(DeviceTest, MemoryInfo) {
  size_t available = 0, total = 0;
  d.memory_info(&available, &total);
  EXPECT_GT(total, size_t{100} << 20);
  EXPECT_LE(available, total);
}

TEST_P(DeviceTest, KernelsRunInOrder) {
  auto kernel = make_add_kernel(d, 8, 16);
  Block a(d, 512), b(d, 512);
  std::vector<float> in = counting(128);
  for (bool inline_run : {false, true}) {
    d.copy_in(a, 0, in.data(), 512);
    Launch there{.kernel = kernel.get(), .batch = 0}, back{.kernel = kernel.get(), .first_buffer = 2, .first_scalar = 1, .batch = 1};
    uint64_t ticket = 0;
    for (int i = 0; i < 50; ++i) {
      uint64_t next = d.submit(submission({there, back}, {b->ptr, a->ptr, a->ptr, b->ptr}, {bits_of(1), bits_of(2)}, {a, b}), inline_run);
      EXPECT_GT(next, ticket);
      ticket = next;
    }
    EXPECT_EQ(a->last_use, ticket);
    EXPECT_EQ(d.last_ticket(), ticket);
    std::vector<float> out = read(a, 128);  // waits
    EXPECT_TRUE(d.done(ticket));
    for (int i = 0; i < 128; ++i) ASSERT_EQ(out[i], computes() ? in[i] + 150 : in[i]) << i;
  }
}

TEST_P(DeviceTest, ManyWorkgroupsEachOnce) {
  int64_t groups = d.name() == "REF" ? 200 : 3000, inner = 1024;  // enough work to wake the CPU's helpers
  auto kernel = make_add_kernel(d, groups, inner);
  size_t n = static_cast<size_t>(groups * inner);
  Block a(d, n * 4);
  std::vector<float> in = counting(n);
  d.copy_in(a, 0, in.data(), n * 4);
  // In place: a workgroup that ran twice would show.
  uint64_t ticket = d.submit(submission({{.kernel = kernel.get()}}, {a->ptr, a->ptr}, {bits_of(0.5)}, {a}), false);
  d.wait(ticket);
  std::vector<float> out = read(a, n);
  for (size_t i = 0; i < n; ++i) ASSERT_EQ(out[i], computes() ? in[i] + 0.5f : in[i]) << i;
}

TEST_P(DeviceTest, BatchOfIndependentLaunches) {
  int64_t inner = d.name() == "REF" ? 64 : 4096;
  auto kernel = make_add_kernel(d, 16, inner);
  size_t n = static_cast<size_t>(16 * inner);
  std::vector<float> in = counting(n);
  constexpr int kLaunches = 24;
  std::vector<Launch> launches;
  std::vector<void*> buffers;
  std::vector<uint64_t> scalars;
  std::vector<Buffer*> owned;
  Block from(d, n * 4), copied(d, n * 4);
  d.copy_in(from, 0, in.data(), n * 4);
  for (int i = 0; i < kLaunches; ++i) {
    owned.push_back(d.alloc(n * 4));
    d.copy_in(owned.back(), 0, in.data(), n * 4);
    launches.push_back({.kernel = kernel.get(), .first_buffer = 2 * i, .first_scalar = i});
    buffers.insert(buffers.end(), {owned.back()->ptr, from->ptr});
    scalars.push_back(bits_of(i));
  }
  launches.push_back({.bytes = n * 4, .first_buffer = 2 * kLaunches});
  buffers.insert(buffers.end(), {copied->ptr, from->ptr});
  d.wait(d.submit(submission(launches, buffers, scalars, owned), true));
  for (int i = 0; i < kLaunches; ++i) {
    std::vector<float> out = read(owned[i], n);
    for (size_t k = 0; k < n; ++k) ASSERT_EQ(out[k], computes() ? in[k] + static_cast<float>(i) : in[k]) << i << " " << k;
    owned[i]->release();
  }
  EXPECT_EQ(read(copied, n), in);
}

TEST_P(DeviceTest, CopiesAndBuiltinsRunInOrder) {
  Block a(d, 400), b(d, 400);
  std::vector<float> in = counting(100), zero(100);
  d.copy_in(a, 0, in.data(), 400);
  d.copy_in(b, 0, zero.data(), 400);
  static constexpr int64_t kTimes[] = {3};
  Builtin scale = [](void* const* buffers, const uint64_t*, const int64_t* ints, Device&) {
    for (int i = 0; i < 100; ++i) static_cast<float*>(buffers[0])[i] *= static_cast<float>(ints[0]);
  };
  Launch copy{.bytes = 400, .first_buffer = 0, .batch = 0}, triple{.builtin = scale, .first_buffer = 0, .ints = kTimes, .batch = 1};
  d.wait(d.submit(submission({copy, triple}, {b->ptr, a->ptr}, {}, {a, b}), false));
  std::vector<float> out = read(b, 100);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(out[i], 3 * in[i]);
}

TEST_P(DeviceTest, FaultsOfQueuedWorkReachTheWaiterOnce) {
  Builtin fails = [](void* const*, const uint64_t*, const int64_t*, Device&) { throw Error(ErrorKind::Index, "index 7 is out of bounds"); };
  Block b(d, 16);
  for (bool inline_run : {false, true}) {
    uint64_t before = d.submit(submission({}, {}), inline_run);
    uint64_t ticket = d.submit(submission({{.builtin = fails}}, {}, {}, {b}), inline_run);
    uint64_t later = d.submit(submission({}, {}), false);
    d.wait(before);
    try {
      d.wait(ticket);
      ADD_FAILURE() << "the fault was lost";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::Index);
      EXPECT_STREQ(e.what(), "index 7 is out of bounds");
    }
    d.wait(later);
    char c[16];
    d.copy_out(c, b, 0, 16);
  }
  EXPECT_EQ(b->refs, 1);
}

TEST_P(DeviceTest, HostCopyWaitsForTheLastUse) {
  Builtin slow = [](void* const* buffers, const uint64_t*, const int64_t*, Device&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    std::memset(buffers[0], 1, 64);
  };
  Buffer* b = d.alloc(64);
  d.submit(submission({{.builtin = slow}}, {b->ptr}, {}, {b}), false);
  char have[64];
  d.copy_out(have, b, 0, 64);
  EXPECT_EQ(have[63], 1);
  // Let go while the work is queued; whoever gets the memory next must not write too early.
  void* p = b->ptr;
  uint64_t ticket = d.submit(submission({{.builtin = slow}}, {p}, {}, {}), false);
  b->last_use = ticket;
  b->release();
  std::vector<Buffer*> taken;
  do taken.push_back(d.alloc(64));
  while (taken.back()->ptr != p && taken.size() < 50000);
  ASSERT_EQ(taken.back()->ptr, p);
  std::memset(have, 2, 64);
  d.copy_in(taken.back(), 0, have, 64);
  EXPECT_TRUE(d.done(ticket));
  d.copy_out(have, taken.back(), 0, 64);
  EXPECT_EQ(have[0], 2);
  for (Buffer* t : taken) t->release();
}

TEST_P(DeviceTest, AllocationPrefersIdleBlocks) {
  Builtin slow = [](void* const*, const uint64_t*, const int64_t*, Device&) { usleep(50000); };
  d.wait(d.last_ticket());
  d.empty_cache();
  Buffer *idle = d.alloc(300), *busy = d.alloc(300);
  void* wanted = idle->ptr;
  uint64_t ticket = d.submit(submission({{.builtin = slow}}, {}), false);
  busy->last_use = ticket;
  idle->release();
  busy->release();  // now the first of its list
  Block next(d, 300);
  EXPECT_EQ(next->ptr, wanted);
  d.wait(ticket);
}

TEST_P(DeviceTest, OwnedBuffersGoBackBeforeTheWaitEnds) {
  int64_t before = d.memory_stats().allocated;
  for (bool inline_run : {false, true}) {
    Buffer* b = d.alloc(1 << 20);
    auto work = submission({}, {});
    work->owned = {b};  // hands over the only reference
    d.wait(d.submit(std::move(work), inline_run));
    EXPECT_EQ(d.memory_stats().allocated, before);
  }
}

TEST_P(DeviceTest, SubmissionsFromManyThreads) {
  auto kernel = make_add_kernel(d, 1, 4);
  Block a(d, 16);
  float zero[4] = {};
  d.copy_in(a, 0, zero, 16);
  std::vector<std::thread> threads;
  constexpr int kEach = 300;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        uint64_t ticket = d.submit(submission({{.kernel = kernel.get()}}, {a->ptr, a->ptr}, {bits_of(1)}), (i + t) % 2);
        if (i % 5 == t) d.wait(ticket);
        d.alloc(64 + 100 * i)->release();
      }
    });
  for (std::thread& t : threads) t.join();
  d.wait(d.last_ticket());
  EXPECT_EQ(read(a, 4)[3], computes() ? 4 * kEach : 0);
}

TEST_P(DeviceTest, ErrorRecordIsTakenOnce) {
  Record r;
  r.text = "index {} is out of bounds for dimension with size {}";
  r.n = 5;
  int64_t number = check_number(intern(r));
  EXPECT_NE(number, 0);
  EXPECT_EQ(check_number(intern(r)), number);
  EXPECT_EQ(check_text(number), "index {} is out of bounds for dimension with size 5");
  EXPECT_EQ(check_text(12345), "");
  EXPECT_EQ(d.take_error().fault, 0);
  ErrorRecord found{number << 32 | 7, 123, 0, 0};
  Buffer* e = d.error_buffer();
  EXPECT_EQ(e, d.error_buffer());
  int64_t before = d.memory_stats().allocated;
  d.copy_in(e, 0, &found, sizeof found);
  ErrorRecord taken = d.take_error();
  EXPECT_EQ(taken.fault, number);
  EXPECT_EQ(taken.value, 7) << "the value beside the number";
  EXPECT_EQ(d.take_error().fault, 0);
  EXPECT_EQ(d.memory_stats().allocated, before);
}

/// Runs `body` in a forked child; its exit status, or -1 if it hung or crashed.
template <class F>
int in_child(F body, int seconds = 20) {
  pid_t child = fork();
  if (child == 0) {
    alarm(static_cast<unsigned>(seconds));
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_P(DeviceTest, ForkedChildReadsAndComputes) {
  auto kernel = make_add_kernel(d, 64, 4096);
  size_t n = 64 * 4096;
  Block a(d, n * 4);
  std::vector<float> in = counting(n);
  d.copy_in(a, 0, in.data(), n * 4);
  Launch l{.kernel = kernel.get()};
  if (d.name() != "REF") d.submit(submission({l, l, l, l}, {a->ptr, a->ptr}, {bits_of(1)}, {a}), false);  // in flight while we fork
  float want = d.name() == "CPU" ? 4 : 0;
  int status = in_child([&] {
    after_fork_in_child();
    bool right = read(a, n)[5] == in[5] + want;
    if (d.name() == "REF") return right;
    d.wait(d.submit(submission({l}, {a->ptr, a->ptr}, {bits_of(1)}, {a}), false));
    d.submit(submission({l}, {a->ptr, a->ptr}, {bits_of(1)}, {a}), true);
    Block more(d, 1000);
    return right && read(a, n)[n - 1] == in[n - 1] + (computes() ? want + 2 : 0);
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read(a, n)[5], in[5] + want);  // the parent's queue lives on
  d.wait(d.submit(submission({l}, {a->ptr, a->ptr}, {bits_of(1)}, {a}), false));
}

TEST_P(DeviceTest, ExitWithPendingWorkIsClean) {
  int status = in_child([&] {
    Builtin slow = [](void* const*, const uint64_t*, const int64_t*, Device&) { usleep(20000); };
    for (int i = 0; i < 1000; ++i) d.submit(submission({{.builtin = slow}}, {}), false);  // 20 s of work
    alarm(15);
    std::exit(0);  // with atexit handlers, unlike _exit
    return false;
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tiny
