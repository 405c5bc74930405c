// The frame of a GPU kernel: every lane runs the function once. Parameters are the buffers, then the scalars as i64.
#ifdef TINY_HAVE_LLVM
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <iterator>

#include "base/env.h"
#include "codegen/decomp/functions.h"
#include "renderer/llvm_emit.h"

namespace tiny {
using llvm::BasicBlock, llvm::Type, llvm::Value;

namespace {
constexpr unsigned kSharedSpace = 3;  // NVPTX and AMDGPU agree
constexpr uint64_t kTileAlign = 1024;  // of swizzled tiles: their blocks are exchanged by bits of the address
}

Value* LlvmEmitter::intrinsic(llvm::Intrinsic::ID id) { return b_.CreateIntrinsic(id, llvm::ArrayRef<Type*>(), llvm::ArrayRef<Value*>()); }

void LlvmEmitter::open_gpu_kernel() {
  std::vector<Type*> types(param_count_, b_.getPtrTy());
  types.resize(param_count_ + static_cast<size_t>(program_.info.scalars), b_.getInt64Ty());
  function_ = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), types, false), llvm::Function::ExternalLinkage,
                                     program_.info.name, module_);
  function_->setCallingConv(llvm::CallingConv::PTX_Kernel);
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  function_->addFnAttr(llvm::Attribute::MustProgress);
  function_->addFnAttr("nvvm.maxntid", std::to_string(program_.info.lanes));
  for (size_t i = 0; i < param_count_; ++i) {
    params_[i] = function_->getArg(static_cast<unsigned>(i));
    params_[i]->setName("p" + llvm::Twine(i));
    function_->addParamAttr(static_cast<unsigned>(i), llvm::Attribute::NoAlias);
  }
  for (size_t i = param_count_; i < types.size(); ++i) vars_.push_back(function_->getArg(static_cast<unsigned>(i)));
  if (int64_t n = program_.info.scratch_bytes) {
    bool dynamic = n > kStaticScratch;
    auto* bytes = llvm::ArrayType::get(b_.getInt8Ty(), dynamic ? 0 : static_cast<uint64_t>(n));
    auto linkage = dynamic ? llvm::GlobalValue::ExternalLinkage : llvm::GlobalValue::InternalLinkage;
    shared_ = new llvm::GlobalVariable(module_, bytes, false, linkage, dynamic ? nullptr : llvm::PoisonValue::get(bytes),
                                       program_.info.name + "_scratch", nullptr, llvm::GlobalValue::NotThreadLocal, kSharedSpace);
    shared_->setAlignment(llvm::Align(kTileAlign));
    scratch_ = llvm::ConstantExpr::getAddrSpaceCast(shared_, b_.getPtrTy());
  }
  find_fixed_sums();
  entry_ = BasicBlock::Create(context_, "entry", function_);
  make_alias_scopes();
  b_.SetInsertPoint(BasicBlock::Create(context_, "start", function_));
  Value* group = intrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
  split_number(group, ranges_of(program_, Axis::Global));
  split_number(intrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x), ranges_of(program_, Axis::Local));
}

// ---- elementary functions by the processor's own 2^x and 1/x

/// An instruction of one f32 of another: ex2.approx (2^-22 of its value), rcp.approx (1 ulp). PTX ISA, "Floating Point Instructions".
Value* LlvmEmitter::gpu_instruction(const char* name, Value* x) {
  auto* type = llvm::FunctionType::get(b_.getFloatTy(), {b_.getFloatTy()}, false);
  return b_.CreateCall(type, llvm::InlineAsm::get(type, std::string(name) + " $0, $1;", "=f,f", false), {x});
}

Value* LlvmEmitter::gpu_function(UOp* u) {
  Value* x = value(u->src[0], u->numel);
  auto one = [&](Value* v) { return u->is(Op::TANH) ? tanh_of(v) : exp_of(u->op, v); };
  if (u->numel == 1) return one(x);
  Value* out = llvm::PoisonValue::get(x->getType());
  for (int64_t i = 0; i < u->numel; ++i) out = b_.CreateInsertElement(out, one(b_.CreateExtractElement(x, i)), i);
  return out;
}

