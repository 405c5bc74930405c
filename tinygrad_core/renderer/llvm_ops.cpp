#ifdef TINY_HAVE_LLVM
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "renderer/libm.h"
#include "renderer/llvm_emit.h"
#include "uop/eval.h"

namespace tiny {
using llvm::CmpInst, llvm::Instruction, llvm::Type, llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

namespace {

using B = Instruction::BinaryOps;
constexpr B kNone = Instruction::BinaryOpsEnd;
struct BinaryRow {
  Op op;
  B f, s, u, b;  // for floats, signed, unsigned integers, bool
};
constexpr BinaryRow kBinary[] = {
  {Op::ADD, Instruction::FAdd, Instruction::Add, Instruction::Add, Instruction::Or},
  {Op::SUB, Instruction::FSub, Instruction::Sub, Instruction::Sub, Instruction::Xor},
  {Op::MUL, Instruction::FMul, Instruction::Mul, Instruction::Mul, Instruction::And},
  {Op::FDIV, Instruction::FDiv, kNone, kNone, kNone},
  {Op::IDIV, kNone, Instruction::SDiv, Instruction::UDiv, kNone},
  {Op::MOD, Instruction::FRem, Instruction::SRem, Instruction::URem, kNone},
  {Op::AND, kNone, Instruction::And, Instruction::And, Instruction::And},
  {Op::OR, kNone, Instruction::Or, Instruction::Or, Instruction::Or},
  {Op::XOR, kNone, Instruction::Xor, Instruction::Xor, Instruction::Xor},
  {Op::SHL, kNone, Instruction::Shl, Instruction::Shl, kNone},
  {Op::SHR, kNone, Instruction::AShr, Instruction::LShr, kNone},
};

struct CompareRow {
  Op op;
  CmpInst::Predicate f, s, u;
};
constexpr CompareRow kCompare[] = {
  {Op::CMPLT, CmpInst::FCMP_OLT, CmpInst::ICMP_SLT, CmpInst::ICMP_ULT},
  {Op::CMPLE, CmpInst::FCMP_OLE, CmpInst::ICMP_SLE, CmpInst::ICMP_ULE},
  {Op::CMPEQ, CmpInst::FCMP_OEQ, CmpInst::ICMP_EQ, CmpInst::ICMP_EQ},
  {Op::CMPNE, CmpInst::FCMP_UNE, CmpInst::ICMP_NE, CmpInst::ICMP_NE},
};

struct RoundRow {
  Op op;
  Intrinsic::ID id;
};
constexpr RoundRow kFloatUnary[] = {
  {Op::ABS, Intrinsic::fabs}, {Op::FLOOR, Intrinsic::floor}, {Op::CEIL, Intrinsic::ceil},
  {Op::TRUNC, Intrinsic::trunc}, {Op::ROUND, Intrinsic::roundeven}, {Op::SQRT, Intrinsic::sqrt},
};

bool is_all_twos(Value* v) {
  auto* c = llvm::dyn_cast<llvm::Constant>(v);
  auto* two = c && c->getSplatValue() ? llvm::dyn_cast<llvm::ConstantInt>(c->getSplatValue()) : nullptr;
  return two && two->equalsInt(2);
}

template <class Rows> auto find_row(const Rows& rows, Op op) -> decltype(&rows[0]) {
  for (const auto& r : rows)
    if (r.op == op) return &r;
  return nullptr;
}

}  // namespace

Value* LlvmEmitter::alu(UOp* u) {
  int64_t n = u->numel;
  if (u->is(Op::CAST)) return cast(value(u->src[0], n), u->src[0]->dtype, u->dtype, n);
  if (u->is(Op::BITCAST)) return b_.CreateBitCast(value(u->src[0], n), type(u->dtype, n));
  if (u->is(Op::WHERE)) {
    Value* c = u->src[0]->numel == 1 ? value(u->src[0]) : value(u->src[0], n);
    return b_.CreateSelect(c, value(u->src[1], n), value(u->src[2], n));
  }
  if (u->is(Op::DOT2)) return dot2(u);
  DType d = u->src[0]->dtype;
  bool reduced = is_reduced_float(d);
  TINY_ASSERT(!reduced, program_.info.name + ": arithmetic on a reduced float reached the renderer:\n" + print(u));
  if (u->is(Op::MULACC)) {
    Value *a = value(u->src[0], n), *b = value(u->src[1], n), *c = value(u->src[2], n);
    if (is_float(d) && caps_.has_fma) return b_.CreateIntrinsic(Intrinsic::fma, {a->getType()}, {a, b, c});
    return binary(Op::ADD, d, binary(Op::MUL, d, a, b), c);
  }
  if (caps_.has_exp && u->dtype == DType::f32 && (u->is(Op::EXP) || u->is(Op::EXP2) || u->is(Op::TANH))) return gpu_function(u);
  if (has(u->op, group::Trans)) return libm(u);
  if (has(u->op, group::Unary)) return unary(u, value(u->src[0], n));
  if (has(u->op, group::Binary)) return binary(u->op, d, value(u->src[0], n), value(u->src[1], n));
  unknown(u);
}

/// x86's vdpbf16ps.
Value* LlvmEmitter::dot2(UOp* u) {
  const int64_t n = u->numel;
  const Intrinsic::ID id = n == 16 ? Intrinsic::x86_avx512bf16_dpbf16ps_512
                         : n == 8  ? Intrinsic::x86_avx512bf16_dpbf16ps_256
                                   : Intrinsic::x86_avx512bf16_dpbf16ps_128;
  TINY_ASSERT(n == 16 || n == 8 || n == 4, program_.info.name + ": a DOT2 that belongs to decompose()");
  Type* pairs = llvm::FixedVectorType::get(b_.getBFloatTy(), static_cast<unsigned>(2 * n));
  Value *x = b_.CreateBitCast(value(u->src[0], n), pairs), *y = b_.CreateBitCast(value(u->src[1], n), pairs);
  return b_.CreateIntrinsic(id, {}, {value(u->src[2], n), x, y});
}

Value* LlvmEmitter::unary(UOp* u, Value* a) {
  DType d = u->dtype;
  Type* t = a->getType();
  if (u->is(Op::NOT)) return b_.CreateNot(a);
  if (u->is(Op::NEG)) return is_float(d) ? b_.CreateFNeg(a) : is_bool(d) ? a : b_.CreateNeg(a);
  if (u->is(Op::RECIP)) return b_.CreateFDiv(llvm::ConstantFP::get(t, 1.0), a);
  if (is_float(d)) {
    if (const RoundRow* r = find_row(kFloatUnary, u->op)) return b_.CreateIntrinsic(r->id, {t}, {a});
  }
  if (u->is(Op::ABS)) return is_signed(d) ? b_.CreateIntrinsic(Intrinsic::abs, {t}, {a, b_.getFalse()}) : a;
  unknown(u);
}

Value* LlvmEmitter::binary(Op op, DType d, Value* a, Value* b) {
  if (op == Op::MAX || op == Op::MIN) return extreme(op, d, a, b);
  if (const CompareRow* r = find_row(kCompare, op)) return b_.CreateCmp(is_float(d) ? r->f : is_signed(d) ? r->s : r->u, a, b);
  const BinaryRow* r = find_row(kBinary, op);
  B code = !r ? kNone : is_float(d) ? r->f : is_signed(d) ? r->s : is_bool(d) ? r->b : r->u;
  TINY_ASSERT(code != kNone, program_.info.name + ": no LLVM instruction for " + info(op).name + " on " + info(d).name);
  if (op == Op::IDIV && d == DType::i64 && lanes_of(a) > 1 && is_all_twos(b)) return lane_by_lane(code, a, b);
  return b_.CreateBinOp(code, a, b);
}

/// For halves of i64 vectors, whose division LLVM 22.1.8 drops on x86-64 where it knows that the dividend is an even product of small
/// numbers: x*(x+1)/2 becomes x*(x+1), also with shifts in place of the division (checked by test_renderer.cpp).
Value* LlvmEmitter::lane_by_lane(Instruction::BinaryOps code, Value* a, Value* b) {
  Value* out = llvm::PoisonValue::get(a->getType());
  for (int64_t i = 0; i < lanes_of(a); ++i) {
    Value* q = b_.CreateBinOp(code, b_.CreateExtractElement(a, i), b_.CreateExtractElement(b, i));
    out = b_.CreateInsertElement(out, q, i);
  }
  return out;
}

/// MAX and MIN. Floats: b where it is NaN, else the select that becomes one maxps or minps, whose second operand (a) wins when it is NaN.
Value* LlvmEmitter::extreme(Op op, DType d, Value* a, Value* b) {
  bool max = op == Op::MAX;
  if (is_bool(d)) return max ? b_.CreateOr(a, b) : b_.CreateAnd(a, b);
  if (!is_float(d)) {
    Intrinsic::ID id = is_signed(d) ? (max ? Intrinsic::smax : Intrinsic::smin) : (max ? Intrinsic::umax : Intrinsic::umin);
    return b_.CreateBinaryIntrinsic(id, a, b);
  }
  Value* pick = b_.CreateSelect(max ? b_.CreateFCmpOGT(b, a) : b_.CreateFCmpOLT(b, a), b, a);
  return b_.CreateSelect(b_.CreateFCmpUNO(b, b), b, pick);
}

// ---- conversions

/// C conversion. Reduced floats pass through f32, as PyTorch's do.
Value* LlvmEmitter::cast(Value* v, DType from, DType to, int64_t n) {
  if (from == to) return v;
  if (is_reduced_float(from)) return cast(f32_from(v, from, n), DType::f32, to, n);
  if (is_reduced_float(to)) return f32_to(cast(v, from, DType::f32, n), to, n);
  Type* t = type(to, n);
  if (is_bool(to)) {
    llvm::Constant* zero = llvm::Constant::getNullValue(v->getType());
    return is_float(from) ? b_.CreateFCmpUNE(v, zero) : b_.CreateICmpNE(v, zero);
  }
  if (is_float(from)) return is_float(to) ? b_.CreateFPCast(v, t) : float_to_int(v, to, n);
  if (!is_float(to)) return b_.CreateIntCast(v, t, is_signed(from));
  if (is_bool(from)) return b_.CreateSelect(v, llvm::ConstantFP::get(t, 1.0), llvm::ConstantFP::get(t, 0.0));
  return is_signed(from) ? b_.CreateSIToFP(v, t) : b_.CreateUIToFP(v, t);
}

/// Truncation. Narrow types go through a wider signed one, so that a value out of range wraps as on the host;
/// what no integer holds is some value, never poison.
Value* LlvmEmitter::float_to_int(Value* v, DType to, int64_t n) {
  if (to == DType::u64) {
    llvm::Constant* half = llvm::ConstantFP::get(v->getType(), 0x1p63);
    Value* upper = b_.CreateFCmpOGE(v, half);
    Value* i = float_to_int(b_.CreateSelect(upper, b_.CreateFSub(v, half), v), DType::i64, n);
    llvm::Constant *top = llvm::ConstantInt::get(i->getType(), 1ull << 63), *none = llvm::Constant::getNullValue(i->getType());
    return b_.CreateXor(i, b_.CreateSelect(upper, top, none));
  }
  DType wide = info(to).bits == 64 || to == DType::u32 ? DType::i64 : DType::i32;
  return b_.CreateIntCast(b_.CreateFreeze(b_.CreateFPToSI(v, type(wide, n))), type(to, n), true);
}

Value* LlvmEmitter::f32_from(Value* v, DType from, int64_t n) {
  Type *f32 = type(DType::f32, n), *u32 = type(DType::u32, n);
  if (from == DType::bf16) return b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(v, u32), 16), f32);
  TINY_ASSERT(from == DType::f16 && caps_.has_f16, program_.info.name + ": a CAST that belongs to decompose()");
  Type* half = f32->getWithNewType(b_.getHalfTy());
  return b_.CreateFPExt(b_.CreateBitCast(v, half), f32);
}

