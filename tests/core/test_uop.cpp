// Nodes, arenas and walks.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "base/error.h"
#include "uop/symbolic.h"

namespace tiny {
namespace {

TEST(Intern, OnePointerForEqualContents) {
  Record r;
  r.a = {1, 2, 3}, r.n = 4, r.text = "index";
  const Record* first = intern(r);
  EXPECT_EQ(intern(r), first);
  Record other = r;
  other.b = {1};
  EXPECT_NE(intern(other), first);
  Record moved;  // the same numbers in another field
  moved.b = {1, 2, 3}, moved.n = 4, moved.text = "index";
  EXPECT_NE(intern(moved)->hash, first->hash);
}

TEST(Intern, FromManyThreads) {
  std::vector<const Record*> seen(8);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < seen.size(); ++t)
    threads.emplace_back([&seen, t] {
      for (int64_t n = 0; n < 2000; ++n) {
        Record r;
        r.n = n, r.text = "many";
        seen[t] = intern(r);
      }
    });
  for (std::thread& t : threads) t.join();
  for (const Record* r : seen) EXPECT_EQ(r, seen[0]);
}

TEST(Constants, AreWhatTheDtypeHolds) {
  EXPECT_EQ(const_arg(DType::u8, int64_t{300}).i, 44);
  EXPECT_EQ(const_arg(DType::i8, int64_t{200}).i, -56);
  EXPECT_EQ(const_arg(DType::bool_, 0.5).i, 1);
  EXPECT_EQ(const_arg(DType::i32, -1.9).i, -1);
  EXPECT_EQ(const_arg(DType::f32, 0.1).f, static_cast<double>(0.1f));
  EXPECT_EQ(const_arg(DType::bf16, 1.00390625).f, 1.0) << "ties to even";
  EXPECT_EQ(const_arg(DType::f32, int64_t{(1 << 24) + 1}).f, 1 << 24);
  EXPECT_EQ(const_arg(DType::u64, int64_t{-1}).bits, UINT64_MAX);
}

TEST(Constants, IdentitiesOfReductions) {
  EXPECT_EQ(identity_arg(Op::ADD, DType::f32).f, 0);
  EXPECT_EQ(identity_arg(Op::MUL, DType::i32).i, 1);
  EXPECT_EQ(identity_arg(Op::MAX, DType::f32).f, -INFINITY);
  EXPECT_EQ(identity_arg(Op::MAX, DType::i32).i, INT32_MIN);
  EXPECT_EQ(identity_arg(Op::MIN, DType::u8).i, 255);
  EXPECT_EQ(identity_arg(Op::MIN, DType::u64).bits, UINT64_MAX);
  EXPECT_EQ(identity_arg(Op::MAX, DType::bool_).i, 0);
  EXPECT_EQ(identity_arg(Op::AND, DType::bool_).i, 1);
  EXPECT_EQ(identity_arg(Op::AND, DType::i64).i, -1);
  EXPECT_EQ(identity_arg(Op::MAX, DType::f8e4m3).f, -448) << "the type has no infinity";
  EXPECT_THROW(identity_arg(Op::SUB, DType::f32), Error);
}

TEST(Arena, EqualContentsAreOneNode) {
  Arena arena;
  IrScope scope(arena);
  U r = range(8, 0, Axis::Loop), v = node(Op::VAR, DType::f64, {}, Arg(int64_t{0}));
  EXPECT_EQ(r.u, range(8, 0, Axis::Loop).u);
  EXPECT_NE(r.u, range(8, 1, Axis::Loop).u);
  EXPECT_NE(r.u, range(9, 0, Axis::Loop).u);
  size_t before = arena.size();
  EXPECT_EQ((v * v).u, (v * v).u);
  EXPECT_EQ(arena.size(), before + 1);
  EXPECT_NE(const_(DType::f32, 0.0).u, const_(DType::f32, -0.0).u);
  EXPECT_NE(const_(DType::i32, 1).u, const_(DType::i64, 1).u);
  for (int64_t n = 0; n < 100000; ++n) index_const(n);
  for (int64_t n = 0; n < 100000; ++n) ASSERT_EQ(index_const(n)->arg.i, n);
  EXPECT_LT(index_const(99999)->slot, arena.size());
}

TEST(Arena, ScopesNest) {
  Arena a, b;
  EXPECT_THROW(current_arena(), Error);
  IrScope outer(a);
  {
    IrScope inner(b);
    EXPECT_EQ(&current_arena(), &b);
  }
  EXPECT_EQ(&current_arena(), &a);
}

TEST(Arena, LanesFollowTheSources) {
  Arena arena;
  IrScope scope(arena);
  U lanes = node(Op::LANES, kIndex, {}, {}, 8), i = range(4, 0, Axis::Loop);
  EXPECT_EQ((lanes + i)->numel, 8);
  EXPECT_EQ(node(Op::LANE, kIndex, {lanes}, Arg(int64_t{3}))->numel, 1);
  EXPECT_EQ(node(Op::STACK, kIndex, {i, i, i, i})->numel, 4);
  EXPECT_EQ(node(Op::FOLDLANES, kIndex, {lanes}, Arg(static_cast<int64_t>(Op::ADD)))->numel, 1);
}

TEST(Walk, AMillionNodesInAChain) {
  Arena arena;
  IrScope scope(arena);
  U v = node(Op::VAR, DType::f64, {}, Arg(int64_t{0})), chain = v;
  for (int i = 0; i < 1000000; ++i) chain = node(Op::ADD, DType::f64, {chain, v});
  UOp* root = chain;
  std::vector<UOp*> order = toposort({&root, 1});
  ASSERT_EQ(order.size(), 1000001u);
  EXPECT_EQ(order.front(), v.u);
  EXPECT_EQ(order.back(), root);
  EXPECT_EQ(toposort({&root, 1}).size(), order.size()) << "a second walk sees every node again";
  std::vector<UOp*> map(arena.size());
  map[v->slot] = const_(DType::f64, 1);
  EXPECT_EQ(substitute(root, map)->arg.f, 1000001) << "every sum folds";
  EXPECT_NE(kernel_key(root).lo, 0u);
}

TEST(Walk, SourcesComeFirst) {
  Arena arena;
  IrScope scope(arena);
  U i = range(4, 0, Axis::Loop), j = range(5, 1, Axis::Loop);
  UOp* roots[] = {i * 5 + j, i * 7, i};
  std::vector<UOp*> order = toposort(roots);
  std::vector<bool> seen(arena.size());
  for (UOp* u : order) {
    EXPECT_FALSE(seen[u->slot]);
    for (UOp* s : u->sources()) EXPECT_TRUE(seen[s->slot]);
    seen[u->slot] = true;
  }
}

TEST(Substitute, RewritesAndKeepsTheRest) {
  Arena arena;
  IrScope scope(arena);
  U i = range(4, 0, Axis::Loop), j = range(5, 1, Axis::Loop);
  U array = node(Op::PARAM, DType::f32, {index_const(20)}, Arg(int64_t{0}), 1);
  U load = node(Op::LOAD, DType::f32, {node(Op::INDEX, DType::f32, {array, i * 5 + j})});
  std::vector<UOp*> map(arena.size());
  map[j->slot] = index_const(2);
  U moved = substitute(load, map);
  EXPECT_EQ(moved->src[0]->src[1], (i * 5 + 2).u);
  EXPECT_EQ(moved->src[0]->src[0], array.u);
  EXPECT_EQ(map[i->slot], i.u) << "kept nodes are memoised too";
  map.assign(arena.size(), nullptr);
  U lanes = node(Op::LANES, kIndex, {}, {}, 5);
  map.resize(arena.size());
  map[j->slot] = lanes;
  EXPECT_EQ(substitute(load, map)->numel, 5);
  U loaded = cast(load, kIndex) * j;
  EXPECT_EQ(replace(i * 5 + j, j, index_const(2)), (i * 5 + 2).u);
  EXPECT_EQ(replace(loaded, j, index_const(2)), (cast(load, kIndex) * 2).u) << "what is read from memory stays what it is";
  EXPECT_EQ(replace(loaded, index_const(12345), j), loaded.u);
}

UOp* small_kernel(int64_t extent) {
  U i = range(extent, 0, Axis::Global), array = node(Op::PARAM, DType::f32, {index_const(extent)}, Arg(int64_t{0}), 1);
  U check = node(Op::CHECK, kIndex, {i, lt(i, index_const(3))}, Arg(intern(Record{0, {}, {}, {}, 3, "check"})));
  U store = node(Op::STORE, DType::void_, {node(Op::INDEX, DType::f32, {array, check}), const_(DType::f32, 1)});
  return node(Op::SINK, DType::void_, {store});
}

TEST(Key, NamesTheContentsNotTheArena) {
  Arena a, b;
  Hash128 first, second, other;
  UOp* original;
  {
    IrScope scope(a);
    original = small_kernel(10);
    first = kernel_key(original);
    other = kernel_key(small_kernel(11));
  }
  IrScope scope(b);
  for (int64_t n = 0; n < 100; ++n) index_const(n);  // other slots
  second = kernel_key(small_kernel(10));
  EXPECT_EQ(first, second);
  EXPECT_FALSE(first == other);
  EXPECT_EQ(import_graph(original), small_kernel(10));
}

}  // namespace
}  // namespace tiny
