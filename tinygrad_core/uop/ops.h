// The operators, from ops.def, and what is known of each.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tiny {

enum class Op : uint8_t {
#define OP(name, nsrc, groups, arg, meaning) name,
#include "uop/ops.def"
  count
};

namespace group {
enum Group : uint32_t {
  Graph = 1, Kernel = 2, Unary = 4, Binary = 8, Ternary = 16, Comm = 32, Assoc = 64, Red = 128, Cmp = 256, Trans = 512,
  Elementwise = Unary | Binary | Ternary,
};
}

enum class ArgKind : uint8_t { None, Int, Bits, Rec, Buf };

struct OpInfo {
  const char* name;
  int nsrc;  // -1: any number
  uint32_t groups;
  ArgKind arg;
  const char* meaning;
};

namespace detail {
inline constexpr int ANY = -1;
using namespace group;
inline constexpr OpInfo kOps[] = {
#define OP(name, nsrc, groups, arg, meaning) {#name, nsrc, groups, ArgKind::arg, meaning},
#include "uop/ops.def"
};
}  // namespace detail

constexpr const OpInfo& info(Op op) { return detail::kOps[static_cast<size_t>(op)]; }
constexpr bool has(Op op, uint32_t groups) { return (info(op).groups & groups) != 0; }
/// Unary, binary and ternary arithmetic with casts; CHECK is not among them.
constexpr bool is_elementwise(Op op) { return has(op, group::Elementwise); }

}  // namespace tiny