Value* LlvmEmitter::f32_to(Value* v, DType to, int64_t n) {
  Type *u16 = type(DType::u16, n), *u32 = type(DType::u32, n);
  if (to == DType::bf16 && caps_.tensor_cores >= 80)  // GPUs that multiply it convert to it
    return b_.CreateBitCast(b_.CreateFPTrunc(v, v->getType()->getWithNewType(b_.getBFloatTy())), u16);
  if (to == DType::bf16) {  // round to nearest even on the bits; a NaN becomes the quiet one
    Value* bits = b_.CreateBitCast(v, u32);
    Value* odd = b_.CreateAnd(b_.CreateLShr(bits, 16), llvm::ConstantInt::get(u32, 1));
    Value* up = b_.CreateAdd(b_.CreateAdd(bits, odd), llvm::ConstantInt::get(u32, 0x7fff));
    Value* rounded = b_.CreateSelect(b_.CreateFCmpUNO(v, v), llvm::ConstantInt::get(u32, 0x7fc00000), up);
    return b_.CreateTrunc(b_.CreateLShr(rounded, 16), u16);
  }
  TINY_ASSERT(to == DType::f16 && caps_.has_f16, program_.info.name + ": a CAST that belongs to decompose()");
  return b_.CreateBitCast(b_.CreateFPTrunc(v, v->getType()->getWithNewType(b_.getHalfTy())), u16);
}

