// Operators whose result has as many elements as a mask has set: the number is read from the device, all else stays lazy.
#include "indices.h"

#include <ATen/native/IndexingUtils.h>

#include "copy.h"
#include "errors.h"
#include "views.h"

namespace tiny::glue {
namespace {

/// Flat positions of the elements that are not zero, i64 [count]. Waits for the count.
at::Tensor nonzero_flat(const at::Tensor& self) {
  const c10::DeviceIndex index = self.device().index();
  at::Tensor rank = make_empty({self.numel()}, c10::kLong, index), total = make_empty({}, c10::kLong, index);
  guarded([&] {
    GraphLock lock;
    const tiny::Tensor x = read(self).reshape({self.numel()});
    const tiny::Tensor set = ne(x, zeros({}, x.dtype()));
    write(rank, where(set, set.cast(DType::i64).scan(Op::ADD, 0) - constant(DType::i64, int64_t{1}), constant(DType::i64, int64_t{-1})));
    write(total, set.cast(DType::i64).sum(std::array<int64_t, 1>{0}));
  });
  const int64_t count = self.numel() == 0 ? 0 : total.item<int64_t>();
  at::Tensor out = make_empty({count}, c10::kLong, index);
  if (count == 0) return out;
  guarded([&] {
    GraphLock lock;
    const tiny::Tensor empty = empty_value({count, 1}, DType::i64), positions = iota(self.numel()).reshape({self.numel(), 1});
    write(out, scatter_rows(empty, read(rank), positions, Op::NOOP).reshape({count}));
  });
  return out;
}

at::Tensor nonzero(const at::Tensor& self) {
  if (!is_native(self.scalar_type())) return at::nonzero(self != at::zeros({}, self.options()));
  const int64_t n = self.dim();
  const at::Tensor flat = nonzero_flat(self);
  at::Tensor out = make_empty_strided({flat.numel(), n}, {1, flat.numel()}, c10::kLong, self.device().index());
  if (out.numel() == 0) return out;
  guarded([&] {
    GraphLock lock;
    const tiny::Tensor f = read(flat);
    const Dims strides = contiguous_strides(dims(self.sizes()));
    std::vector<tiny::Tensor> rows;
    for (int64_t d = 0; d < n; ++d) {
      const auto size = constant(DType::i64, self.size(d)), stride = constant(DType::i64, strides[d]);
      rows.push_back(binary(Op::MOD, f / stride, size).reshape({1, flat.numel()}));
    }
    write(out, cat(rows, 0).transpose(0, 1));
  });
  after_operator(device_of(*out.unsafeGetTensorImpl()));
  return out;
}

at::Tensor masked_select(const at::Tensor& self, const at::Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == c10::kBool || mask.scalar_type() == c10::kByte, "masked_select: expected BoolTensor for mask");
  if (!is_tiny(self) || !is_tiny(mask)) raise_two_devices(self.device(), mask.device());
  const auto expanded = at::expand_outplace(self, mask, "masked_select");
  const at::Tensor positions = nonzero_flat(*std::get<1>(expanded));
  const at::Tensor source = *std::get<0>(expanded);
  if (!is_native(source.scalar_type())) return source.reshape({-1}).index_select(0, positions);
  return guarded([&] {
    GraphLock lock;
    const tiny::Tensor flat = read(source).reshape({source.numel()});
    return make_result(gather_flat(flat, read(positions)), source.device().index());
  });
}

/// The result in an out= argument: dtype checked, resized if need be.
at::Tensor& deliver(const at::Tensor& result, at::Tensor& out, const char* op) {
  TORCH_CHECK(out.device() == result.device(), op, ": expected out to be on ", result.device(), " but it is on ", out.device());
  TORCH_CHECK(out.scalar_type() == result.scalar_type(), op, ": expected out to have dtype ", result.scalar_type(), " but got ",
              out.scalar_type());
  at::native::resize_output(out, result.sizes());
  copy_tensor(out, result);
  return out;
}

at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out) {
  at::assert_no_internal_overlap(out);
  refuse_overlap(out, self);
  return deliver(tiny::glue::nonzero(self), out, "nonzero");
}
at::Tensor& masked_select_out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out) {
  at::assert_no_internal_overlap(out);
  refuse_overlap(out, self), refuse_overlap(out, mask);
  return deliver(tiny::glue::masked_select(self, mask), out, "masked_select");
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  if (self.device() != other.device()) raise_two_devices(self.device(), other.device());
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected object of data type ", self.scalar_type(), " but got data type ",
              other.scalar_type(), " for argument 'other' in call to equal");
  if (self.sizes() != other.sizes()) return false;
  if (self.numel() == 0) return true;
  const at::Tensor same = guarded([&] {
    GraphLock lock;
    const tiny::Tensor all = eq(read(self), read(other)).reduce(Op::AND, {});
    return make_result(all, self.device().index());
  });
  return same.item<bool>();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nonzero", TORCH_FN(nonzero));
  m.impl("nonzero.out", TORCH_FN(nonzero_out));
  m.impl("masked_select", TORCH_FN(masked_select));
  m.impl("masked_select.out", TORCH_FN(masked_select_out));
  m.impl("equal", TORCH_FN(equal));
}

}  // namespace

