// The interpreter of device REF: loops, vectors, accumulators, lanes and barriers, and the faults it must find.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "runtime/ref/interpreter.h"
#include "runtime_kernels.h"

namespace tiny {
namespace {

using testing::ListBuilder;

struct RefTest : ::testing::Test {
  ListBuilder b;
  RefTest() { b.program.info.name = "kernel_under_test"; }

  void run(std::vector<void*> buffers) { Interpreter(b.program.info, b.program.linear).run(buffers.data(), nullptr); }

  std::string fault(std::vector<void*> buffers) {
    try {
      run(buffers);
    } catch (const Error& e) {
      return e.what();
    }
    return "no fault";
  }
  U vector(Op op, DType d, std::initializer_list<UOp*> src, int64_t lanes, Arg arg = {}) { return b.add(op, d, src, arg, lanes); }
};

TEST_F(RefTest, ParsedTextGivesTheSameList) {
  testing::fill_add_kernel(b, "k", 2, 3);
  std::string text = make_text_compiler()->compile(b.program);
  Device& ref = device(0);
  ASSERT_EQ(ref.name(), "REF");
  auto k = ref.load(b.program.info, text);
  float in[6] = {1, 2, 3, 4, 5, 6}, out[6] = {};
  Buffer *to = ref.alloc(24), *from = ref.alloc(24);
  ref.copy_in(from, 0, in, 24);
  ref.wait(ref.submit(testing::submission({{.kernel = k.get()}}, {to->ptr, from->ptr}, {testing::bits_of(10)}, {to, from}), false));
  ref.copy_out(out, to, 0, 24);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(out[i], in[i] + 10);
  to->release(), from->release();
}
const bool kDevicesSet = setenv("TINY_DEVICE", "REF", 1) == 0;

TEST_F(RefTest, AccumulatorOverALoop) {
  // out[g] = sum over i of in[g*4 + i], started at 100
  b.program.info.groups = 3;
  U out = b.param(0, DType::f32, 3, true), in = b.param(1, DType::f32, 12, false);
  U g = b.range(3, 0, Axis::Global), start = b.add(Op::CONST, DType::f32, {}, Arg::from_double(100));
  U loop = node(Op::RANGE, kIndex, {b.number(4)}, range_arg(1, Axis::Reduce));
  U acc = b.add(Op::ACC, DType::f32, {start, loop}, Arg(int64_t{0}));
  b.program.linear.push_back(loop);
  U index = b.add(Op::ADD, kIndex, {b.add(Op::MUL, kIndex, {g, b.number(4)}), loop});
  U update = b.add(Op::UPDATE, DType::f32, {acc, b.add(Op::ADD, DType::f32, {acc, b.load(in, index)})});
  U end = b.add(Op::END, DType::void_, {loop});
  b.store(out, g, b.add(Op::AFTER, DType::f32, {acc, update, end}));
  float x[12], y[3];
  for (int i = 0; i < 12; ++i) x[i] = static_cast<float>(i);
  run({y, x});
  EXPECT_EQ(y[0], 106);
  EXPECT_EQ(y[1], 122);
  EXPECT_EQ(y[2], 138);
}

TEST_F(RefTest, VectorsGathersGatesAndFolds) {
  U out = b.param(0, DType::i32, 8, true), in = b.param(1, DType::i32, 6, false);
  U lanes = vector(Op::LANES, kIndex, {}, 4), three = b.number(3), zero = b.number(0);
  U back = vector(Op::SUB, kIndex, {three, lanes}, 4);
  U reversed = vector(Op::LOAD, DType::i32, {b.add(Op::INDEX, DType::i32, {in, back}, {}, 4)}, 4);  // gather
  U offset = b.number(4), other = b.add(Op::CONST, DType::i32, {}, Arg(int64_t{-1}));
  U gate = vector(Op::CMPLT, DType::bool_, {lanes, b.number(2)}, 4);
  U tail = vector(Op::LOAD, DType::i32, {b.add(Op::INDEX, DType::i32, {in, offset}), gate, other}, 4);  // 4, 5 and past the end
  U sum = vector(Op::ADD, DType::i32, {reversed, tail}, 4);
  b.add(Op::STORE, DType::void_, {b.add(Op::INDEX, DType::i32, {out, zero}), sum});
  U fold = b.add(Op::FOLDLANES, DType::i32, {reversed}, Arg(static_cast<int64_t>(Op::MAX)));
  U last = b.add(Op::LANE, DType::i32, {reversed}, Arg(int64_t{3}));
  U stack = vector(Op::STACK, DType::i32, {fold, last}, 2);
  b.add(Op::STORE, DType::void_, {b.add(Op::INDEX, DType::i32, {out, offset}), stack});
  int x[6] = {10, 20, 30, 40, 50, 60}, y[8] = {};
  run({y, x});
  int want[8] = {40 + 50, 30 + 60, 20 - 1, 10 - 1, 40, 10, 0, 0};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(y[i], want[i]) << i;
}

TEST_F(RefTest, LoopsWithComputedExtents) {
  // for i in 0..4: for j in 0..n[i]: out[i] += 1; n[1] = 0
  U out = b.param(0, DType::i64, 4, true), n = b.param(1, DType::i64, 4, false);
  U i = b.range(4, 0, Axis::Loop);
  U extent = b.load(n, i);
  U j = b.add(Op::RANGE, kIndex, {extent}, range_arg(1, Axis::Loop));
  b.store(out, i, b.add(Op::ADD, DType::i64, {b.load(out, i), b.number(1)}));
  b.end(j);
  b.end(i);
  int64_t y[4] = {}, x[4] = {3, 0, 5, 1};
  run({y, x});
  for (int k = 0; k < 4; ++k) EXPECT_EQ(y[k], x[k]);
}

TEST_F(RefTest, ReducedFloatsAndBoolsInMemory) {
  U out = b.param(0, DType::bf16, 2, true), flag = b.param(1, DType::bool_, 2, false), in = b.param(2, DType::f16, 2, false);
  U i = b.range(2, 0, Axis::Loop);
  U x = b.add(Op::CAST, DType::f32, {b.load(in, i)});
  U nothing = b.add(Op::CONST, DType::f32, {}, Arg::from_double(-0.0));
  U chosen = b.add(Op::WHERE, DType::f32, {b.load(flag, i), x, nothing});
  b.store(out, i, b.add(Op::CAST, DType::bf16, {chosen}));
  b.end(i);
  uint16_t half[2] = {0x3C01, 0x4000}, y[2] = {};  // 1 + 2^-10, 2
  uint8_t flags[2] = {1, 0};
  run({y, flags, half});
  EXPECT_EQ(y[0], 0x3F80);  // rounded to 1
  EXPECT_EQ(y[1], 0x8000);  // -0
}

TEST_F(RefTest, AccessOutsideNamesKernelBufferAndIndex) {
  testing::fill_add_kernel(b, "reads_too_far", 2, 3, 4);
  float x[16] = {}, y[6];
  uint64_t zero = 0;
  try {
    Interpreter(b.program.info, b.program.linear).run(std::vector<void*>{y, x}.data(), &zero);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::Runtime);
    EXPECT_STREQ(e.what(), "kernel reads_too_far on REF: reads element 6 of buffer 1, which has 6 of f32");
  }
}

TEST_F(RefTest, NegativeStoreIsRefused) {
  U out = b.param(0, DType::f32, 4, true);
  b.store(out, b.number(-1), b.add(Op::CONST, DType::f32, {}, Arg::from_double(1)));
  float y[4];
  EXPECT_NE(fault({y}).find("writes element -1 of buffer 0"), std::string::npos);
}

TEST_F(RefTest, LocalMemoryStartsAsNaN) {
  b.program.info.scratch_bytes = 16;
  U out = b.param(0, DType::f32, 1, true), local = b.add(Op::LOCAL, DType::f32, {b.number(4)}, Arg(int64_t{0}));
  b.store(out, b.number(0), b.load(local, b.number(2)));
  float y = 0;
  run({&y});
  EXPECT_TRUE(std::isnan(y));
}

/// Eight lanes reverse a row through local memory, with or without the barrier that this needs.
void fill_reverse(ListBuilder& b, bool barrier) {
  b.program.info.groups = 2, b.program.info.lanes = 8, b.program.info.scratch_bytes = 32;
  U out = b.param(0, DType::f32, 16, true), in = b.param(1, DType::f32, 16, false);
  U local = b.add(Op::LOCAL, DType::f32, {b.number(8)}, Arg(int64_t{0}));
  U g = b.range(2, 0, Axis::Global), lane = b.range(8, 1, Axis::Local);
  U at = b.add(Op::ADD, kIndex, {b.add(Op::MUL, kIndex, {g, b.number(8)}), lane});
  U store = b.add(Op::STORE, DType::void_, {b.at(local, lane), b.load(in, at)});
  U ready = local;
  if (barrier) ready = b.add(Op::AFTER, DType::f32, {local, b.add(Op::BARRIER, DType::void_, {store})});
  b.store(out, at, b.load(ready, b.add(Op::SUB, kIndex, {b.number(7), lane})));
}

TEST_F(RefTest, LanesMeetAtBarriers) {
  fill_reverse(b, true);
  float x[16], y[16];
  for (int i = 0; i < 16; ++i) x[i] = static_cast<float>(i);
  run({y, x});
  for (int i = 0; i < 16; ++i) EXPECT_EQ(y[i], static_cast<float>(i / 8 * 8 + 7 - i % 8));
}

TEST_F(RefTest, AMissingBarrierIsFound) {
  fill_reverse(b, false);
  float x[16] = {}, y[16];
  EXPECT_NE(fault({y, x}).find("without a barrier between"), std::string::npos);
}

TEST_F(RefTest, ABarrierThatSomeLanesSkipIsFound) {
  b.program.info.lanes = 4;
  U out = b.param(0, DType::i64, 4, true);
  U lane = b.range(4, 0, Axis::Local);
  U loop = b.add(Op::RANGE, kIndex, {lane}, range_arg(1, Axis::Loop));  // lane times
  b.store(out, lane, loop);
  b.add(Op::BARRIER, DType::void_, {loop});
  b.end(loop);
  int64_t y[4];
  EXPECT_NE(fault({y}).find("never reaches a barrier"), std::string::npos);
}

TEST_F(RefTest, LanesMayLoopDifferently) {
  b.program.info.lanes = 4;
  U out = b.param(0, DType::i64, 4, true);
  U lane = b.range(4, 0, Axis::Local);
  b.store(out, lane, b.number(0));
  U loop = b.add(Op::RANGE, kIndex, {lane}, range_arg(1, Axis::Loop));
  U inner = b.range(2, 2, Axis::Loop);
  b.store(out, lane, b.add(Op::ADD, DType::i64, {b.load(out, lane), b.add(Op::ADD, kIndex, {loop, b.number(1)})}));
  b.end(inner);
  b.end(loop);
  int64_t y[4];
  run({y});
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(y[i], i * (i + 1));
}

TEST_F(RefTest, BrokenListsAreRefused) {
  U out = b.param(0, DType::f32, 4, true);
  U late = node(Op::CONST, kIndex, {}, Arg(int64_t{2}));
  b.add(Op::STORE, DType::void_, {b.add(Op::INDEX, DType::f32, {out, late}), b.add(Op::CONST, DType::f32, {}, Arg::from_double(1))});
  float y[4];
  EXPECT_NE(fault({y}).find("behind its use"), std::string::npos);
}

}  // namespace
}  // namespace tiny
