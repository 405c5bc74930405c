// Kernels that differ only in numbers: sizes, strides, offsets, constants. One program can serve them all, with the numbers as arguments.
#pragma once
#include <optional>
#include <vector>

#include "base/hash.h"
#include "uop/ir.h"

namespace tiny {

/// A kernel as its form and the numbers in it, in the order of its graph. Kernels of one form have as many numbers, of the same kinds.
struct KernelNumbers {
  /// Extent: of a RANGE. Length: of a LOCAL array. Integer: any other i64. Float: f32 or f64, as the bits of its double.
  enum class Kind : uint8_t { Extent, Length, Integer, Float };
  struct Number {
    Kind kind;
    int64_t value;
    bool operator==(const Number&) const = default;
  };
  Hash128 form;
  std::vector<Number> numbers;
};
/// `vars`: VARs that the kernel is called with, whether it uses them or not; kernels of one form have as many.
KernelNumbers numbers_of(UOp* sink, int vars);

/// What the numbers of several kernels of one form have in common: which are the same in all, which are arguments, and which follow from
/// others as a * x + b. Arguments have bounds, so that index arithmetic can still be simplified.
class SymbolicKernel {
 public:
  /// `examples`: numbers of at least one kernel, all of one form. With `all_extents`, extents are arguments even if they do not differ.
  explicit SymbolicKernel(const std::vector<std::vector<KernelNumbers::Number>>& examples, bool all_extents = false);

  /// The arguments with which this kernel computes what one with these numbers does, as a program takes them; nothing if it cannot.
  std::optional<std::vector<uint64_t>> arguments(const std::vector<KernelNumbers::Number>& numbers) const;
  bool has_arguments() const { return !arguments_.empty(); }
  /// The kernel, made from one of its form in the same arena: argument k is VAR vars + k.
  UOp* rewrite(UOp* sink, int vars) const;

 private:
  struct Column {                   // number = a * argument + b; without an argument, b; of a Length, b is the greatest
    KernelNumbers::Kind kind;
    int argument = -1;
    int64_t a = 0, b = 0;
  };
  struct Argument {
    int64_t lo, hi;
    bool is_float;
  };
  void learn(const std::vector<std::vector<KernelNumbers::Number>>& examples, size_t column);
  UOp* spell(const Column& c, DType dtype, int vars) const;

  std::vector<Column> columns_;
  std::vector<Argument> arguments_;
  std::vector<size_t> source_;      // by argument: the column that it was made for
};

}  // namespace tiny
