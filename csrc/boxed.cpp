#include "boxed.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/LinearAlgebraUtils.h>

#include "arguments.h"
#include "copy.h"
#include "device_state.h"
#include "errors.h"
#include "fallback.h"
#include "generator.h"
#include "indices.h"
#include "lower/complex/parts.h"
#include "views.h"

namespace tiny::glue {
namespace {

using Arguments = c10::ArrayRef<c10::IValue>;

template <class Slot>
bool has_python_object(const Slot& slot) {
  if constexpr (requires { slot.load_pyobj(); }) return slot.load_pyobj() != nullptr;
  else return slot._unchecked_untagged_pyobj() != nullptr;
}

/// Whether an out= argument was made by PyTorch's functional form of the operator a moment ago, which has done all checks.
bool fresh(const at::Tensor& out) {
  const c10::TensorImpl* t = out.unsafeGetTensorImpl();
  return !has_python_object(*const_cast<c10::TensorImpl*>(t)->pyobj_slot());
}

bool is_input(const Plan& plan, Arguments arguments, const at::Tensor& t) {
  for (size_t i = 0; i < arguments.size(); ++i)
    if (!plan.arguments[i].out && arguments[i].isTensor() && arguments[i].toTensor().is_same(t)) return true;
  return false;
}

/// Whether an out= argument is a user's: then nobody has checked the call yet, and it may have any size.
bool has_users_output(const Plan& plan, Arguments arguments) {
  for (int k : plan.targets) {
    const at::Tensor& out = arguments[k].toTensor();
    if (!fresh(out) && !is_input(plan, arguments, out)) return true;
  }
  return false;
}

/// Runs PyTorch's structured form of an operator: all checks of shapes and dtypes, then our out= kernel.
void call_structured(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  op.callBoxedForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional, *stack);
}

/// A result of the functional form in a user's out= argument.
void deliver(const Plan& plan, const at::Tensor& result, const at::Tensor& out) {
  if (plan.is_cat) {
    TORCH_CHECK_TYPE(c10::canCast(result.scalar_type(), out.scalar_type()),
                     "torch.cat(): input types can't be cast to the desired output type ", out.scalar_type());
  } else if (plan.casts_output) {
    TORCH_CHECK(c10::canCast(result.scalar_type(), out.scalar_type()), "result type ", result.scalar_type(),
                " can't be cast to the desired output type ", out.scalar_type());
  } else {
    TORCH_CHECK(out.dtype() == result.dtype(), "Expected out tensor to have dtype ", result.dtype(), ", but got ", out.dtype(), " instead");
  }
  TORCH_CHECK(out.device() == result.device(), "Expected out tensor to have device ", result.device(), ", but got ", out.device(),
              " instead");
  if (at::native::resize_output(out, result.sizes())) set_geometry(out, result.sizes(), result.strides());
  copy_tensor(out, result);
}

/// The first tensor of the result's sizes: a pointwise result keeps its order of dimensions in memory. None if all operands are contiguous
/// and of one size: then the result is, whatever strides they have where these do not matter.
const c10::TensorImpl* memory_model(const Plan& plan, Arguments arguments, const lower::Complex& result) {
  if (!plan.pointwise && !plan.keeps_order) return nullptr;
  const c10::TensorImpl* first = nullptr;
  bool contiguous = !plan.number_is_operand;
  for (const c10::IValue& v : arguments) {
    if (!v.isTensor() || !v.toTensor().defined()) continue;
    const at::Tensor& t = v.toTensor();
    const bool same = t.sizes() == int_array(result.re.sizes());
    if (same && !first) first = t.unsafeGetTensorImpl();
    contiguous &= same && t.is_contiguous();
  }
  return contiguous ? nullptr : first;
}

/// The result of an operator that takes over the memory format of its operand, or of its weight.
at::Tensor result_in_format(Arguments arguments, const lower::Complex& value, c10::DeviceIndex index) {
  const auto rank = value.re.sizes().size();
  const auto format = rank == 4 ? c10::MemoryFormat::ChannelsLast : c10::MemoryFormat::ChannelsLast3d;
  bool follows = false;
  for (size_t i = 0; i < 2 && (rank == 4 || rank == 5); ++i)
    follows |= arguments[i].isTensor() && arguments[i].toTensor().defined() && arguments[i].toTensor().suggest_memory_format() == format;
  if (!follows) return make_result(value, index);
  const at::Tensor model = make_empty(int_array(value.re.sizes()), torch_dtype(value), index);
  model.unsafeGetTensorImpl()->empty_tensor_restride(format);
  return make_result(value, index, model.unsafeGetTensorImpl());
}

/// A result whose matrices lie column by column, as LAPACK leaves them.
at::Tensor result_by_columns(const lower::Complex& value, c10::DeviceIndex index) {
  const auto sizes = int_array(value.re.sizes());
  const auto strides = at::native::batched_matrix_contiguous_strides(sizes, /*f_contig=*/true);
  at::Tensor out = make_empty_strided(sizes, strides, torch_dtype(value), index);
  write_resolved(out, value);
  return out;
}

/// What a written argument gets, in its dtype. Throws what PyTorch throws when the types or shapes do not fit.
lower::Complex fit(const lower::Complex& value, const at::Tensor& target) {
  const auto sizes = target.sizes(), given = int_array(value.re.sizes());
  TORCH_CHECK(given == sizes, "output with shape ", sizes, " doesn't match the broadcast shape ", given);
  const auto from = torch_dtype(value), wanted = target.scalar_type();
  if (from == wanted) return value;
  TORCH_CHECK(c10::canCast(from, wanted), "result type ", from, " can't be cast to the desired output type ", wanted);
  const DType d = core_dtype(wanted);
  lower::Complex v{value.re.cast(d), {}};
  if (value.is_complex()) v.im = value.im.cast(d);
  else if (c10::isComplexType(wanted)) v.im = zeros(v.re.sizes(), d);
  return v;
}

/// One written tensor and its new value; written after all are computed.
struct Write {
  const at::Tensor* target;
  lower::Complex value;
};

class Call {
 public:
  Call(const Plan& plan, const c10::OperatorHandle& op, torch::jit::Stack* stack)
      : plan_(plan), op_(op), stack_(stack), count_(plan.arguments.size()) {}

