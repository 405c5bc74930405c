// The verifier: good kernels pass, each kind of fault is found.
#include <gtest/gtest.h>

#include "base/env.h"
#include "codegen/codegen.h"
#include "uop/spec.h"

namespace tiny {
namespace {

struct Spec : ::testing::Test {
  Arena arena;
  IrScope scope{arena};
  U in = node(Op::PARAM, DType::f32, {index_const(32)}, Arg(int64_t{0}), 1);
  U out = node(Op::PARAM, DType::f32, {index_const(4)}, Arg(int64_t{1}), 1);
  U row = range(4, 0, Axis::Global), column = range(8, 1, Axis::Reduce);

  U index(U array, U i) { return node(Op::INDEX, array->dtype, {array, i}); }
  U load(U array, U i) { return node(Op::LOAD, array->dtype, {index(array, i)}); }
  U store(U array, U i, U v) { return node(Op::STORE, DType::void_, {index(array, i), v}); }
  U fold(Op op, U x, U over) { return node(Op::FOLD, x->dtype, {x, over}, Arg(static_cast<int64_t>(op))); }
  U sum(U x) { return fold(Op::ADD, x, column); }
  U sink(U s) { return node(Op::SINK, DType::void_, {s}); }

  void expect_fault(const std::string& fault, const char* words) { EXPECT_NE(fault.find(words), std::string::npos) << "found: " << fault; }
};

TEST_F(Spec, AGoodKernel) { EXPECT_EQ(verify_kernel(sink(store(out, row, sum(load(in, row * 8 + column))))), ""); }

TEST_F(Spec, FaultsOfKernels) {
  U value = load(in, row * 8 + column);
  expect_fault(verify_kernel(value), "a kernel is a SINK");
  expect_fault(verify_kernel(sink(value)), "roots are STOREs");
  expect_fault(verify_kernel(sink(store(out, row, load(in, row * 8 + column + 1)))), "beyond the array");
  expect_fault(verify_kernel(sink(store(out, row - 1, const_(DType::f32, 1)))), "beyond the array");
  expect_fault(verify_kernel(sink(store(out, row, const_(DType::f64, 1)))), "STORE is void");
  expect_fault(verify_kernel(sink(store(out, row, node(Op::ADD, DType::f32, {value, const_(DType::f64, 1)})))), "other dtypes");
  expect_fault(verify_kernel(sink(store(out, row, node(Op::CMPLT, DType::f32, {value, value})))), "a comparison is bool");
  expect_fault(verify_kernel(sink(store(out, row, node(Op::AND, DType::f32, {value, value})))), "not for floats");
  expect_fault(verify_kernel(sink(store(out, row, node(Op::WHERE, DType::f32, {value, value, value})))), "condition");
  expect_fault(verify_kernel(sink(store(out, row, node(Op::VIEW, DType::f32, {value})))), "tensor graph");
  expect_fault(verify_kernel(sink(store(out, row, fold(Op::ADD, value, row)))), "not Reduce");
  expect_fault(verify_kernel(sink(store(out, row, fold(Op::SUB, value, column)))), "does not reduce");
  U twin = range(9, 0, Axis::Loop);
  expect_fault(verify_kernel(sink(store(out, row, cast(row * 9 + twin, DType::f32)))), "one number");
  U lanes = node(Op::LANES, kIndex, {}, {}, 4);
  expect_fault(verify_kernel(sink(store(out, lanes, value))), "codegen");
  expect_fault(verify_kernel(sink(node(Op::STORE, DType::void_, {index(value, row), value}))), "no array");
}

TEST_F(Spec, BetweenPasses) {
  U lanes = node(Op::LANES, kIndex, {}, {}, 4), four = load(in, lanes);
  EXPECT_EQ(verify_nodes(sink(store(out, lanes, four))), "");
  expect_fault(verify_nodes(sink(four)), "effects");
  expect_fault(verify_nodes(sink(store(out, row, node(Op::LANE, DType::f32, {four}, Arg(int64_t{4}), 1)))), "LANE");
  expect_fault(verify_nodes(sink(store(out, range(4, kStandInNumbers, Axis::Loop), sum(load(in, column))))), "leaked");
}

TEST_F(Spec, CodegenLooksAtWhatItIsGivenWhenAsked) {
  U bad = sink(store(out, row, load(in, row * 8 + 32)));
  EnvScope ask(Env::TINY_SPEC, "1");
  try {
    lower_kernel(bad, Caps(), "bad_kernel");
    FAIL() << "accepted";
  } catch (const std::exception& e) {
    expect_fault(e.what(), "bad_kernel after the scheduler: an index beyond the array");
  }
  EnvScope not_asked(Env::TINY_SPEC, "0");
  EXPECT_NO_THROW(lower_kernel(bad, Caps(), "bad_kernel"));
}

TEST_F(Spec, AGatedAccessMayPointAnywhere) {
  U gate = lt(index_const(0), row), zero = const_(DType::f32, 0);
  U load = node(Op::LOAD, DType::f32, {index(in, row - 1), gate, zero});
  EXPECT_EQ(verify_kernel(sink(store(out, row, load))), "");
}

/// The list of a row sum, as codegen would make it.
struct SpecProgram : Spec {
  U start = const_(DType::f32, 0), acc = node(Op::ACC, DType::f32, {start, column}, Arg(int64_t{0}));
  U eight = index_const(8), thirty_two = index_const(32), four = index_const(4);
  U base = row * 8, place = base + column, at = index(in, place), value = node(Op::LOAD, DType::f32, {at});
  U more = node(Op::ADD, DType::f32, {acc, value}), update = node(Op::UPDATE, DType::f32, {acc, more});
  U end = node(Op::END, DType::void_, {column}), result = node(Op::AFTER, DType::f32, {acc, end});
  U to = index(out, row), done = node(Op::STORE, DType::void_, {to, result});

