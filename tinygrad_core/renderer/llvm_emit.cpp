#ifdef TINY_HAVE_LLVM
#include "renderer/llvm_emit.h"

#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/MDBuilder.h>

#include "uop/symbolic.h"

namespace tiny {
using llvm::BasicBlock, llvm::Type, llvm::Value;

namespace {
constexpr const char* kArguments[] = {"buffers", "scalars", "begin", "end", "scratch"};

/// `a` may be read at scalar lanes one by one without making the vector: index arithmetic that distributes over lanes.
bool splits_into_lanes(UOp* u) {
  return u->numel > 1 && (u->is(Op::LANES) || u->is(Op::ADD) || u->is(Op::SUB) || u->is(Op::MUL) || u->is(Op::STACK));
}
}  // namespace

LlvmEmitter::LlvmEmitter(const Program& program, const Caps& caps, llvm::Module& module)
    : program_(program), caps_(caps), module_(module), context_(module.getContext()), b_(context_) {
  size_t slots = slot_count(program);
  values_.resize(slots), loops_.resize(slots);
  local_offsets_ = local_offsets(program);
  for (UOp* u : program.linear)
    if (u->is(Op::PARAM)) param_count_ = std::max<size_t>(param_count_, u->arg.i + 1);
  params_.resize(param_count_);
}

void LlvmEmitter::run() {
  if (caps_.has_local) {
    open_gpu_kernel();
    for (UOp* u : program_.linear) emit(u);
  } else {
    open_function();
    Loop groups = open_loop(function_->getArg(2), function_->getArg(3), true);
    split_number(groups.counter, ranges_of(program_, Axis::Global));
    for (UOp* u : program_.linear) emit(u);
    close_loop(groups);
  }
  b_.CreateRetVoid();
  b_.SetInsertPoint(entry_);
  b_.CreateBr(entry_->getNextNode());
}

/// Signature and buffer addresses.
void LlvmEmitter::open_function() {
  Type *ptr = b_.getPtrTy(), *i64 = b_.getInt64Ty();
  auto* ft = llvm::FunctionType::get(b_.getVoidTy(), {ptr, ptr, i64, i64, ptr}, false);
  function_ = llvm::Function::Create(ft, llvm::Function::ExternalLinkage, program_.info.name, module_);
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  function_->addFnAttr(llvm::Attribute::MustProgress);
  for (int i = 0; i < 5; ++i) function_->getArg(i)->setName(kArguments[i]);
  entry_ = BasicBlock::Create(context_, "entry", function_);
  b_.SetInsertPoint(entry_);
  auto* empty = llvm::MDNode::get(context_, {});
  for (UOp* u : program_.linear) {
    if (!u->is(Op::PARAM) || params_[u->arg.i]) continue;
    auto* p = b_.CreateLoad(ptr, b_.CreateConstInBoundsGEP1_64(ptr, function_->getArg(0), u->arg.i), "p" + llvm::Twine(u->arg.i));
    p->setMetadata(llvm::LLVMContext::MD_invariant_load, empty);
    params_[u->arg.i] = p;
  }
  scratch_ = function_->getArg(4);
  make_alias_scopes();
  b_.SetInsertPoint(BasicBlock::Create(context_, "start", function_));
}

/// Different arrays never overlap (see renderer.h), which lets LLVM move loads over stores.
void LlvmEmitter::make_alias_scopes() {
  llvm::MDBuilder md(context_);
  llvm::MDNode* domain = md.createAnonymousAliasScopeDomain(program_.info.name);
  size_t arrays = param_count_ + local_offsets_.size();
  std::vector<llvm::Metadata*> scopes;
  for (size_t i = 0; i < arrays; ++i) scopes.push_back(md.createAnonymousAliasScope(domain));
  for (size_t i = 0; i < arrays; ++i) {
    std::vector<llvm::Metadata*> others = scopes;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    own_scope_.push_back(llvm::MDNode::get(context_, scopes[i]));
    other_scopes_.push_back(llvm::MDNode::get(context_, others));
  }
}

/// A loop in rotated form, as LLVM's passes want it: one test before (if it may be empty) and one at the end of each turn.
LlvmEmitter::Loop LlvmEmitter::open_loop(Value* begin, Value* extent, bool may_be_empty) {
  Loop l;
  BasicBlock* before = b_.GetInsertBlock();
  l.body = BasicBlock::Create(context_, "loop", function_);
  l.exit = BasicBlock::Create(context_, "exit", function_);
  l.extent = extent;
  if (may_be_empty) {
    b_.CreateCondBr(b_.CreateICmpSLT(begin, extent), l.body, l.exit);
  } else {
    b_.CreateBr(l.body);
  }
  b_.SetInsertPoint(l.body);
  l.counter = b_.CreatePHI(extent->getType(), 2, "i");
  l.counter->addIncoming(begin, before);
  return l;
}

void LlvmEmitter::close_loop(const Loop& l) {
  Value* next = b_.CreateAdd(l.counter, llvm::ConstantInt::get(l.counter->getType(), 1), "next", true, true);
  if (l.once) {
    b_.CreateBr(l.exit);
  } else {
    l.counter->addIncoming(next, b_.GetInsertBlock());
    b_.CreateCondBr(b_.CreateICmpSLT(next, l.extent), l.body, l.exit);
  }
  b_.SetInsertPoint(l.exit);
}

/// `ranges` are digits of a number (of a workgroup, of a lane), the last the fastest; 32-bit division where all numbers fit.
void LlvmEmitter::split_number(Value* number, const std::vector<UOp*>& ranges) {
  int64_t all = 1;
  for (UOp* r : ranges) {
    TINY_ASSERT(r->src[0]->is(Op::CONST), program_.info.name + ": extent of a Global or Local range is no constant");
    all *= const_int(r->src[0]);
  }
  Type* t = all <= INT32_MAX ? b_.getInt32Ty() : b_.getInt64Ty();
  Value* rest = b_.CreateZExtOrTrunc(number, t);
  for (size_t i = ranges.size(); i-- > 0;) {
    Value* n = llvm::ConstantInt::get(t, static_cast<uint64_t>(const_int(ranges[i]->src[0])));
    Value* digit = i == 0 ? rest : b_.CreateURem(rest, n);
    if (i > 0) rest = b_.CreateUDiv(rest, n);
    values_[ranges[i]->slot] = b_.CreateZExtOrTrunc(digit, type(ranges[i]->dtype), "g");
  }
}

void LlvmEmitter::emit(UOp* u) {
  switch (u->op) {
    case Op::CONST: case Op::PARAM: case Op::LOCAL: case Op::INDEX: case Op::NOOP: case Op::LANES:
      return;  // made where they are used
    case Op::BARRIER:
      if (caps_.has_local) barrier();
      return;
    case Op::COPY: return copy_async(u);
    case Op::COMMIT: return void(intrinsic(llvm::Intrinsic::nvvm_cp_async_commit_group));
    case Op::WAIT: return wait_for_copies(u->arg.i);
    case Op::LANE:
      if (!u->src[0]->is(Op::ACC)) return;  // an accumulator's lane is read here, others where they are used
      values_[u->slot] = emit_value(u);
      return;
    case Op::RANGE: {
      if (range_axis(u) == Axis::Global || (caps_.has_local && range_axis(u) == Axis::Local)) return;
      transposed_.clear();
      Value* extent = value(u->src[0]);
      extent = b_.CreateSExtOrTrunc(extent, type(u->dtype));
      bool may_be_empty = !u->src[0]->is(Op::CONST) || const_int(u->src[0]) <= 0;
      Loop l = open_loop(llvm::ConstantInt::get(extent->getType(), 0), extent, may_be_empty);
      l.once = caps_.has_local && u->src[0]->is(Op::CAST) && is_bool(u->src[0]->src[0]->dtype);
      loops_[u->slot] = l, values_[u->slot] = l.counter;
      return;
    }
    case Op::END: {
      UOp* r = u->src[0];
      TINY_ASSERT(r->is(Op::RANGE), "END of what is no loop");
      if (loops_[r->slot].body) close_loop(loops_[r->slot]);
      transposed_.clear();
      if (fixed_sums_ && std::find(fixed_sums_->src + 1, fixed_sums_->src + fixed_sums_->nsrc, r) != fixed_sums_->src + fixed_sums_->nsrc)
        finish_fixed_sums();
      return;
    }
    case Op::ACC: {
      if (u == fixed_sums_) return start_fixed_sums();
      llvm::IRBuilder<>::InsertPointGuard guard(b_);
      b_.SetInsertPoint(entry_);
      values_[u->slot] = b_.CreateAlloca(type(u->dtype, u->numel), nullptr, "acc");
      break;
    }
    case Op::STORE: return store(u);
    case Op::AFTER:
      if (is_array(u)) return;
      [[fallthrough]];
    default: values_[u->slot] = emit_value(u); return;
    case Op::UPDATE:
      if (u->src[0] == fixed_sums_) return;
      break;
  }
  // ACC and UPDATE assign
  UOp* acc = u->is(Op::ACC) ? u : u->src[0];
  UOp* v = u->is(Op::ACC) ? u->src[0] : u->src[1];
  b_.CreateStore(value(v, acc->numel), values_[acc->slot]);
}

Value* LlvmEmitter::emit_value(UOp* u) {
  switch (u->op) {
    case Op::VAR: {
      if (caps_.has_local) return b_.CreateBitCast(vars_[u->arg.i], type(u->dtype));
      Value* p = b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), function_->getArg(1), u->arg.i);
      auto* l = b_.CreateLoad(type(u->dtype), p, "var");
      l->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
      return l;
    }
    case Op::AFTER: return u->src[0] == fixed_sums_ ? read_fixed_sums() : value(u->src[0]);
    case Op::BLOCK: return block(u);
    case Op::LOAD: return load(u);
    case Op::FOLDLANES: return fold_lanes(u);
    case Op::LANE: return b_.CreateExtractElement(value(u->src[0]), u->arg.i);
    case Op::STACK: return stack(u);
    default: return alu(u);
  }
}

