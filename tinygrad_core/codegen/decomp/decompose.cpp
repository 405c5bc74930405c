// Which operators are decomposed, and into what.
#include "codegen/decomp.h"

#include "base/error.h"
#include "codegen/decomp/functions.h"

namespace tiny {
namespace {


struct Unary {
  Op op;
  DType dtype;
  U (*write)(U);
};
constexpr Unary kUnary[] = {
  {Op::EXP, DType::f32, decomp::exp_f32},     {Op::EXP2, DType::f32, decomp::exp2_f32},   {Op::EXPM1, DType::f32, decomp::expm1_f32},
  {Op::LOG, DType::f32, decomp::log_f32},     {Op::LOG2, DType::f32, decomp::log2_f32},   {Op::LOG10, DType::f32, decomp::log10_f32},
  {Op::LOG1P, DType::f32, decomp::log1p_f32}, {Op::SIN, DType::f32, decomp::sin_f32},     {Op::COS, DType::f32, decomp::cos_f32},
  {Op::TAN, DType::f32, decomp::tan_f32},     {Op::ASIN, DType::f32, decomp::asin_f32},   {Op::ACOS, DType::f32, decomp::acos_f32},
  {Op::ATAN, DType::f32, decomp::atan_f32},   {Op::SINH, DType::f32, decomp::sinh_f32},   {Op::COSH, DType::f32, decomp::cosh_f32},
  {Op::TANH, DType::f32, decomp::tanh_f32},   {Op::ASINH, DType::f32, decomp::asinh_f32}, {Op::ACOSH, DType::f32, decomp::acosh_f32},
  {Op::ATANH, DType::f32, decomp::atanh_f32}, {Op::ERF, DType::f32, decomp::erf_f32},     {Op::ERFC, DType::f32, decomp::erfc_f32},
  {Op::EXP, DType::f64, decomp::exp_f64},     {Op::LOG, DType::f64, decomp::log_f64},
};

/// The same for targets without a C library.
constexpr Unary kWithoutLibrary[] = {
  {Op::EXP2, DType::f64, decomp::exp2_f64},   {Op::EXPM1, DType::f64, decomp::expm1_f64}, {Op::LOG2, DType::f64, decomp::log2_f64},
  {Op::LOG10, DType::f64, decomp::log10_f64}, {Op::LOG1P, DType::f64, decomp::log1p_f64}, {Op::TANH, DType::f64, decomp::tanh_f64},
  {Op::SINH, DType::f64, decomp::sinh_f64},   {Op::COSH, DType::f64, decomp::cosh_f64},   {Op::ASINH, DType::f64, decomp::asinh_f64},
  {Op::ACOSH, DType::f64, decomp::acosh_f64}, {Op::ATANH, DType::f64, decomp::atanh_f64}, {Op::SIN, DType::f64, decomp::sin_f64},
  {Op::LGAMMA, DType::f32, decomp::lgamma_f32}, {Op::ERF, DType::f64, decomp::erf_f64},  {Op::ERFC, DType::f64, decomp::erfc_f64},
  {Op::COS, DType::f64, decomp::cos_f64},     {Op::TAN, DType::f64, decomp::tan_f64},     {Op::ASIN, DType::f64, decomp::asin_f64},
  {Op::ACOS, DType::f64, decomp::acos_f64},   {Op::ATAN, DType::f64, decomp::atan_f64},
};

class Decomposer {
 public:
  explicit Decomposer(const Caps& caps) : caps_(caps) {}

  UOp* run(UOp* sink) {
    std::vector<UOp*> order = toposort({&sink, 1}), made(current_arena().size()), src;
    for (UOp* u : order) {
      src.clear();
      bool changed = false;
      for (UOp* s : u->sources()) src.push_back(made[s->slot]), changed |= src.back() != s;
      made[u->slot] = rewrite(u, changed, src);
    }
    return made[sink->slot];
  }

 private:
  /// `u` with decomposed sources, itself decomposed.
  UOp* rewrite(UOp* u, bool changed, std::span<UOp* const> src) {
    U v = changed ? node(u->op, u->dtype, src, u->arg, u->numel) : U(u);
    if (changed && is_elementwise(u->op)) v = simplify_node(v);
    if ((v->is(Op::FOLD) || v->is(Op::FOLDLANES) || v->is(Op::PREFIX)) && is_reduced_float(v->dtype)) return wide_reduction(v);
    return is_elementwise(v->op) ? elementwise(v) : v;
  }