// ---- lanes

/// A call of the C library for each lane.
Value* LlvmEmitter::libm(UOp* u) {
  const LibmRow* row = libm_row(u->op);
  TINY_ASSERT(row, program_.info.name + ": no function for " + info(u->op).name);
  Type* t = type(u->dtype);
  llvm::SmallVector<Type*, 2> types(u->nsrc, t);
  auto callee = module_.getOrInsertFunction(u->dtype == DType::f64 ? row->f64 : row->f32, llvm::FunctionType::get(t, types, false));
  auto* f = llvm::cast<llvm::Function>(callee.getCallee());
  f->setDoesNotThrow(), f->setDoesNotAccessMemory(), f->setWillReturn();
  int64_t n = u->numel;
  llvm::SmallVector<Value*, 2> sources;
  for (UOp* s : u->sources()) sources.push_back(value(s, n));
  if (n == 1) return b_.CreateCall(callee, sources);
  Value* out = llvm::PoisonValue::get(type(u->dtype, n));
  for (int64_t i = 0; i < n; ++i) {
    llvm::SmallVector<Value*, 2> lane;
    for (Value* s : sources) lane.push_back(b_.CreateExtractElement(s, i));
    out = b_.CreateInsertElement(out, b_.CreateCall(callee, lane), i);
  }
  return out;
}

