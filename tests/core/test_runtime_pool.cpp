// The CPU device's pool of threads, and Event.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "runtime/cpu/pool.h"

namespace tiny {
namespace {

struct Counts {
  std::unique_ptr<std::atomic<int>[]> seen;
  std::atomic<int> workers[8] = {};
  explicit Counts(int64_t n) : seen(new std::atomic<int>[static_cast<size_t>(n)]()) {}
  static void body(void* context, int64_t chunk, int worker) {
    Counts& c = *static_cast<Counts*>(context);
    ++c.seen[static_cast<size_t>(chunk)];
    ++c.workers[worker];
  }
};

TEST(Pool, EveryChunkOnceWhateverTheThreads) {
  for (int threads : {1, 2, 4, 8}) {
    Pool* pool = new Pool(threads, 5);  // its threads outlive the test
    for (int64_t chunks : {0, 1, 2, 7, 1000}) {
      for (int round = 0; round < 300; ++round) {
        Counts c(chunks);
        pool->run(chunks, threads, Counts::body, &c);
        for (int64_t i = 0; i < chunks; ++i)
          ASSERT_EQ(c.seen[static_cast<size_t>(i)], 1) << threads << " threads, " << i << " of " << chunks;
      }
    }
  }
}

TEST(Pool, RegionsAfterSleep) {
  Pool* pool = new Pool(4, 5);
  for (int round = 0; round < 30; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    Counts c(64);
    pool->run(64, 3, Counts::body, &c);
    for (int i = 0; i < 64; ++i) ASSERT_EQ(c.seen[static_cast<size_t>(i)], 1);
  }
}

TEST(Pool, AlertedHelpersWaitForARegion) {
  Pool* pool = new Pool(3, 5);
  Counts first(8);
  pool->run(8, 2, Counts::body, &first);
  for (int round = 0; round < 100; ++round) {
    pool->alert();
    if (round % 3) std::this_thread::sleep_for(std::chrono::microseconds(round * 20));  // before, while and after they spin
    Counts c(64);
    pool->run(64, 2, Counts::body, &c);
    for (int i = 0; i < 64; ++i) ASSERT_EQ(c.seen[static_cast<size_t>(i)], 1);
    pool->expect_more(round % 2);
  }
}

TEST(Pool, HelpersTakePart) {
  Pool* pool = new Pool(2, 5);
  std::atomic<int> by[2] = {};
  auto slow = [](void* p, int64_t, int worker) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++static_cast<std::atomic<int>*>(p)[worker];
  };
  pool->run(100, 1, slow, by);
  EXPECT_EQ(by[0] + by[1], 100);
  EXPECT_GT(by[0], 0);
  EXPECT_GT(by[1], 0);
}

TEST(Pool, ExceptionsReachTheCaller) {
  Pool* pool = new Pool(3, 5);
  auto fails = [](void*, int64_t chunk, int) {
    if (chunk == 40) throw std::runtime_error("chunk 40");
  };
  for (int round = 0; round < 50; ++round) EXPECT_THROW(pool->run(1000, 2, fails, nullptr), std::runtime_error);
  Counts c(100);
  pool->run(100, 2, Counts::body, &c);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(c.seen[static_cast<size_t>(i)], 1);
}

TEST(Pool, NestedRegionsRunSerially) {
  static Pool* pool = new Pool(4, 5);
  static std::atomic<int> total;
  total = 0;
  auto outer = [](void*, int64_t, int) { pool->run(10, 3, [](void*, int64_t, int) { ++total; }, nullptr); };
  pool->run(20, 3, outer, nullptr);
  EXPECT_EQ(total, 200);
}

TEST(Pool, TwoCallersAtOnce) {
  static Pool* pool = new Pool(3, 5);
  std::vector<std::thread> callers;
  for (int t = 0; t < 3; ++t)
    callers.emplace_back([] {
      for (int round = 0; round < 200; ++round) {
        Counts c(50);
        pool->run(50, 2, Counts::body, &c);
        for (int i = 0; i < 50; ++i) ASSERT_EQ(c.seen[static_cast<size_t>(i)], 1);
      }
    });
  for (std::thread& t : callers) t.join();
}

TEST(Event, NoWakeIsLost) {
  for (int spin : {0, 5}) {
    Event ping, pong;
    std::atomic<int> turn{0};
    constexpr int kRounds = 5000;
    std::thread other([&] {
      for (int i = 0; i < kRounds; ++i) {
        ping.wait([&] { return turn.load() == 2 * i + 1; }, spin);
        turn.store(2 * i + 2);
        pong.notify();
      }
    });
    for (int i = 0; i < kRounds; ++i) {
      turn.store(2 * i + 1);
      ping.notify();
      pong.wait([&] { return turn.load() == 2 * i + 2; }, spin);
    }
    other.join();
    EXPECT_EQ(turn, 2 * kRounds);
  }
}

}  // namespace
}  // namespace tiny