  /// A reduction of reduced floats runs in f32 and is rounded once.
  UOp* wide_reduction(UOp* u) {
    std::vector<UOp*> src(u->sources().begin(), u->sources().end());
    src[0] = convert(src[0], DType::f32);
    return convert(node(u->op, DType::f32, src, u->arg, u->numel), u->dtype);
  }

  U elementwise(UOp* u) {
    if (u->is(Op::CAST)) return convert(u->src[0], u->dtype);
    if (u->is(Op::BITCAST) || u->is(Op::WHERE)) return u;
    if (is_reduced_float(u->src[0]->dtype)) return through_f32(u);
    return arithmetic(u);
  }

  /// Reduced floats are computed in f32 and rounded after the operator; comparisons are exact.
  U through_f32(UOp* u) {
    std::vector<UOp*> src;
    for (UOp* s : u->sources()) src.push_back(convert(s, DType::f32));
    DType d = is_reduced_float(u->dtype) ? DType::f32 : u->dtype;
    UOp* wide = simplify_node(node(u->op, d, src, u->arg, u->numel));
    return convert(is_elementwise(wide->op) ? elementwise(wide) : U(wide), u->dtype);
  }

  U arithmetic(UOp* u) {
    DType d = u->dtype;
    if (caps_.has_exp && d == DType::f32 && (u->is(Op::EXP) || u->is(Op::EXP2) || u->is(Op::TANH))) return u;
    for (const Unary& row : kUnary)
      if (row.op == u->op && row.dtype == d) return row.write(u->src[0]);
    if (caps_.has_local)
      for (const Unary& row : kWithoutLibrary)
        if (row.op == u->op && row.dtype == d) return row.write(u->src[0]);
    switch (u->op) {
      case Op::POW:
        if (d == DType::f32) return decomp::pow_f32(u->src[0], u->src[1]);
        return caps_.has_local ? decomp::pow_f64(u->src[0], u->src[1]) : U(u);
      case Op::ATAN2:
        if (d == DType::f32) return decomp::atan2_f32(u->src[0], u->src[1]);
        return caps_.has_local ? decomp::atan2_f64(u->src[0], u->src[1]) : U(u);
      case Op::DOT2: return has_dot2(u->numel) ? U(u) : decomp::dot2(u->src[0], u->src[1], u->src[2]);
      case Op::THREEFRY: return decomp::threefry_u64(u->src[0], u->src[1]);
      case Op::MAX: case Op::MIN: return is_float(d) ? decomp::float_extreme(u->op, u->src[0], u->src[1]) : U(u);
      case Op::IDIV: return decomp::integer_divide(u->src[0], u->src[1]);
      case Op::MOD:
        if (d == DType::f32 && caps_.has_local) return decomp::fmod_f32(u->src[0], u->src[1]);
        return is_float(d) ? U(u) : decomp::integer_modulo(u->src[0], u->src[1]);
      case Op::SHL: case Op::SHR: return decomp::shift(u->op, u->src[0], u->src[1]);
      default: return u;
    }
  }

  bool has_dot2(int64_t lanes) const {
    const int64_t widest = caps_.vector_bytes / 4;
    return caps_.has_dot2 && (lanes == widest || lanes == widest / 2 || lanes == widest / 4);
  }

  /// CAST, with the formats that the target does not convert written out. All reduced floats pass through f32.
  U convert(U x, DType to) {
    DType from = x->dtype;
    if (from == to) return x;
    if (written_out(from)) return convert(decomp::small_float_to_f32(x), to);
    if (written_out(to)) return decomp::f32_to_small_float(convert(x, DType::f32), to);
    return tiny::cast(x, to);
  }
  bool written_out(DType d) const { return d == DType::f8e4m3 || d == DType::f8e5m2 || (d == DType::f16 && !caps_.has_f16); }

  const Caps& caps_;
};

}  // namespace

UOp* decompose(UOp* sink, const Caps& caps) { return Decomposer(caps).run(sink); }

}  // namespace tiny
