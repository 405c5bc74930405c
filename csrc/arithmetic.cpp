#include "arithmetic.h"

#include <ATen/ExpandUtils.h>

#include "errors.h"
#include "lower/binary.h"

namespace tiny::glue {
namespace {

/// Where calls go that are not simple.
struct General {
  std::unique_ptr<c10::OperatorHandle> op;
  Plan plan;
};

/// One per operator: its kernels are static functions, so what they share is static too.
template <Op O, bool InPlace>
General& general() {
  static auto* g = new General;
  return *g;
}

template <Op O, bool InPlace, class... Alpha>
at::Tensor call_general(const at::Tensor& self, const at::Tensor& other, const Alpha&... alpha) {
  const General& g = general<O, InPlace>();
  torch::jit::Stack stack{self, other};
  (stack.emplace_back(alpha), ...);
  run_boxed(g.plan, *g.op, &stack);
  return std::move(stack.back()).toTensor();
}

bool is_one(const at::Scalar& alpha) { return alpha.isIntegral(false) && alpha.toLong() == 1; }

/// A tiny tensor that is no Python number and whose dtype is computed on.
bool is_array(const c10::TensorImpl& t) { return t.device_type() == kTiny && !t.is_wrapped_number(); }

/// A Python number, as the Python binding passes it.
bool is_number(const c10::TensorImpl& t) { return t.device_type() == c10::kCPU && t.is_wrapped_number() && t.dim() == 0; }

template <Op O>
bool computes_on(c10::ScalarType t) {
  return O == Op::FDIV ? c10::isFloatingType(t) && is_native(t) : t != c10::kBool && is_native(t);
}

/// Whether the result has self's dtype because other has it too, or is a number that does not promote.
bool keeps_dtype(const c10::TensorImpl& self, const c10::TensorImpl& other) {
  const auto type = c10::typeMetaToScalarType(self.dtype()), second = c10::typeMetaToScalarType(other.dtype());
  if (!is_number(other)) return is_array(other) && other.device() == self.device() && second == type;
  return second == c10::kLong || (second == c10::kDouble && c10::isFloatingType(type));
}

/// A number in the type in which operators of type `d` compute. What is added is first brought to `d` (lower/pointwise.h).
tiny::Tensor number(Op op, const c10::TensorImpl& t, DType d) {
  const DType c = compute_dtype(d), first = op == Op::ADD || op == Op::SUB ? d : c;
  if (c10::typeMetaToScalarType(t.dtype()) == c10::kLong) return scalar(first, *static_cast<const int64_t*>(t.data())).cast(c);
  return scalar(first, *static_cast<const double*>(t.data())).cast(c);
}

tiny::Tensor compute(Op op, const c10::TensorImpl& self, const c10::TensorImpl& other) {
  const tiny::Tensor x = read(self);
  const DType d = x.dtype(), c = compute_dtype(d);
  return binary(op, x.cast(c), is_number(other) ? number(op, other, d) : read(other).cast(c)).cast(d);
}

template <Op O, class... Alpha>
bool is_simple(const at::Tensor& self, const at::Tensor& other, const Alpha&... alpha) {
  const c10::TensorImpl &x = *self.unsafeGetTensorImpl(), &y = *other.unsafeGetTensorImpl();
  return is_array(x) && computes_on<O>(self.scalar_type()) && keeps_dtype(x, y) && (is_one(alpha) && ...);
}

template <Op O, class... Alpha>
at::Tensor functional(const at::Tensor& self, const at::Tensor& other, const Alpha&... alpha) {
  if (!is_simple<O>(self, other, alpha...) || (self.sizes() != other.sizes() && !at::are_expandable(self.sizes(), other.sizes())))
    return call_general<O, false>(self, other, alpha...);
  const c10::TensorImpl &x = *self.unsafeGetTensorImpl(), &y = *other.unsafeGetTensorImpl();
  at::Tensor out = guarded([&] {
    GraphLock lock;
    tiny::Tensor value = compute(O, x, y);
    if (x.sizes() == y.sizes() && x.is_contiguous() && y.is_contiguous()) return make_result(value, x.device().index());
    const bool like_self = self.sizes() == int_array(value.sizes());
    return make_result(value, x.device().index(), like_self ? &x : &y);
  });
  after_operator(device_of(x));
  return out;
}

template <Op O, class... Alpha>
at::Tensor& in_place(at::Tensor& self, const at::Tensor& other, const Alpha&... alpha) {
  const c10::TensorImpl &x = *self.unsafeGetTensorImpl(), &y = *other.unsafeGetTensorImpl();
  // Memory that both share, and sizes that do not fit, are the adapter's to refuse.
  const bool apart = &x == &y || is_number(y) || x.unsafe_storage().unsafeGetStorageImpl() != y.unsafe_storage().unsafeGetStorageImpl();
  if (!is_simple<O>(self, other, alpha...) || !apart || (other.dim() != 0 && self.sizes() != other.sizes())) {
    call_general<O, true>(self, other, alpha...);
    return self;
  }
  guarded([&] {
    GraphLock lock;
    write(x, compute(O, x, y));
  });
  after_operator(device_of(x));
  return self;
}

struct ArithmeticRow {
  const char* name;
  General& (*general)();
  torch::CppFunction (*kernel)();
};

using Scalar = at::Scalar;
constexpr ArithmeticRow kArithmetic[] = {
  {"aten::add.Tensor", general<Op::ADD, false>, [] { return torch::CppFunction(TORCH_FN((functional<Op::ADD, Scalar>))); }},
  {"aten::sub.Tensor", general<Op::SUB, false>, [] { return torch::CppFunction(TORCH_FN((functional<Op::SUB, Scalar>))); }},
  {"aten::mul.Tensor", general<Op::MUL, false>, [] { return torch::CppFunction(TORCH_FN((functional<Op::MUL>))); }},
  {"aten::div.Tensor", general<Op::FDIV, false>, [] { return torch::CppFunction(TORCH_FN((functional<Op::FDIV>))); }},
  {"aten::add_.Tensor", general<Op::ADD, true>, [] { return torch::CppFunction(TORCH_FN((in_place<Op::ADD, Scalar>))); }},
  {"aten::sub_.Tensor", general<Op::SUB, true>, [] { return torch::CppFunction(TORCH_FN((in_place<Op::SUB, Scalar>))); }},
  {"aten::mul_.Tensor", general<Op::MUL, true>, [] { return torch::CppFunction(TORCH_FN((in_place<Op::MUL>))); }},
  {"aten::div_.Tensor", general<Op::FDIV, true>, [] { return torch::CppFunction(TORCH_FN((in_place<Op::FDIV>))); }},
};

}  // namespace

bool register_arithmetic(torch::Library& library, const c10::OperatorHandle& op, const Plan& plan) {
  const std::string name = toString(op.operator_name());
  for (const ArithmeticRow& row : kArithmetic) {
    if (name != row.name) continue;
    General& g = row.general();
    g.plan = plan;
    g.op = std::make_unique<c10::OperatorHandle>(op);
    library.impl(name.c_str() + 6, row.kernel());
    return true;
  }
  return false;
}

}  // namespace tiny::glue
