#include "lower/index.h"

#include <fmt/format.h>

#include "lower/nn_util.h"
#include "lower/pointwise.h"

namespace tiny::lower {
namespace {

void check_index_dtype(const Tensor& index) {
  if (index.dtype() != DType::i64 && index.dtype() != DType::i32)
    fail(ErrorKind::Index, "tensors used as indices must be long, int, byte or bool tensors");
}

void check_long(const Tensor& index, const char* name) {
  if (index.dtype() != DType::i64) fail(ErrorKind::Runtime, fmt::format("{}(): Expected dtype int64 for index", name));
}

}  // namespace

Indexed resolve_indices(const Dims& self, const std::vector<Tensor>& indices, std::string_view op) {
  if (indices.size() > self.size())
    fail(ErrorKind::Index, fmt::format("too many indices for tensor of dimension {} (got {})", self.size(), indices.size()));
  Indexed r;
  size_t first = self.size(), last = 0, count = 0;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    check_index_dtype(indices[d]);
    if (count) {
      try {
        r.broadcast = broadcast_sizes(r.broadcast, indices[d].sizes());
      } catch (const Error&) {
        std::string shapes;
        for (const Tensor& t : indices)
          if (t.defined()) shapes += (shapes.empty() ? "" : ", ") + sizes_text(t.sizes());
        fail(ErrorKind::Index, "shape mismatch: indexing tensors could not be broadcast together with shapes " + shapes);
      }
    } else {
      r.broadcast = indices[d].sizes();
    }
    first = std::min(first, d), last = d, ++count;
  }
  bool adjacent = count > 0 && last - first + 1 == count;
  r.leading = adjacent && first == 0;
  Dims strides = contiguous_strides(r.leading ? Dims(self.begin(), self.begin() + last + 1) : self);
  Tensor flat = zeros(r.broadcast, DType::i64);
  for (size_t d = 0; d < self.size(); ++d) {
    if (d >= indices.size() || !indices[d].defined()) {
      r.kept.push_back(static_cast<int64_t>(d));
      if (adjacent && d < first) ++r.lead;
      continue;
    }
    if (self[d] == 0 && product(r.broadcast) != 0)
      fail(ErrorKind::Index, fmt::format("index is out of bounds for dimension with size 0"));
    Tensor i = checked_index(indices[d], self[d], index_text(op, static_cast<int64_t>(d))) * index_constant(strides[d]);
    flat = d == first ? i : flat + i;
  }
  r.position = flat.expand(r.broadcast);
  return r;
}

Tensor flat_positions(const Indexed& r, const Dims& self) {
  Dims strides = contiguous_strides(self), shape{product(r.broadcast)};
  int64_t width = 1;
  for (int64_t d : r.kept) width *= self[d];
  shape.push_back(width);
  Tensor rows = r.position.reshape({shape[0], 1});
  if (r.leading) return (rows * index_constant(width) + iota(width)).expand(shape);
  Tensor kept = index_constant(0);
  for (size_t k = 0; k < r.kept.size(); ++k)
    kept = kept + iota_along(r.kept.size(), k, self[r.kept[k]], strides[r.kept[k]]);
  Dims kept_sizes;
  for (int64_t d : r.kept) kept_sizes.push_back(self[d]);
  return (rows + kept.expand(kept_sizes).reshape({1, width})).expand(shape);
}

