// Sparse tensors on the device: indices and values are ordinary tensors of it, so PyTorch's own functions on the structure serve as they
// are. Sums, products with dense matrices and coalescing are made of other operators here; everything else that the CPU has for these
// layouts runs there, counted.
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_embedding_bag_backward_native.h>
#include <ATen/ops/_indices_native.h>
#include <ATen/ops/_nnz_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_native.h>
#include <ATen/ops/_sparse_compressed_tensor_with_dims_native.h>
#include <ATen/ops/_coalesced_native.h>
#include <ATen/ops/_to_dense_native.h>
#include <ATen/ops/_to_sparse_native.h>
#include <ATen/ops/_values_native.h>
#include <ATen/ops/ccol_indices_native.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/col_indices_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/copy_sparse_to_sparse_native.h>
#include <ATen/ops/crow_indices_native.h>
#include <ATen/ops/dense_dim_native.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/empty_native.h>
#include <ATen/ops/indices_native.h>
#include <ATen/ops/is_coalesced_native.h>
#include <ATen/ops/permute_native.h>
#include <ATen/ops/resize_as_sparse_native.h>
#include <ATen/ops/row_indices_native.h>
#include <ATen/ops/sparse_dim_native.h>
#include <ATen/ops/sparse_resize_and_clear_native.h>
#include <ATen/ops/sparse_resize_native.h>
#include <ATen/ops/unsqueeze_native.h>
#include <ATen/ops/values_native.h>
#include <ATen/ops/zero_native.h>

#include "fallback.h"
#include "tensor.h"

namespace tiny::glue {
namespace {

/// The position of each entry in a row-major order of the sparse dimensions, i64 [nnz].
at::Tensor flat_positions(const at::Tensor& indices, c10::IntArrayRef sizes) {
  at::Tensor flat = at::zeros({indices.size(1)}, indices.options());
  for (int64_t d = 0; d < indices.size(0); ++d) flat = flat * sizes[static_cast<size_t>(d)] + indices.select(0, d);
  return flat;
}

at::Tensor with_parts(const at::Tensor& like, const at::Tensor& indices, const at::Tensor& values, bool coalesced) {
  return at::_sparse_coo_tensor_unsafe(indices, values, like.sizes(), values.options().layout(c10::kSparse), coalesced);
}

/// Entries in order, those of one place added up.
at::Tensor coalesce_sparse(const at::Tensor& self) {
  if (self.is_coalesced()) return self;
  const at::Tensor indices = self._indices(), values = self._values();
  if (values.size(0) < 2) return with_parts(self, indices.clone(), values.clone(), true);
  const auto [kept, place, counts] = at::_unique2(flat_positions(indices, self.sizes()), /*sorted=*/true, /*return_inverse=*/true);
  auto sizes = values.sizes().vec();
  sizes[0] = kept.size(0);
  const at::Tensor sums = at::zeros(sizes, values.options()).index_add_(0, place, values);
  std::vector<at::Tensor> rows;
  at::Tensor rest = kept;
  for (int64_t d = self.sparse_dim() - 1; d >= 0; --d) {
    rows.push_back(rest.remainder(self.size(d)));
    rest = rest.floor_divide(self.size(d));
  }
  std::reverse(rows.begin(), rows.end());
  return with_parts(self, rows.empty() ? indices.narrow(1, 0, 1).clone() : at::stack(rows), sums, true);
}

/// The entries' places, for index_put_ and index.
c10::List<std::optional<at::Tensor>> places(const at::Tensor& sparse) {
  c10::List<std::optional<at::Tensor>> list;
  for (const at::Tensor& row : sparse._indices().unbind(0)) list.push_back(row);
  return list;
}

/// dense += alpha * sparse, where the types agree.
void add_to_dense(at::Tensor& dense, const at::Tensor& sparse, const at::Scalar& alpha) {
  at::Tensor values = sparse._values().to(dense.scalar_type());
  if (!alpha.equal(1)) values = values * alpha;
  if (sparse.sparse_dim() == 0) dense.add_(values.sum(0));
  else if (values.numel()) dense.index_put_(places(sparse), values, /*accumulate=*/true);
}

constexpr const char* kReason = "a sparse layout";
void run_boxed_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) { run_on_cpu(op, stack, kReason); }

/// The same operator on the CPU, counted.
template <class... Arguments>
at::Tensor on_cpu(const char* name, const char* overload, Arguments&&... arguments) {
  torch::jit::Stack stack;
  torch::jit::push(stack, std::forward<Arguments>(arguments)...);
  run_on_cpu(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload), &stack, kReason);
  return stack.back().toTensor();
}