  ~Call() {
    if (writes_.empty() && resizes_.empty()) return;
    GraphLock lock;  // left by an exception
    writes_.clear(), resizes_.clear();
  }

  void run() {
    const Survey survey = survey_arguments(plan_, arguments());
    if (survey.unsupported) return run_on_cpu(op_, stack_, survey.unsupported);
    complex_ = survey.complex || !plan_.row->lowering;
    if (complex_ && !takes_complex()) return run_on_cpu(op_, stack_, "complex numbers");
    index_ = survey.index;
    if (plan_.fills_mask) refuse_complex_value();
    if (plan_.index_put && done_by_mask()) return;
    if (survey.indices) prepare_indices(plan_, stack_->data() + stack_->size() - count_, count_);
    if (plan_.fills_shared && done_where_places_are_shared()) return;
    if (plan_.functional && has_users_output(plan_, arguments())) return run_functional();
    const HostScalars scalars = survey.host_scalars ? host_scalars(arguments()) : HostScalars();
    try {
      GraphLock lock;
      compute(scalars);
      if (resizes_.empty()) commit();
    } catch (const Error& error) {
      raise_in_words_of_torch(error);
    }
    if (!resizes_.empty()) resize_and_commit();
    Device& d = device(index_);
    if (plan_.check_errors >= 0 && arguments()[plan_.check_errors].toBool())
      at::_linalg_check_errors(arguments()[plan_.targets.back()].toTensor(), plan_.name_in_errors, arguments()[0].toTensor().dim() == 2);
    finish();
    after_operator(d);
  }

 private:
  Arguments arguments() const { return torch::jit::last(*stack_, count_); }

  /// Whether there is a lowering for these complex arguments. Of real and complex tensors side by side most operators say that they do not
  /// agree, and the CPU knows the words.
  bool takes_complex() const {
    const ComplexRow* row = plan_.row->complex;
    if (!row || row->same.empty()) return row != nullptr;
    int complex = 0, real = 0;
    for (int k : row->same) {
      const c10::IValue& v = arguments()[k];
      if (v.isTensor() && v.toTensor().defined()) (v.toTensor().is_complex() ? complex : real) += 1;
    }
    return complex == 0 || real == 0;
  }

  /// masked_fill(self, mask, value): PyTorch's words for a complex value and real self.
  void refuse_complex_value() const {
    const Arguments a = arguments();
    const bool is_complex = a[2].isTensor() ? a[2].toTensor().is_complex() : a[2].isComplexDouble();
    const at::Tensor& self = a[0].toTensor();
    if (is_complex && !self.is_complex()) at::scalar_tensor(c10::complex<double>(0, 1), self.options().device(c10::kCPU));  // throws
  }

