// Threads on one device: the graph's lock is free while a program compiles, and what other threads do meanwhile is not lost.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "engine/engine.h"
#include "tensor/tensor.h"

namespace tiny {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

std::unique_ptr<Storage> storage_of(const Tensor& t) {
  auto s = std::make_unique<Storage>(device(0), static_cast<size_t>(t.numel() * itemsize(t.dtype())));
  s->write(t.sizes(), contiguous_strides(t.sizes()), 0, t);
  return s;
}

std::vector<float> values_of(Storage& s) {
  std::vector<float> v(s.nbytes() / sizeof(float));
  s.copy_out(v.data(), 0, s.nbytes());
  return v;
}

/// Many kernels that no cache knows: `salt` is a constant in each.
std::vector<std::unique_ptr<Storage>> heavy_graph(double salt) {
  std::vector<std::unique_ptr<Storage>> out;
  for (int64_t k = 0; k < 24; ++k) {
    Tensor x = iota(700 + k).cast(DType::f32).reshape({1, 700 + k});
    for (int j = 0; j < 6; ++j) x = (x * (salt + j)).unary(Op::SIN) + (x.sum(std::array<int64_t, 1>{1}, true) * 0.25).unary(Op::COS);
    out.push_back(storage_of(x));
  }
  return out;
}

TEST(EngineThreads, TheLockIsFreeWhileCompiling) {
  std::vector<std::unique_ptr<Storage>> heavy;
  {
    GraphLock lock;
    heavy = heavy_graph(1.0 + static_cast<double>(std::random_device()() % 100000) / 7);  // kernels that no earlier run has left on disk
  }
  std::atomic<bool> done{false};
  double flush_seconds = 0;
  std::thread flusher([&] {
    auto start = Clock::now();
    Engine::of(device(0)).flush("test");
    flush_seconds = seconds_since(start);
    done = true;
  });
  double longest_wait = 0;
  while (!done) {
    auto start = Clock::now();
    GraphLock lock;
    longest_wait = std::max(longest_wait, seconds_since(start));
    Tensor x = iota(16) + constant(DType::i64, int64_t{3});
  }
  flusher.join();
  std::vector<FlushRecord> history = Engine::of(device(0)).history();
  ASSERT_FALSE(history.empty());
  double compile_seconds = history.back().compile_ms / 1e3;
  ASSERT_GT(history.back().compiled, 4) << "the graph was to need kernels of its own";
  EXPECT_LT(longest_wait, 0.7 * compile_seconds) << "of a flush of " << flush_seconds << " s";
  GraphLock lock;
  heavy.clear();
}

/// Each thread writes, overwrites and drops storages of ever new shapes, so that all of them compile all the time.
TEST(EngineThreads, ProgramsOfManyThreadsKeepTheirValues) {
  std::atomic<int> wrong{0};
  auto work = [&](int thread) {
    for (int64_t n = 1; n <= 12; ++n) {
      const int64_t size = n * 8 + thread;
      std::unique_ptr<Storage> a, b, dropped;
      {
        GraphLock lock;
        Tensor x = iota(size).cast(DType::f32);
        a = storage_of(x * 2.0);
        dropped = storage_of(x + static_cast<double>(thread));
        b = storage_of(a->read(DType::f32, {size}, {1}, 0) + static_cast<double>(n));
      }
      std::this_thread::yield();
      {
        GraphLock lock;
        dropped.reset();
        a->write({size}, {1}, 0, a->read(DType::f32, {size}, {1}, 0) * 3.0);
      }
      const std::vector<float> va = values_of(*a), vb = values_of(*b);
      for (int64_t k = 0; k < size; ++k)
        wrong += va[static_cast<size_t>(k)] != 6.0f * static_cast<float>(k) ||
                 vb[static_cast<size_t>(k)] != 2.0f * static_cast<float>(k) + static_cast<float>(n);
      GraphLock lock;
      a.reset(), b.reset();
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) threads.emplace_back(work, t);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0);
}

/// A child inherits the locks that threads of its parent hold: none of a compiler's may be among them.
TEST(EngineThreads, AChildOfAProcessThatCompilesCanCompile) {
  const double salt = static_cast<double>(std::random_device()() % 100000) / 7;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Storage>> heavy;
    {
      GraphLock lock;
      heavy = heavy_graph(salt + round);
    }
    std::thread flusher([] { Engine::of(device(0)).flush("test"); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + 30 * round));
    const pid_t child = fork();
    if (child == 0) {
      alarm(120);  // ends a child that waits for ever
      std::unique_ptr<Storage> s;
      {
        GraphLock lock;
        s = storage_of(iota(8).cast(DType::f32) * (salt + 10 + round));
      }
      _exit(values_of(*s)[2] == static_cast<float>(salt + 10 + round) * 2.0f ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
    flusher.join();
    GraphLock lock;
    heavy.clear();
  }
}

TEST(EngineThreads, TheLockIsRecursive) {
  GraphLock outer;
  EXPECT_EQ(graph_mutex().depth(), 1);
  {
    GraphLock inner;
    EXPECT_EQ(graph_mutex().depth(), 2);
  }
  std::atomic<bool> entered{false};
  std::thread other([&] {
    GraphLock lock;
    entered = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(entered.load());
  graph_mutex().unlock();
  other.join();
  graph_mutex().lock();
  EXPECT_TRUE(entered.load());
}

}  // namespace
}  // namespace tiny
