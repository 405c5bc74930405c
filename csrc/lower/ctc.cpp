#include "lower/ctc.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

/// A batch of paths through the labels with a blank before, between and after them: W = 2S + 1 states a sample.
struct Paths {
  Tensor probs;           // [T, N, C] in the computing type
  Tensor label;           // [N, W], the blank where there is no label
  Tensor jumps;           // [N, W]: a state may be entered from the one before the last
  Tensor last;            // [N, 1]: number of the last state, 2 S_n
  Tensor frames;          // [N, 1]: T_n
  int64_t t, n, c, w;
};

/// Numbers of the host as a tensor [N, 1]; run-time scalars, so that other lengths do not recompile.
Tensor column(const std::vector<int64_t>& v) {
  std::vector<Tensor> parts, rows;
  for (size_t i = 0; i < v.size(); ++i) {
    parts.push_back(scalar(DType::i64, v[i]).reshape({1, 1}));
    if (parts.size() < 32 && i + 1 < v.size()) continue;
    rows.push_back(cat(parts, 0).contiguous()), parts.clear();
  }
  return rows.size() == 1 ? rows[0] : cat(rows, 0).contiguous();
}

void check_lengths(const Paths& p, const Dims& frames, const Dims& lengths, int64_t blank) {
  if (blank < 0 || blank >= p.c) fail(ErrorKind::Runtime, "blank must be in label range");
  if (static_cast<int64_t>(frames.size()) != p.n) fail(ErrorKind::Runtime, "input_lengths must be of size batch_size");
  if (static_cast<int64_t>(lengths.size()) != p.n) fail(ErrorKind::Runtime, "target_lengths must be of size batch_size");
  for (size_t i = 0; i < frames.size(); ++i) {
    if (lengths[i] < 0) fail(ErrorKind::Runtime, fmt::format("Expected target_lengths to have value at least 0, but got value {}",
        lengths[i]));
    if (frames[i] < 0) fail(ErrorKind::Runtime, fmt::format("Expected input_lengths to have value at least 0, but got value {}",
        frames[i]));
    if (frames[i] > p.t)
      fail(ErrorKind::Runtime, fmt::format("Expected input_lengths to have value at most {}, but got value {}", p.t, frames[i]));
  }
}

Paths read_paths(const Args& a, int first, int blank_at) {
  const Tensor &probs = a.tensor(first), &targets = a.tensor(first + 1);
  const Dims &frames = a.ints(first + 2), &lengths = a.ints(first + 3);
  int64_t blank = a.integer(blank_at, 0), longest = 0, total = 0;
  if (targets.dtype() != DType::i64 && targets.dtype() != DType::i32) fail(ErrorKind::Runtime, "targets must be integer");
  Paths p{probs, {}, {}, {}, {}, probs.size(0), probs.size(1), probs.size(2), 0};
  check_lengths(p, frames, lengths, blank);
  std::vector<int64_t> offsets, states, steps(frames.begin(), frames.end());
  for (int64_t n : lengths) {
    offsets.push_back(targets.dim() == 1 ? total : static_cast<int64_t>(offsets.size()) * targets.size(1));
    states.push_back(2 * n), total += n, longest = std::max(longest, n);
  }
  if (targets.dim() == 1 ? targets.size(0) != total : targets.size(0) != p.n || targets.size(1) < longest)
    fail(ErrorKind::Runtime, fmt::format("Expected targets for lengths of {} in all and {} at most, but got targets of size {} (while "
        "checking "
                                         "arguments for ctc_loss)", total, longest, sizes_text(targets.sizes())));
  p.w = 2 * longest + 1;
  p.last = column(states), p.frames = column(steps);
  Tensor state = iota_along(2, 1, p.w), odd = eq(state & index_constant(1), index_constant(1)), none = index_constant(blank);
  Tensor labelled = odd & lt(state, p.last), place = where(labelled, column(offsets) + binary(Op::SHR, state, index_constant(1)),
      index_constant(0));
  p.label = none.expand({p.n, p.w});
  if (targets.numel() > 0) {
    Tensor label = gather_flat(targets.reshape({targets.numel()}).cast(DType::i64), place);
    p.label = where(labelled, checked_index(where(labelled, label, none), p.c, index_text(a.op, 2), false), none).contiguous();
  }
  Dims lo{0, 2}, hi{0, -2};
  p.jumps = (odd & ne(p.label, p.w > 2 ? p.label.pad(lo, hi, none) : p.label)).contiguous();
  return p;
}

/// Log probabilities of each state's label at frame t (a run-time scalar: all frames share one kernel).
Tensor frame(const Paths& p, int64_t t) {
  Tensor row = scalar(DType::i64, t) * index_constant(p.n * p.c);
  return gather_flat(p.probs, row + iota_along(2, 0, p.n, p.c) + p.label);
}

Tensor nothing(const Tensor& like_this) { return like(like_this, -INFINITY); }

/// log(exp a + exp b + exp c); -inf where all are.
Tensor log_sum(const Tensor& a, const Tensor& b, const Tensor& c) {
  Tensor top = maximum(a, maximum(b, c)), base = where(eq(top, nothing(top)), like(top, 0), top);
  return log(exp(a - base) + exp(b - base) + exp(c - base)) + base;
}

