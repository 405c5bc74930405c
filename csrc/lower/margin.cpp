#include "lower/margin.h"

#include <cmath>

#include <fmt/format.h>

#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

enum Reduction : int64_t { kNone, kMean, kSum };

/// Per sample losses [N], reduced; a single sample's loss is 0-d.
Tensor reduced(const Tensor& loss, int64_t reduction, bool batched, DType d) {
  if (reduction == kNone) return (batched ? loss : loss.reshape({})).cast(d);
  Tensor total = loss.sum();
  return (reduction == kMean ? total / static_cast<double>(loss.numel()) : total).cast(d);
}

/// The gradient of each sample's loss, [N, 1].
Tensor for_each_sample(const Tensor& grad, int64_t n, int64_t reduction, DType c) {
  if (reduction == kNone) return grad.cast(c).reshape({n, 1});
  Tensor g = grad.cast(c).reshape({1, 1});
  return (reduction == kMean ? g / static_cast<double>(n) : g).expand({n, 1});
}

struct MultiMargin {
  Tensor x, z, is_target, target, weight;   // [N, C]; z: margin - x[target] + x; target [N, 1]; weight [N, 1] or undefined
  int64_t n, c, p;
};

MultiMargin multi_margin(const Args& a, int first) {
  const Tensor &given = a.tensor(first), &labels = a.tensor(first + 1);
  MultiMargin m;
  if (given.dim() > 2 || (given.dim() == 2 && given.size(1) == 0) || (given.dim() == 1 && given.size(0) == 0))
    fail(ErrorKind::Runtime, "Expected non-empty vector or matrix with optional 0-dim batch size, but got: " + sizes_text(given.sizes()));
  double p = a.number(first + 2, 1);
  if (p != 1 && p != 2) fail(ErrorKind::Runtime, "only p == 1 and p == 2 supported");
  m.p = static_cast<int64_t>(p);
  m.n = given.dim() == 2 ? given.size(0) : 1, m.c = given.dim() == 0 ? 1 : given.size(-1);
  if (labels.dim() > 1 || labels.numel() != m.n)
    fail(ErrorKind::Runtime, fmt::format("inconsistent target size, expected {} but got {}", m.n, sizes_text(labels.sizes())));
  if (labels.dtype() != DType::i64) fail(ErrorKind::Runtime, fmt::format("expected scalar type Long but found {}",
      scalar_type_name(labels.dtype())));
  DType c = compute_dtype(given.dtype());
  m.x = given.cast(c).reshape({m.n, m.c});
  Tensor inside = ge(labels, index_constant(0)) & lt(labels, index_constant(m.c));
  m.target = check(labels, inside, "target {} out of range", m.c).reshape({m.n, 1});
  m.is_target = eq(iota_along(2, 1, m.c), m.target);
  Tensor own = gather_flat(m.x, m.target + iota_along(2, 0, m.n, m.c));
  m.z = (scalar(c, a.number(first + 3, 1)) - own) + m.x;
  if (a.has(first + 4)) {
    if (a.tensor(first + 4).numel() != m.c)
      fail(ErrorKind::Runtime, fmt::format("inconsistent weight size, expected {} but got {}", m.c,
          sizes_text(a.tensor(first + 4).sizes())));
    m.weight = gather_flat(a.tensor(first + 4).cast(c), m.target);
  }
  return m;
}

struct MultiLabel {
  Tensor x, labels, valid, is_target;   // [N, C]; labels before the first -1 are valid
  int64_t n, c;
};

/// is_target [N, C]: 1 for classes that are named before the first -1.
MultiLabel multi_label(const Args& a, int first) {
  const Tensor &given = a.tensor(first), &labels = a.tensor(first + 1);
  MultiLabel m;
  if (given.dim() > 2 || (given.dim() == 2 && given.size(1) == 0) || (given.dim() == 1 && given.size(0) == 0))
    fail(ErrorKind::Runtime, "Expected non-empty vector or matrix with optional 0-dim batch size, but got: " + sizes_text(given.sizes()));
  if (!(given.sizes() == labels.sizes()) && labels.numel() != given.numel())
    fail(ErrorKind::Runtime, fmt::format("inconsistent target size: {} for input of size: {}", sizes_text(labels.sizes()),
        sizes_text(given.sizes())));
  m.n = given.dim() == 2 ? given.size(0) : 1, m.c = given.dim() == 0 ? 1 : given.size(-1);
  m.x = given.cast(compute_dtype(given.dtype())).reshape({m.n, m.c});
  Tensor l = labels.cast(DType::i64).reshape({m.n, m.c}), none = index_constant(-1);
  Tensor known = check(l, ge(l, none) & lt(l, index_constant(m.c)), "argument #2 'target' is out of range: {}", m.c);
  Tensor ended = lt(known, index_constant(0)).cast(DType::i64).scan(Op::MAX, 1);
  m.valid = eq(ended, index_constant(0));
  m.labels = where(m.valid, known, index_constant(0));
  Tensor at = where(m.valid, m.labels + iota_along(2, 0, m.n, m.c), none).reshape({m.n * m.c});
  Tensor ones = full({m.n * m.c, 1}, constant(m.x.dtype(), 1.0));
  m.is_target = scatter_rows(zeros({m.n * m.c, 1}, m.x.dtype()), at, ones, Op::NOOP).reshape({m.n, m.c});
  return m;
}