  /// _index_put_impl_(self, indices, values, accumulate, unsafe) with one mask and one value.
  bool done_by_mask() {
    const Arguments a = arguments();
    at::Tensor self = a[0].toTensor();
    if (!put_by_mask(self, a[1].toOptionalTensorList(), a[2].toTensor(), a[3].toBool())) return false;
    torch::jit::drop(*stack_, count_);
    stack_->emplace_back(std::move(self));
    return true;
  }

  bool done_where_places_are_shared() {
    const at::Tensor self = arguments()[0].toTensor();
    if (self.is_contiguous() || at::has_internal_overlap(self) != at::MemOverlap::Yes) return false;
    if (!fill_shared(plan_.name, arguments())) return false;
    torch::jit::drop(*stack_, count_);
    stack_->emplace_back(self);
    return true;
  }

  /// out= of a structured operator: its functional form, then a copy.
  void run_functional() {
    for (int k : plan_.targets) refuse_overlaps(arguments()[k].toTensor());
    torch::jit::Stack stack;
    for (size_t i = 0; i < count_; ++i)
      if (!plan_.arguments[i].out) stack.push_back(arguments()[i]);
    if (const int k = plan_.dtype_of_output; k >= 0 && arguments()[k].isNone())
      stack[static_cast<size_t>(k)] = arguments()[plan_.targets[0]].toTensor().scalar_type();
    call_structured(*plan_.functional, &stack);
    std::vector<at::Tensor> outs;
    for (size_t k = 0; k < plan_.targets.size(); ++k) {
      outs.push_back(arguments()[plan_.targets[k]].toTensor());
      deliver(plan_, stack[k].toTensor(), outs.back());
    }
    torch::jit::drop(*stack_, count_);
    for (at::Tensor& t : outs) stack_->emplace_back(std::move(t));
  }

  /// A structured operator's own checks say it best; if they find nothing, the lowering's words stand.
  [[noreturn]] void raise_in_words_of_torch(const Error& error) {
    if (plan_.structured && error.kind != ErrorKind::OutOfMemory) {
      torch::jit::Stack stack(arguments().begin(), arguments().end());
      call_structured(op_, &stack);
    }
    raise_as_torch(error);
  }

  void compute(const HostScalars& scalars) {
    static thread_local lower::Args args;  // its memory is kept from call to call
    struct Clear {
      ~Clear() { args.values.clear(), args.outs.clear(); }
    } clear;
    fill_arguments(plan_, arguments(), scalars, index_, &args);
    const Lowering& real = plan_.row->lowering;
    if (complex_) {
      lower::ComplexResults results = compute_complex(real, *plan_.row->complex, args);
      distribute(results);
    } else if (real.one) {
      lower::Complex result{real.one(args), {}};
      distribute({&result, 1});
    } else {
      lower::ComplexResults results;
      for (tiny::Tensor& t : real.many(args)) results.push_back({std::move(t), {}});
      distribute(results);
    }
  }

  static lower::ComplexResults compute_complex(const Lowering& real, const ComplexRow& row, lower::Args& args) {
    if (row.many) return row.many(args);
    if (!row.one) return lower::on_parts(args, real.one, real.many, row.parts);
    lower::ComplexResults r;
    r.push_back(row.one(args));
    return r;
  }

  /// Results go to the fresh returns (or out= arguments), the rest to the arguments that are written besides.
  void distribute(std::span<lower::Complex> results) {
    size_t next = 0;
    auto write_all = [&](const c10::IValue& v, bool resizable) {
      if (v.isTensor() && v.toTensor().defined()) add_write(v.toTensor(), results, next++, resizable);
      else if (v.isList())
        for (const c10::IValue& e : v.toListRef()) add_write(e.toTensor(), results, next++, resizable);
      else ++next;  // an optional argument that is not given: its result is dropped
    };
    for (int k : plan_.targets) write_all(arguments()[k], true);
    if (plan_.targets.empty()) {
      size_t fresh_returns = plan_.list_result ? results.size() - written_tensors() : 0;
      for (int r : plan_.returns) fresh_returns += !plan_.list_result && r < 0;
      for (size_t k = 0; k < fresh_returns; ++k) {
        TORCH_INTERNAL_ASSERT(next < results.size(), plan_.name, ": the lowering returned ", results.size(), " results");
        const lower::Complex& value = results[next++];
        if (!value.re.defined()) outputs_.emplace_back();
        else if (plan_.by_columns && k == 0) outputs_.push_back(result_by_columns(value, index_));
        else if (follows_format()) outputs_.push_back(result_in_format(arguments(), value, index_));
        else outputs_.push_back(make_result(value, index_, memory_model(plan_, arguments(), value)));
      }
    }
    for (int k : plan_.written) write_all(arguments()[k], false);
  }