// ---- memory

Value* LlvmEmitter::pointer(UOp* array, Value* index) {
  Value* base = array->is(Op::PARAM) ? params_[array->arg.i]
                                     : b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), scratch_, local_offsets_[array->arg.i]);
  if (!index->getType()->isIntegerTy(64)) index = b_.CreateSExt(index, b_.getInt64Ty());
  return b_.CreateInBoundsGEP(memory_type(array->dtype), base, index);
}

llvm::Instruction* LlvmEmitter::tag(llvm::Instruction* access, UOp* array) {
  size_t i = array->is(Op::PARAM) ? array->arg.i : param_count_ + array->arg.i;
  access->setMetadata(llvm::LLVMContext::MD_alias_scope, own_scope_[i]);
  if (other_scopes_[i]->getNumOperands()) access->setMetadata(llvm::LLVMContext::MD_noalias, other_scopes_[i]);
  return access;
}

/// Lane `lane` of an index as a scalar: arithmetic on lane numbers becomes constants that addressing modes take in.
Value* LlvmEmitter::index_lane(UOp* u, int64_t lane) {
  if (u->numel == 1) return value(u);
  if (u->is(Op::LANES)) return llvm::ConstantInt::get(type(u->dtype), static_cast<uint64_t>(lane));
  if (u->is(Op::STACK) && u->nsrc == u->numel) return value(u->src[lane]);
  if (splits_into_lanes(u) && !u->is(Op::STACK)) return binary(u->op, u->dtype, index_lane(u->src[0], lane), index_lane(u->src[1], lane));
  return b_.CreateExtractElement(value(u), lane);
}