/// 1 - x[label] + x of every other class, for each valid label: [N, labels, C], 0 where it does not count.
Tensor shortfall(const MultiLabel& m, const Tensor& is_target) {
  Tensor own = gather_flat(m.x, m.labels + iota_along(2, 0, m.n, m.c)).unsqueeze(-1), zero = like(m.x, 0);
  Tensor z = (like(m.x, 1) - own) + m.x.unsqueeze(1), counts = m.valid.unsqueeze(-1) & eq(is_target, zero).unsqueeze(1);
  return where(counts & gt(z, zero), z, zero);
}

}  // namespace

Tensor multi_margin_loss(Args& a) {
  MultiMargin m = multi_margin(a, 0);
  DType d = a.tensor(0).dtype();
  require_float(a, d);
  if (m.n == 0) return a.integer(5, kMean) == kNone ? zeros({0}, d) : constant(d, a.integer(5, kMean) == kMean ? NAN : 0.0);
  int64_t classes[] = {1};
  Tensor zero = like(m.z, 0), h = where(m.is_target, zero, maximum(m.z, zero));
  if (m.p == 2) h = h * h;
  if (m.weight.defined()) h = h * m.weight;
  return reduced(h.sum(classes) / static_cast<double>(m.c), a.integer(5, kMean), a.tensor(0).dim() == 2 || a.tensor(1).dim() > 0, d);
}

Tensor multi_margin_loss_backward(Args& a) {
  MultiMargin m = multi_margin(a, 1);
  DType d = a.tensor(1).dtype();
  if (m.n == 0) return zeros(a.tensor(1).sizes(), d);
  int64_t classes[] = {1};
  Tensor zero = like(m.z, 0), active = gt(m.z, zero) & !m.is_target;
  Tensor h = where(active, m.p == 1 ? like(m.z, 1) : m.z * 2.0, zero) / static_cast<double>(m.c);
  if (m.weight.defined()) h = h * m.weight;
  h = where(m.is_target, -h.sum(classes, true), h);
  return (h * for_each_sample(a.tensor(0), m.n, a.integer(6, kMean), m.x.dtype())).reshape(a.tensor(1).sizes()).cast(d);
}

Results multilabel_margin_loss(Args& a) {
  MultiLabel m = multi_label(a, 0);
  DType d = a.tensor(0).dtype();
  require_float(a, d);
  Tensor is_target = m.is_target.reshape(a.tensor(1).sizes()).cast(d);
  int64_t all_classes[] = {1, 2}, reduction = a.integer(2);
  if (m.n == 0) return {reduction == kNone ? zeros({0}, d) : constant(d, reduction == kMean ? NAN : 0.0), is_target};
  Tensor loss = shortfall(m, m.is_target).sum(all_classes) / static_cast<double>(m.c);
  return {reduced(loss, reduction, a.tensor(0).dim() == 2, d), is_target};
}

Tensor multilabel_margin_loss_backward(Args& a) {
  MultiLabel m = multi_label(a, 1);
  DType d = a.tensor(1).dtype();
  if (m.n == 0) return zeros(a.tensor(1).sizes(), d);
  int64_t over_labels[] = {1}, over_classes[] = {2};
  Tensor active = gt(shortfall(m, m.is_target), like(m.x, 0)).cast(m.x.dtype());
  Tensor grad = active.sum(over_labels), losing = -active.sum(over_classes);
  Tensor at = where(m.valid, m.labels + iota_along(2, 0, m.n, m.c), index_constant(-1)).reshape({m.n * m.c});
  grad = scatter_rows(grad.reshape({m.n * m.c, 1}), at, losing.reshape({m.n * m.c, 1}), Op::ADD).reshape({m.n, m.c});
  Tensor g = for_each_sample(a.tensor(0), m.n, a.integer(3), m.x.dtype());
  return (grad / static_cast<double>(m.c) * g).reshape(a.tensor(1).sizes()).cast(d);
}

}  // namespace tiny::lower
