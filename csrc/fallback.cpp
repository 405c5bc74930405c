#include "fallback.h"

#include <atomic>
#include <mutex>

#include "base/env.h"
#include "copy.h"
#include "device_state.h"
#include "errors.h"
#include "generator.h"
#include "views.h"

namespace tiny::glue {
namespace {

std::string read_policy() {
  const std::string text = env_text(Env::TINY_FALLBACK);
  TORCH_CHECK_VALUE(text.empty() || text == "allow" || text == "warn" || text == "error", "TINY_FALLBACK=", text,
                    " is none of allow, warn, error");
  return text;
}

struct Counts {
  std::mutex mutex;
  std::map<std::string, int64_t> by_operator;
  std::atomic<int64_t> total{0};
};
Counts& counts() {
  static auto* c = new Counts;
  return *c;
}

/// Counts the run; warns or refuses as TINY_FALLBACK says.
void announce(const c10::OperatorHandle& op, const char* reason) {
  const std::string name = toString(op.operator_name());
  const std::string& policy = fallback_policy();
  TORCH_CHECK_NOT_IMPLEMENTED(policy != "error", "torch_tiny: ", name, " has no kernel on the tiny device (", reason,
                              "), and TINY_FALLBACK=error forbids running it on the CPU");
  bool first = false;
  {
    std::lock_guard lock(counts().mutex);
    first = counts().by_operator[name]++ == 0;
  }
  counts().total.fetch_add(1, std::memory_order_relaxed);
  if (first && policy == "warn") TORCH_WARN("torch_tiny: ", name, " runs on the CPU (", reason, "); TINY_FALLBACK=allow silences this");
}

/// The CPU stand-ins of one call's tensors. Tensors that share a storage share their stand-in's: aliasing is exact.
class StandIns {
 public:
  /// The span of its storage that a tensor touches, before any stand-in is made.
  void note(const at::Tensor& t) {
    if (!is_tiny(t) || t.layout() != c10::Layout::Strided || t.numel() == 0) return;
    const auto [low, high] = span(t);
    for (Span& s : spans_) {
      if (s.storage != t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()) continue;
      s.low = std::min(s.low, low), s.high = std::max(s.high, high), s.shared = true;
      return;
    }
    spans_.push_back({t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(), low, high, false, at::Tensor()});
  }

  at::Tensor to_host(const at::Tensor& t) {
    if (!is_tiny(t)) return t;
    for (const auto& [device, host] : pairs_)
      if (device.is_same(t)) return host;
    at::Tensor host = make(t);
    if (t.is_conj() != host.is_conj()) host._set_conj(t.is_conj());
    if (t.is_neg() != host.is_neg()) host._set_neg(t.is_neg());
    pairs_.emplace_back(t, host);
    return host;
  }

  /// A result of the operator on the device: an argument itself, a view of an argument's storage, or a new tensor.
  at::Tensor to_device(const at::Tensor& host, c10::DeviceIndex index) {
    if (!host.defined() || !host.device().is_cpu()) return host;
    for (const auto& [device, stand_in] : pairs_)
      if (stand_in.is_same(host)) return device;
    for (const Span& s : spans_) {
      if (!s.bytes.defined() || !host.has_storage() || !host.storage().is_alias_of(s.bytes.storage())) continue;
      for (const auto& [device, stand_in] : pairs_) {
        if (device.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() != s.storage) continue;
        if (device.scalar_type() != host.scalar_type()) break;
        const int64_t offset = host.storage_offset() + s.low / static_cast<int64_t>(host.itemsize());
        return at::as_strided(device, host.sizes(), host.strides(), offset);
      }
    }
    if (host.layout() != c10::Layout::Strided) return host.to(c10::Device(kTiny, index));
    const bool dense = host.is_non_overlapping_and_dense();
    at::Tensor out = dense ? make_empty_strided(host.sizes(), host.strides(), host.scalar_type(), index)
                           : make_empty(host.sizes(), host.scalar_type(), index);
    copy_from_cpu(out, host.resolve_conj().resolve_neg());
    return out;
  }

  /// After the operator wrote to a stand-in: its elements, and its geometry if that changed, go to the device.
  void write_back(const at::Tensor& device) {
    for (const auto& [d, host] : pairs_) {
      if (!d.is_same(device)) continue;
      if (d.layout() != c10::Layout::Strided) {
        d.copy_(host);
        return;
      }
      if (d.sizes() != host.sizes() || d.strides() != host.strides()) set_geometry(d, host.sizes(), host.strides());
      copy_tensor(d, host);
      return;
    }
  }

 private:
  struct Span {
    c10::StorageImpl* storage;
    int64_t low, high;  // bytes
    bool shared;
    at::Tensor bytes;
  };

