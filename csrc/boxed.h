// The adapter between PyTorch's operators and lowerings. A row of the table names an operator and its lowering; in-place and out= forms
// follow from the schemas. One boxed kernel serves all of them.
#pragma once
#include "lower/args.h"
#include "tensor.h"

namespace tiny::glue {

/// A lowering with one result or several.
struct Lowering {
  lower::Lowering1 one = nullptr;
  lower::LoweringN many = nullptr;
  Lowering() = default;
  explicit operator bool() const { return one || many; }
  Lowering(lower::Lowering1 f) : one(f) {}
  Lowering(lower::LoweringN f) : many(f) {}
};

/// A row of aten_complex.def: what computes an operator of complex arguments. Either a lowering of its own, or the real one, run on the
/// real and then on the imaginary parts of the arguments at `parts`.
struct ComplexRow {
  const char* name;
  lower::ComplexLowering1 one = nullptr;
  lower::ComplexLoweringN many = nullptr;
  std::vector<int> parts;
  std::vector<int> same;    // tensors that are all complex or all real
  ComplexRow(const char* n, lower::ComplexLowering1 f, std::vector<int> s = {}) : name(n), one(f), same(std::move(s)) {}
  ComplexRow(const char* n, lower::ComplexLoweringN f, std::vector<int> s = {}) : name(n), many(f), same(std::move(s)) {}
  ComplexRow(const char* n, std::vector<int> p, bool mixed) : name(n), parts(std::move(p)) {
    if (!mixed) same = parts;
  }
};

struct Row {
  const char* name;    // "add.out", without "aten::"
  Lowering lowering;
  const char* writes = "";  // names of arguments written although the schema does not say so, in the order of their results
  const ComplexRow* complex = nullptr;
};

/// How one schema is served by a row.
struct Plan {
  const Row* row = nullptr;
  std::string name;                 // "aten::add.out"
  struct Argument {
    bool dtype = false;             // a ScalarType
    bool out = false;               // an out= argument: not seen by the lowering
    bool generator = false;
    bool index_list = false;        // Tensor?[]: indices, which may be masks or on the CPU
  };
  std::vector<Argument> arguments;
  std::vector<int> targets;         // out= arguments: they take the results in place of fresh tensors
  std::vector<int> written;         // arguments that take the results after the fresh ones
  std::vector<int> returns;         // for each return: the argument that it is, or -1
  bool list_result = false;         // the one fresh return is a list
  bool pointwise = false;
  bool number_is_operand = false;   // eq.Scalar to ge.Scalar: PyTorch makes a tensor of the number
  bool is_cat = false;              // its own words when the result cannot be cast to the output
  bool keeps_order = false;         // as pointwise operators, it orders the dimensions of its result as the operand's are
  bool follows_format = false;      // its result is channels_last if its first or second argument is
  int follows_with = -1;            // the same, if this list is not empty
  int apart_from = -1;              // inputs from this one on share no memory with what is written
  bool no_partial_overlap = false;  // an input shares no memory with what is written, unless it is that
  bool apart_in_itself = false;     // what is written has its elements in different places, even if it is going to be resized
  bool structured = false;          // PyTorch has a functional or in-place form of it with all checks: faults get their words
  int dtype_of_output = -1;         // a dtype argument that, where it is not given, means the out= argument's dtype
  bool casts_output = false;        // an out= argument may have another dtype, to which the result is cast
  std::optional<c10::OperatorHandle> functional;  // of a structured out= form
  bool by_columns = false;          // its first result is matrices that lie column by column
  int check_errors = -1;            // the argument that asks for an exception when `info`, the last out= argument, is not 0
  std::string name_in_errors;       // of such an operator
  bool fills_mask = false;          // masked_fill: the value becomes self's dtype, which it must be able to
  bool index_put = false;           // _index_put_impl_: one mask with one value needs no positions
  bool fills_shared = false;        // may write to a tensor whose elements share places
};

/// For the schema of `op`: functional, in-place or out=.
Plan make_plan(const Row& row, const c10::OperatorHandle& op);

/// Serves one call of plan's schema.
void run_boxed(const Plan& plan, const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// The other forms of a functional operator: overloads of the same arguments that write to self, or to out= arguments.
struct Forms {
  std::optional<c10::OperatorHandle> in_place, out;
};
Forms other_forms(const c10::OperatorHandle& functional);
/// The functional operator whose out= form this is.
std::optional<c10::OperatorHandle> functional_form(const c10::OperatorHandle& out);

/// PyTorch makes the functional and in-place forms of these from their out= form, with all checks of shapes and dtypes.
bool is_structured(const c10::OperatorHandle& functional);

}  // namespace tiny::glue
