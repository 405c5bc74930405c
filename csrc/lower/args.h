// Arguments of an aten operator as a lowering sees them: no torch header. boxed.cpp fills them from the schema and the stack.
// Positions are those of the operator's functional schema: add.Tensor(self, other, *, alpha) is 0, 1, 2; `out` arguments are out(0), ...
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "api.h"

namespace tiny::lower {

enum class ArgKind : uint8_t { None, Tensor, Int, Double, Complex, Bool, Ints, Doubles, Bools, Tensors, Text, DType, Generator, Other };

/// How a tensor or number takes part in type promotion: with dimensions, 0-d, or a Python number (torch's three categories).
enum class Category : uint8_t { Dimensioned, ZeroDim, Number };

/// Complex numbers as their two parts, of one dtype and the same sizes. Without `im` they are real numbers of any dtype.
struct Complex {
  Tensor re, im;
  bool is_complex() const { return im.defined(); }
};

struct ArgValue {
  ArgKind kind = ArgKind::None;
  Category category = Category::Number;
  Tensor tensor;                    // dense read of the argument; a 0-d CPU tensor next to tiny ones arrives as a run-time scalar
  bool contiguous = true;           // of a tensor: its memory is row-major; PyTorch's LU decompositions look at it
  bool channels_last = false;       // of a tensor: dense in one of the channels-last formats
  int64_t i = 0;                    // Int, Bool; DType as tiny::DType, of a complex type its parts'
  double d = 0;                     // Double; Complex: the real part
  double imag = 0;                  // Complex
  Tensor imaginary;                 // of a complex tensor; `tensor` is then its real part
  bool complex_dtype = false;       // DType: a complex one
  Dims ints;                        // Ints, Bools
  std::vector<double> doubles;
  std::vector<Tensor> tensors;      // Tensors; an undefined one stands for None in a list of optional tensors
  std::vector<Tensor> imaginaries;  // for each of them its imaginary part, undefined for a real one; empty if all are real
  std::string text;

  /// As it was made; its memory stays.
  void reset();
};

/// Arguments in order. Cleared, it keeps their memory: most calls fill those of the call before.
class ArgValues {
 public:
  ArgValue& emplace_back() {
    if (used_ == values_.size()) values_.emplace_back();
    return values_[used_++];
  }
  void push_back(ArgValue v) { emplace_back() = std::move(v); }
  void clear() {
    while (used_ > 0) values_[--used_].reset();
  }
  size_t size() const { return used_; }
  ArgValue& operator[](size_t i) { return values_[i]; }
  const ArgValue& operator[](size_t i) const { return values_[i]; }

 private:
  std::vector<ArgValue> values_;
  size_t used_ = 0;
};

/// Geometry of a tensor that is written: an `out=` argument, or self of an in-place operator.
struct OutInfo {
  DType dtype;  // of a complex type, its parts'
  Dims sizes;
  bool complex = false;
};

/// Numbers that the host computes, of nothing but integers: equal functions and keys mean equal tables.
struct Table {
  void (*fill)(const Dims& key, double* out);
  Dims key;
  int64_t numel;
};

class Args {
 public:
  ArgValues values;
  std::vector<OutInfo> outs;        // empty for a functional call
  std::string_view op;              // "aten::add.Tensor", for errors
  bool host = false;                // the device is the host: builtins work where the operands are
  DType default_float = DType::f32; // torch.get_default_dtype(): of Python's floats, and of float functions of integers

  int size() const { return static_cast<int>(values.size()); }
  bool has(int i) const { return i < size() && values[i].kind != ArgKind::None; }
  const Tensor& tensor(int i) const;                      // throws Error(Type) if argument i is no tensor
  const std::vector<Tensor>& tensors(int i) const { return values[i].tensors; }
  int64_t integer(int i) const;                           // Int or Bool
  int64_t integer(int i, int64_t fallback) const { return has(i) ? integer(i) : fallback; }
  bool flag(int i) const { return integer(i) != 0; }
  double number(int i) const;                             // Int, Double or Bool as double
  double number(int i, double fallback) const { return has(i) ? number(i) : fallback; }
  const Dims& ints(int i) const { return values[i].ints; }
  const std::vector<double>& doubles(int i) const { return values[i].doubles; }
  std::string_view text(int i) const { return values[i].text; }
  /// Argument i (a number or a tensor) as a tensor of dtype d; a number becomes a run-time scalar (tensor.h: scalar()).
  Tensor as(int i, DType d) const;
  DType dtype(int i, DType fallback) const { return has(i) ? static_cast<DType>(values[i].i) : fallback; }
  DType out_dtype(int k, DType fallback) const { return k < static_cast<int>(outs.size()) ? outs[k].dtype : fallback; }
  /// torch.result_type over the arguments at these positions (numbers and tensors).
  DType common(std::initializer_list<int> positions) const;
  /// As common(), an integer or bool result replaced by the default dtype (torch's promotion of float functions).
  DType common_float(std::initializer_list<int> positions) const;
  /// Seed and offset (0-d u64) of the generator argument or the device's default one, which advances by `numel` counters.
  struct Rng { Tensor seed, offset; };
  Rng rng(int generator_position, int64_t numel);
  /// Set by the glue: draws from the generator at that position (-1: default).
  Rng (*rng_hook)(Args&, int generator_position, int64_t numel) = nullptr;
  /// The numbers of a table as type d (f32, f64), flat: in the device's memory from call to call.
  Tensor table(const Table& t, DType d);
  Tensor (*table_hook)(const Table& t, DType d) = nullptr; // set by the glue
  const void* stack = nullptr;                            // for the hook: the torch stack

  // ---- complex arguments. dtypes of complex types are those of their parts everywhere: common({0, 1}) of float64 and complex64 is f64.
  /// Whether argument i is a complex tensor, number or dtype.
  bool is_complex(int i) const;
  /// Whether torch.result_type over these arguments is complex.
  bool any_complex(std::initializer_list<int> positions) const;
  /// Argument i, a tensor, as complex numbers; the imaginary part of a real one is 0.
  Complex complex(int i) const;
  /// Argument i, a number or a tensor, as complex numbers of parts of type d.
  Complex complex_as(int i, DType d) const;
};

/// One tensor for each fresh return of the schema (an undefined one stands for None), then the new values of the arguments that the schema
/// writes (a!), in its order, lists flattened. Arguments that an operator writes although its schema does not say so (native_batch_norm's
/// running statistics) come last, in the order of the row ATEN_WRITES; an undefined one leaves its argument as it is.
using Results = std::vector<Tensor>;
/// A lowering: pure, from arguments to result values. The glue writes them to new tensors, to `out=` or to self, casting to their dtype.
/// Raise with Error(kind, text) what PyTorch's CPU kernel raises, same words where users match on them.
using Lowering1 = Tensor (*)(Args&);
using LoweringN = Results (*)(Args&);
/// The same for complex arguments: each result says whether it is complex.
using ComplexResults = std::vector<Complex>;
using ComplexLowering1 = Complex (*)(Args&);
using ComplexLoweringN = ComplexResults (*)(Args&);

}  // namespace tiny::lower