/// 2^n * 2^r with n between -126 and 127, a power of two that is exact: beyond, r is what is left, so that denormals are rounded once,
/// overflow, infinities and NaN come by themselves.
Value* LlvmEmitter::exp_of(Op op, Value* x) {
  constexpr float log2e = 0x1.715476p0f, log2e_rest = 0x1.4ae0cp-26f;  // their sum is log2(e) to 2^-52
  constexpr float round = 0x1.8p23f + 127;                            // leaves n + 127 in the low bits
  auto number = [&](float v) { return llvm::ConstantFP::get(b_.getFloatTy(), v); };
  auto call = [&](llvm::Intrinsic::ID id, std::initializer_list<Value*> v) {
    return b_.CreateIntrinsic(id, {b_.getFloatTy()}, llvm::ArrayRef<Value*>(v.begin(), v.size()));
  };
  Value* t = op == Op::EXP ? b_.CreateFMul(x, number(log2e)) : x;
  t = call(llvm::Intrinsic::maxnum, {call(llvm::Intrinsic::minnum, {t, number(127)}), number(-126)});
  Value *shifted = b_.CreateFAdd(t, number(round)), *minus_n = b_.CreateFSub(number(round), shifted), *r = nullptr;
  if (op == Op::EXP) {
    r = call(llvm::Intrinsic::fma, {x, number(log2e_rest), call(llvm::Intrinsic::fma, {x, number(log2e), minus_n})});
  } else {
    r = b_.CreateFAdd(x, minus_n);
  }
  Value* scale = b_.CreateBitCast(b_.CreateShl(b_.CreateBitCast(shifted, b_.getInt32Ty()), 23), b_.getFloatTy());
  return b_.CreateFMul(gpu_instruction("ex2.approx.ftz.f32", r), scale);
}

/// 1 - 2/(e^2|x| + 1), and a polynomial where that cancels.
Value* LlvmEmitter::tanh_of(Value* x) {
  auto number = [&](double v) { return llvm::ConstantFP::get(b_.getFloatTy(), v); };
  auto fma = [&](Value* a, Value* b, Value* c) { return b_.CreateIntrinsic(llvm::Intrinsic::fma, {b_.getFloatTy()}, {a, b, c}); };
  Value *a = b_.CreateIntrinsic(llvm::Intrinsic::fabs, {b_.getFloatTy()}, {x}), *z = b_.CreateFMul(a, a);
  Value* p = number(std::end(decomp::kTanhTail)[-1]);
  for (size_t i = std::size(decomp::kTanhTail) - 1; i-- > 0;) p = fma(p, z, number(decomp::kTanhTail[i]));
  Value* small = fma(b_.CreateFMul(z, a), p, a);
  Value* e = gpu_instruction("ex2.approx.ftz.f32", b_.CreateFMul(a, number(2 * 1.4426950408889634)));
  Value* large = fma(gpu_instruction("rcp.approx.ftz.f32", b_.CreateFAdd(e, number(1))), number(-2), number(1));
  Value* v = b_.CreateSelect(b_.CreateFCmpOLT(a, number(decomp::kTanhSmall)), small, large);
  return b_.CreateIntrinsic(llvm::Intrinsic::copysign, {b_.getFloatTy()}, {v, x});
}

/// TINY_BOUNDS: an access beyond its array ends the kernel with a fault of the device.
void LlvmEmitter::stop_beyond(const Access& a) {
  UOp* array = a.array;
  if (!caps_.has_local || !env_flag(Env::TINY_BOUNDS) || !array->is(Op::PARAM)) return;
  const int64_t n = const_int(array->src[0]);
  auto stop_unless_below = [&](Value* index, int64_t end, Value* gate) {
    if (!index->getType()->isIntegerTy(64)) index = b_.CreateSExt(index, b_.getInt64Ty());
    Value* beyond = b_.CreateICmpUGT(index, b_.getInt64(static_cast<uint64_t>(std::max<int64_t>(end, 0))));
    if (end < 0) beyond = b_.getTrue();
    if (gate) beyond = b_.CreateAnd(beyond, gate);
    BasicBlock* stop = BasicBlock::Create(context_, "beyond", function_);
    BasicBlock* go_on = BasicBlock::Create(context_, "within", function_);
    b_.CreateCondBr(beyond, stop, go_on);
    b_.SetInsertPoint(stop);
    intrinsic(llvm::Intrinsic::trap);
    b_.CreateBr(go_on);
    b_.SetInsertPoint(go_on);
  };
  Value* gate = a.gate ? value(a.gate, a.lanes) : nullptr;
  auto gate_of = [&](int64_t i) { return gate && lanes_of(gate) > 1 ? b_.CreateExtractElement(gate, i) : gate; };
  if (a.index->numel == 1 && (!gate || lanes_of(gate) == 1)) return stop_unless_below(value(a.index), n - a.lanes, gate);
  for (int64_t i = 0; i < a.lanes; ++i) {
    auto* lane = llvm::ConstantInt::get(type(a.index->dtype), static_cast<uint64_t>(i));
    Value* index = a.index->numel == 1 ? b_.CreateAdd(value(a.index), lane) : index_lane(a.index, i);
    stop_unless_below(index, n - 1, gate_of(i));
  }
}

void LlvmEmitter::barrier() {
#if LLVM_VERSION_MAJOR >= 21
  b_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, llvm::ArrayRef<Type*>(), {b_.getInt32(0)});
#else
  intrinsic(llvm::Intrinsic::nvvm_barrier0);
#endif
}

}  // namespace tiny
#endif
