// Operands of contractions. A contraction reads each element of an operand as many times as the other operand has rows of its own, so what
// is awkward about an operand is done once, in memory, before it: padding, widening, and on CPUs a layout in which the kernel's vectors are
// contiguous.
#include <algorithm>

#include "schedule/work.h"

namespace tiny::sched {
namespace {

constexpr int64_t kReuse = 8;         // reads of an element from which a pass over the operand pays
constexpr int64_t kPackReuse = 16;
constexpr int64_t kFarStride = 2048;  // bytes between consecutive rows of a panel that defeat the caches and the TLB

struct Digit {
  int64_t extent;
  int64_t stride[2];  // of both operands
  bool column;
};

struct Operand {
  int base = -1;       // node that the view reads
  Geometry view;
  bool widened = false;  // a CAST from a reduced float lies between
};

/// Peels CASTs from reduced floats and one VIEW off `n`.
Operand peel(const Work& w, int n) {
  Operand o;
  while (widens(w, n)) o.widened = true, n = w[n].src[0];
  if (w[n].op == Op::VIEW) {
    const Record* r = w[n].arg.rec;
    o.view = simplified(r->a, r->b, r->n);
    n = w[n].src[0];
  } else {
    o.view.sizes = Dims{w[n].numel};
    o.view.strides = Dims{1};
  }
  while (widens(w, n)) o.widened = true, n = w[n].src[0];
  o.base = n;
  return o;
}

/// The loops that both views and the split into rows and columns agree on, outermost first; empty if they do not divide each other.
std::vector<Digit> common_digits(const Operand (&o)[2], int64_t columns, int64_t total) {
  std::vector<int64_t> breaks{1, columns, total};
  for (const Operand& x : o) {
    int64_t p = 1;
    for (size_t i = x.view.sizes.size(); i-- > 0;) breaks.push_back(p *= x.view.sizes[i]);
  }
  std::sort(breaks.begin(), breaks.end());
  breaks.erase(std::unique(breaks.begin(), breaks.end()), breaks.end());
  std::vector<Digit> digits;
  for (size_t k = 0; k + 1 < breaks.size(); ++k) {
    if (breaks[k + 1] % breaks[k]) return {};
    Digit d{breaks[k + 1] / breaks[k], {0, 0}, breaks[k] < columns};
    for (int side = 0; side < 2; ++side) {
      int64_t p = 1;
      const Geometry& v = o[side].view;
      for (size_t i = v.sizes.size(); i-- > 0; p *= v.sizes[i])
        if (breaks[k] >= p && breaks[k] < p * v.sizes[i]) {
          d.stride[side] = v.strides[i] * (breaks[k] / p);
          break;
        }
    }
    digits.push_back(d);
  }
  std::reverse(digits.begin(), digits.end());
  return digits;
}

bool has_padding(const Work& w, int n) {
  for (; w[n].op == Op::VIEW || w[n].op == Op::PAD; n = w[n].src[0])
    if (w[n].op == Op::PAD) return true;
  return false;
}

/// `o`'s view over the common digits, of node `base`.
int view_of(Work& w, const std::vector<Digit>& digits, int side, int base, int64_t offset) {
  Dims sizes, strides;
  for (const Digit& d : digits) sizes.push_back(d.extent), strides.push_back(d.stride[side]);
  return w.add_view(base, sizes, strides, offset);
}

/// Rows that only `side` has.
bool own_row(const Digit& d, int side) { return !d.column && d.stride[side] != 0 && d.stride[1 - side] == 0; }

/// Copies the operand so that `inner` elements of digit `v` lie side by side: [other digits of the operand, rows first, then columns,
/// inner]. Splits digit v in two when inner is not its extent.
int pack(Work& w, std::vector<Digit>& digits, int side, int base, int64_t offset, size_t v, int64_t inner, Layouts& layouts) {
  if (digits[v].extent != inner) {
    Digit low = digits[v];
    low.extent = inner;
    for (int s = 0; s < 2; ++s) digits[v].stride[s] *= inner;
    digits[v].extent /= inner;
    digits.insert(digits.begin() + static_cast<int64_t>(++v), low);
  }
  std::vector<size_t> order;
  for (bool column : {false, true})
    for (size_t i = 0; i < digits.size(); ++i)
      if (digits[i].column == column && i != v && digits[i].stride[side] != 0) order.push_back(i);
  order.push_back(v);
  Dims sizes, strides;
  for (size_t i : order) sizes.push_back(digits[i].extent), strides.push_back(digits[i].stride[side]);
  int view = w.add_view(base, sizes, strides, offset);
  auto [it, fresh] = layouts.try_emplace({base, w[view].arg.rec}, -1);
  if (fresh) it->second = w.add(Op::CONTIGUOUS, w[view].dtype, w[view].numel, {}, {view});
  const int packed = it->second;
  Dims dense = contiguous_strides(sizes);
  for (size_t k = 0; k < order.size(); ++k) digits[order[k]].stride[side] = dense[k];
  return packed;
}

}  // namespace

int condition_contraction(Work& w, int product, int64_t columns, DType dtype, const Caps& caps, const int64_t (&readers)[2],
                          Layouts& layouts) {
  const Node mul = w[product];
  int64_t total = mul.numel;
  if (w[mul.src[0]].numel != total || w[mul.src[1]].numel != total) return product;
  Operand o[2] = {peel(w, mul.src[0]), peel(w, mul.src[1])};
  std::vector<Digit> digits = common_digits(o, columns, total);
  if (digits.empty()) return product;
  int64_t own[2] = {1, 1}, reuse[2];
  for (const Digit& d : digits)
    for (int side = 0; side < 2; ++side)
      if (own_row(d, side)) own[side] *= d.extent;
  reuse[0] = own[1], reuse[1] = own[0];
  if (own[0] == 1 && own[1] == 1) return product;

  bool changed = false;
  int base[2] = {o[0].base, o[1].base};
  int64_t offset[2] = {o[0].view.offset, o[1].view.offset};
  // Tensor cores multiply them as they are.
  auto is_half = [&](int n) { return w[n].dtype == DType::bf16 || w[n].dtype == DType::f16; };
  bool narrow = caps.tensor_cores && is_half(base[0]) && w[base[0]].dtype == w[base[1]].dtype;
  for (int side = 0; side < 2; ++side) {
    if (o[side].widened && !narrow && reuse[side] >= kReuse) {
      int wide = w.add(Op::CAST, dtype, w[base[side]].numel, {}, {base[side]});
      base[side] = w.add(Op::CONTIGUOUS, dtype, w[wide].numel, {}, {wide});
      o[side].widened = false, changed = true;
    } else if (has_padding(w, base[side]) && reuse[side] >= kReuse) {
      base[side] = w.add(Op::CONTIGUOUS, w[base[side]].dtype, w[base[side]].numel, {}, {base[side]});
      changed = true;
    }
  }

  if (caps.pack_operands && caps.vector_bytes) {
    int64_t lanes = std::max<int64_t>(1, caps.vector_bytes / itemsize(dtype));
    // A row of one operand alone whose elements lie side by side can be the kernel's vector as it is.
    int near_side = -1;
    bool far = false;
    for (int side : {1, 0})
      for (const Digit& d : digits)
        if (near_side < 0 && own_row(d, side) && d.stride[side] == 1 && (d.extent % lanes == 0 || d.extent >= 4 * lanes)) {
          near_side = side;
          for (const Digit& k : digits)
            if (k.column && k.stride[side] * itemsize(dtype) >= kFarStride && columns >= 32) far = true;
        }
    if (near_side < 0 || (far && reuse[near_side] >= 2 * kPackReuse)) {
      int best = -1;
      size_t best_digit = 0;
      int64_t best_score = 0;
      for (int side : {1, 0}) {
        if (near_side >= 0 && side != near_side) continue;
        if (reuse[side] * readers[side] < kPackReuse || o[side].widened) continue;
        int64_t touched = 1;
        for (const Digit& d : digits)
          if (d.stride[side]) touched *= d.extent;
        if (touched > w[base[side]].numel) continue;  // overlapping windows: packing would multiply them
        for (size_t i = 0; i < digits.size(); ++i) {
          if (!own_row(digits[i], side)) continue;
          int64_t e = digits[i].extent, score = e % (2 * lanes) == 0 ? 4 : e % lanes == 0 ? 3 : e > 2 * lanes ? 2 : e >= lanes / 2 ? 1 : 0;
          if (digits[i].stride[side] == 1) ++score;
          if (score > best_score) best = side, best_digit = i, best_score = score;
        }
      }
      if (best >= 0) {
        int64_t e = digits[best_digit].extent, inner = e % (2 * lanes) == 0 ? 2 * lanes : e % lanes == 0 ? lanes : e;
        base[best] = pack(w, digits, best, base[best], offset[best], best_digit, inner, layouts);
        offset[best] = 0, changed = true;
      }
    }
  }
  if (!changed) return product;
  int operand[2];
  for (int side = 0; side < 2; ++side) {
    operand[side] = view_of(w, digits, side, base[side], offset[side]);
    if (w[operand[side]].dtype != mul.dtype) operand[side] = w.add(Op::CAST, mul.dtype, total, {}, {operand[side]});
  }
  return w.add(Op::MUL, mul.dtype, total, {}, {operand[0], operand[1]});
}

}  // namespace tiny::sched