Value* LlvmEmitter::load(UOp* u) {
  Access a(u);
  bool branches = a.gate && a.gate->numel == 1 && !a.gate->is(Op::CONST);
  if (!branches) {
    if (a.gate && a.gate->numel == 1) return a.other ? value(a.other, a.lanes) : llvm::Constant::getNullValue(type(u->dtype, a.lanes));
    return load_lanes(a);
  }
  Value* other = a.other ? value(a.other, a.lanes) : llvm::Constant::getNullValue(type(u->dtype, a.lanes));
  BasicBlock* then = BasicBlock::Create(context_, "then", function_);
  BasicBlock* join = BasicBlock::Create(context_, "join", function_);
  b_.CreateCondBr(value(a.gate), then, join);
  BasicBlock* before = b_.GetInsertBlock();
  b_.SetInsertPoint(then);
  a.gate = nullptr;
  Value* loaded = load_lanes(a);
  then = b_.GetInsertBlock();
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
  auto* phi = b_.CreatePHI(loaded->getType(), 2);
  phi->addIncoming(loaded, then), phi->addIncoming(other, before);
  return phi;
}

/// GPUs trap on, or split, a wide access that is not known to be aligned; arrays themselves are.
llvm::Align LlvmEmitter::alignment(const Access& a) const {
  int64_t size = itemsize(a.array->dtype), elements = 1;
  if (caps_.has_local && a.index->numel == 1)
    while (elements < a.lanes && elements * size < 16 && known_factor(a.index) % (2 * elements) == 0) elements *= 2;
  return llvm::Align(static_cast<uint64_t>(size * elements));
}