bool is_coo(const at::Tensor& t) { return t.layout() == c10::kSparse; }
bool is_dense(const at::Tensor& t) { return t.layout() == c10::kStrided; }

void check_sizes(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.sizes() == other.sizes(), "add: expected 'self' and 'other' to have same size, but self has size ", self.sizes(),
              " while other has size ", other.sizes(), " (FYI: dense-sparse addition does not currently support broadcasting)");
}

at::Tensor add_sparse(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  TORCH_CHECK(other.is_sparse(), "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  const auto type = at::result_type(self, other);
  check_sizes(self, other);
  if (!self.is_sparse()) {
    at::Tensor out = self.to(type, /*non_blocking=*/false, /*copy=*/true);
    add_to_dense(out, other, alpha);
    return out;
  }
  TORCH_CHECK(self.sparse_dim() == other.sparse_dim(), "add: expected 'self' and 'other' to have same sparse dimensions");
  at::Tensor added = other._values().to(type);
  if (!alpha.equal(1)) added = added * alpha;
  const at::Tensor indices = at::cat({self._indices(), other._indices()}, 1), values = at::cat({self._values().to(type), added});
  const at::Tensor sum = with_parts(self, indices, values, false);
  return self.is_coalesced() && other.is_coalesced() ? coalesce_sparse(sum) : sum;
}

at::Tensor& add_sparse_(at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  const auto type = at::result_type(self, other);
  TORCH_CHECK(c10::canCast(type, self.scalar_type()), "Can't convert result type ", type, " to output ", self.scalar_type());
  if (self.is_sparse()) return self.copy_(add_sparse(self, other, alpha).to(self.scalar_type()));
  check_sizes(self, other);
  add_to_dense(self, other, alpha);
  return self;
}

/// beta * self + alpha * mat1 @ mat2 for a sparse mat1: each entry adds a multiple of a row of mat2 to a row of the result.
at::Tensor addmm_sparse(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                        const at::Scalar& alpha) {
  if (!is_coo(mat1) || !is_dense(mat2) || !is_dense(self)) return on_cpu("aten::addmm", "", self, mat1, mat2, beta, alpha);
  TORCH_CHECK(mat1.dim() == 2 && mat2.dim() == 2, "addmm: matrices expected, got ", mat1.dim(), "D and ", mat2.dim(), "D tensors");
  TORCH_CHECK(mat1.size(1) == mat2.size(0), "mat1 and mat2 shapes cannot be multiplied (", mat1.size(0), "x", mat1.size(1), " and ",
              mat2.size(0), "x", mat2.size(1), ")");
  const at::Tensor indices = mat1._indices();
  at::Tensor terms = mat2.index_select(0, indices.select(0, 1)) * mat1._values().unsqueeze(1);
  if (!alpha.equal(1)) terms = terms * alpha;
  at::Tensor out = self.expand({mat1.size(0), mat2.size(1)});
  out = beta.equal(0) ? at::zeros(out.sizes(), mat2.options()) : beta.equal(1) ? out.clone() : out * beta;
  return out.index_add_(0, indices.select(0, 0), terms);
}

at::Tensor mm_sparse(const at::Tensor& self, const at::Tensor& mat2) {
  if (!is_coo(self) || !is_dense(mat2)) return on_cpu("aten::mm", "", self, mat2);
  return addmm_sparse(at::zeros({}, mat2.options()), self, mat2, 0, 1);
}

/// times a number: the values' business.
at::Tensor mul_sparse(const at::Tensor& self, const at::Tensor& other) {
  const at::Tensor &sparse = is_coo(self) ? self : other, &number = is_coo(self) ? other : self;
  if (!is_coo(sparse) || !is_dense(number) || number.dim() != 0) return on_cpu("aten::mul", "Tensor", self, other);
  return with_parts(sparse, sparse._indices().clone(), sparse._values() * number, sparse.is_coalesced());
}
at::Tensor& mul_sparse_(at::Tensor& self, const at::Tensor& other) { return self.copy_(mul_sparse(self, other).to(self.scalar_type())); }

/// The elements of a dense tensor at the places of a sparse one.
at::Tensor mask_sparse(const at::Tensor& self, const at::Tensor& mask) {
  if (!is_dense(self) || !is_coo(mask)) return on_cpu("aten::sparse_mask", "", self, mask);
  TORCH_CHECK(self.sizes() == mask.sizes(), "sparse_mask(): operands have incompatible sizes; self has size ", self.sizes(),
              " but mask has size ", mask.sizes());
  const at::Tensor values = mask.sparse_dim() ? self.index(places(mask)) : self.unsqueeze(0).expand_as(mask._values()).clone();
  return with_parts(self, mask._indices().clone(), values, mask.is_coalesced());
}

/// The gradient of a bag's weight, sparse or not.
at::Tensor embedding_bag_backward(const at::Tensor& grad, const at::Tensor& indices, const at::Tensor& offsets, const at::Tensor& bag,
                                  const at::Tensor& size, const at::Tensor& maximum, c10::SymInt rows, bool by_frequency, int64_t mode,
                                  bool sparse, const std::optional<at::Tensor>& weights, int64_t padding) {
  at::Tensor known = bag;
  if (bag.numel() == 0 && indices.numel() != 0)  // the forward may leave it out: how many offsets are not after each index, but the first
    known = at::searchsorted(offsets, at::arange(indices.size(0), offsets.options()), false, /*right=*/true).to(offsets.scalar_type()) - 1;
  if (sparse)
    return at::_embedding_bag_sparse_backward_symint(grad, indices, offsets, known, size, rows, by_frequency, mode, weights, padding);
  return at::_embedding_bag_dense_backward_symint(grad, indices, known, size, maximum, rows, by_frequency, mode, weights, padding);
}

/// All other operators that the CPU has for a layout.
void add_others(torch::Library& library, c10::DispatchKey on_host, c10::DispatchKey here) {
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (op && op->hasKernelForDispatchKey(on_host) && !op->hasKernelForDispatchKey(here))
      library.impl(toString(name).substr(6).c_str(), torch::CppFunction::makeFromBoxedFunction<&run_boxed_on_cpu>());
  }
}