  bool follows_format() const {
    if (plan_.follows_with >= 0) return arguments()[plan_.follows_with].toListRef().size() > 0;
    return plan_.follows_format;
  }

  size_t written_tensors() const {
    size_t n = 0;
    for (int k : plan_.written) n += arguments()[k].isList() ? arguments()[k].toListRef().size() : 1;
    return n;
  }

  void add_write(const at::Tensor& target, std::span<lower::Complex> results, size_t k, bool resizable) {
    if (k >= results.size() || !results[k].re.defined()) return;
    refuse_overlaps(target);
    if (resizable && target.sizes() != int_array(results[k].re.sizes())) resizes_.push_back({&target, results[k]});
    else writes_.push_back({&target, fit(results[k], target)});
  }

  /// As PyTorch's elementwise operators: an input is what is written, or shares no element with it. Some others allow neither.
  void refuse_overlaps(const at::Tensor& target) {
    if (plan_.apart_in_itself && !target.is_contiguous()) at::assert_no_internal_overlap(target);
    if (!plan_.no_partial_overlap && plan_.apart_from < 0) return;
    for (size_t i = 0; i < count_; ++i) {
      const c10::IValue& v = arguments()[i];
      if (plan_.arguments[i].out) continue;
      const bool apart = plan_.apart_from >= 0 && static_cast<int>(i) >= plan_.apart_from;
      if (v.isTensor() && v.toTensor().defined()) {
        if (apart) refuse_overlap(target, v.toTensor());
        else if (plan_.no_partial_overlap) refuse_partial_overlap(target, v.toTensor());
      } else if (v.isList() && apart) {
        for (const c10::IValue& e : v.toListRef())
          if (e.isTensor() && e.toTensor().defined()) refuse_overlap(target, e.toTensor());
      }
    }
  }

  void commit() {
    for (Write& w : writes_) write_resolved(*w.target, std::move(w.value));
    writes_.clear();
  }

  /// An out= argument of another size is resized (with PyTorch's warning, so without the lock) before it is written.
  void resize_and_commit() {
    const bool empty = resizes_[0].target->numel() == 0;
    for (Write& w : resizes_) at::native::resize_output(*w.target, int_array(w.value.re.sizes()));
    GraphLock lock;
    if (plan_.by_columns && empty && resizes_[0].target == &arguments()[plan_.targets[0]].toTensor()) {
      const auto sizes = int_array(resizes_[0].value.re.sizes());
      set_geometry(*resizes_[0].target, sizes, at::native::batched_matrix_contiguous_strides(sizes, /*f_contig=*/true));
    }
    for (Write& w : resizes_)
      if (const c10::TensorImpl* like = memory_model(plan_, arguments(), w.value)) {
        const at::Tensor model = make_result(w.value, index_, like);
        set_geometry(*w.target, model.sizes(), model.strides());
      }
    commit();
    for (Write& w : resizes_) write_resolved(*w.target, fit(w.value, *w.target));
    resizes_.clear();
  }

  /// Replaces the arguments on the stack by the returns.
  void finish() {
    c10::SmallVector<c10::IValue, 3> returns;
    size_t next = 0;
    for (int r : plan_.returns) {
      if (r >= 0) returns.push_back(arguments()[r]);
      else if (plan_.list_result) returns.emplace_back(c10::List<at::Tensor>(std::vector<at::Tensor>(outputs_.begin(), outputs_.end())));
      else returns.emplace_back(std::move(outputs_[next++]));
    }
    torch::jit::drop(*stack_, count_);
    for (c10::IValue& v : returns) stack_->push_back(std::move(v));
  }

  const Plan& plan_;
  const c10::OperatorHandle& op_;
  torch::jit::Stack* stack_;
  const size_t count_;
  c10::DeviceIndex index_ = 0;
  bool complex_ = false;
  c10::SmallVector<at::Tensor, 3> outputs_;
  std::vector<Write> writes_, resizes_;
};

}  // namespace

void run_boxed(const Plan& plan, const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  guarded([&] { Call(plan, op, stack).run(); });
}

}  // namespace tiny::glue
