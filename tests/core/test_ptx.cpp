// Kernels for NVIDIA GPUs as PTX: made on every machine, checked by ptxas where it is installed.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/env.h"
#include "codegen_kernels.h"
#include "renderer/renderer.h"

namespace tiny {
namespace {

using testing::AstBuilder;

Caps hopper() {
  Caps c;
  c.target = "sm_90:ptx83", c.vector_bytes = 16, c.registers = 64, c.threads = 132;
  c.has_local = true, c.max_local = 1024, c.local_bytes = 48 << 10, c.has_fma = c.has_f16 = c.has_exp = true;
  return c;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// PTX of the AST; ptxas accepts it if this machine has one.
std::string ptx_of(UOp* sink, const std::string& name, const Caps& caps = hopper()) {
  std::unique_ptr<Compiler> compiler = make_ptx_compiler(caps);
  std::string ptx = compiler->compile(lower_kernel(sink, caps, name));
  EXPECT_TRUE(contains(ptx, ".visible .entry " + name + "(")) << ptx;
  EXPECT_TRUE(contains(ptx, ".target sm_90")) << ptx;
  EXPECT_FALSE(contains(ptx, ".extern .func")) << "calls a function that no GPU has:\n" << ptx;
  if (std::system("command -v ptxas >/dev/null 2>&1") == 0) {
    std::filesystem::path file = std::filesystem::temp_directory_path() / (name + ".ptx");
    std::ofstream(file) << ptx;
    std::string architecture = caps.target.substr(0, caps.target.find(':'));
    EXPECT_EQ(std::system(("ptxas -arch=" + architecture + " -o /dev/null " + file.string()).c_str()), 0) << ptx;
    std::filesystem::remove(file);
  }
  return ptx;
}

class Ptx : public ::testing::Test {
  void SetUp() override {
    if (!make_ptx_compiler(hopper())) GTEST_SKIP() << "built without LLVM's NVPTX target";
  }
};

TEST_F(Ptx, ElementsAreLanes) {
  AstBuilder b;
  U out = b.param(DType::f32, 1 << 20), in = b.param(DType::f32, 1 << 20);
  U i = range(1 << 20, 0, Axis::Global);
  std::string ptx = ptx_of(b.sink({b.store(out, i, alu(Op::MUL, {b.load(in, i), const_(DType::f32, 3.0)}))}), "triple");
  EXPECT_TRUE(contains(ptx, "%tid.x") && contains(ptx, "%ctaid.x")) << ptx;
  EXPECT_TRUE(contains(ptx, "ld.global") && contains(ptx, "st.global")) << "addresses of parameters are global:\n" << ptx;
  EXPECT_TRUE(contains(ptx, ".maxntid 256")) << ptx;
}

TEST_F(Ptx, LanesTakeSixteenBytes) {
  constexpr int64_t n = int64_t{1} << 22;
  AstBuilder b;
  U out = b.param(DType::f32, n), in = b.param(DType::f32, n), i = range(n, 0, Axis::Global);
  std::string ptx = ptx_of(b.sink({b.store(out, i, alu(Op::MUL, {b.load(in, i), const_(DType::f32, 3.0)}))}), "triple_wide");
  EXPECT_TRUE(contains(ptx, "ld.global.v4") && contains(ptx, "st.global.v4")) << ptx;
}

TEST_F(Ptx, LanesShareARow) {
  AstBuilder b;
  U out = b.param(DType::f32, 4096), in = b.param(DType::bf16, 4096 * 4096), row = range(4096, 0, Axis::Global);
  U col = range(4096, 100, Axis::Reduce), sum = b.fold(Op::ADD, cast(b.load(in, row * 4096 + col), DType::f32), {col});
  std::string ptx = ptx_of(b.sink({b.store(out, row, sum)}), "sums_of_rows");
  EXPECT_TRUE(contains(ptx, ".maxntid 128") && contains(ptx, "bar")) << ptx;
  EXPECT_TRUE(contains(ptx, "ld.global.v4")) << "eight bfloat16 at once:\n" << ptx;
}

/// A vector times a matrix whose rows are contiguous along the results.
TEST_F(Ptx, SumsAcrossWhatIsContiguous) {
  AstBuilder b;
  U out = b.param(DType::f32, 16384), a = b.param(DType::f32, 1024), m = b.param(DType::bf16, 1024 * 16384);
  U j = range(16384, 0, Axis::Global), k = range(1024, 100, Axis::Reduce);
  U sum = b.fold(Op::ADD, b.load(a, k) * cast(b.load(m, k * 16384 + j), DType::f32), {k});
  std::string ptx = ptx_of(b.sink({b.store(out, j, sum)}), "vector_times_matrix");
  EXPECT_TRUE(contains(ptx, "ld.global.v") && contains(ptx, ".shared")) << ptx;
  EXPECT_FALSE(contains(ptx, ".maxntid 32\n")) << ptx;
}

TEST_F(Ptx, ProductsAreNotContracted) {
  AstBuilder b;
  U out = b.param(DType::f32, 4096), in = b.param(DType::f32, 4096);
  U i = range(4096, 0, Axis::Global), x = b.load(in, i);
  std::string ptx = ptx_of(b.sink({b.store(out, i, alu(Op::ADD, {alu(Op::MUL, {x, x}), x}))}), "square_plus");
  EXPECT_FALSE(contains(ptx, "fma.")) << "a product is rounded before it is added:\n" << ptx;
  EXPECT_TRUE(contains(ptx, "mul.rn.f32") && contains(ptx, "add.rn.f32")) << ptx;
}

TEST_F(Ptx, TranscendentalsOfFloatNeedNoLibrary) {
  for (Op op : {Op::EXP, Op::LOG, Op::SIN, Op::COS, Op::TANH, Op::ERF, Op::EXPM1, Op::LOG1P, Op::LGAMMA}) {
    AstBuilder b;
    U out = b.param(DType::f32, 512), in = b.param(DType::f32, 512);
    U i = range(512, 0, Axis::Global);
    ptx_of(b.sink({b.store(out, i, alu(op, {b.load(in, i)}))}), "f_" + std::to_string(static_cast<int>(op)));
  }
}

TEST_F(Ptx, TranscendentalsOfDoubleNeedNoLibrary) {
  for (Op op : {Op::EXP, Op::EXP2, Op::EXPM1, Op::LOG, Op::LOG2, Op::LOG10, Op::LOG1P, Op::SIN, Op::COS, Op::TAN, Op::ASIN, Op::ACOS,
                Op::ATAN, Op::SINH, Op::COSH, Op::TANH, Op::ASINH, Op::ACOSH, Op::ATANH, Op::ERF, Op::ERFC, Op::POW, Op::ATAN2}) {
    AstBuilder b;
    U out = b.param(DType::f64, 512), in = b.param(DType::f64, 512), i = range(512, 0, Axis::Global), x = b.load(in, i);
    U value = op == Op::POW || op == Op::ATAN2 ? alu(op, {x, const_(DType::f64, 1.7)}) : alu(op, {x});
    ptx_of(b.sink({b.store(out, i, value)}), "d_" + std::to_string(static_cast<int>(op)));
  }
}

TEST_F(Ptx, ExponentialsAreTheProcessors) {
  for (Op op : {Op::EXP, Op::EXP2, Op::TANH}) {
    AstBuilder b;
    U out = b.param(DType::f32, 512), in = b.param(DType::f32, 512), i = range(512, 0, Axis::Global);
    std::string ptx = ptx_of(b.sink({b.store(out, i, alu(op, {b.load(in, i)}))}), "g_" + std::to_string(static_cast<int>(op)));
    EXPECT_TRUE(contains(ptx, "ex2.approx.ftz.f32")) << ptx;
    EXPECT_FALSE(contains(ptx, "div.")) << ptx;
  }
}

TEST_F(Ptx, BoundsOfArraysOnDemand) {
  AstBuilder b;
  U out = b.param(DType::f32, 4096), in = b.param(DType::f32, 4096), i = range(4096, 0, Axis::Global);
  UOp* sink = b.sink({b.store(out, i, b.load(in, i))});
  EXPECT_FALSE(contains(ptx_of(sink, "copy_plain"), "trap;"));
  EnvScope looking(Env::TINY_BOUNDS, "1");
  std::string ptx = ptx_of(sink, "copy_looking");
  EXPECT_TRUE(contains(ptx, "trap;") && contains(ptx, "setp.lt.u64")) << ptx;
}

TEST_F(Ptx, RowsInSharedMemory) {
  AstBuilder b;
  U out = b.param(DType::f32, 64 * 100), in = b.param(DType::f32, 64 * 100), row = b.local(DType::f32, 100);
  U r = range(64, 0, Axis::Global), i = range(100, 1, Axis::Loop), j = range(100, 2, Axis::Reduce), k = range(100, 3, Axis::Loop);
  U kept = b.after(row, b.store(row, i, alu(Op::EXP, {b.load(in, r * 100 + i)})));
  U sum = b.fold(Op::ADD, b.load(kept, j), {j});
  std::string ptx = ptx_of(b.sink({b.store(out, r * 100 + k, alu(Op::FDIV, {b.load(kept, k), sum}))}), "share_of_row");
  EXPECT_TRUE(contains(ptx, ".shared")) << ptx;
  EXPECT_TRUE(contains(ptx, "div.rn.f32")) << "division is correctly rounded:\n" << ptx;
}

/// out[image, channel, pixel] = x * w[channel], of bf16.
TEST_F(Ptx, LanesLieAlongWhatMostElementsAreIn) {
  AstBuilder b;
  U x = b.param(DType::bf16, 16 * 64 * 3136), out = b.param(DType::bf16, 16 * 64 * 3136);
  U w = b.param(DType::f32, 64), v = b.param(DType::f32, 64);
  U n = range(16, 0, Axis::Global), c = range(64, 1, Axis::Global), p = range(3136, 2, Axis::Global), at = (n * 64 + c) * 3136 + p;
  U value = cast(b.load(x, at), DType::f32) * b.load(w, c) + b.load(v, c);
  std::string ptx = ptx_of(b.sink({b.store(out, at, cast(value, DType::bf16))}), "by_channel");
  EXPECT_TRUE(contains(ptx, "ld.global.v4") && contains(ptx, "st.global.v4")) << ptx;
}

TEST_F(Ptx, TransposesReadAlongLanesAndWriteVectors) {
  AstBuilder b;
  U x = b.param(DType::bf16, 16 * 64 * 3136), out = b.param(DType::bf16, 16 * 64 * 3136);
  U n = range(16, 0, Axis::Global), p = range(3136, 1, Axis::Global), c = range(64, 2, Axis::Global);
  std::string ptx = ptx_of(b.sink({b.store(out, (n * 3136 + p) * 64 + c, b.load(x, (n * 64 + c) * 3136 + p))}), "channels_last");
  EXPECT_TRUE(contains(ptx, "ld.global.b16") && contains(ptx, "st.global.v4")) << ptx;
}

/// The product of two matrices of `size` squared in `d`, sums in f32.
std::string product_ptx(DType d, int64_t size, int tensor_cores, const std::string& name) {
  Caps caps = hopper();
  caps.target = "sm_90a:ptx83", caps.block_bytes = 227 << 10, caps.tensor_cores = tensor_cores, caps.async_copies = true;
  AstBuilder b;
  U a = b.param(d, size * size), c = b.param(d, size * size), out = b.param(d, size * size);
  U i = range(size, 0, Axis::Global), j = range(size, 1, Axis::Global), k = range(size, 2, Axis::Reduce);
  U sum = b.fold(Op::ADD, cast(b.load(a, i * size + k), DType::f32) * cast(b.load(c, k * size + j), DType::f32), {k});
  return ptx_of(b.sink({b.store(out, i * size + j, cast(sum, d))}), name, caps);
}

TEST_F(Ptx, ProductsOfHalvesRunOnTensorCores) {
  std::string groups = product_ptx(DType::bf16, 4096, 90, "groups_of_warps");
  EXPECT_TRUE(contains(groups, "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16")) << groups;
  EXPECT_TRUE(contains(groups, "cp.async.cg.shared.global")) << groups;
  // What reads the tiles last is done before the sums overwrite them.
  size_t end = groups.rfind("wgmma.wait_group.sync.aligned 0;");
  ASSERT_NE(end, std::string::npos);
  EXPECT_LT(groups.find("bar.sync", end), groups.find("st.shared"));
  std::string warps = product_ptx(DType::f16, 4096, 80, "warps");
  EXPECT_TRUE(contains(warps, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") && contains(warps, "ldmatrix")) << warps;
  std::string odd = product_ptx(DType::bf16, 1001, 90, "odd");
  EXPECT_TRUE(contains(odd, "wgmma")) << odd;
}

TEST_F(Ptx, ProductsOfFloatsShareTiles) {
  std::string ptx = product_ptx(DType::f32, 4096, 90, "shared_tiles");
  EXPECT_TRUE(contains(ptx, "ld.shared.v4") && contains(ptx, "fma.rn.f32") && contains(ptx, "cp.async")) << ptx;
  EXPECT_FALSE(contains(ptx, "mma")) << "float32 is not rounded to tf32";
}

}  // namespace
}  // namespace tiny
