// Operators whose result's size depends on data, made of others: one read for the size, all else stays lazy.
#include "noted.h"

namespace tiny::glue {
namespace {

using Unique = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

at::TensorOptions indices_like(const at::Tensor& t) { return t.options().dtype(c10::kLong); }

/// Runs of equal elements along a dimension of n: where they start, which run each element is in, how long they are.
struct Runs {
  at::Tensor first, run, length;
};

/// `starts` [n] is true where a run starts. Waits for their number.
Runs runs_of(const at::Tensor& starts, bool run, bool length) {
  Runs r;
  const int64_t n = starts.numel();
  r.first = at::nonzero(starts).select(1, 0);
  if (run) r.run = starts.cumsum(0) - 1;
  if (length) {
    const at::Tensor end = at::full({1}, n, r.first.options());
    r.length = at::cat({r.first.slice(0, 1), end}).slice(0, 0, r.first.numel()) - r.first;
  }
  return r;
}

/// True for the first of the rows [n, C] and for those that differ from the one before.
at::Tensor starts_of(const at::Tensor& rows) {
  const int64_t n = rows.size(0);
  const at::Tensor first = at::ones({std::min<int64_t>(n, 1)}, rows.options().dtype(c10::kBool));
  if (n < 2) return first;
  return at::cat({first, rows.slice(0, 1).ne(rows.slice(0, 0, n - 1)).any(1)});
}

/// The runs of `rows`, in the order of `order` (undefined: as they are), as a result of unique along a dimension.
Unique collect(const at::Tensor& rows, const at::Tensor& order, const at::Tensor& source, int64_t dim, bool inverse, bool counts) {
  const at::Tensor none = at::empty({0}, indices_like(rows));
  Runs r = runs_of(starts_of(rows), inverse, counts);
  const at::Tensor kept = order.defined() ? order.index_select(0, r.first) : r.first;
  if (inverse && order.defined()) r.run = at::empty_like(r.run).scatter_(0, order, r.run);
  return {source.index_select(dim, kept), inverse ? r.run : none, counts ? r.length : none};
}

Unique unique_flat(const at::Tensor& self, bool inverse, bool counts) {
  const at::Tensor none = at::empty({0}, indices_like(self)), flat = self.reshape({-1});
  if (flat.numel() == 0) return {flat.clone(), inverse ? at::empty(self.sizes(), indices_like(self)) : none, none.clone()};
  auto [sorted, order] = flat.sort(/*stable=*/true, 0, false);
  auto [values, run, length] = collect(sorted.unsqueeze(1), order, flat, 0, inverse, counts);
  return {values, inverse ? run.reshape(self.sizes()) : run, length};
}

Unique unique2(const at::Tensor& self, bool /*sorted*/, bool inverse, bool counts) { return unique_flat(self, inverse, counts); }

std::tuple<at::Tensor, at::Tensor> unique1(const at::Tensor& self, bool /*sorted*/, bool inverse) {
  auto [values, run, length] = unique_flat(self, inverse, false);
  return {values, run};
}

/// `self` as rows along dim: [size(dim), all others].
at::Tensor rows_along(const at::Tensor& self, int64_t dim) {
  const at::Tensor front = self.movedim(dim, 0);
  return front.reshape({front.size(0), front.size(0) == 0 ? 0 : front.numel() / front.size(0)});
}

/// The result for a tensor without elements; raises if the empty dimension is not the one asked for.
Unique unique_of_nothing(const at::Tensor& self, int64_t dim) {
  int64_t empty = 0;
  for (int64_t size : self.sizes()) empty += size == 0;
  TORCH_CHECK(self.size(dim) == 0, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  TORCH_CHECK(empty == 1, "Number of zero sized dimensions is more than one, so unique cannot be applied ");
  const at::Tensor none = at::empty({0}, indices_like(self));
  return {at::empty(self.sizes(), self.options()), none, none.clone()};
}

/// Rows in lexicographic order by stable sorts, from the last column to the first.
Unique unique_dim(const at::Tensor& self, int64_t dim, bool /*sorted*/, bool inverse, bool counts) {
  dim = c10::maybe_wrap_dim(dim, self.dim());
  if (self.numel() == 0) return unique_of_nothing(self, dim);
  const at::Tensor rows = rows_along(self, dim);
  at::Tensor order = at::arange(rows.size(0), indices_like(self));
  for (int64_t c = rows.size(1) - 1; c >= 0; --c) {
    const at::Tensor column = rows.select(1, c).index_select(0, order);
    order = order.index_select(0, std::get<1>(column.sort(/*stable=*/true, 0, false)));
  }
  return collect(rows.index_select(0, order), order, self.dim() == 0 ? self.reshape({1}) : self, dim, inverse, counts);
}

Unique consecutive_along(const at::Tensor& self, int64_t dim, bool inverse, bool counts) {
  dim = c10::maybe_wrap_dim(dim, self.dim());
  if (self.numel() == 0) return unique_of_nothing(self, dim);
  return collect(rows_along(self, dim), {}, self, dim, inverse, counts);
}

Unique unique_consecutive(const at::Tensor& self, bool inverse, bool counts, std::optional<int64_t> dim) {
  if (dim && self.dim() > 0) return consecutive_along(self, *dim, inverse, counts);
  const at::Tensor none = at::empty({0}, indices_like(self)), flat = self.reshape({-1});
  if (flat.numel() == 0) return {flat.clone(), inverse ? at::empty(self.sizes(), indices_like(self)) : none, none.clone()};
  auto [values, run, length] = collect(flat.unsqueeze(1), {}, flat, 0, inverse, counts);
  return {values, inverse ? run.reshape(self.sizes()) : run, length};
}

at::Tensor bincount(const at::Tensor& self, const std::optional<at::Tensor>& weights, c10::SymInt minimum) {
  const int64_t least = minimum.guard_int(__FILE__, __LINE__);
  TORCH_CHECK_NOT_IMPLEMENTED(c10::isIntegralType(self.scalar_type(), false), "\"bincount_cpu\" not implemented for '",
                              c10::toString(self.scalar_type()), "'");
  TORCH_CHECK(least >= 0, "minlength should be >= 0");
  constexpr const char* kWrong = "bincount only supports 1-d non-negative integral inputs.";
  TORCH_CHECK(self.dim() == 1, kWrong);
  if (self.numel() == 0) return at::zeros({least}, indices_like(self));
  const bool weighted = weights && weights->defined();
  TORCH_CHECK(!weighted || (weights->dim() == 1 && weights->numel() == self.numel()),
      "weights should be 1-d and have the same length as input");
  const at::Tensor index = self.to(c10::kLong), ends = at::stack({index.min(), index.max()}).cpu();
  TORCH_CHECK(ends[0].item<int64_t>() >= 0, kWrong);
  const int64_t bins = std::max(ends[1].item<int64_t>() + 1, least);
  if (!weighted) return at::zeros({bins}, indices_like(self)).scatter_add_(0, index, at::ones({self.numel()}, indices_like(self)));
  const at::Tensor w = weights->scalar_type() == c10::kFloat ? *weights : weights->to(c10::kDouble);
  return at::zeros({bins}, w.options()).scatter_add_(0, index, w);
}

/// Element i of the result is the number of repeats whose running sum does not exceed i.
at::Tensor repeat_interleave(const at::Tensor& repeats, std::optional<c10::SymInt> output_size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK_NOT_IMPLEMENTED(repeats.scalar_type() == c10::kLong || repeats.scalar_type() == c10::kInt,
                              "\"repeat_interleave_cpu\" not implemented for '", c10::toString(repeats.scalar_type()), "'");
  if (repeats.numel() == 0) return at::empty({0}, repeats.options());
  const at::Tensor sums = repeats.to(c10::kLong).cumsum(0), ends = at::stack({sums.select(0, -1), repeats.min().to(c10::kLong)}).cpu();
  const int64_t total = ends[0].item<int64_t>();
  TORCH_CHECK(ends[1].item<int64_t>() >= 0, "repeats can not be negative");
  TORCH_CHECK(!output_size || output_size->guard_int(__FILE__, __LINE__) == total, "allocated size does not match required size");
  const at::Tensor places = at::arange(total, indices_like(repeats));
  return at::searchsorted(sums, places, /*out_int32=*/false, /*right=*/true).to(repeats.scalar_type());
}

/// The lengths that decide the size of the result, on the host.
std::vector<int64_t> host_lengths(const at::Tensor& lengths, const char* name) {
  TORCH_CHECK(c10::isIntegralType(lengths.scalar_type(), false), name, " must be integral");
  const at::Tensor v = lengths.to(c10::Device(c10::kCPU), c10::kLong).contiguous();
  return {v.const_data_ptr<int64_t>(), v.const_data_ptr<int64_t>() + v.numel()};
}

std::tuple<at::Tensor, at::Tensor> ctc_loss(const at::Tensor& log_probs, const at::Tensor& targets, const at::Tensor& input_lengths,
                                            const at::Tensor& target_lengths, int64_t blank, bool zero_infinity) {
  return at::_ctc_loss(log_probs, targets, host_lengths(input_lengths, "input_lengths"), host_lengths(target_lengths, "target_lengths"),
                       blank, zero_infinity);
}

at::Tensor ctc_loss_backward(const at::Tensor& grad, const at::Tensor& log_probs, const at::Tensor& targets,
                             const at::Tensor& input_lengths, const at::Tensor& target_lengths, const at::Tensor& neg_log_likelihood,
                             const at::Tensor& log_alpha, int64_t blank, bool zero_infinity) {
  return at::_ctc_loss_backward(grad, log_probs, targets, host_lengths(input_lengths, "input_lengths"),
                                host_lengths(target_lengths, "target_lengths"), neg_log_likelihood, log_alpha, blank, zero_infinity);
}

/// With the number of classes given nothing is read: a class that is none of them is found at the next read.
at::Tensor one_hot(const at::Tensor& self, int64_t classes) {
  constexpr const char* kNegative = "Class values must be non-negative.";
  constexpr const char* kTooGreat = "Class values must be smaller than num_classes.";
  TORCH_CHECK(self.scalar_type() == c10::kLong, "one_hot is only applicable to index tensor of type LongTensor.");
  c10::DimVector sizes(self.sizes());
  if (self.numel() == 0) {
    TORCH_CHECK(classes > 0, "Can not infer total number of classes from empty tensor.");
    sizes.push_back(classes);
    return at::empty(sizes, self.options());
  }
  if (classes == -1) {
    const at::Tensor ends = at::stack({self.min(), self.max()}).cpu();
    TORCH_CHECK(ends[0].item<int64_t>() >= 0, kNegative);
    classes = ends[1].item<int64_t>() + 1;
  }
  TORCH_CHECK(classes > 0, kTooGreat);
  return noted(self.device().index(), [&] {
    const tiny::Tensor x = read(self), positive = check(x, ge(x, constant(DType::i64, int64_t{0})), kNegative, 0);
    const tiny::Tensor known = check(positive, lt(positive, constant(DType::i64, classes)), kTooGreat, 0);
    return eq(known.unsqueeze(-1), iota(classes)).cast(DType::i64);
  });
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_ctc_loss.Tensor", TORCH_FN(ctc_loss));
  m.impl("_ctc_loss_backward.Tensor", TORCH_FN(ctc_loss_backward));
  m.impl("_unique", TORCH_FN(unique1));
  m.impl("_unique2", TORCH_FN(unique2));
  m.impl("unique_dim", TORCH_FN(unique_dim));
  m.impl("unique_consecutive", TORCH_FN(unique_consecutive));
  m.impl("unique_dim_consecutive", TORCH_FN(consecutive_along));
  m.impl("bincount", TORCH_FN(bincount));
  m.impl("one_hot", TORCH_FN(one_hot));
  m.impl("repeat_interleave.Tensor", TORCH_FN(repeat_interleave));
}

}  // namespace
}  // namespace tiny::glue