Tensor index_tensor(Args& a) {
  const Tensor& x = a.tensor(0);
  Indexed r = resolve_indices(x.sizes(), a.tensors(1), a.op);
  Dims sizes, shape;
  for (size_t k = 0; k < r.lead; ++k) sizes.push_back(x.size(r.kept[k])), shape.push_back(1);
  sizes.append(r.broadcast.begin(), r.broadcast.end());
  shape.append(r.broadcast.begin(), r.broadcast.end());
  for (size_t k = r.lead; k < r.kept.size(); ++k) sizes.push_back(x.size(r.kept[k])), shape.push_back(1);
  if (any_zero(sizes)) return zeros(sizes, x.dtype());
  if (r.leading) {
    int64_t width = 1;
    for (int64_t d : r.kept) width *= x.size(d);
    return take_rows(x.reshape({x.numel() / width, width}), r.position).reshape(sizes);
  }
  Dims strides = contiguous_strides(x.sizes());
  Tensor flat = r.position.reshape(shape);
  for (size_t k = 0; k < r.kept.size(); ++k) {
    int64_t d = r.kept[k];
    size_t at = k < r.lead ? k : k + r.broadcast.size();
    if (x.size(d) > 1) flat = flat + iota_along(sizes.size(), at, x.size(d), strides[d]);
  }
  return gather_flat(x, flat.expand(sizes));
}

Tensor index_select(Args& a) {
  const Tensor &x = a.tensor(0), &index = a.tensor(2);
  int64_t d = wrap_dim(a.integer(1), x.dim());
  if (index.dim() > 1) fail(ErrorKind::Index, "index_select(): Index is supposed to be a vector");
  if (index.dtype() != DType::i64 && index.dtype() != DType::i32)
    fail(ErrorKind::Runtime, "index_select(): Expected dtype int32 or int64 for index");
  if (x.dim() == 0) {
    if (index.numel() != 1)
      fail(ErrorKind::Runtime, fmt::format("index_select(): Index to scalar can have only 1 value, got {} value(s)", index.numel()));
    return gather_flat(x, checked_index(index, 1, index_in_self_text(a.op, 0), false).reshape({}));
  }
  Dims sizes = x.sizes(), shape{1, index.numel(), 1};
  sizes[d] = index.numel();
  if (any_zero(sizes)) return zeros(sizes, x.dtype());
  Dims lead(x.sizes().begin(), x.sizes().begin() + d), rest(x.sizes().begin() + d + 1, x.sizes().end());
  int64_t before = product(lead), after = product(rest);
  Tensor i = checked_index(index, x.size(d), index_in_self_text(a.op, d), false);
  if (before == 1) return take_rows(x.reshape({x.size(d), after}), i.reshape({index.numel()})).reshape(sizes);
  Tensor flat = iota_along(3, 0, before, x.size(d) * after) + i.reshape(shape) * index_constant(after) + iota_along(3, 2, after);
  return gather_flat(x, flat).reshape(sizes);
}

Tensor positions_along(const Dims& self, int64_t d, const Tensor& index) {
  Dims strides = contiguous_strides(self);
  size_t ndim = self.size();
  Tensor flat = strides[d] == 1 ? index : index * index_constant(strides[d]);
  for (size_t k = 0; k < ndim; ++k)
    if (static_cast<int64_t>(k) != d && index.sizes()[k] > 1) flat = flat + iota_along(ndim, k, index.sizes()[k], strides[k]);
  return flat;
}

Tensor gather(Args& a) {
  const Tensor& x = a.tensor(0);
  int64_t d = wrap_dim(a.integer(1), x.dim());
  const Tensor& given = a.tensor(2);
  if (given.numel() == 0) return zeros(given.sizes(), x.dtype());
  if (given.dtype() != DType::i64 && given.dtype() != DType::i32) check_long(given, "gather");
  Tensor self = at_least_1d(x), index = at_least_1d(given);
  if (self.dim() != index.dim()) fail(ErrorKind::Runtime, "Index tensor must have the same number of dimensions as input tensor");
  for (int64_t k = 0; k < self.dim(); ++k)
    if (k != d && index.size(k) > self.size(k))
      fail(ErrorKind::Runtime,
           fmt::format("Size does not match at dimension {} expected index {} to be no larger than self {} apart from dimension {}", k,
                       sizes_text(index.sizes()), sizes_text(self.sizes()), d));
  Tensor at = checked_index(index, self.size(d), index_text(a.op, d, false), false);
  return gather_flat(self, positions_along(self.sizes(), d, at)).reshape(given.sizes());
}

