// _grouped_mm. PyTorch's kernel for every device asks where the groups end, and for addresses: it would wait, and compile anew for every
// division of the rows.
#include "errors.h"
#include "lower/grouped.h"
#include "tensor.h"

namespace tiny::glue {
namespace {

int64_t elements_of_16_bytes(c10::ScalarType t) { return 16 / static_cast<int64_t>(c10::elementSize(t)); }

bool is_float_of_groups(c10::ScalarType t) { return t == at::kBFloat16 || t == at::kFloat || t == at::kHalf; }

/// Whether the last two dimensions are those of a transposed matrix. Throws, in PyTorch's words, if they are those of no matrix whose
/// rows or columns start at every 16 bytes.
bool is_transposed(const at::Tensor& m) {
  const int64_t row = m.stride(-2), column = m.stride(-1);
  const bool across = row == 1 && column >= std::max<int64_t>(1, m.size(-2));
  TORCH_CHECK(across || (column == 1 && row >= std::max<int64_t>(1, m.size(-1))), "Invalid strides/sizes, got ", m.strides(),
              " for strides and ", m.sizes(), " for sizes");
  TORCH_CHECK((across ? column : row) % elements_of_16_bytes(m.scalar_type()) == 0, "strides should be multiple of 16 bytes");
  return across;
}

void check_matrices(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(is_float_of_groups(a.scalar_type()), "Expected mat_a to be Float32, BFloat16 or Float16 matrix, got ", a.scalar_type());
  TORCH_CHECK(is_float_of_groups(b.scalar_type()), "Expected mat_b to be Float32, BFloat16 or Float16 matrix, got ", b.scalar_type());
  TORCH_CHECK(a.dim() == 2 || a.dim() == 3, "mat_a has to be 2 or 3d");
  TORCH_CHECK(b.dim() == 2 || b.dim() == 3, "mat_b has to be 2 or 3d");
  TORCH_CHECK((a.dim() == 2 && b.dim() == 2) || a.size(-1) == b.size(-2), "contraction dimension of mat_a and mat_b must match");
}

void check_offsets(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& offs) {
  TORCH_CHECK(offs.has_value() == (a.dim() == 2 || b.dim() == 2),
              "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d");
  if (!offs) return;
  TORCH_CHECK(offs->dim() == 1, "offs has to be 1D");
  TORCH_CHECK(offs->scalar_type() == at::kInt, "Offsets have to be int32");
}

/// The result, whose rows start at every 16 bytes.
at::Tensor padded_result(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& offs) {
  c10::SmallVector<int64_t, 3> sizes{a.size(-2), b.size(-1)};
  if (a.dim() == b.dim()) sizes.insert(sizes.begin(), a.dim() == 2 ? offs->size(0) : a.size(0));
  const at::Tensor& grouped = a.dim() == 2 ? b : a;
  if (offs && a.dim() != b.dim()) TORCH_CHECK(offs->size(0) == grouped.size(0), "matrix batch sizes have to match");
  if (!offs) TORCH_CHECK(a.size(0) == b.size(0), "batched dimension has to match");
  const int64_t unit = elements_of_16_bytes(a.scalar_type()), row = (sizes.back() + unit - 1) / unit * unit;
  c10::SmallVector<int64_t, 3> strides{row, 1};
  if (sizes.size() == 3) strides.insert(strides.begin(), sizes[1] * row);
  return at::empty_strided(sizes, strides, a.options());
}

/// Rows of `a` times matrices of `b`, read as they lie in memory.
tiny::Tensor rows_times(const at::Tensor& a, const at::Tensor& b, const tiny::Tensor& ends) {
  const bool transposed = b.stride(-2) == 1 && b.stride(-1) != 1;
  return lower::grouped_rows(read(a), read(transposed ? b.transpose(-2, -1) : b), ends, transposed);
}

at::Tensor grouped_mm(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& offs,
                      const std::optional<at::Tensor>& bias, std::optional<c10::ScalarType> out_dtype) {
  check_matrices(a, b);
  is_transposed(a), is_transposed(b);
  check_offsets(a, b, offs);
  TORCH_CHECK(!bias.has_value(), "Bias not supported yet");
  TORCH_CHECK(out_dtype.value_or(a.scalar_type()) == a.scalar_type(), "Grouped gemm output dtype must match `mat_a` dtype");
  at::Tensor out = padded_result(a, b, offs);
  if (!offs) return out.copy_(at::bmm(a, b));
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "expected m1 and m2 to have the same dtype, but got: ", a.dtype(), " != ", b.dtype());
  if (a.device() != b.device()) raise_two_devices(a.device(), b.device());
  const at::Tensor ends = offs->to(a.device()), at = a.transpose(-2, -1), bt = b.transpose(-2, -1), out_t = out.transpose(-2, -1);
  guarded([&] {
    GraphLock lock;
    const DType d = core_dtype(a.scalar_type());
    const tiny::Tensor e = read(ends);
    if (a.dim() == b.dim()) write(out, lower::grouped_products(read(a), read(b), e).cast(d));
    else if (a.dim() == 2) write(out, rows_times(a, b, e).cast(d));
    else write(out_t, rows_times(bt, at, e).cast(d));
  });
  after_operator(device_of(*out.unsafeGetTensorImpl()));
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_grouped_mm", TORCH_FN(grouped_mm)); }

}  // namespace
}  // namespace tiny::glue
