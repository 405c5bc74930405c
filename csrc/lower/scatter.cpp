#include "lower/scatter.h"

#include <fmt/format.h>

#include "lower/index.h"
#include "lower/nn_util.h"
#include "lower/pointwise.h"

namespace tiny::lower {
namespace {

/// Destination, positions [B, U, D] and what is written; positions of different b or d never meet.
struct Scatter {
  Tensor self, position, source;
};

/// self op= source at the positions; in f32 for sums and products of reduced floats, rounded once.
Tensor apply(const Scatter& s, Op op) {
  DType d = s.self.dtype(), acc = op == Op::ADD || op == Op::MUL ? compute_dtype(d) : d;
  return scatter_flat(s.self.cast(acc), s.position, s.source.cast(acc), op).cast(d);
}

/// The same, rounded after every addition: where the CPU adds in the tensor's own type.
Tensor add_in_order(const Scatter& s) { return scatter_flat(s.self, s.position, s.source, Op::ADD); }

Op reduce_word(std::string_view word) {
  if (word == "sum" || word == "mean" || word == "add") return Op::ADD;
  if (word == "prod" || word == "multiply") return Op::MUL;
  if (word == "amax") return Op::MAX;
  if (word == "amin") return Op::MIN;
  fail(ErrorKind::Runtime, "reduce argument must be either sum, prod, mean, amax or amin, got " + std::string(word) + ".");
}

/// scatter_reduce and index_reduce: mean divides by the number of contributions (integers round down); include_self == false first
/// replaces the elements that are written by the identity of the reduction. Sums and products are formed in `acc`.
Tensor reduce(const Scatter& s, std::string_view word, bool include_self, DType acc) {
  Op op = reduce_word(word);
  DType d = s.self.dtype(), c = compute_dtype(d);
  Tensor source = s.source.cast(acc), base = s.self.cast(acc);
  if (!include_self) {
    Arg id = identity_arg(op, acc);
    Tensor identity = is_float(acc) ? constant(acc, id.f) : constant(acc, id.i);
    base = scatter_flat(base, s.position, full(source.sizes(), identity), Op::NOOP);
  }
  Tensor r = scatter_flat(base, s.position, source, op);
  if (word != "mean") return r.cast(d);
  Tensor count =
      scatter_flat(full(base.sizes(), index_constant(include_self ? 1 : 0)), s.position, full(source.sizes(), index_constant(1)), Op::ADD);
  r = r.cast(d).cast(c);
  Tensor divisor = maximum(count, index_constant(1)).cast(d).cast(c), quotient = r / divisor;
  if (is_signed(c)) {
    Tensor zero = constant(c, int64_t{0}), rest = r - quotient * divisor;
    quotient = where(lt(rest, zero), quotient - constant(c, int64_t{1}), quotient);
  }
  return quotient.cast(d);
}

/// Positions for scatter(self, dim, index, ..): index [.., n at dim, ..] as [B, U, D].
struct Along {
  Tensor self, position;
  Dims sizes, shape;   // of index; [B, U, D]
};

Along along(Args& a, const char* name) {
  const Tensor& given = a.tensor(2);
  if (given.dtype() != DType::i64 && given.dtype() != DType::i32 && given.numel() != 0)
    fail(ErrorKind::Runtime, fmt::format("{}(): Expected dtype int32/int64 for index", name));
  Tensor self = at_least_1d(a.tensor(0)), index = at_least_1d(given);
  int64_t d = wrap_dim(a.integer(1), a.tensor(0).dim());
  Along r{self, {}, index.sizes(), {0, 0, 0}};
  if (index.numel() == 0) return r;
  if (self.dim() != index.dim()) fail(ErrorKind::Runtime, "Index tensor must have the same number of dimensions as self tensor");
  for (int64_t k = 0; k < self.dim(); ++k)
    if (k != d && index.size(k) > self.size(k))
      fail(ErrorKind::Runtime, fmt::format("Expected index {} to be no larger than self {} apart from dimension {}",
                                           sizes_text(index.sizes()), sizes_text(self.sizes()), d));
  Dims lead(index.sizes().begin(), index.sizes().begin() + d), rest(index.sizes().begin() + d + 1, index.sizes().end());
  r.shape = {product(lead), index.size(d), product(rest)};
  r.position = positions_along(self.sizes(), d, checked_index(index, self.size(d), index_text(a.op, d, false), false)).reshape(r.shape);
  return r;
}

/// The part of `src` that lies under the index.
Tensor under(const Tensor& src, const Along& x, DType d) {
  Tensor s = at_least_1d(src);
  if (s.dim() != static_cast<int64_t>(x.sizes.size()))
    fail(ErrorKind::Runtime, "Index tensor must have the same number of dimensions as src tensor");
  if (s.dtype() != d) fail(ErrorKind::Runtime, "scatter(): Expected self.dtype to be equal to src.dtype");
  for (size_t k = 0; k < x.sizes.size(); ++k) {
    if (x.sizes[k] > s.sizes()[k])
      fail(ErrorKind::Runtime, fmt::format("Expected index {} to be no larger than src {}", sizes_text(x.sizes), sizes_text(s.sizes())));
    s = s.slice(static_cast<int64_t>(k), 0, x.sizes[k]);
  }
  return s.reshape(x.shape);
}

Scatter with_source(Args& a, const Along& x) { return {x.self, x.position, under(a.tensor(3), x, x.self.dtype())}; }
Scatter with_value(Args& a, const Along& x) { return {x.self, x.position, full(x.shape, a.as(3, x.self.dtype()))}; }

/// Positions for index_add and the like: index [U] along `dim` of self, every other coordinate kept.
Along whole_slices(Args& a, const char* name) {
  const Tensor &given = a.tensor(0), &index = a.tensor(2);
  int64_t d = wrap_dim(a.integer(1), given.dim());
  if (index.dim() > 1) fail(ErrorKind::Index, fmt::format("{}(): Index is supposed to be a vector", name));
  if (index.dtype() != DType::i64 && std::string_view(name) == "index_fill_")
    fail(ErrorKind::Index, "index_fill_(): Expected dtype int64 for index.");
  if (index.dtype() != DType::i64 && index.dtype() != DType::i32)
    fail(ErrorKind::Runtime, fmt::format("{}(): Expected dtype int32/int64 for index", name));
  Tensor self = at_least_1d(given);
  Along r{self, {}, self.sizes(), {0, 0, 0}};
  r.sizes[d] = index.numel();
  if (any_zero(r.sizes)) return r;
  Dims lead(self.sizes().begin(), self.sizes().begin() + d), rest(self.sizes().begin() + d + 1, self.sizes().end());
  int64_t before = product(lead), after = product(rest);
  r.shape = {before, index.numel(), after};
  const std::string_view op = name;
  const bool fills = op == "index_fill_", in_self = op == "index_reduce" || (op == "index_add" && self.dim() == 1);
  std::string text = in_self ? index_in_self_text(a.op, d) : index_text(a.op, d, op != "index_add");
  Tensor i = checked_index(index, self.size(d), std::move(text), fills).reshape({1, index.numel(), 1});
  r.position = (iota_along(3, 0, before, self.size(d) * after) + i * index_constant(after) + iota_along(3, 2, after)).expand(r.shape);
  return r;
}

Tensor slices_source(Args& a, const Along& x, const char* name) {
  Tensor s = at_least_1d(a.tensor(3));
  if (s.dtype() != x.self.dtype())
    fail(ErrorKind::Runtime, fmt::format("{}(): self and source expected to have the same dtype, but got (self) {} and (source) {}", name,
                                         scalar_type_name(x.self.dtype()), scalar_type_name(s.dtype())));
  if (s.numel() != product(x.sizes))
    fail(ErrorKind::Runtime,
         fmt::format("{}(): source of size {} does not fit slices of size {}", name, sizes_text(s.sizes()), sizes_text(x.sizes)));
  return s.reshape(x.shape);
}

Tensor finish(Args& a, const Tensor& r) { return r.reshape(a.tensor(0).sizes()); }

}  // namespace

Tensor scatter_src(Args& a) {
  Along x = along(a, "scatter");
  return x.position.defined() ? finish(a, apply(with_source(a, x), Op::NOOP)) : a.tensor(0);
}

Tensor scatter_value(Args& a) {
  Along x = along(a, "scatter");
  return x.position.defined() ? finish(a, apply(with_value(a, x), Op::NOOP)) : a.tensor(0);
}

Tensor scatter_src_reduce(Args& a) {
  Along x = along(a, "scatter");
  return x.position.defined() ? finish(a, apply(with_source(a, x), reduce_word(a.text(4)))) : a.tensor(0);
}

Tensor scatter_value_reduce(Args& a) {
  Along x = along(a, "scatter");
  return x.position.defined() ? finish(a, apply(with_value(a, x), reduce_word(a.text(4)))) : a.tensor(0);
}

Tensor scatter_add(Args& a) {
  Along x = along(a, "scatter_add");
  return x.position.defined() ? finish(a, apply(with_source(a, x), Op::ADD)) : a.tensor(0);
}

Tensor scatter_reduce(Args& a) {
  Along x = along(a, "scatter_reduce");
  reduce_word(a.text(4));
  if (!x.position.defined()) return a.tensor(0);
  return finish(a, reduce(with_source(a, x), a.text(4), a.integer(5, 1) != 0, compute_dtype(x.self.dtype())));
}

Tensor index_add(Args& a) {
  Along x = whole_slices(a, "index_add");
  if (!x.position.defined()) return a.tensor(0);
  Tensor source = slices_source(a, x, "index_add");
  DType d = x.self.dtype(), acc = compute_dtype(d);
  const bool scaled = a.number(4, 1) != 1;
  if (scaled) source = (source.cast(acc) * a.as(4, d).cast(acc)).cast(d);
  // Along the first and the last dimension it is PyTorch's scatter_add, which rounds once.
  const int64_t ndim = x.self.dim(), dim = wrap_dim(a.integer(1), ndim);
  const bool scatter_add = ndim > 1 && !scaled && (dim == 0 || dim == ndim - 1) && a.tensor(2).dtype() == DType::i64;
  Scatter s{x.self, x.position, source};
  return finish(a, scatter_add ? apply(s, Op::ADD) : add_in_order(s));
}

Tensor index_copy(Args& a) {
  Along x = whole_slices(a, "index_copy");
  if (!x.position.defined()) return a.tensor(0);
  return finish(a, apply({x.self, x.position, slices_source(a, x, "index_copy")}, Op::NOOP));
}

Tensor index_fill(Args& a) {
  if (a.values[3].kind == ArgKind::Tensor && a.tensor(3).dim() != 0)
    fail(ErrorKind::Runtime,
         fmt::format("index_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).", a.tensor(3).dim()));
  Along x = whole_slices(a, "index_fill_");
  if (!x.position.defined()) return a.tensor(0);
  return finish(a, apply({x.self, x.position, full(x.shape, a.as(3, x.self.dtype()))}, Op::NOOP));
}

Tensor index_reduce(Args& a) {
  Along x = whole_slices(a, "index_reduce");
  reduce_word(a.text(4));
  if (!x.position.defined()) return a.tensor(0);
  return finish(a, reduce({x.self, x.position, slices_source(a, x, "index_reduce")}, a.text(4), a.integer(5, 1) != 0, x.self.dtype()));
}

Tensor index_put(Args& a) {
  const Tensor &x = a.tensor(0), &values = a.tensor(2);
  if (x.dtype() != values.dtype())
    fail(ErrorKind::Runtime,
         fmt::format("Index put requires the source and destination dtypes match, got {} for the destination and {} for the source.",
                     scalar_type_name(x.dtype()), scalar_type_name(values.dtype())));
  Indexed r = resolve_indices(x.sizes(), a.tensors(1), a.op);
  Dims sizes, order;
  size_t nb = r.broadcast.size();
  for (size_t k = 0; k < r.lead; ++k) sizes.push_back(x.size(r.kept[k]));
  sizes.append(r.broadcast.begin(), r.broadcast.end());
  for (size_t k = r.lead; k < r.kept.size(); ++k) sizes.push_back(x.size(r.kept[k]));
  Tensor spread;
  try {
    spread = values.expand(sizes);
  } catch (const Error&) {
    fail(ErrorKind::Runtime, fmt::format("shape mismatch: value tensor of shape {} cannot be broadcast to indexing result of shape {}",
                                         sizes_text(values.sizes()), sizes_text(sizes)));
  }
  if (any_zero(sizes)) return x;
  // Written order: the broadcast dimensions first, then the kept ones.
  for (size_t k = 0; k < nb; ++k) order.push_back(static_cast<int64_t>(r.lead + k));
  for (size_t k = 0; k < r.lead; ++k) order.push_back(static_cast<int64_t>(k));
  for (size_t k = r.lead; k < r.kept.size(); ++k) order.push_back(static_cast<int64_t>(k + nb));
  Tensor position = flat_positions(r, x.sizes());
  Dims shape{1, position.size(0), position.size(1)};
  Scatter s{x, position.reshape(shape), spread.permute(order).reshape(shape)};
  return a.flag(3) ? add_in_order(s) : apply(s, Op::NOOP);
}

Tensor put(Args& a) {
  const Tensor &x = a.tensor(0), &index = a.tensor(1), &source = a.tensor(2);
  if (index.dtype() != DType::i64)
    fail(ErrorKind::Runtime, fmt::format("put_(): Expected a long tensor for index, but got {}", scalar_type_name(index.dtype())));
  if (x.dtype() != source.dtype())
    fail(ErrorKind::Runtime,
         fmt::format("put_(): self and source expected to have the same dtype, but got self.dtype = {} and source.dtype = {}",
                     scalar_type_name(x.dtype()), scalar_type_name(source.dtype())));
  if (index.numel() != source.numel())
    fail(ErrorKind::Index,
         fmt::format(
             "put_(): Expected source and index to have the same number of elements, but got source.numel() = {}, index.numel() = {}",
             source.numel(), index.numel()));
  if (x.numel() == 0 && index.numel() != 0) fail(ErrorKind::Index, "put_(): tried to put elements into an empty tensor");
  if (index.numel() == 0) return x;
  Dims shape{1, index.numel(), 1};
  Tensor at = checked_index(index, x.numel(), "IndexError: out of range: tried to access index {} on a tensor of {} elements.");
  Scatter s{x, at.reshape(shape), source.reshape(shape)};
  return a.flag(3) ? add_in_order(s) : apply(s, Op::NOOP);
}

namespace {
constexpr const char* kTooFew = "Number of elements of source < number of ones in mask";
}

Tensor masked_scatter(Args& a) {
  const Tensor &x = a.tensor(0), &mask = a.tensor(1), &source = a.tensor(2);
  if (x.dtype() != source.dtype())
    fail(ErrorKind::Runtime, fmt::format("masked_scatter: expected self and source to have same dtypes but got{} and {}",
                                         scalar_type_name(x.dtype()), scalar_type_name(source.dtype())));
  if (!is_bool(mask.dtype()))
    fail(ErrorKind::Runtime,
         fmt::format("masked_scatter_ only supports boolean masks, but got mask with dtype {}", scalar_type_name(mask.dtype())));
  if (x.numel() == 0) return x;
  Tensor m = mask.expand(x.sizes()).reshape({x.numel()});
  Tensor taken = m.cast(DType::i64).scan(Op::ADD, 0) - index_constant(1);
  if (source.numel() == 0) {  // right only if the mask selects nothing: then every position is its own
    Tensor selected = checked_index(where(m, index_constant(1), index_constant(0)), 1, kTooFew, false);
    return gather_flat(x, iota(x.numel()) + selected).reshape(x.sizes());
  }
  Tensor at = checked_index(where(m, taken, index_constant(0)), source.numel(), kTooFew, false);
  return where(m, gather_flat(source, at), x.reshape({x.numel()})).reshape(x.sizes());
}

}  // namespace tiny::lower
