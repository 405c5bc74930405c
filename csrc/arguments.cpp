#include "arguments.h"

#include "device_state.h"
#include "generator.h"
#include "tables.h"

namespace tiny::glue {
namespace {

using lower::ArgKind;
using lower::ArgValue;
using lower::Category;

class Surveyor {
 public:
  explicit Surveyor(const Plan& plan) : plan_(plan) {}

  void look(const c10::IValue& v, const Plan::Argument& a) {
    if (v.isTensor()) return tensor(v.toTensor(), a);
    if (v.isComplexDouble()) complex_ = true;
    if (v.isDevice() && v.toDevice().type() == kTiny && index_ < 0) index_ = checked_device(v.toDevice().index());
    if (a.dtype && v.isInt()) dtype(static_cast<c10::ScalarType>(v.toInt()), false);
    if (v.isList()) {
      for (const c10::IValue& e : v.toListRef()) {
        if (e.isTensor()) tensor(e.toTensor(), a);
        else if (e.isComplexDouble()) complex_ = true;
      }
    }
  }

  Survey finish() {
    const c10::Device here(kTiny, index_ < 0 ? current_device() : index_);
    if (foreign_) raise_two_devices(here, *foreign_);
    return {here.index(), unsupported_, complex_, host_scalars_, indices_};
  }

 private:
  void refuse(const char* why) { unsupported_ = why; }

  /// A complex output takes real results, so it says nothing about the operator.
  void dtype(c10::ScalarType type, bool out) {
    if (core_dtype(type) == DType::count) refuse("an unusual dtype");
    complex_ |= !out && c10::isComplexType(type);
  }

  void tensor(const at::Tensor& t, const Plan::Argument& a) {
    if (!t.defined()) return;
    const auto type = t.scalar_type();
    dtype(type, a.out);
    if (a.index_list && (type == c10::kBool || type == c10::kByte || !is_tiny(t))) indices_ = true;
    if (is_tiny(t)) {
      const auto index = t.device().index();
      if (index_ < 0) index_ = index;
      else if (index_ != index) raise_two_devices(c10::Device(kTiny, index_), t.device());
    } else if (t.device().is_cpu() && t.dim() == 0 && !a.out) {
      host_scalars_ = true;
    } else if (!(t.device().is_cpu() && a.index_list)) {
      foreign_ = t.device();
    }
    if (t.layout() != c10::Layout::Strided) refuse("a layout that is not strided");
  }

  const Plan& plan_;
  c10::DeviceIndex index_ = -1;
  const char* unsupported_ = nullptr;
  bool complex_ = false, host_scalars_ = false, indices_ = false;
  std::optional<c10::Device> foreign_;
};

bool is_host_scalar(const at::Tensor& t) { return t.defined() && t.device().is_cpu() && t.dim() == 0; }

at::Scalar host_value(const at::Tensor& t) {
  switch (t.scalar_type()) {
    case c10::kDouble: return *static_cast<const double*>(t.const_data_ptr());
    case c10::kLong: return *static_cast<const int64_t*>(t.const_data_ptr());
    case c10::kBool: return *static_cast<const bool*>(t.const_data_ptr());
    case c10::kComplexDouble: return *static_cast<const c10::complex<double>*>(t.const_data_ptr());
    default: return t.item();
  }
}

/// Fills lower::Args one argument after another; consumes the host scalars in order.
class Filler {
 public:
  Filler(const HostScalars& scalars, lower::Args* args) : scalars_(scalars), args_(args) {}

