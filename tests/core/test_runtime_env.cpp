// Switches and the log.
#include <gtest/gtest.h>

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"

namespace tiny {
namespace {

TEST(Env, DefaultsAndScopes) {
  EXPECT_STREQ(info(Env::TINY_CACHE_MB).name, "TINY_CACHE_MB");
  int64_t before = env_int(Env::TINY_FLUSH_NODES);
  {
    EnvScope outer(Env::TINY_FLUSH_NODES, "12");
    EXPECT_EQ(env_int(Env::TINY_FLUSH_NODES), 12);
    EnvScope inner(Env::TINY_FLUSH_NODES, "-3");
    EXPECT_EQ(env_int(Env::TINY_FLUSH_NODES), -3);
  }
  EXPECT_EQ(env_int(Env::TINY_FLUSH_NODES), before);
}

TEST(Env, NoIntegerIsAnErrorThatNamesTheSwitch) {
  for (const char* bad : {"many", "", "3x", "1e3"}) {
    EnvScope scope(Env::TINY_THREADS, bad);
    try {
      env_int(Env::TINY_THREADS);
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::Value);
      EXPECT_NE(std::string(e.what()).find("TINY_THREADS"), std::string::npos);
    }
  }
}

TEST(Env, HelpListsEverySwitch) {
  std::string help = env_help();
  for (int i = 0; i < static_cast<int>(Env::count); ++i) EXPECT_NE(help.find(info(static_cast<Env>(i)).name), std::string::npos);
}

struct LogTest : ::testing::Test {
  void TearDown() override { set_log(""); }
};

TEST_F(LogTest, LevelsAndTopics) {
  set_log("2");
  EXPECT_TRUE(log_on(2, Topic::alloc));
  EXPECT_FALSE(log_on(3, Topic::alloc));
  set_log("flush,alloc=1");
  EXPECT_TRUE(log_on(6, Topic::flush));
  EXPECT_TRUE(log_on(1, Topic::alloc));
  EXPECT_FALSE(log_on(2, Topic::alloc));
  EXPECT_FALSE(log_on(1, Topic::cache));
  set_log("");
  EXPECT_FALSE(log_on(1, Topic::flush));
  for (const char* bad : {"nosuch", "alloc=x", "7", "alloc="}) EXPECT_THROW(set_log(bad), Error) << bad;
}

TEST_F(LogTest, PrintsOnlyWhatIsOnAndEvaluatesNoMore) {
  int evaluated = 0;
  auto count = [&] { return ++evaluated; };
  set_log("cache=2");
  ::testing::internal::CaptureStderr();
  TINY_LOG(2, cache, "hit {}", count());
  TINY_LOG(3, cache, "more {}", count());
  TINY_LOG(1, flush, "other {}", count());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "tiny cache: hit 1\n");
  EXPECT_EQ(evaluated, 1);
}

TEST_F(LogTest, AWarningIsPrintedOnce) {
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) warn_once("the test's warning");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "torch-tiny warning: the test's warning\n");
}

}  // namespace
}  // namespace tiny
