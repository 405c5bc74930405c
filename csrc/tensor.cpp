#include "tensor.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/TensorFactories.h>

#include "device_state.h"
#include "errors.h"
#include "lower/complex/pairs.h"

namespace tiny::glue {
namespace {

struct DTypePair {
  c10::ScalarType torch;
  DType core;
};
// Rows of a complex type name its real part's type.
constexpr DTypePair kPairs[] = {
  {c10::ScalarType::Bool, DType::bool_},  {c10::ScalarType::Byte, DType::u8},      {c10::ScalarType::Char, DType::i8},
  {c10::ScalarType::Short, DType::i16},   {c10::ScalarType::UInt16, DType::u16},   {c10::ScalarType::Int, DType::i32},
  {c10::ScalarType::UInt32, DType::u32},  {c10::ScalarType::Long, DType::i64},     {c10::ScalarType::UInt64, DType::u64},
  {c10::ScalarType::BFloat16, DType::bf16}, {c10::ScalarType::Half, DType::f16},   {c10::ScalarType::Float, DType::f32},
  {c10::ScalarType::Double, DType::f64},  {c10::ScalarType::Float8_e4m3fn, DType::f8e4m3},
  {c10::ScalarType::Float8_e5m2, DType::f8e5m2},
  {c10::ScalarType::ComplexHalf, DType::f16}, {c10::ScalarType::ComplexFloat, DType::f32}, {c10::ScalarType::ComplexDouble, DType::f64},
};

constexpr size_t kScalarTypes = static_cast<size_t>(c10::ScalarType::NumOptions);

constexpr auto kToCore = [] {
  std::array<DType, kScalarTypes> table{};
  for (auto& d : table) d = DType::count;
  for (const auto& p : kPairs) table[static_cast<size_t>(p.torch)] = p.core;
  return table;
}();

constexpr auto kToTorch = [] {
  std::array<c10::ScalarType, static_cast<size_t>(DType::count)> table{};
  for (auto& t : table) t = c10::ScalarType::Undefined;
  for (const auto& p : kPairs)
    if (table[static_cast<size_t>(p.core)] == c10::ScalarType::Undefined) table[static_cast<size_t>(p.core)] = p.torch;
  return table;
}();

/// The integer of this size: dtypes without a core dtype are moved, never computed on.
DType raw_dtype(size_t itemsize) {
  switch (itemsize) {
    case 1: return DType::u8;
    case 2: return DType::u16;
    case 4: return DType::u32;
    case 8: return DType::u64;
    default: TORCH_CHECK(false, "torch_tiny: elements of ", itemsize, " bytes are not supported");
  }
}

at::Tensor wrap_storage(c10::intrusive_ptr<c10::StorageImpl> storage, c10::ScalarType dtype) {
  return at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                  c10::scalarTypeToTypeMeta(dtype));
}

/// torch.utils.deterministic.fill_uninitialized_memory.
void fill_if_deterministic(at::Tensor& t) {
  if (C10_UNLIKELY(at::globalContext().deterministicAlgorithms() && at::globalContext().deterministicFillUninitializedMemory()))
    at::native::fill_empty_deterministic_(t);
}

}  // namespace

DType core_dtype(c10::ScalarType t) { return t < c10::ScalarType::NumOptions ? kToCore[static_cast<size_t>(t)] : DType::count; }
c10::ScalarType torch_dtype(DType d) { return kToTorch[static_cast<size_t>(d)]; }
c10::ScalarType torch_dtype(const lower::Complex& value) {
  const auto type = torch_dtype(value.re.dtype());
  return value.is_complex() ? c10::toComplexType(type) : type;
}

Storage& storage_of(const c10::TensorImpl& t) { return storage_of(*t.unsafe_storage().unsafeGetStorageImpl()); }
namespace {
/// The storage that an operator reads or writes.
Storage& touched(const c10::TensorImpl& t) {
  c10::StorageImpl& storage = *t.unsafe_storage().unsafeGetStorageImpl();
  Storage& s = storage_of(storage);
  if (C10_UNLIKELY(s.pinned())) expect_address_again(storage);
  return s;
}
}  // namespace

namespace {
bool is_conjugate(const c10::TensorImpl& t) { return t.key_set().has(c10::DispatchKey::Conjugate); }
bool is_negative(const c10::TensorImpl& t) { return t.key_set().has(c10::DispatchKey::Negative); }
}  // namespace

Device& device_of(const c10::TensorImpl& t) { return storage_of(t).device(); }

Geometry geometry(const c10::TensorImpl& t) {
  const auto type = c10::typeMetaToScalarType(t.dtype());
  const DType d = core_dtype(type);
  if (c10::isComplexType(type)) {
    Geometry g{d, dims(t.sizes()), {}, t.storage_offset() * 2};
    for (int64_t s : t.strides()) g.strides.push_back(s * 2);
    g.sizes.push_back(2), g.strides.push_back(1);
    return g;
  }
  return {d == DType::count ? raw_dtype(t.itemsize()) : d, dims(t.sizes()), dims(t.strides()), t.storage_offset()};
}

tiny::Tensor read(const c10::TensorImpl& t) {
  const Geometry g = geometry(t);
  if (t.numel() == 0) return zeros(g.sizes, g.dtype);
  return touched(t).read(g.dtype, g.sizes, g.strides, g.offset);
}

void write(const c10::TensorImpl& t, const tiny::Tensor& value) {
  if (t.numel() == 0) return;
  if (C10_UNLIKELY(!t.is_contiguous())) at::assert_no_internal_overlap(const_cast<c10::TensorImpl*>(&t));
  const Geometry g = geometry(t);
  touched(t).write(g.sizes, g.strides, g.offset, value);
}