  std::vector<UOp*> list() {
    return {four, row, thirty_two, in, out, eight, base, start, acc, column, place, at, value, more, update, end, result, to, done};
  }
  std::vector<UOp*> moved(UOp* u, UOp* before) {
    std::vector<UOp*> l = list();
    l.erase(std::find(l.begin(), l.end(), u));
    l.insert(std::find(l.begin(), l.end(), before), u);
    return l;
  }
  std::vector<UOp*> without(UOp* u) {
    std::vector<UOp*> l = list();
    l.erase(std::find(l.begin(), l.end(), u));
    return l;
  }
};

TEST_F(SpecProgram, AGoodList) { EXPECT_EQ(verify_program(list()), ""); }

TEST_F(SpecProgram, FaultsOfLists) {
  expect_fault(verify_program(moved(more, value)), "does not come first");
  expect_fault(verify_program(without(end)), "does not come first");
  expect_fault(verify_program(without(column)), "does not come first");
  std::vector<UOp*> twice = list();
  twice.push_back(done);
  expect_fault(verify_program(twice), "listed twice");
  std::vector<UOp*> open = list();
  open.resize(15);  // up to UPDATE
  expect_fault(verify_program(open), "a loop without END");
  std::vector<UOp*> leak = list();
  U late = node(Op::STORE, DType::void_, {to, value});
  leak.push_back(late);
  expect_fault(verify_program(leak), "loop that has ended");
  std::vector<UOp*> stray = list();
  U index_after = node(Op::STORE, DType::void_, {index(in, base), cast(column, DType::f32)});
  stray.push_back(index_after->src[0]);
  stray.push_back(index_after->src[1]);
  expect_fault(verify_program(stray), "RANGE used outside its loop");
  std::vector<UOp*> fold = {four, row, eight, column, sum(const_(DType::f32, 1))};
  fold.insert(fold.begin(), const_(DType::f32, 1));
  expect_fault(verify_program(fold), "not lowered");
  U small = const_(DType::bf16, 1);
  std::vector<UOp*> reduced = {small, node(Op::ADD, DType::bf16, {small, small})};
  expect_fault(verify_program(reduced), "reduced float");
  std::vector<UOp*> late_group = list();
  U group = range(4, 9, Axis::Global);
  late_group.push_back(group);
  expect_fault(verify_program(late_group), "before the body");
}

}  // namespace
}  // namespace tiny
