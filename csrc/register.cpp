// Expands the operator tables. A row registers the schema it names; for a functional row the in-place and out= forms that PyTorch does not
// make by itself come along.
#include "register.h"

#include <set>

#include "arithmetic.h"
#include "boxed.h"
#include "fallback.h"
#include "lower/activation.h"
#include "lower/antialias.h"
#include "lower/bag.h"
#include "lower/binary.h"
#include "lower/chebyshev.h"
#include "lower/complex/complex.h"
#include "lower/complex/fft.h"
#include "lower/conv.h"
#include "lower/ctc.h"
#include "lower/distance.h"
#include "lower/gamma_grad.h"
#include "lower/grid.h"
#include "lower/histogram.h"
#include "lower/index.h"
#include "lower/integer.h"
#include "lower/linalg.h"
#include "lower/loss.h"
#include "lower/margin.h"
#include "lower/matmul.h"
#include "lower/norm.h"
#include "lower/optim.h"
#include "lower/orthogonal.h"
#include "lower/pad.h"
#include "lower/pool.h"
#include "lower/quantize.h"
#include "lower/random.h"
#include "lower/reduce.h"
#include "lower/rejection.h"
#include "lower/rnn.h"
#include "lower/scan.h"
#include "lower/scatter.h"
#include "lower/segment.h"
#include "lower/shape.h"
#include "lower/softmax.h"
#include "lower/sort.h"
#include "lower/special.h"
#include "lower/unary.h"
#include "lower/upsample.h"

namespace tiny::glue {
namespace {

const Row kRows[] = {
#define ATEN(name, lowering) {name, lowering},
#define ATEN_WRITES(name, lowering, writes) {name, lowering, writes},
#define CPU(name, reason)
#include "aten_math.def"
#define ATEN(name, lowering) {name, lowering},
#define ATEN_WRITES(name, lowering, writes) {name, lowering, writes},
#define CPU(name, reason)
#include "aten_nn.def"
};

#define COMPLEX(name, lowering) {name, lowering},
#define COMPLEX_SAME(name, lowering, ...) {name, lowering, {__VA_ARGS__}},
#define COMPLEX_PARTS(name, ...) {name, {__VA_ARGS__}, false},
#define COMPLEX_PARTS_MIXED(name, ...) {name, {__VA_ARGS__}, true},
const ComplexRow kComplexRows[] = {
#include "aten_complex.def"
};

/// All rows, each with its complex one; those that only complex numbers have come last. Plans point into it.
const std::vector<Row>& rows() {
  static const auto* all = [] {
    auto* r = new std::vector<Row>(std::begin(kRows), std::end(kRows));
    std::map<std::string_view, Row*> by_name;
    for (Row& row : *r) by_name[row.name] = &row;
    std::vector<Row> more;
    for (const ComplexRow& c : kComplexRows) {
      if (const auto it = by_name.find(c.name); it != by_name.end()) it->second->complex = &c;
      else more.push_back({c.name, {}, "", &c});
    }
    r->insert(r->end(), more.begin(), more.end());
    return r;
  }();
  return *all;
}

struct CpuRow {
  const char* name;
  const char* reason;
};
const CpuRow kCpuRows[] = {
#define ATEN(name, lowering)
#define ATEN_WRITES(name, lowering, writes)
#define CPU(name, reason) {name, reason},
#include "aten_math.def"
#define ATEN(name, lowering)
#define ATEN_WRITES(name, lowering, writes)
#define CPU(name, reason) {name, reason},
#include "aten_nn.def"
};

class Kernel final : public c10::OperatorKernel {
 public:
  explicit Kernel(Plan plan) : plan_(std::move(plan)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) const { run_boxed(plan_, op, stack); }

 private:
  const Plan plan_;
};

class CpuKernel final : public c10::OperatorKernel {
 public:
  explicit CpuKernel(const char* reason) : reason_(reason) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) const { run_on_cpu(op, stack, reason_); }