namespace {

/// The two parts of a complex tensor as they lie in memory.
lower::Complex read_parts(const c10::TensorImpl& t) {
  const DType d = core_dtype(c10::typeMetaToScalarType(t.dtype()));
  const Dims sizes = dims(t.sizes());
  if (t.numel() == 0) return {zeros(sizes, d), zeros(sizes, d)};
  Storage& storage = touched(t);
  Dims strides = dims(t.strides());
  for (int64_t& s : strides) s *= 2;
  return {storage.read(d, sizes, strides, t.storage_offset() * 2), storage.read(d, sizes, strides, t.storage_offset() * 2 + 1)};
}

/// Dimensions from the outermost in memory to the innermost.
Dims memory_order(const c10::TensorImpl& t) {
  Dims order;
  for (int64_t k = 0; k < t.dim(); ++k) order.push_back(k);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return t.sizes()[a] != 1 && (t.sizes()[b] == 1 || t.strides()[a] > t.strides()[b]);
  });
  return order;
}

}  // namespace

lower::Complex read_resolved(const c10::TensorImpl& t) {
  if (!c10::isComplexType(c10::typeMetaToScalarType(t.dtype()))) return {is_negative(t) ? -read(t) : read(t), {}};
  lower::Complex v = read_parts(t);
  if (is_negative(t)) v = {-v.re, -v.im};
  if (is_conjugate(t)) v.im = -v.im;
  return v;
}

void write_resolved(const c10::TensorImpl& t, lower::Complex v) {
  if (is_negative(t)) v.re = -v.re;
  if (!v.is_complex()) return write(t, v.re);
  if (is_negative(t)) v.im = -v.im;
  if (is_conjugate(t)) v.im = -v.im;
  if (!t.is_contiguous() && t.storage_offset() == 0 && t.is_non_overlapping_and_dense() &&
      static_cast<size_t>(t.numel()) * t.itemsize() == t.unsafe_storage().nbytes()) {
    const Dims order = memory_order(t);
    const tiny::Tensor pairs = lower::join_pairs({v.re.permute(order), v.im.permute(order)});
    return touched(t).write({pairs.numel()}, {1}, 0, pairs.reshape({-1}));
  }
  write(t, lower::join_pairs(v));
}

at::Tensor make_empty(c10::IntArrayRef sizes, c10::ScalarType dtype, c10::DeviceIndex index) {
  at::detail::check_size_nonnegative(sizes);
  const size_t nbytes = at::detail::computeStorageNbytesContiguous(sizes, c10::elementSize(dtype));
  at::Tensor t = wrap_storage(make_storage(index, nbytes), dtype);
  if (sizes.size() != 1 || sizes[0] != 0) t.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  fill_if_deterministic(t);
  return t;
}

at::Tensor make_empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype, c10::DeviceIndex index) {
  at::detail::check_size_nonnegative(sizes);
  const size_t nbytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype));
  at::Tensor t = wrap_storage(make_storage(index, nbytes), dtype);
  t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  fill_if_deterministic(t);
  return t;
}

namespace {

/// Whether strides say more than sizes do about the order of dimensions: not those of a contiguous tensor without sizes of 0 or 1.
bool has_own_order(const c10::TensorImpl& t) {
  return !t.is_contiguous() || std::any_of(t.sizes().begin(), t.sizes().end(), [](int64_t n) { return n <= 1; });
}

/// What TensorIterator gives a result: dense strides, dimensions ordered as the operand's strides are.
c10::SmallVector<int64_t, 5> dense_strides(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  const int n = static_cast<int>(sizes.size());
  c10::SmallVector<int, 5> order;  // innermost first
  for (int d = n - 1; d >= 0; --d) order.push_back(d);
  auto inner = [&](int a, int b) {  // 1: b lies inside of a; -1: it does not; 0: either
    if (strides[a] == 0 || strides[b] == 0) return 0;
    if (strides[a] != strides[b]) return strides[a] < strides[b] ? -1 : 1;
    return sizes[a] > sizes[b] ? 1 : 0;
  };
  for (int i = 1; i < n; ++i)
    for (int k = i, j = i - 1; j >= 0; --j) {
      const int c = inner(order[j], order[k]);
      if (c > 0) std::swap(order[j], order[k]), k = j;
      else if (c < 0) break;
    }
  bool usual = true;
  for (int i = 0; i < n; ++i) usual &= order[i] == n - 1 - i;
  c10::SmallVector<int64_t, 5> out(n);
  int64_t next = 1;
  for (int d : order) {
    out[d] = next;
    next *= usual ? std::max<int64_t>(sizes[d], 1) : sizes[d];
  }
  return out;
}

}  // namespace

at::Tensor make_result(lower::Complex value, c10::DeviceIndex index, const c10::TensorImpl* like) {
  const auto dtype = torch_dtype(value);
  const auto sizes = int_array(value.re.sizes());
  at::Tensor out;
  if (like && has_own_order(*like) && like->sizes() == sizes) {
    const auto strides = dense_strides(like->sizes(), like->strides());
    out = make_empty_strided(like->sizes(), strides, dtype, index);
  } else {
    out = make_empty(sizes, dtype, index);
  }
  write_resolved(out, std::move(value));
  return out;
}

void after_operator(Device& d) { Engine::of(d).after_operator(); }

void raise_two_devices(c10::Device a, c10::Device b) {
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", a, " and ", b, "!");
}

}  // namespace tiny::glue
