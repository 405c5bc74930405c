#include "uop/dtype.h"

#include <algorithm>

namespace tiny {

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_bool(a)) return b;
  if (is_bool(b)) return a;
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  if (is_float(a)) {
    if (info(a).bits == info(b).bits) return DType::f32;  // f16 with bf16
    return info(a).bits > info(b).bits ? a : b;
  }
  if (is_signed(a) == is_signed(b)) return info(a).bits > info(b).bits ? a : b;
  DType s = is_signed(a) ? a : b, u = is_signed(a) ? b : a;
  if (info(s).bits > info(u).bits) return s;
  switch (info(u).bits) {  // a signed type that holds both
    case 8: return DType::i16;
    case 16: return DType::i32;
    default: return DType::i64;
  }
}

DType dtype_by_name(std::string_view name) {
  for (size_t i = 0; i < static_cast<size_t>(DType::count); ++i)
    if (name == kDTypes[i].name || (name == "bool" && kDTypes[i].kind == DTypeKind::Bool) || (name == "void" && i == 0))
      return static_cast<DType>(i);
  return DType::count;
}

}  // namespace tiny
