// A Program as an LLVM function. The values of bool are i1, of reduced floats the integers that hold their bits.
// For targets without lanes it is a loop over workgroups (the ABI of renderer.h); for GPUs it is the work of one lane.
#pragma once
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include <map>
#include <vector>

#include "renderer/linear.h"
#include "renderer/renderer.h"

namespace tiny {

class LlvmEmitter {
 public:
  LlvmEmitter(const Program& program, const Caps& caps, llvm::Module& module);
  /// Adds the kernel's function to the module.
  void run();

 private:
  struct Loop {
    llvm::BasicBlock *body, *exit;
    llvm::PHINode* counter;
    llvm::Value* extent;
    bool once = false;  // an "if": at most one turn
  };

  // ---- llvm_gpu.cpp: the frame of a GPU kernel
  void open_gpu_kernel();
  void barrier();
  llvm::Value* intrinsic(llvm::Intrinsic::ID id);
  llvm::Value* gpu_function(UOp* u);
  llvm::Value* gpu_instruction(const char* name, llvm::Value* x);
  llvm::Value* exp_of(Op op, llvm::Value* x);
  llvm::Value* tanh_of(llvm::Value* x);
  void stop_beyond(const Access& a);

  // ---- llvm_blocks.cpp: blocks of matrix products on GPUs
  void find_fixed_sums();
  llvm::Value* assembly(const std::string& text, const std::string& constraints, llvm::ArrayRef<llvm::Value*> operands,
                        llvm::Type* result = nullptr);
  void start_fixed_sums();
  void finish_fixed_sums();
  llvm::Value* read_fixed_sums();
  llvm::Value* block(UOp* u);
  llvm::Value* block_of_lanes(UOp* u);
  llvm::Value* block_of_warps(UOp* u);
  void block_of_warp_groups(UOp* u);
  llvm::Value* tile_address(UOp* index);
  void copy_async(UOp* u);
  void wait_for_copies(int64_t left);

  // ---- llvm_emit.cpp: control, memory
  void open_function();
  void make_alias_scopes();
  void emit(UOp* u);
  llvm::Value* emit_value(UOp* u);
  Loop open_loop(llvm::Value* begin, llvm::Value* extent, bool may_be_empty);
  void close_loop(const Loop& loop);
  void split_number(llvm::Value* number, const std::vector<UOp*>& ranges);
  llvm::Value* load(UOp* u);
  void store(UOp* u);
  llvm::Value* load_lanes(const Access& a);
  void store_lanes(const Access& a);
  llvm::Align alignment(const Access& a) const;
  llvm::Value* pointer(UOp* array, llvm::Value* index);
  llvm::Instruction* tag(llvm::Instruction* access, UOp* array);
  llvm::Value* index_lane(UOp* index, int64_t lane);

  // ---- llvm_ops.cpp: arithmetic
  llvm::Value* alu(UOp* u);
  llvm::Value* dot2(UOp* u);
  llvm::Value* unary(UOp* u, llvm::Value* a);
  llvm::Value* binary(Op op, DType d, llvm::Value* a, llvm::Value* b);
  llvm::Value* lane_by_lane(llvm::Instruction::BinaryOps code, llvm::Value* a, llvm::Value* b);
  llvm::Value* extreme(Op op, DType d, llvm::Value* a, llvm::Value* b);
  llvm::Value* cast(llvm::Value* v, DType from, DType to, int64_t n);
  llvm::Value* f32_from(llvm::Value* v, DType from, int64_t n);
  llvm::Value* f32_to(llvm::Value* v, DType to, int64_t n);
  llvm::Value* float_to_int(llvm::Value* v, DType to, int64_t n);
  llvm::Value* libm(UOp* u);
  llvm::Value* fold_lanes(UOp* u);
  llvm::Value* stack(UOp* u);
  llvm::Value* stack_of_columns(UOp* u);
  llvm::Value* stack_of_two(UOp* u);
  llvm::Value* constant(const UOp* u, int64_t n);

  // ---- values
  llvm::Value* value(UOp* u);             // of u's own lanes
  llvm::Value* value(UOp* u, int64_t n);  // broadcast to n lanes
  llvm::Value* splat(llvm::Value* v, int64_t n);
  llvm::Value* to_memory(llvm::Value* v, DType d);
  llvm::Value* from_memory(llvm::Value* v, DType d);
  llvm::Type* type(DType d, int64_t n = 1);
  llvm::Type* memory_type(DType d, int64_t n = 1);
  [[noreturn]] void unknown(const UOp* u);

  const Program& program_;
  const Caps& caps_;
  llvm::Module& module_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> b_;
  llvm::Function* function_ = nullptr;
  llvm::Value* scratch_ = nullptr;      // of the workgroup: LOCAL arrays
  llvm::GlobalVariable* shared_ = nullptr;  // GPUs: the same, in its address space
  UOp* fixed_sums_ = nullptr;           // ACC whose values have registers that this names, as wgmma needs
  std::vector<llvm::Value*> vars_;      // GPUs: by VAR number, as i64
  llvm::BasicBlock* entry_ = nullptr;
  std::vector<llvm::Value*> values_;    // by slot; an ACC's is its alloca
  std::vector<Loop> loops_;             // by slot of RANGE
  std::vector<llvm::Value*> params_;    // by PARAM number
  std::vector<int64_t> local_offsets_;
  std::map<std::vector<UOp*>, std::vector<llvm::Value*>> transposed_;  // columns of rows, within the loop being written
  std::vector<llvm::MDNode*> own_scope_, other_scopes_;  // by array: PARAMs, then LOCALs
  size_t param_count_ = 0;
};

/// Lanes of a vector value, 1 for a scalar.
inline int64_t lanes_of(llvm::Value* v) {
  auto* t = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  return t ? t->getNumElements() : 1;
}

}  // namespace tiny
