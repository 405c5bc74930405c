// Blocks of matrix products (codegen/block.h) on NVIDIA GPUs: multiply-adds of lanes, mma.sync of warps, wgmma of groups of four warps.
// Instructions, fragments, descriptors: PTX ISA 8.3, sections "Warp Level Matrix Multiply-Accumulate Instructions" and "Asynchronous
// Warpgroup Level Matrix Instructions".
#ifdef TINY_HAVE_LLVM
#include <fmt/format.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "codegen/block.h"
#include "renderer/llvm_emit.h"

namespace tiny {
using llvm::Type, llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

namespace {

constexpr unsigned kGlobalSpace = 1, kSharedSpace = 3;
constexpr int64_t kTermsOfStep = 16;  // k of mma.m16n8k16 and wgmma.m64nNk16

/// 32-bit arithmetic on places in local memory, as Block writes it.
struct Number {
  llvm::IRBuilder<>* b;
  Value* v;
};
Number binary(Number a, llvm::Instruction::BinaryOps op, int64_t n) {
  return {a.b, a.b->CreateBinOp(op, a.v, a.b->getInt32(static_cast<uint32_t>(n)))};
}
Number operator+(Number a, int64_t n) { return n ? binary(a, llvm::Instruction::Add, n) : a; }
Number operator*(Number a, int64_t n) { return binary(a, llvm::Instruction::Mul, n); }
Number operator/(Number a, int64_t n) { return binary(a, llvm::Instruction::UDiv, n); }
Number operator%(Number a, int64_t n) { return binary(a, llvm::Instruction::URem, n); }
Number operator+(Number a, Number c) { return {a.b, a.b->CreateAdd(a.v, c.v)}; }
Number exclusive_or(Number a, Number c) { return {a.b, a.b->CreateXor(a.v, c.v)}; }

}  // namespace

/// Inline assembly in the order in which it is written, by all lanes at once.
Value* LlvmEmitter::assembly(const std::string& text, const std::string& constraints, llvm::ArrayRef<Value*> operands, Type* result) {
  std::vector<Type*> types;
  for (Value* v : operands) types.push_back(v->getType());
  auto* type = llvm::FunctionType::get(result ? result : b_.getVoidTy(), types, false);
  std::string all = constraints.empty() ? "~{memory}" : constraints + ",~{memory}";
  llvm::CallInst* call = b_.CreateCall(type, llvm::InlineAsm::get(type, text, all, true), operands);
  call->addFnAttr(llvm::Attribute::Convergent);
  call->addFnAttr(llvm::Attribute::NoUnwind);
  return call;
}

/// wgmma goes on writing its sums while the program runs on, so they may not be moved: registers with names, not values of LLVM.
void LlvmEmitter::find_fixed_sums() {
  for (UOp* u : program_.linear)
    if (u->is(Op::UPDATE) && u->src[1]->is(Op::BLOCK) && Block::unpack(u->src[1]->arg).engine == Engine::WarpGroups)
      fixed_sums_ = u->src[0];
}

void LlvmEmitter::start_fixed_sums() {
  std::string text = fmt::format(".reg .f32 sum<{}>;", fixed_sums_->numel);
  for (int64_t i = 0; i < fixed_sums_->numel; ++i) text += fmt::format(" mov.b32 sum{}, 0;", i);
  assembly(text, "", {});
}

/// Behind the loop, and before the BARRIER after which its tiles are overwritten.
void LlvmEmitter::finish_fixed_sums() { assembly("wgmma.wait_group.sync.aligned 0;", "", {}); }

Value* LlvmEmitter::read_fixed_sums() {
  size_t n = static_cast<size_t>(fixed_sums_->numel);
  std::string text, constraints;
  for (size_t i = 0; i < n; ++i) text += fmt::format("mov.b32 ${}, sum{}; ", i, i), constraints += i ? ",=f" : "=f";
  Value* all = assembly(text, constraints, {}, llvm::StructType::get(context_, std::vector<Type*>(n, b_.getFloatTy())));
  Value* out = llvm::PoisonValue::get(type(DType::f32, fixed_sums_->numel));
  for (size_t i = 0; i < n; ++i) out = b_.CreateInsertElement(out, b_.CreateExtractValue(all, static_cast<unsigned>(i)), i);
  return out;
}

Value* LlvmEmitter::block(UOp* u) {
  switch (Block::unpack(u->arg).engine) {
    case Engine::Lanes: return block_of_lanes(u);
    case Engine::Warps: return block_of_warps(u);
    default: return block_of_warp_groups(u), nullptr;
  }
}

/// Byte address in shared memory, 32 bits, of a BLOCK's tile or a COPY's target.
Value* LlvmEmitter::tile_address(UOp* index) {
  UOp* array = base_array(index->src[0]);
  Value* at = b_.CreateTrunc(value(index->src[1]), b_.getInt32Ty());
  at = b_.CreateMul(at, b_.getInt32(static_cast<uint32_t>(itemsize(array->dtype))));
  return b_.CreateAdd(at, b_.getInt32(static_cast<uint32_t>(local_offsets_[static_cast<size_t>(array->arg.i)])));
}

Value* LlvmEmitter::block_of_lanes(UOp* u) {
  const Block b = Block::unpack(u->arg);
  Number lane{&b_, intrinsic(Intrinsic::nvvm_read_ptx_sreg_tid_x)};
  Type *f32 = b_.getFloatTy(), *four = llvm::FixedVectorType::get(f32, 4);
  const int64_t wide = b.rows[1] / (8 * b.teams[1]), high = b.sums() / wide;
  Value* begin[2];
  for (int side : {0, 1}) {
    auto at = b.position<Number>(lane, 0);
    Value* element = b.offset<Number>(side, side ? at.column : at.row, Number{&b_, b_.getInt32(0)}).v;
    begin[side] = b_.CreateAdd(tile_address(u->src[side]), b_.CreateMul(element, b_.getInt32(4)));
  }
  auto read = [&](int side, int64_t piece, int64_t k) {
    auto at = b.position<int64_t>(0, side ? piece * 4 : piece * 4 * wide);
    int64_t offset = b.offset<int64_t>(side, side ? at.column : at.row, k) * 4;
    Value* p = b_.CreateGEP(b_.getInt8Ty(), shared_, begin[side]);
    p = b_.CreateConstGEP1_64(b_.getInt8Ty(), p, static_cast<uint64_t>(offset));
    return tag(b_.CreateAlignedLoad(four, p, llvm::Align(16)), base_array(u->src[side]->src[0]));
  };
  std::vector<Value*> sums;
  Value* start = value(u->src[2], u->numel);
  for (int64_t i = 0; i < u->numel; ++i) sums.push_back(b_.CreateExtractElement(start, i));
  for (int64_t k = 0; k < b.depth; ++k) {
    std::vector<Value*> x, y;
    for (int64_t i = 0; i < high / 4; ++i) x.push_back(read(0, i, k));
    for (int64_t i = 0; i < wide / 4; ++i) y.push_back(read(1, i, k));
    for (int64_t i = 0; i < u->numel; ++i) {
      Value* p = b_.CreateExtractElement(x[static_cast<size_t>(i / wide / 4)], i / wide % 4);
      Value* q = b_.CreateExtractElement(y[static_cast<size_t>(i % wide / 4)], i % wide % 4);
      Value*& s = sums[static_cast<size_t>(i)];
      s = b_.CreateIntrinsic(Intrinsic::fma, {f32}, {p, q, s});
    }
  }
  Value* out = llvm::PoisonValue::get(type(DType::f32, u->numel));
  for (int64_t i = 0; i < u->numel; ++i) out = b_.CreateInsertElement(out, sums[static_cast<size_t>(i)], i);
  return out;
}

/// Four 8 x 8 matrices an ldmatrix: for A the quarters of 16 rows x 16 k, rows first; for B two fragments of 8 rows x 16 k, k first. Lane l
/// gives the address of line l % 8 of matrix l / 8. Tiles with rows side by side are transposed on the way.
Value* LlvmEmitter::block_of_warps(UOp* u) {
  const Block b = Block::unpack(u->arg);
  const bool bf16 = u->src[0]->dtype == DType::bf16;
  Number lane{&b_, intrinsic(Intrinsic::nvvm_read_ptx_sreg_tid_x)};
  Number warp = lane / Block::kWarp, line = lane % 8, matrix = lane % Block::kWarp / 8;
  const int64_t rows[2] = {b.rows[0] / b.teams[0], b.rows[1] / b.teams[1]};
  auto fragments = [&](int side, int64_t at, int64_t k) {
    Number first = (side ? warp % b.teams[1] : warp / b.teams[1]) * rows[side] + at;
    Number by_row = side ? matrix / 2 : matrix % 2, by_k = side ? matrix % 2 : matrix / 2;
    Number row = first + by_row * 8, term = by_k * 8 + k;
    if (b.k_inner[side]) {
      row = row + line;
    } else {
      term = term + line;
    }
    Value* byte = b_.CreateAdd(tile_address(u->src[side]), b_.CreateMul(b.offset<Number>(side, row, term).v, b_.getInt32(2)));
    Intrinsic::ID id = b.k_inner[side] ? Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16
                                       : Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16;
    Value* p = b_.CreateGEP(b_.getInt8Ty(), shared_, byte);
    Value* four = b_.CreateIntrinsic(id, {p->getType()}, {p});
    std::vector<Value*> out;
    for (unsigned i = 0; i < 4; ++i) out.push_back(b_.CreateExtractValue(four, i));
    return out;
  };
  std::vector<Value*> sums;
  Value* start = value(u->src[2], u->numel);
  for (int64_t i = 0; i < u->numel; ++i) sums.push_back(b_.CreateExtractElement(start, i));
  Type *pair = llvm::FixedVectorType::get(b_.getHalfTy(), 2);
  for (int64_t k = 0; k < b.depth; k += kTermsOfStep) {
    std::vector<std::vector<Value*>> x, y;
    for (int64_t m = 0; m < rows[0]; m += 16) x.push_back(fragments(0, m, k));
    for (int64_t n = 0; n < rows[1]; n += 16) y.push_back(fragments(1, n, k));
    const size_t wide = static_cast<size_t>(rows[1] / 8);
    for (size_t m = 0; m < x.size(); ++m)
      for (size_t n = 0; n < wide; ++n) {
        Value** s = &sums[(m * wide + n) * 4];
        std::vector<Value*> operands(x[m]);
        operands.push_back(y[n / 2][n % 2 * 2]), operands.push_back(y[n / 2][n % 2 * 2 + 1]);
        if (!bf16)
          for (Value*& v : operands) v = b_.CreateBitCast(v, pair);
        operands.insert(operands.end(), s, s + 4);
        Value* out = b_.CreateIntrinsic(bf16 ? Intrinsic::nvvm_mma_m16n8k16_row_col_bf16 : Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32,
                                        llvm::ArrayRef<Type*>(), operands);
        for (unsigned i = 0; i < 4; ++i) s[i] = b_.CreateExtractValue(out, i);
      }
  }
  Value* out = llvm::PoisonValue::get(type(DType::f32, u->numel));
  for (int64_t i = 0; i < u->numel; ++i) out = b_.CreateInsertElement(out, sums[static_cast<size_t>(i)], i);
  return out;
}

/// Starts this block's products and waits until those of the block before are done. A descriptor names a tile by its address / 16, the
/// strides / 16 from one group of 64 rows to the next (bits 16 on; tiles with rows side by side) and from 8 lines to the next (bits 32 on),
/// and the 128-byte swizzle (1 in bits 62 on).
void LlvmEmitter::block_of_warp_groups(UOp* u) {
  const Block b = Block::unpack(u->arg);
  Number lane{&b_, intrinsic(Intrinsic::nvvm_read_ptx_sreg_tid_x)};
  Number team = lane / b.team_lanes();
  const int64_t rows[2] = {b.rows[0] / b.teams[0], b.rows[1] / b.teams[1]};
  constexpr int64_t kLine = 128, kLines = 64 * kLine;
  Value* descriptor[2];
  Value* base = b_.CreatePtrToInt(shared_, b_.getInt32Ty());
  for (int side : {0, 1}) {
    Number first = (side ? team % b.teams[1] : team / b.teams[1]) * (rows[side] * kLine);
    Value* at = b_.CreateAdd(b_.CreateAdd(base, tile_address(u->src[side])), first.v);
    at = b_.CreateZExt(b_.CreateLShr(at, 4), b_.getInt64Ty());
    uint64_t across = static_cast<uint64_t>(b.k_inner[side] ? 1 : kLines / 16);
    descriptor[side] = b_.CreateOr(at, b_.getInt64(across << 16 | uint64_t{8 * kLine / 16} << 32 | uint64_t{1} << 62));
  }
  const char* name = u->src[0]->dtype == DType::bf16 ? "bf16" : "f16";
  assembly("wgmma.fence.sync.aligned;", "", {});
  const int64_t parts = rows[0] / 64, each = b.sums() / parts;
  for (int64_t k = 0; k < b.depth; k += kTermsOfStep)
    for (int64_t part = 0; part < parts; ++part) {
      std::string text = "{ .reg .pred add; setp.ne.b32 add, 1, 0; wgmma.mma_async.sync.aligned.m64n";
      text += fmt::format("{}k16.f32.{}.{} {{", rows[1], name, name);
      for (int64_t i = 0; i < each; ++i) text += fmt::format("{}sum{}", i ? ", " : "", part * each + i);
      text += fmt::format("}}, $0, $1, add, 1, 1, {}, {}; }}", b.k_inner[0] ? 0 : 1, b.k_inner[1] ? 0 : 1);
      Value* operands[2];
      for (int side : {0, 1}) {
        int64_t step = (b.k_inner[side] ? k * 2 : k * kLine) + (side ? 0 : part * kLines);
        operands[side] = b_.CreateAdd(descriptor[side], b_.getInt64(static_cast<uint64_t>(step / 16)));
      }
      assembly(text, "l,l", operands);
    }
  assembly("wgmma.commit_group.sync.aligned;", "", {});
  assembly("wgmma.wait_group.sync.aligned 1;", "", {});
}

/// cp.async, with zeros in place of what is not read.
void LlvmEmitter::copy_async(UOp* u) {
  UOp *to = u->src[0], *from = u->src[1];
  int64_t bytes = u->numel * itemsize(to->dtype);
  Value* p = b_.CreateGEP(b_.getInt8Ty(), shared_, tile_address(to));
  Value* q = b_.CreateAddrSpaceCast(pointer(base_array(from->src[0]), value(from->src[1])), b_.getPtrTy(kGlobalSpace));
  Value* read = b_.getInt32(static_cast<uint32_t>(bytes));
  if (u->nsrc == 3) read = b_.CreateSelect(value(u->src[2]), read, b_.getInt32(0));
  Intrinsic::ID id = bytes == 16 ? Intrinsic::nvvm_cp_async_cg_shared_global_16_s
                     : bytes == 8 ? Intrinsic::nvvm_cp_async_ca_shared_global_8_s
                                  : Intrinsic::nvvm_cp_async_ca_shared_global_4_s;
  b_.CreateIntrinsic(id, llvm::ArrayRef<Type*>(), {p, q, read});
}

/// wgmma reads local memory through a proxy of its own, which does not see what lanes wrote before this fence.
void LlvmEmitter::wait_for_copies(int64_t left) {
  b_.CreateIntrinsic(Intrinsic::nvvm_cp_async_wait_group, llvm::ArrayRef<Type*>(), {b_.getInt32(static_cast<uint32_t>(left))});
  if (fixed_sums_) assembly("fence.proxy.async.shared::cta;", "", {});
}

}  // namespace tiny
#endif