/// A load whose gate, if any, is one bit a lane.
Value* LlvmEmitter::load_lanes(const Access& a) {
  stop_beyond(a);
  DType d = a.array->dtype;
  Type *element = memory_type(d), *vector = memory_type(d, a.lanes);
  llvm::Align align = alignment(a);
  Value* other = nullptr;
  if (a.gate) other = a.other ? to_memory(value(a.other, a.lanes), d) : llvm::Constant::getNullValue(vector);
  if (a.index->numel == 1) {
    Value* p = pointer(a.array, value(a.index));
    llvm::Instruction* l = a.gate ? static_cast<llvm::Instruction*>(b_.CreateMaskedLoad(vector, p, align, value(a.gate, a.lanes), other))
                                  : b_.CreateAlignedLoad(vector, p, align);
    return from_memory(tag(l, a.array), d);
  }
  if (a.gate) {
    Value* pointers = llvm::PoisonValue::get(llvm::FixedVectorType::get(b_.getPtrTy(), a.lanes));
    for (int64_t i = 0; i < a.lanes; ++i) pointers = b_.CreateInsertElement(pointers, pointer(a.array, index_lane(a.index, i)), i);
    return from_memory(tag(b_.CreateMaskedGather(vector, pointers, align, value(a.gate, a.lanes), other), a.array), d);
  }
  Value* v = llvm::PoisonValue::get(vector);
  for (int64_t i = 0; i < a.lanes; ++i) {
    Value* l = tag(b_.CreateAlignedLoad(element, pointer(a.array, index_lane(a.index, i)), align), a.array);
    v = b_.CreateInsertElement(v, l, i);
  }
  return from_memory(v, d);
}

void LlvmEmitter::store(UOp* u) {
  Access a(u);
  if (!a.gate || a.gate->numel > 1) return store_lanes(a);
  if (a.gate->is(Op::CONST)) return;  // never
  BasicBlock* then = BasicBlock::Create(context_, "then", function_);
  BasicBlock* join = BasicBlock::Create(context_, "join", function_);
  b_.CreateCondBr(value(a.gate), then, join);
  b_.SetInsertPoint(then);
  a.gate = nullptr;
  store_lanes(a);
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
}

