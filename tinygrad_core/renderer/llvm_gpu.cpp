// The frame of a GPU kernel: every lane runs the function once. Parameters are the buffers, then the scalars as i64.
#ifdef TINY_HAVE_LLVM
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

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

void LlvmEmitter::barrier() {
#if LLVM_VERSION_MAJOR >= 21
  b_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, llvm::ArrayRef<Type*>(), {b_.getInt32(0)});
#else
  intrinsic(llvm::Intrinsic::nvvm_barrier0);
#endif
}

}  // namespace tiny
#endif