 private:
  const char* const reason_;
};

struct Table {
  std::set<std::string> lowered;
  std::vector<std::string> problems;
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

std::optional<c10::OperatorHandle> find(const std::string& name) {
  const size_t dot = name.find('.');
  return c10::Dispatcher::singleton().findSchema(
    {"aten::" + name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
}

std::string short_name(const c10::OperatorHandle& op) { return toString(op.operator_name()).substr(6); }

/// Whether PyTorch has a kernel for every device in terms of other operators.
bool is_composite(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) || is_structured(op);
}

/// PyTorch's functional and in-place forms of these take the address of what they write before they call the out= form (TensorIterator
/// does), which would pin it in memory. We serve these forms ourselves.
bool reads_addresses(const c10::OperatorHandle& functional) {
  static const std::set<std::string> more{"aten::glu", "aten::index.Tensor", "aten::mse_loss", "aten::smooth_l1_loss"};
  return is_structured(functional) && (functional.hasTag(at::Tag::pointwise) || more.count(toString(functional.operator_name())));
}

/// Notes an operator whose derivative PyTorch takes from its parts: a kernel of any kind would hide it.
void refuse_hiding(const c10::OperatorHandle& op, const std::string& name) {
  if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) && !op.hasKernelForDispatchKey(c10::DispatchKey::Autograd))
    table().problems.push_back(name + ": PyTorch differentiates what it is made of, a kernel would hide that");
}

void add(torch::Library& library, const Row& row, const c10::OperatorHandle& op) {
  const std::string name = short_name(op);
  table().lowered.insert(name);
  Plan plan = make_plan(row, op);
  if (!register_arithmetic(library, op, plan))
    library.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(std::move(plan))));
}

/// Some of PyTorch's kernels for every device check that the device is one of theirs, so these rows are registered too.
void add_on_cpu(torch::Library& library, const CpuRow& row) {
  const auto op = find(row.name);
  if (!op) {
    table().problems.push_back(std::string(row.name) + ": this torch has no such operator");
    return;
  }
  refuse_hiding(*op, row.name);
  const Forms forms = other_forms(*op);
  for (const auto& form : {std::optional(*op), forms.in_place, forms.out})
    if (form) library.impl(short_name(*form).c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<CpuKernel>(row.reason)));
}

/// Pointwise operators that no row names: served on the CPU in all forms, for the same reason as in reads_addresses().
void add_unnamed(torch::Library& library, std::set<std::string>& done) {
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || !reads_addresses(*op) || op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) continue;
    if (done.insert(short_name(*op)).second)
      library.impl(short_name(*op).c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<CpuKernel>("no lowering yet")));
  }
}

void expand(torch::Library& library) {
  std::set<std::string> named;
  for (const Row& row : rows())
    if (!named.insert(row.name).second) table().problems.push_back(std::string(row.name) + ": two rows");
  for (const CpuRow& row : kCpuRows)
    if (named.count(row.name)) table().problems.push_back(std::string(row.name) + ": both lowered and on the CPU");
  for (const CpuRow& row : kCpuRows) add_on_cpu(library, row);
  std::set<std::string> done;
  auto add_once = [&](const c10::OperatorHandle& op, const Row& row) {
    if (!named.count(short_name(op)) && done.insert(short_name(op)).second) add(library, row, op);
  };
  for (const Row& row : rows()) {
    const auto op = find(row.name);
    if (!op) {
      table().problems.push_back(std::string(row.name) + ": this torch has no such operator");
      continue;
    }
    if (!done.insert(row.name).second) continue;
    refuse_hiding(*op, row.name);
    add(library, row, *op);
    const auto functional = functional_form(*op);
    if (functional && reads_addresses(*functional)) add_once(*functional, row);
    const Forms forms = other_forms(functional ? *functional : *op);
    for (const auto& form : {forms.in_place, forms.out})
      if (form && (functional ? reads_addresses(*functional) : !is_composite(*form))) add_once(*form, row);
  }
  add_unnamed(library, done);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { expand(m); }

}  // namespace

std::vector<std::string> lowered_operators() { return {table().lowered.begin(), table().lowered.end()}; }
std::vector<std::string> table_problems() { return table().problems; }

}  // namespace tiny::glue