  void value(const c10::IValue& v, bool is_dtype, ArgValue& a) {
    if (v.isTensor()) {
      set_tensor(&a, v.toTensor());
    } else if (v.isInt()) {
      a.kind = is_dtype ? ArgKind::DType : ArgKind::Int;
      a.i = is_dtype ? static_cast<int64_t>(core_dtype(static_cast<c10::ScalarType>(v.toInt()))) : v.toInt();
      a.complex_dtype = is_dtype && c10::isComplexType(static_cast<c10::ScalarType>(v.toInt()));
    } else if (v.isDouble()) {
      a.kind = ArgKind::Double, a.d = v.toDouble();
    } else if (v.isComplexDouble()) {
      a.kind = ArgKind::Complex, a.d = v.toComplexDouble().real(), a.imag = v.toComplexDouble().imag();
    } else if (v.isBool()) {
      a.kind = ArgKind::Bool, a.i = v.toBool();
    } else if (v.isString()) {
      a.kind = ArgKind::Text, a.text = v.toStringRef();
    } else if (v.isGenerator()) {
      a.kind = ArgKind::Generator;
    } else if (v.isSymInt()) {
      a.kind = ArgKind::Int, a.i = v.toSymInt().guard_int(__FILE__, __LINE__);
    } else if (v.isList()) {
      set_list(&a, v);
    } else if (!v.isNone()) {
      a.kind = ArgKind::Other;
    }
  }

 private:
  lower::Complex tensor(const at::Tensor& t) {
    if (!t.defined()) return {};
    if (!is_host_scalar(t)) return read_resolved(t);
    const at::Scalar& s = scalars_[next_scalar_++];
    const DType d = core_dtype(t.scalar_type());
    if (s.isComplex()) return {scalar(d, s.toComplexDouble().real()), scalar(d, s.toComplexDouble().imag())};
    return {is_float(d) ? scalar(d, s.toDouble()) : scalar(d, s.isBoolean() ? static_cast<int64_t>(s.toBool()) : s.toLong()), {}};
  }

  void set_tensor(ArgValue* a, const at::Tensor& t) {
    if (!t.defined()) return;
    a->kind = ArgKind::Tensor;
    const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
    a->category = impl->is_wrapped_number() ? Category::Number : impl->dim() == 0 ? Category::ZeroDim : Category::Dimensioned;
    a->contiguous = t.is_contiguous();
    a->channels_last = t.is_contiguous(at::MemoryFormat::ChannelsLast) || t.is_contiguous(at::MemoryFormat::ChannelsLast3d);
    lower::Complex v = tensor(t);
    a->tensor = std::move(v.re), a->imaginary = std::move(v.im);
  }

  void set_list(ArgValue* a, const c10::IValue& v) {
    const auto elements = v.isIntList() || v.isDoubleList() || v.isBoolList() ? c10::ArrayRef<c10::IValue>() : v.toListRef();
    if (v.isIntList()) {
      a->kind = ArgKind::Ints;
      for (int64_t i : v.toIntVector()) a->ints.push_back(i);
    } else if (v.isDoubleList()) {
      a->kind = ArgKind::Doubles;
      a->doubles = v.toDoubleVector();
    } else if (v.isBoolList()) {
      a->kind = ArgKind::Bools;
      for (bool b : v.toBoolList()) a->ints.push_back(b);
    } else if (!elements.empty() && (elements[0].isInt() || elements[0].isSymInt())) {
      set_numbers(a, elements);
    } else if (!elements.empty() && (elements[0].isDouble() || elements[0].isBool())) {
      set_numbers(a, elements);
    } else {
      set_tensors(a, elements);
    }
  }

  void set_tensors(ArgValue* a, c10::ArrayRef<c10::IValue> elements) {
    a->kind = ArgKind::Tensors;
    bool complex = false;
    for (const c10::IValue& e : elements) {
      lower::Complex v = e.isTensor() ? tensor(e.toTensor()) : lower::Complex();
      complex |= v.is_complex();
      a->tensors.push_back(std::move(v.re)), a->imaginaries.push_back(std::move(v.im));
    }
    if (!complex) a->imaginaries.clear();
  }