/// The first `size` places that are not zero, filled up with rows of fill_value: no read of the number.
Tensor nonzero_static(Args& a) {
  const Tensor& x = a.tensor(0);
  int64_t size = a.integer(1), n = x.numel();
  if (size < 0) fail(ErrorKind::Runtime, fmt::format("nonzero_static: 'size' must be an non-negative integer"));
  Tensor fill = scalar(DType::i64, a.integer(2, -1));
  if (size == 0 || x.dim() == 0 || n == 0) return full({size, x.dim()}, fill);
  Tensor flat = x.reshape({n}), set = ne(flat, constant(x.dtype(), int64_t{0}));
  Tensor rank = set.cast(DType::i64).scan(Op::ADD, 0) - index_constant(1);
  Tensor at = where(binary(Op::AND, set, lt(rank, index_constant(size))), rank, index_constant(-1));
  Tensor place = scatter_rows(full({size, 1}, index_constant(-1)), at, iota(n).reshape({n, 1}), Op::NOOP).contiguous();
  std::vector<Tensor> columns;
  Dims strides = contiguous_strides(x.sizes());
  for (int64_t d = 0; d < x.dim(); ++d) {
    Tensor coordinate = binary(Op::MOD, place / index_constant(strides[d]), index_constant(x.size(d)));
    columns.push_back(where(lt(place, index_constant(0)), fill, coordinate));
  }
  return cat(columns, 1);
}

Tensor take(Args& a) {
  const Tensor &x = a.tensor(0), &index = a.tensor(1);
  if (index.dtype() != DType::i64)
    fail(ErrorKind::Runtime, fmt::format("take(): Expected a long tensor for index, but got {}", scalar_type_name(index.dtype())));
  if (x.numel() == 0 && index.numel() != 0) fail(ErrorKind::Index, "take(): tried to take from an empty tensor");
  if (index.numel() == 0) return zeros(index.sizes(), x.dtype());
  return gather_flat(x, checked_index(index, x.numel(), "IndexError: out of range: tried to access index {} on a tensor of {} elements."));
}

Tensor embedding(Args& a) {
  const Tensor &weight = a.tensor(0), &indices = a.tensor(1);
  if (weight.dim() != 2) fail(ErrorKind::Runtime, "'weight' must be 2-D");
  if (indices.dtype() != DType::i64 && indices.dtype() != DType::i32)
    fail(ErrorKind::Runtime,
         fmt::format("Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
                     "torch.{}Tensor instead (while checking arguments for embedding)",
                     scalar_type_name(indices.dtype())));
  Dims sizes = indices.sizes();
  sizes.push_back(weight.size(1));
  if (any_zero(sizes)) return zeros(sizes, weight.dtype());
  return take_rows(weight, checked_index(indices, weight.size(0), index_in_self_text(a.op, 0), false));
}

Tensor embedding_dense_backward(Args& a) {
  const Tensor &grad = a.tensor(0), &given = a.tensor(1);
  int64_t rows = a.integer(2), padding = a.integer(3), n = given.numel(), width = grad.size(-1);
  DType d = grad.dtype(), acc = compute_dtype(d);
  Tensor out = zeros({rows, width}, d);  // in reduced floats rounded after every row, as on the CPU
  if (n == 0 || out.numel() == 0) return out;
  Tensor index = checked_index(given.reshape({n}), rows, index_in_self_text(a.op, 0), false), source = grad.reshape({n, width});
  if (a.flag(4)) {
    Tensor counts = scatter_rows(zeros({rows}, DType::i64), index, full({n}, index_constant(1)), Op::ADD);
    Tensor share = rounded(recip(gather_flat(counts, index).cast(acc)), d);
    source = (source.cast(acc) * share.reshape({n, 1})).cast(d);
  }
  if (padding >= 0) index = where(eq(index, index_constant(padding)), index_constant(-1), index);
  return scatter_rows(out, index, source, Op::ADD);
}

}  // namespace tiny::lower