/// Halves are combined until one lane is left; an odd lane joins at the end.
Value* LlvmEmitter::fold_lanes(UOp* u) {
  Op op = static_cast<Op>(u->arg.i);
  Value *v = value(u->src[0]), *odd = nullptr;
  for (int64_t n = lanes_of(v); n > 1; n /= 2) {
    llvm::SmallVector<int, 16> low, high;
    for (int i = 0; i < n / 2; ++i) low.push_back(i), high.push_back(static_cast<int>(n / 2) + i);
    if (n % 2) {
      Value* last = b_.CreateExtractElement(v, n - 1);
      odd = odd ? binary(op, u->dtype, odd, last) : last;
    }
    if (n / 2 == 1) {
      v = binary(op, u->dtype, b_.CreateExtractElement(v, uint64_t{0}), b_.CreateExtractElement(v, 1));
    } else {
      v = binary(op, u->dtype, b_.CreateShuffleVector(v, low), b_.CreateShuffleVector(v, high));
    }
  }
  return odd ? binary(op, u->dtype, v, odd) : v;
}

/// Lanes of the sources one after the other.
Value* LlvmEmitter::stack(UOp* u) {
  auto sources = u->sources();
  if (u->numel == 1) return value(sources[0]);
  bool alike = std::all_of(sources.begin(), sources.end(), [&](UOp* s) { return s == sources[0] && s->numel == 1; });
  if (alike) return splat(value(sources[0]), u->numel);
  if (Value* column = stack_of_columns(u)) return column;
  if (Value* lanes = stack_of_two(u)) return lanes;
  Value* out = llvm::PoisonValue::get(type(u->dtype, u->numel));
  int64_t at = 0;
  for (UOp* s : sources) {
    Value* v = value(s);
    for (int64_t i = 0, n = s->numel; i < n; ++i) out = b_.CreateInsertElement(out, n == 1 ? v : b_.CreateExtractElement(v, i), at++);
  }
  TINY_ASSERT(at == u->numel, program_.info.name + ": STACK of the wrong number of lanes");
  return out;
}