  /// A list of Scalars, or of integers: as doubles, and as integers where all are.
  static void set_numbers(ArgValue* a, c10::ArrayRef<c10::IValue> elements) {
    a->kind = ArgKind::Ints;
    for (const c10::IValue& e : elements) {
      const at::Scalar s = e.toScalar();
      a->doubles.push_back(s.toDouble());
      if (e.isDouble()) a->kind = ArgKind::Doubles;
      else a->ints.push_back(s.isBoolean() ? s.toBool() : s.toLong());
    }
    if (a->kind == ArgKind::Doubles) a->ints.clear();
  }

  const HostScalars& scalars_;
  lower::Args* args_;
  size_t next_scalar_ = 0;
};

/// What the hooks need: the call's generators and its device.
struct CallContext {
  c10::ArrayRef<c10::IValue> arguments;
  c10::DeviceIndex index;
};
thread_local CallContext call_context;

/// Seed and offset are run-time arguments: never part of the key, whatever their values.
tiny::Tensor counter_leaf(uint64_t v) { return {make_node(Op::SCALAR, DType::u64, 1, Arg(static_cast<int64_t>(v)), {}), Dims{}}; }

lower::Args::Rng draw_numbers(lower::Args&, int position, int64_t numel) {
  const CallContext& c = call_context;
  const bool given = position >= 0 && position < static_cast<int>(c.arguments.size()) && c.arguments[position].isGenerator();
  DrawLog* log = DrawLog::current();
  if (given && log) throw Error(ErrorKind::NotImplemented, "a program that is recorded draws from a generator of its own");
  const Draw d = given ? draw(c.arguments[position].toGenerator(), numel) : draw(default_generator(c.index), numel);
  const lower::Args::Rng rng{counter_leaf(d.seed), counter_leaf(d.offset)};
  if (log) {
    log->numbers.push_back(rng.seed.ref()), log->numbers.push_back(rng.offset.ref());
    log->counts.push_back(numel);
  }
  return rng;
}

tiny::Tensor table_of_device(const lower::Table& table, DType d) { return table_on(device(call_context.index), table, d); }

}  // namespace

Survey survey_arguments(const Plan& plan, c10::ArrayRef<c10::IValue> arguments) {
  Surveyor s(plan);
  for (size_t i = 0; i < arguments.size(); ++i) s.look(arguments[i], plan.arguments[i]);
  return s.finish();
}

HostScalars host_scalars(c10::ArrayRef<c10::IValue> arguments) {
  HostScalars scalars;
  for (const c10::IValue& v : arguments) {
    if (v.isTensor()) {
      if (is_host_scalar(v.toTensor())) scalars.push_back(host_value(v.toTensor()));
    } else if (v.isList()) {
      for (const c10::IValue& e : v.toListRef())
        if (e.isTensor() && is_host_scalar(e.toTensor())) scalars.push_back(host_value(e.toTensor()));
    }
  }
  return scalars;
}

void fill_arguments(const Plan& plan, c10::ArrayRef<c10::IValue> arguments, const HostScalars& scalars, c10::DeviceIndex index,
                    lower::Args* out) {
  Filler filler(scalars, out);
  out->op = plan.name;
  out->host = device(index).host_visible();
  out->default_float = core_dtype(c10::get_default_dtype_as_scalartype());
  for (size_t i = 0; i < arguments.size(); ++i)
    if (!plan.arguments[i].out) filler.value(arguments[i], plan.arguments[i].dtype, out->values.emplace_back());
  auto add_out = [&](const at::Tensor& t) { out->outs.push_back({core_dtype(t.scalar_type()), dims(t.sizes()), t.is_complex()}); };
  for (int k : plan.targets) {
    if (arguments[k].isTensor()) add_out(arguments[k].toTensor());
    else if (arguments[k].isList())
      for (const c10::IValue& e : arguments[k].toListRef()) add_out(e.toTensor());
  }
  call_context = {arguments, index};
  out->rng_hook = &draw_numbers;
  out->table_hook = &table_of_device;
}

}  // namespace tiny::glue