void LlvmEmitter::store_lanes(const Access& a) {
  stop_beyond(a);
  DType d = a.array->dtype;
  llvm::Align align = alignment(a);
  Value* v = to_memory(value(a.value, a.lanes), d);
  if (a.index->numel == 1) {
    Value* p = pointer(a.array, value(a.index));
    llvm::Instruction* s = nullptr;
    if (a.gate) {
      s = b_.CreateMaskedStore(v, p, align, value(a.gate, a.lanes));
    } else {
      s = b_.CreateAlignedStore(v, p, align);
    }
    tag(s, a.array);
    return;
  }
  Value* gate = a.gate ? value(a.gate, a.lanes) : nullptr;
  for (int64_t i = 0; i < a.lanes; ++i) {  // in order: the last of two lanes with one index wins
    BasicBlock* join = nullptr;
    if (gate) {
      BasicBlock* then = BasicBlock::Create(context_, "then", function_);
      join = BasicBlock::Create(context_, "join", function_);
      b_.CreateCondBr(b_.CreateExtractElement(gate, i), then, join);
      b_.SetInsertPoint(then);
    }
    Value* element = lanes_of(v) > 1 ? b_.CreateExtractElement(v, i) : v;
    tag(b_.CreateAlignedStore(element, pointer(a.array, index_lane(a.index, i)), align), a.array);
    if (gate) b_.CreateBr(join), b_.SetInsertPoint(join);
  }
}

// ---- values

Value* LlvmEmitter::value(UOp* u) {
  if (u->is(Op::CONST)) return constant(u, u->numel);
  if (u->is(Op::LANES)) {
    std::vector<llvm::Constant*> lanes;
    for (int64_t i = 0; i < u->numel; ++i) lanes.push_back(llvm::ConstantInt::get(type(u->dtype), static_cast<uint64_t>(i)));
    return u->numel == 1 ? lanes[0] : llvm::ConstantVector::get(lanes);
  }
  if (u->is(Op::LANE) && !u->src[0]->is(Op::ACC)) return emit_value(u);
  Value* v = values_[u->slot];
  TINY_ASSERT(v, program_.info.name + ": a value is used before its place in the linear list:\n" + print(u));
  return u->is(Op::ACC) ? b_.CreateLoad(type(u->dtype, u->numel), v) : v;
}

Value* LlvmEmitter::value(UOp* u, int64_t n) {
  if (u->is(Op::CONST)) return constant(u, n);
  return splat(value(u), n);
}

Value* LlvmEmitter::splat(Value* v, int64_t n) {
  int64_t have = lanes_of(v);
  TINY_ASSERT(have == n || have == 1, program_.info.name + ": sources of different lanes");
  return have == n ? v : b_.CreateVectorSplat(static_cast<unsigned>(n), v);
}

Value* LlvmEmitter::to_memory(Value* v, DType d) { return is_bool(d) ? b_.CreateZExt(v, memory_type(d, lanes_of(v))) : v; }

Value* LlvmEmitter::from_memory(Value* v, DType d) {
  return is_bool(d) ? b_.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType())) : v;
}

Type* LlvmEmitter::type(DType d, int64_t n) {
  Type* t = is_bool(d) ? b_.getInt1Ty() : memory_type(d);
  return n == 1 ? t : llvm::FixedVectorType::get(t, static_cast<unsigned>(n));
}

Type* LlvmEmitter::memory_type(DType d, int64_t n) {
  Type* t = d == DType::f32 ? b_.getFloatTy() : d == DType::f64 ? b_.getDoubleTy() : static_cast<Type*>(b_.getIntNTy(info(d).bits));
  return n == 1 ? t : llvm::FixedVectorType::get(t, static_cast<unsigned>(n));
}

void LlvmEmitter::unknown(const UOp* u) {
  TINY_ASSERT(false, program_.info.name + ": the LLVM renderer cannot spell\n" + print(u));
  __builtin_unreachable();
}

}  // namespace tiny
#endif
