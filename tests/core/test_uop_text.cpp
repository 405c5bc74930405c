// print() and parse().
#include <gtest/gtest.h>

#include "base/error.h"
#include "test_uop_helpers.h"
#include "uop/parse.h"

namespace tiny {
namespace {

struct Text : ::testing::Test {
  Arena arena;
  IrScope scope{arena};
  void expect_round_trip(UOp* u) {
    std::vector<UOp*> roots = parse(print(u));
    ASSERT_EQ(roots.size(), 1u) << print(u);
    EXPECT_EQ(roots[0], u) << print(u);
  }
};

TEST_F(Text, LooksLikeThis) {
  U i = range(4, 2, Axis::Reduce);
  EXPECT_EQ(print((i * 3).u),
            "%0 = CONST.i64 {4}\n"
            "%1 = RANGE.i64 {2 Reduce} %0\n"
            "%2 = CONST.i64 {3}\n"
            "%3 = MUL.i64 %1 %2\n");
  EXPECT_EQ(print(node(Op::LANES, kIndex, {}, {}, 8).u), "%0 = LANES.i64[8]\n");
  EXPECT_EQ(print(const_(DType::f32, 0.5).u), "%0 = CONST.f32 {0.5}\n");
}

TEST_F(Text, EveryOperatorRoundTrips) {
  U one = const_(DType::f32, 1);
  Record r;
  r.a = {1, -2}, r.c = {3}, r.n = -7, r.text = "a \"b\" \\ \n c";
  for (size_t n = 0; n < static_cast<size_t>(Op::count); ++n) {
    Op op = static_cast<Op>(n);
    Arg arg;
    switch (info(op).arg) {
      case ArgKind::None: break;
      case ArgKind::Int: arg = Arg(int64_t{5}); break;
      case ArgKind::Bits: arg = Arg::from_double(0.1); break;
      case ArgKind::Rec: arg = Arg(intern(r)); break;
      case ArgKind::Buf: continue;  // an address means nothing in a text
    }
    if (op == Op::RANGE) arg = range_arg(3, Axis::Local);
    if (op == Op::REDUCE || op == Op::SCAN) arg = reduce_arg(Op::MAX, 128);
    if (op == Op::FOLD || op == Op::PREFIX || op == Op::ORDERED || op == Op::FOLDLANES) arg = Arg(static_cast<int64_t>(Op::ADD));
    std::vector<UOp*> src(static_cast<size_t>(info(op).nsrc < 0 ? 2 : info(op).nsrc), one);
    expect_round_trip(node(op, DType::f32, src, arg, 4));
  }
}

TEST_F(Text, EveryConstantRoundTrips) {
  testing::Random random(5);
  for (int t = 0; t < 20000; ++t) {
    DType d = random.dtype(true, true, true);
    expect_round_trip(current_arena().make(Op::CONST, d, 1, random.value(d), {}));
  }
}

TEST_F(Text, SeveralRootsAndComments) {
  U i = range(4, 0, Axis::Loop);
  UOp* roots[] = {i + 1, i, i * 2};
  std::vector<UOp*> back = parse("# a comment\n\n" + print(roots));
  EXPECT_EQ(back, std::vector<UOp*>(roots, roots + 3));
}

TEST_F(Text, FaultsNameTheLine) {
  for (const char* bad : {"\n%0 = NONSENSE.i64", "\n%0 = CONST.i99 {1}", "\n%0 = ADD.i64 %1 %2", "\n%0 = CONST.i64", "\n%0 = LANES.i64 %0",
                          "\n%0 = RANGE.i64 {0 Sideways}", "\nrubbish"}) {
    try {
      parse(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::Value);
      EXPECT_NE(std::string(e.what()).find("line 2"), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace tiny
