// Operators that the CPU renderers spell as calls of the C library, and the functions behind them.
#pragma once
#include <math.h>

#include <span>

#include "uop/ops.h"

namespace tiny {

struct LibmRow {
  Op op;
  const char *f64, *f32;      // C names
  void *f64_code, *f32_code;
};

inline std::span<const LibmRow> libm_rows() {
#define ROW(op, name) LibmRow{Op::op, #name, #name "f", reinterpret_cast<void*>(static_cast<double (*)(double)>(&::name)), \
                              reinterpret_cast<void*>(static_cast<float (*)(float)>(&::name##f))}
#define ROW2(op, name) LibmRow{Op::op, #name, #name "f", reinterpret_cast<void*>(static_cast<double (*)(double, double)>(&::name)), \
                               reinterpret_cast<void*>(static_cast<float (*)(float, float)>(&::name##f))}
  static const LibmRow rows[] = {
    ROW(EXP, exp), ROW(EXP2, exp2), ROW(EXPM1, expm1), ROW(LOG, log), ROW(LOG2, log2), ROW(LOG10, log10), ROW(LOG1P, log1p),
    ROW(SIN, sin), ROW(COS, cos), ROW(TAN, tan), ROW(ASIN, asin), ROW(ACOS, acos), ROW(ATAN, atan),
    ROW(SINH, sinh), ROW(COSH, cosh), ROW(TANH, tanh), ROW(ASINH, asinh), ROW(ACOSH, acosh), ROW(ATANH, atanh),
    ROW(ERF, erf), ROW(ERFC, erfc), ROW(LGAMMA, lgamma),
    ROW2(POW, pow), ROW2(ATAN2, atan2), ROW2(MOD, fmod),
    // what rounding becomes on processors without an instruction for it
    ROW(FLOOR, floor), ROW(CEIL, ceil), ROW(TRUNC, trunc), ROW(ROUND, rint),
  };
#undef ROW
#undef ROW2
  return rows;
}

inline const LibmRow* libm_row(Op op) {
  for (const LibmRow& r : libm_rows())
    if (r.op == op) return &r;
  return nullptr;
}

}  // namespace tiny
