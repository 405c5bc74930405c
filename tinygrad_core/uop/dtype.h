// Data types. One byte; everything else about a type is read from dtype.def.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tiny {

enum class DType : uint8_t {
#define DTYPE(name, bits, kind, ctype) name,
#include "uop/dtype.def"
  count
};

enum class DTypeKind : uint8_t { Void, Bool, Unsigned, Signed, Float };

struct DTypeInfo {
  const char* name;   // "f32"
  uint8_t bits;       // size in memory; bool takes a byte
  DTypeKind kind;
  const char* ctype;
};

inline constexpr DTypeInfo kDTypes[] = {
#define DTYPE(name, bits, kind, ctype) {#name, bits, DTypeKind::kind, ctype},
#include "uop/dtype.def"
};

constexpr const DTypeInfo& info(DType d) { return kDTypes[static_cast<size_t>(d)]; }
constexpr int64_t itemsize(DType d) { return info(d).bits / 8; }
constexpr bool is_float(DType d) { return info(d).kind == DTypeKind::Float; }
constexpr bool is_signed(DType d) { return info(d).kind == DTypeKind::Signed; }
constexpr bool is_unsigned(DType d) { return info(d).kind == DTypeKind::Unsigned; }
constexpr bool is_int(DType d) { return is_signed(d) || is_unsigned(d); }  // without bool
constexpr bool is_bool(DType d) { return d == DType::bool_; }
/// Floats of 16 bits or less: stored as they are, computed in f32 and rounded after every operator.
constexpr bool is_reduced_float(DType d) { return is_float(d) && info(d).bits < 32; }

/// The type in which an operator on `d` computes: f32 for reduced floats, else d.
constexpr DType compute_dtype(DType d) { return is_reduced_float(d) ? DType::f32 : d; }

/// The type of an index. Codegen narrows it to i32 in kernels where the bounds prove that it fits.
inline constexpr DType kIndex = DType::i64;

/// Type of `a op b` for two tensors with dimensions, by PyTorch's lattice.
/// Source: torch.promote_types, https://pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
DType promote(DType a, DType b);

/// "f32" -> DType::f32; DType::count for an unknown name.
DType dtype_by_name(std::string_view name);

}  // namespace tiny
