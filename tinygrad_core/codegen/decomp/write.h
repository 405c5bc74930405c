// Writing arithmetic for decompositions: operators on U beyond those of ir.h, and polynomials.
// Constants are scalars and broadcast; every function here takes vectors of any lanes.
#pragma once
#include <initializer_list>
#include <limits>
#include <utility>

#include "uop/ir.h"
#include "uop/symbolic.h"

namespace tiny::decomp {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// `v` as a constant of x's type.
inline U like(U x, double v) { return const_(x->dtype, v); }
inline U like(U x, int64_t v) { return const_(x->dtype, v); }
inline U like(U x, int v) { return const_(x->dtype, static_cast<int64_t>(v)); }

inline U neg(U x) { return alu(Op::NEG, {x}); }
inline U abs(U x) { return alu(Op::ABS, {x}); }
inline U sqrt(U x) { return alu(Op::SQRT, {x}); }
inline U trunc(U x) { return alu(Op::TRUNC, {x}); }
inline U div(U a, U b) { return alu(Op::FDIV, {a, b}); }
inline U fma(U a, U b, U c) { return alu(Op::MULACC, {a, b, c}); }
inline U fma(U a, double b, U c) { return fma(a, like(a, b), c); }
inline U fma(U a, U b, double c) { return fma(a, b, like(a, c)); }
inline U fma(U a, double b, double c) { return fma(a, like(a, b), like(a, c)); }
inline U mul(U a, double b) { return a * like(a, b); }
inline U add(U a, double b) { return a + like(a, b); }
inline U sub(U a, double b) { return a - like(a, b); }

inline U lt(U a, double b) { return alu(Op::CMPLT, {a, like(a, b)}); }
inline U gt(U a, double b) { return alu(Op::CMPLT, {like(a, b), a}); }
inline U le(U a, U b) { return alu(Op::CMPLE, {a, b}); }
inline U eq(U a, U b) { return alu(Op::CMPEQ, {a, b}); }
inline U eq(U a, double b) { return eq(a, like(a, b)); }
inline U ne(U a, U b) { return alu(Op::CMPNE, {a, b}); }
inline U is_nan(U a) { return ne(a, a); }
inline U logical_not(U a) { return alu(Op::NOT, {a}); }
inline U either(U a, U b) { return alu(Op::OR, {a, b}); }
inline U both(U a, U b) { return alu(Op::AND, {a, b}); }
inline U where(U c, U a, double b) { return tiny::where(c, a, like(a, b)); }
inline U where(U c, double a, U b) { return tiny::where(c, like(b, a), b); }

inline U bits_and(U a, int64_t b) { return alu(Op::AND, {a, like(a, b)}); }
inline U bits_or(U a, U b) { return alu(Op::OR, {a, b}); }
inline U bits_xor(U a, U b) { return alu(Op::XOR, {a, b}); }
inline U shl(U a, int b) { return alu(Op::SHL, {a, like(a, b)}); }
inline U shr(U a, int b) { return alu(Op::SHR, {a, like(a, b)}); }
inline U shl(U a, U b) { return alu(Op::SHL, {a, b}); }
inline U shr(U a, U b) { return alu(Op::SHR, {a, b}); }
inline U bitcast(U x, DType d) { return x->dtype == d ? x : U(simplify_node(node(Op::BITCAST, d, {x}))); }

/// Limits that keep a NaN: it compares false.
inline U at_most(U x, double limit) { return where(gt(x, limit), limit, x); }
inline U at_least(U x, double limit) { return where(lt(x, limit), limit, x); }

/// The sign bit of a float, as an integer of its size.
inline DType bits_type(DType d) { return d == DType::f64 ? DType::i64 : DType::i32; }
inline U sign_bit(U x) {
  return bits_and(bitcast(x, bits_type(x->dtype)), x->dtype == DType::f64 ? INT64_MIN : int64_t{INT32_MIN});
}
/// x with `sign` (from sign_bit) toggled.
inline U flip_sign(U x, U sign) { return bitcast(bits_xor(bitcast(x, sign->dtype), sign), x->dtype); }

/// c[0] + c[1] x + c[2] x^2 + ...
inline U polynomial(U x, std::initializer_list<double> c) {
  const double* p = c.end() - 1;
  U r = like(x, *p);
  while (p != c.begin()) r = fma(r, x, *--p);
  return r;
}

}  // namespace tiny::decomp