/// Lanes of two vectors, or of one. Null for any other STACK.
Value* LlvmEmitter::stack_of_two(UOp* u) {
  UOp *a = nullptr, *b = nullptr;
  std::vector<int> lanes;
  for (UOp* s : u->sources()) {
    if (!s->is(Op::LANE) || s->src[0]->is(Op::ACC)) return nullptr;
    UOp* from = s->src[0];
    if (!a) a = from;
    if (from != a && !b) b = from;
    if ((from != a && from != b) || from->numel != a->numel) return nullptr;
    lanes.push_back(static_cast<int>(s->arg.i + (from == a ? 0 : a->numel)));
  }
  return b ? b_.CreateShuffleVector(value(a), value(b), lanes) : b_.CreateShuffleVector(value(a), lanes);
}

/// Lane j of each of n vectors of n lanes: a column of a square. The whole square is transposed at the first of them, in n log2 n shuffles:
/// interleaving within 128-bit blocks, where x86 shuffles in one instruction, then exchanging blocks. Null for any other STACK.
Value* LlvmEmitter::stack_of_columns(UOp* u) {
  size_t n = u->nsrc;
  if (n < 4 || (n & (n - 1)) || is_bool(u->dtype)) return nullptr;
  std::vector<UOp*> rows;
  for (UOp* s : u->sources()) {
    if (!s->is(Op::LANE) || s->arg.i != u->src[0]->arg.i || s->src[0]->numel != static_cast<int64_t>(n)) return nullptr;
    if (s->src[0]->is(Op::ACC)) return nullptr;  // it may have changed since
    rows.push_back(s->src[0]);
  }
  size_t block = std::min(n, static_cast<size_t>(16 / itemsize(u->dtype)));
  std::vector<Value*>& v = transposed_[rows];
  if (v.empty()) {
    for (UOp* r : rows) v.push_back(value(r));
    auto exchange = [&](size_t distance, auto low_lane) {  // low_lane(lane): its source; n and above: the second vector
      for (size_t i = 0; i < n; ++i) {
        if (i & distance) continue;
        std::vector<int> low, high;
        for (size_t lane = 0; lane < n; ++lane) {
          auto [from, other] = low_lane(lane);
          low.push_back(static_cast<int>(from)), high.push_back(static_cast<int>(other));
        }
        Value *a = v[i], *b = v[i + distance];
        v[i] = b_.CreateShuffleVector(a, b, low), v[i + distance] = b_.CreateShuffleVector(a, b, high);
      }
    };
    for (size_t s = 1; s < block; s *= 2)  // runs of s lanes of both, alternating, from the lower and the upper half of each block
      exchange(s, [&](size_t lane) {
        size_t at = lane % block, from = lane - at + at / (2 * s) * s + at % s + (at / s % 2 ? n : 0);
        return std::pair(from, from + block / 2);
      });
    for (size_t d = block; d < n; d *= 2)
      exchange(d, [&](size_t lane) { return lane & d ? std::pair(lane - d + n, lane + n) : std::pair(lane, lane + d); });
  }
  size_t column = static_cast<size_t>(u->src[0]->arg.i), reversed = 0;  // interleaving leaves columns of a block in bit-reversed order
  for (size_t bit = 1; bit < block; bit *= 2) reversed = reversed * 2 + (column / bit & 1);
  return v[column / block * block + reversed];
}

Value* LlvmEmitter::constant(const UOp* u, int64_t n) {
  Type* t = type(u->dtype);
  llvm::Constant* c = u->dtype == DType::f32   ? llvm::ConstantFP::get(context_, llvm::APFloat(static_cast<float>(u->arg.f)))
                      : u->dtype == DType::f64 ? llvm::ConstantFP::get(context_, llvm::APFloat(u->arg.f))
                                               : static_cast<llvm::Constant*>(llvm::ConstantInt::get(t, storage_bits(u->arg, u->dtype)));
  return n == 1 ? c : llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(static_cast<unsigned>(n)), c);
}

}  // namespace tiny
#endif
