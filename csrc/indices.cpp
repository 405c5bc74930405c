// Operators whose result has as many elements as a mask has set: the number is read from the device, all else stays lazy.
#include "indices.h"

#include <ATen/native/IndexingUtils.h>

#include "copy.h"
#include "errors.h"

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

at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out) { return deliver(tiny::glue::nonzero(self), out, "nonzero"); }
at::Tensor& masked_select_out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out) {
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
