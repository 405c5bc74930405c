// Kernels for NVIDIA GPUs as PTX: made on every machine, checked by ptxas where it is installed.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "codegen_kernels.h"
#include "renderer/renderer.h"

namespace tiny {
namespace {

using testing::AstBuilder;

Caps hopper() {
  Caps c;
  c.target = "sm_90:ptx83", c.vector_bytes = 16, c.registers = 64, c.threads = 132;
  c.has_local = true, c.max_local = 1024, c.local_bytes = 48 << 10, c.has_fma = c.has_f16 = true;
  return c;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// PTX of the AST; ptxas accepts it if this machine has one.
std::string ptx_of(UOp* sink, const std::string& name) {
  std::unique_ptr<Compiler> compiler = make_ptx_compiler(hopper());
  std::string ptx = compiler->compile(lower_kernel(sink, hopper(), name));
  EXPECT_TRUE(contains(ptx, ".visible .entry " + name + "(")) << ptx;
  EXPECT_TRUE(contains(ptx, ".target sm_90")) << ptx;
  EXPECT_FALSE(contains(ptx, ".extern .func")) << "calls a function that no GPU has:\n" << ptx;
  if (std::system("command -v ptxas >/dev/null 2>&1") == 0) {
    std::filesystem::path file = std::filesystem::temp_directory_path() / (name + ".ptx");
    std::ofstream(file) << ptx;
    EXPECT_EQ(std::system(("ptxas -arch=sm_90 -o /dev/null " + file.string()).c_str()), 0) << ptx;
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

TEST_F(Ptx, ProductsAreNotContracted) {
  AstBuilder b;
  U out = b.param(DType::f32, 4096), in = b.param(DType::f32, 4096);
  U i = range(4096, 0, Axis::Global), x = b.load(in, i);
  std::string ptx = ptx_of(b.sink({b.store(out, i, alu(Op::ADD, {alu(Op::MUL, {x, x}), x}))}), "square_plus");
  EXPECT_FALSE(contains(ptx, "fma.")) << "a product is rounded before it is added:\n" << ptx;
  EXPECT_TRUE(contains(ptx, "mul.rn.f32") && contains(ptx, "add.rn.f32")) << ptx;
}

TEST_F(Ptx, TranscendentalsOfFloatNeedNoLibrary) {
  for (Op op : {Op::EXP, Op::LOG, Op::SIN, Op::COS, Op::TANH, Op::ERF, Op::EXPM1, Op::LOG1P}) {
    AstBuilder b;
    U out = b.param(DType::f32, 512), in = b.param(DType::f32, 512);
    U i = range(512, 0, Axis::Global);
    ptx_of(b.sink({b.store(out, i, alu(op, {b.load(in, i)}))}), "f_" + std::to_string(static_cast<int>(op)));
  }
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

}  // namespace
}  // namespace tiny