  static std::pair<int64_t, int64_t> span(const at::Tensor& t) {
    const auto item = static_cast<int64_t>(t.itemsize());
    int64_t last = t.storage_offset();
    for (int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
    return {t.storage_offset() * item, (last + 1) * item};
  }

  at::Tensor make(const at::Tensor& t) {
    if (t.layout() != c10::Layout::Strided) return t.to(c10::kCPU);
    const auto options = t.options().device(c10::kCPU).pinned_memory(false);
    if (t.numel() == 0) return at::empty_strided(t.sizes(), t.strides(), options);
    auto* storage = t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    for (Span& s : spans_) {
      if (s.storage != storage) continue;
      const auto item = static_cast<int64_t>(t.itemsize());
      if (!s.shared && s.high - s.low > 4 * static_cast<int64_t>(t.nbytes())) return to_cpu(t);  // a few elements of a large storage
      s.low -= s.low % 16;  // whole elements of every dtype
      if (!s.bytes.defined()) {
        s.bytes = at::empty({s.high - s.low}, options.dtype(at::kByte));
        read_bytes(t, s.low, s.bytes.mutable_data_ptr(), s.high - s.low);
      }
      at::Tensor host = at::empty({0}, options);
      host.set_(s.bytes.storage(), t.storage_offset() - s.low / item, t.sizes(), t.strides());
      return host;
    }
    return to_cpu(t);
  }

  std::vector<Span> spans_;
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;
};

template <class F>
void for_each_tensor(const c10::IValue& v, F&& f) {
  if (v.isTensor()) {
    if (v.toTensor().defined()) f(v.toTensor());
  } else if (v.isTensorList()) {
    for (const at::Tensor& t : v.toTensorVector()) f(t);
  } else if (v.isList()) {
    for (const c10::IValue& e : v.toListRef())
      if (e.isTensor() && e.toTensor().defined()) f(e.toTensor());
  }
}

c10::IValue to_host(const c10::IValue& v, StandIns& stand_ins) {
  if (v.isTensor()) return stand_ins.to_host(v.toTensor());
  if (v.isTensorList()) {
    c10::List<at::Tensor> out;
    for (const at::Tensor& t : v.toTensorVector()) out.push_back(stand_ins.to_host(t));
    return out;
  }
  if (v.isList() && v.toList().elementType()->kind() == c10::TypeKind::OptionalType) {
    c10::List<std::optional<at::Tensor>> out;
    for (const c10::IValue& e : v.toListRef())
      out.push_back(e.isTensor() ? std::optional(stand_ins.to_host(e.toTensor())) : std::nullopt);
    return out;
  }
  if (v.isDevice() && v.toDevice().type() == kTiny) return c10::Device(c10::kCPU);
  if (v.isGenerator() && v.toGenerator().device().type() == kTiny) return cpu_generator_from(v.toGenerator());
  return v;
}

c10::IValue to_device(const c10::IValue& v, StandIns& stand_ins, c10::DeviceIndex index) {
  if (v.isTensor()) return stand_ins.to_device(v.toTensor(), index);
  if (v.isTensorList()) {
    c10::List<at::Tensor> out;
    for (const at::Tensor& t : v.toTensorVector()) out.push_back(stand_ins.to_device(t, index));
    return out;
  }
  return v;
}

/// The device that the call is about: of its first tiny tensor or device argument.
c10::DeviceIndex device_index(c10::ArrayRef<c10::IValue> arguments) {
  c10::DeviceIndex index = -1;
  for (const c10::IValue& v : arguments) {
    for_each_tensor(v, [&](const at::Tensor& t) {
      if (index < 0 && is_tiny(t)) index = t.device().index();
    });
    if (index < 0 && v.isDevice() && v.toDevice().type() == kTiny) index = v.toDevice().index();
  }
  return checked_device(index);
}

/// Whether a missing generator argument means the device's default one.
bool is_generator_argument(const c10::Argument& a) {
  const auto& type = a.type();
  return type->kind() == c10::TypeKind::OptionalType &&
         type->castRaw<c10::OptionalType>()->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

}  // namespace

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack, const char* reason) {
  announce(op, reason);
  at::AutoDispatchBelowADInplaceOrView guard;
  const c10::FunctionSchema& schema = op.schema();
  const size_t n = schema.arguments().size();
  const auto arguments = torch::jit::last(*stack, n);
  const c10::DeviceIndex index = device_index(arguments);

  StandIns stand_ins;
  for (const c10::IValue& v : arguments) for_each_tensor(v, [&](const at::Tensor& t) { stand_ins.note(t); });
  torch::jit::Stack host;
  for (size_t i = 0; i < n; ++i) {
    c10::IValue v = to_host(arguments[i], stand_ins);
    if (v.isNone() && is_generator_argument(schema.arguments()[i])) v = cpu_generator_from(default_generator(index));
    host.push_back(std::move(v));
  }
  op.callBoxed(&host);

  for (size_t i = 0; i < n; ++i) {
    const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
    if (alias && alias->isWrite()) for_each_tensor(arguments[i], [&](const at::Tensor& t) { stand_ins.write_back(t); });
  }
  torch::jit::Stack results;
  for (const c10::IValue& v : host) results.push_back(to_device(v, stand_ins, index));
  torch::jit::drop(*stack, n);
  for (c10::IValue& v : results) stack->push_back(std::move(v));
}

const std::string& fallback_policy() {
  static const std::string policy = read_policy();
  return policy;
}
std::map<std::string, int64_t> fallback_counts() {
  std::lock_guard lock(counts().mutex);
  return counts().by_operator;
}
int64_t fallback_count() { return counts().total.load(std::memory_order_relaxed); }
void reset_fallback_counts() {
  std::lock_guard lock(counts().mutex);
  counts().by_operator.clear();
  counts().total = 0;
}

namespace {

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) { run_on_cpu(op, stack, "no lowering yet"); }

void refuse_quantized(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "torch_tiny: ", op.operator_name(), ": quantized tensors live on the CPU");
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  // nn.TransformerEncoder asks this before it packs padded sequences into a nested tensor. There are none here: it shall use the mask.
  m.impl("_nested_tensor_from_mask_left_aligned", [](const at::Tensor&, const at::Tensor&) { return false; });
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_quantized>()); }

}  // namespace
}  // namespace tiny::glue