/// States shifted by k (to the right for k > 0), -inf where nothing comes from.
Tensor shifted(const Tensor& x, int64_t k) {
  if (std::abs(k) >= x.size(1)) return full(x.sizes(), nothing(x));
  Dims lo{0, k}, hi{0, -k};
  return x.pad(lo, hi, nothing(x));
}

/// Tensors side by side along a new dimension 1, thirty-two at a time: a kernel reads only so many.
Tensor stacked(std::vector<Tensor> parts) {
  for (Tensor& t : parts) t = t.unsqueeze(1);
  while (parts.size() > 1) {
    std::vector<Tensor> next;
    for (size_t i = 0; i < parts.size(); i += 32) {
      std::span<const Tensor> some(parts.data() + i, std::min<size_t>(32, parts.size() - i));
      next.push_back(cat(some, 1).contiguous());
    }
    parts = std::move(next);
  }
  return parts[0];
}

/// log_alpha [N, T, W]: paths that are in a state at a frame, from the first frame on.
Tensor forward_paths(const Paths& p) {
  Tensor state = iota_along(2, 1, p.w), none = nothing(p.probs);
  Tensor alpha = where(le(state, minimum(p.last, index_constant(1))), frame(p, 0), none).contiguous();
  std::vector<Tensor> all{alpha};
  for (int64_t t = 1; t < p.t; ++t) {
    Tensor jumped = where(p.jumps, shifted(alpha, 2), none), running = lt(scalar(DType::i64, t), p.frames);
    Tensor next = log_sum(alpha, shifted(alpha, 1), jumped) + frame(p, t);
    alpha = where(running, next, none).contiguous();
    all.push_back(alpha);
  }
  return stacked(std::move(all));
}

/// log_beta [N, T, W]: the same from each sample's last frame back.
Tensor backward_paths(const Paths& p) {
  Tensor state = iota_along(2, 1, p.w), none = nothing(p.probs), one = index_constant(1), beta = full({p.n, p.w}, none);
  Tensor ends = le(state, p.last) & ge(state, p.last - one);
  Dims lo{0, -2}, hi{0, 2};
  Tensor jumps = p.w > 2 ? p.jumps.pad(lo, hi) : full({p.n, p.w}, truth(false));
  std::vector<Tensor> all(static_cast<size_t>(p.t));
  for (int64_t t = p.t - 1; t >= 0; --t) {
    Tensor now = scalar(DType::i64, t), probs = frame(p, t), jumped = where(jumps, shifted(beta, -2), none);
    Tensor next = log_sum(beta, shifted(beta, -1), jumped) + probs, start = where(ends, probs, none);
    beta = where(lt(now, p.frames - one), next, where(eq(now, p.frames - one), start, none)).contiguous();
    all[static_cast<size_t>(t)] = beta;
  }
  return stacked(std::move(all));
}

}  // namespace

Results ctc_loss(Args& a) {
  require_float(a, a.tensor(0).dtype());
  Paths p = read_paths(a, 0, 4);
  DType d = a.tensor(0).dtype();
  if (p.n == 0 || p.t == 0) return {zeros({p.n}, d), zeros({p.n, p.t, p.w}, d)};
  Tensor alpha = forward_paths(p), one = index_constant(1), zero = index_constant(0), none = nothing(p.probs);
  Tensor row = iota_along(2, 0, p.n, p.t * p.w) + maximum(p.frames - one, zero) * index_constant(p.w);
  Tensor end = gather_flat(alpha, row + p.last), before = gather_flat(alpha, row + maximum(p.last - one, zero));
  before = where(eq(p.last, zero), none, before);
  Tensor loss = -log_sum(end, before, none);
  loss = where(eq(p.frames, zero), where(eq(p.last, zero), like(loss, 0), like(loss, INFINITY)), loss);
  return {loss.reshape({p.n}), alpha};
}

Tensor ctc_loss_backward(Args& a) {
  Paths p = read_paths(a, 1, 7);
  const Tensor &grad = a.tensor(0), &alpha = a.tensor(6);
  if (p.n == 0 || p.t == 0) return zeros(p.probs.sizes(), p.probs.dtype());
  Tensor loss = a.tensor(5).reshape({p.n, 1, 1}), beta = backward_paths(p), state = iota_along(3, 2, p.w), zero = like(p.probs, 0);
  Tensor time = iota_along(3, 1, p.t), label = p.label.unsqueeze(1),
      at = iota_along(3, 0, p.n, p.c) + time * index_constant(p.n * p.c) + label;
  Tensor probs = gather_flat(p.probs, at), used = le(state, p.last.unsqueeze(-1));
  Tensor posterior = exp(alpha + beta - probs + loss);  // NaN where no path fits and the loss is infinite, as in PyTorch
  Tensor place = where(used, at, index_constant(-1)).expand({p.n, p.t, p.w});
  Dims shape{p.n * p.t, p.w, 1};
  Tensor sums = scatter_flat(zeros({p.t * p.n * p.c}, p.probs.dtype()), place.reshape(shape), posterior.reshape(shape), Op::ADD);
  Tensor r = (exp(p.probs) - sums.reshape(p.probs.sizes())) * grad.reshape({1, p.n, 1});
  Tensor running = lt(iota_along(3, 0, p.t), p.frames.reshape({1, p.n, 1}));
  if (a.flag(8)) running = running & ne(loss.reshape({1, p.n, 1}), like(loss, INFINITY));
  return where(running, r, zero);
}

}  // namespace tiny::lower