void prepare_indices(const Plan& plan, c10::IValue* arguments, size_t count) {
  const at::Tensor self = arguments[0].toTensor();
  for (size_t i = 0; i < count; ++i) {
    if (!plan.arguments[i].index_list || !arguments[i].isList()) continue;
    c10::List<std::optional<at::Tensor>> on_device, positions;
    for (const c10::IValue& e : arguments[i].toListRef()) {
      std::optional<at::Tensor> t;
      if (e.isTensor() && e.toTensor().defined()) t = is_tiny(e.toTensor()) ? e.toTensor() : e.toTensor().to(self.device());
      on_device.push_back(std::move(t));
    }
    for (at::Tensor& t : at::native::expandTensors(self, on_device))
      positions.push_back(t.defined() ? std::optional(std::move(t)) : std::nullopt);
    arguments[i] = std::move(positions);
  }
}

namespace {

/// One of the dimensions along which a tensor has all its elements in one place.
bool is_shared(const at::Tensor& t, int64_t d) { return t.stride(d) == 0 && t.size(d) > 1; }

/// Each place of an expanded tensor once.
at::Tensor once(const at::Tensor& self) {
  at::Tensor t = self;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (is_shared(self, d)) t = t.narrow(d, 0, 1);
  return t;
}

void with_value(const c10::IValue& value, auto&& fill) {
  if (value.isTensor()) fill(value.toTensor());
  else fill(value.toScalar());
}

}  // namespace

bool fill_shared(std::string_view name, c10::ArrayRef<c10::IValue> a) {
  const at::Tensor self = a[0].toTensor();
  at::Tensor places = once(self);
  if (at::has_internal_overlap(places) == at::MemOverlap::Yes) return false;
  const char* also = "e.g. tensor[mask] = scalar";
  if (name.starts_with("aten::masked_fill_.")) {
    at::Tensor mask = a[1].toTensor().expand(self.sizes());
    for (int64_t d = 0; d < self.dim(); ++d)
      if (is_shared(self, d)) mask = mask.any(d, /*keepdim=*/true);
    with_value(a[2], [&](const auto& value) { places.masked_fill_(mask, value); });
  } else if (name.starts_with("aten::index_fill_.")) {
    const int64_t d = at::maybe_wrap_dim(a[1].toInt(), self.dim());
    if (is_shared(self, d) && a[2].toTensor().numel() == 0) return true;
    const at::Tensor index = is_shared(self, d) ? at::zeros({1}, a[2].toTensor().options()) : a[2].toTensor();
    with_value(a[3], [&](const auto& value) { places.index_fill_(d, index, value); });
  } else {
    const at::Tensor values = a[2].toTensor();
    if (values.numel() != 1 || a[3].toBool()) return false;
    also = "e.g. tensor[indices] = tensor";
    c10::List<std::optional<at::Tensor>> indices;
    for (const c10::IValue& e : a[1].toListRef()) {
      const auto d = static_cast<int64_t>(indices.size());
      std::optional<at::Tensor> t = e.toOptional<at::Tensor>();
      indices.push_back(t && t->defined() && is_shared(self, d) ? at::zeros_like(*t) : t);
    }
    at::_index_put_impl_(places, indices, values);
  }
  const std::string_view base = name.substr(6, name.find_first_of(".", 6) - 6);
  TORCH_WARN("Use of ", base == "_index_put_impl_" ? "index_put_" : base, " on expanded tensors is deprecated. Please clone() the tensor "
             "before performing this operation. This also applies to advanced indexing ", also);
  return true;
}

bool put_by_mask(at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices, const at::Tensor& values, bool accumulate) {
  if (accumulate || values.numel() != 1) return false;
  int64_t before = 0;
  at::Tensor mask;
  for (const std::optional<at::Tensor>& index : indices) {
    if (index && index->defined()) {
      if (mask.defined() || index->scalar_type() != c10::kBool) return false;
      mask = *index;
    } else if (!mask.defined()) {
      ++before;
    }
  }
  if (!mask.defined() || before + mask.dim() > self.dim()) return false;
  for (int64_t d = 0; d < mask.dim(); ++d)
    if (mask.size(d) != self.size(before + d)) return false;  // the general path raises
  if (!is_tiny(mask)) mask = mask.to(self.device());
  std::vector<int64_t> shape = mask.sizes().vec();
  shape.resize(static_cast<size_t>(self.dim() - before), 1);
  self.masked_fill_(mask.reshape(shape), values.reshape({}));
  return true;
}

}  // namespace tiny::glue