/// The CPU's kernel keeps what its gradient needs only if an operand asks for gradients; stand-ins do not.
void reducing_mm(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::IValue& other = (*stack)[stack->size() - 2];  // of self, other, reduce
  if (c10::GradMode::is_enabled()) other = other.toTensor().to(c10::kCPU).detach().set_requires_grad(true);
  run_on_cpu(op, stack, kReason);
}

namespace native = at::native;

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("_coalesce", TORCH_FN(coalesce_sparse));
  m.impl("_coalesced_", TORCH_FN(native::_coalesced_sparse_));
  m.impl("_indices", TORCH_FN(native::_indices_sparse));
  m.impl("_nnz", TORCH_FN(native::_nnz_sparse));
  m.impl("_sparse_coo_tensor_with_dims", TORCH_FN(native::new_with_dims_sparse));
  m.impl("_sparse_coo_tensor_with_dims_and_tensors", TORCH_FN(native::new_with_dims_and_tensor_sparse_symint));
  m.impl("_to_dense", TORCH_FN(native::sparse_to_dense));
  m.impl("_values", TORCH_FN(native::_values_sparse));
  m.impl("add.Tensor", TORCH_FN(add_sparse));
  m.impl("add_.Tensor", TORCH_FN(add_sparse_));
  m.impl("addmm", TORCH_FN(addmm_sparse));
  m.impl("clone", TORCH_FN(native::clone_sparse));
  m.impl("copy_", TORCH_FN(native::copy_sparse_wrapper_));
  m.impl("copy_sparse_to_sparse_", TORCH_FN(native::copy_sparse_));
  m.impl("dense_dim", TORCH_FN(native::dense_dim_sparse));
  m.impl("empty.memory_format", TORCH_FN(native::empty_sparse_symint));
  m.impl("empty_like", TORCH_FN(native::empty_like_sparse_coo));
  m.impl("indices", TORCH_FN(native::indices_sparse));
  m.impl("is_coalesced", TORCH_FN(native::is_coalesced_sparse));
  m.impl("mm", TORCH_FN(mm_sparse));
  m.impl("mul.Tensor", TORCH_FN(mul_sparse));
  m.impl("mul_.Tensor", TORCH_FN(mul_sparse_));
  m.impl("permute", TORCH_FN(native::permute_sparse_coo));
  m.impl("resize_as_sparse_", TORCH_FN(native::resize_as_sparse_));
  m.impl("sparse_dim", TORCH_FN(native::sparse_dim_sparse));
  m.impl("sparse_mask", TORCH_FN(mask_sparse));
  m.impl("sparse_resize_", TORCH_FN(native::sparse_resize_));
  m.impl("sparse_resize_and_clear_", TORCH_FN(native::sparse_resize_and_clear_));
  m.impl("unsqueeze", TORCH_FN(native::unsqueeze_sparse));
  m.impl("values", TORCH_FN(native::values_sparse));
  m.impl("zero_", TORCH_FN(native::zero_sparse_));
  add_others(m, c10::DispatchKey::SparseCPU, c10::DispatchKey::SparsePrivateUse1);
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  m.impl("_nnz", TORCH_FN(native::_nnz_sparse_csr));
  m.impl("_sparse_compressed_tensor_with_dims", TORCH_FN(native::sparse_compressed_tensor_with_dims));
  m.impl("ccol_indices", TORCH_FN(native::ccol_indices_sparse_csr));
  m.impl("clone", TORCH_FN(native::clone_sparse_compressed));
  m.impl("col_indices", TORCH_FN(native::col_indices_sparse_csr));
  m.impl("copy_", TORCH_FN(native::copy_sparse_compressed_));
  m.impl("crow_indices", TORCH_FN(native::crow_indices_sparse_csr));
  m.impl("dense_dim", TORCH_FN(native::dense_dim_sparse_csr));
  m.impl("empty.memory_format", TORCH_FN(native::empty_sparse_compressed_symint));
  m.impl("empty_like", TORCH_FN(native::empty_like_sparse_csr));
  m.impl("row_indices", TORCH_FN(native::row_indices_sparse_csr));
  m.impl("sparse_dim", TORCH_FN(native::sparse_dim_sparse_csr));
  m.impl("values", TORCH_FN(native::values_sparse_csr));
  m.impl("_sparse_mm_reduce_impl", torch::CppFunction::makeFromBoxedFunction<&reducing_mm>());
  add_others(m, c10::DispatchKey::SparseCsrCPU, c10::DispatchKey::SparseCsrPrivateUse1);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using Sparsify = at::Tensor (*)(const at::Tensor&, std::optional<c10::Layout>, at::OptionalIntArrayRef, std::optional<int64_t>);
  m.impl("_embedding_bag_backward", TORCH_FN(embedding_bag_backward));
  m.impl("_to_sparse", TORCH_FN(static_cast<Sparsify>(native::dense_to_sparse)));
  m.impl("_to_sparse.sparse_dim", TORCH_FN(static_cast<at::Tensor (*)(const at::Tensor&, int64_t)>(native::dense_to_sparse)));
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_boxed_on_cpu>()); }
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_boxed_on_cpu>()); }

}  // namespace
}  // namespace tiny::glue
