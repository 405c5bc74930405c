// Operands of contractions. A contraction reads each element of an operand as many times as the other operand has rows of its own, so what
// is awkward about an operand is done once, in memory, before it: padding, widening, and on CPUs a layout in which the kernel's vectors are
// contiguous.
#include <algorithm>

#include "schedule/contract.h"

namespace tiny::sched {
namespace {

constexpr int64_t kReuse = 8;         // reads of an element from which a pass over the operand pays
constexpr int64_t kPackReuse = 16;
constexpr int64_t kFarStride = 2048;  // bytes between consecutive rows of a panel that defeat the caches and the TLB

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
    for (int side = 0; side < 2; ++side) d.stride[side] = step_through(o[side].view, breaks[k]);
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

/// Its elements at these places; for pairs, where their first halves are.
int read(Work& w, const Source& from, const Dims& sizes, const Dims& strides) {
  const int low = w.add_view(from.base, sizes, strides, from.offset);
  if (!from.pair) return low;
  const int64_t n = w[low].numel;
  auto bits = [&](int half) { return w.add(Op::CAST, DType::u32, n, {}, {w.add(Op::BITCAST, DType::u16, n, {}, {half})}); };
  const int high = bits(w.add_view(from.base, sizes, strides, from.offset + from.pair));
  const int shift = w.add(Op::CONST, DType::u32, 1, const_arg(DType::u32, int64_t{16}), {});
  return w.add(Op::OR, DType::u32, n, {}, {w.add(Op::SHL, DType::u32, n, {}, {high, shift}), bits(low)});
}

/// `from` over the common digits.
int view_of(Work& w, const std::vector<Digit>& digits, int side, const Source& from) {
  Dims sizes, strides;
  for (const Digit& d : digits) sizes.push_back(d.extent), strides.push_back(d.stride[side]);
  return read(w, from, sizes, strides);
}

/// Splits `inner` of digit i off as a digit of its own, behind it; returns its number.
size_t split_digit(std::vector<Digit>& digits, size_t i, int64_t inner) {
  if (digits[i].extent == inner) return i;
  Digit low = digits[i];
  low.extent = inner;
  for (int s = 0; s < 2; ++s) digits[i].stride[s] *= inner;
  digits[i].extent /= inner;
  digits.insert(digits.begin() + static_cast<int64_t>(i) + 1, low);
  return i + 1;
}

/// Copies the operand so that the elements of digit `last` lie side by side: [its other digits, rows first, then columns, last].
Source copy(Work& w, std::vector<Digit>& digits, int side, const Source& from, size_t last, Layouts& layouts) {
  std::vector<size_t> order;
  for (bool column : {false, true})
    for (size_t i = 0; i < digits.size(); ++i)
      if (digits[i].column == column && i != last && digits[i].stride[side] != 0) order.push_back(i);
  order.push_back(last);
  Dims sizes, strides;
  for (size_t i : order) sizes.push_back(digits[i].extent), strides.push_back(digits[i].stride[side]);
  const Record* view = w[w.add_view(from.base, sizes, strides, from.offset)].arg.rec;
  auto [it, fresh] = layouts.try_emplace({from.base, view, from.pair}, -1);
  if (fresh) {
    const int elements = read(w, from, sizes, strides);
    // Arithmetic that a contraction reads is in memory anyway; movement must be told to.
    it->second = is_free(w[elements].op) ? w.add(Op::CONTIGUOUS, w[elements].dtype, w[elements].numel, {}, {elements}) : elements;
  }
  Dims dense = contiguous_strides(sizes);
  for (size_t k = 0; k < order.size(); ++k) digits[order[k]].stride[side] = dense[k];
  return {it->second, 0};
}

/// The operand reads elements of its base several times over, as convolutions do: a copy would multiply them.
bool windows_overlap(const Work& w, const std::vector<Digit>& digits, int side, int base) {
  int64_t read = 1;
  for (const Digit& d : digits)
    if (d.stride[side]) read *= d.extent;
  return read > w[base].numel;
}

/// Which rows become the kernel's vectors.
struct Panel {
  int side = -1;
  size_t digit = 0;
  int64_t inner = 0;  // of them side by side
};
Panel find_panel(const Work& w, const std::vector<Digit>& digits, const Source (&from)[2], const bool (&allowed)[2], int64_t lanes) {
  Panel best;
  int64_t best_score = 0;
  for (int side : {1, 0}) {
    if (!allowed[side]) continue;
    if (windows_overlap(w, digits, side, from[side].base)) continue;
    for (size_t i = 0; i < digits.size(); ++i) {
      if (!own_row(digits[i], side)) continue;
      int64_t e = digits[i].extent, score = e % (2 * lanes) == 0 ? 4 : e % lanes == 0 ? 3 : e > 2 * lanes ? 2 : e >= lanes / 2 ? 1 : 0;
      if (digits[i].stride[side] == 1) ++score;
      if (score <= best_score) continue;
      best_score = score;
      best = {side, i, e % (2 * lanes) == 0 ? 2 * lanes : e % lanes == 0 ? lanes : e};
    }
  }
  return best;
}

/// A leaf of bf16 whose pairs are u32 in memory as they are, as such; the strides of `side` with it.
bool read_pairs_in_place(Work& w, std::vector<Digit>& digits, int side, Source& from, Layouts& layouts) {
  const Node leaf = w[from.base];
  if (leaf.op != Op::BUFFER || from.pair != 1 || from.offset % 2) return false;
  for (const Digit& d : digits)
    if (d.stride[side] % 2) return false;
  for (Digit& d : digits) d.stride[side] /= 2;
  auto [it, fresh] = layouts.try_emplace({from.base, nullptr, 1}, -1);  // one node for all, so that copies of it are found
  if (fresh) {
    it->second = w.add(Op::BUFFER, DType::u32, leaf.numel / 2, leaf.arg, {});
    w.nodes[static_cast<size_t>(it->second)].number = leaf.number;
  }
  from = {it->second, from.offset / 2};
  return true;
}

/// The product of two bf16 operands as DOT2s: neighbours along a column are multiplied at once. -1 if that does not suit them.
int product_of_pairs(Work& w, std::vector<Digit> digits, const Operand (&o)[2], const int64_t (&reuse)[2], const int64_t (&readers)[2],
                     int64_t lanes, Layouts& layouts) {
  size_t column = digits.size();
  int best = -1;
  for (size_t i = 0; i < digits.size(); ++i) {
    const Digit& d = digits[i];
    const int near = (d.stride[0] == 1) + (d.stride[1] == 1);
    if (d.column && d.extent % 2 == 0 && d.stride[0] && d.stride[1] && near >= best) best = near, column = i;
  }
  if (best < 0) return -1;
  Source from[2];
  for (int side = 0; side < 2; ++side) from[side] = {o[side].base, o[side].view.offset, digits[column].stride[side]};
  const bool allowed[2] = {reuse[0] * readers[0] >= kPackReuse, reuse[1] * readers[1] >= kPackReuse};
  Panel panel = find_panel(w, digits, from, allowed, lanes);
  if (panel.side < 0) return -1;
  const int other = 1 - panel.side;
  const bool overlap = windows_overlap(w, digits, other, from[other].base);
  Digit& d = digits[column];
  d.extent /= 2, d.stride[0] *= 2, d.stride[1] *= 2;
  if (!read_pairs_in_place(w, digits, other, from[other], layouts)) {
    if (overlap || reuse[other] * readers[other] < kReuse) return -1;
    from[other] = copy(w, digits, other, from[other], column, layouts);
  }
  read_pairs_in_place(w, digits, panel.side, from[panel.side], layouts);
  const size_t vector = split_digit(digits, panel.digit, panel.inner);
  from[panel.side] = copy(w, digits, panel.side, from[panel.side], vector, layouts);
  const int zero = w.add(Op::CONST, DType::f32, 1, const_arg(DType::f32, 0.0), {});
  const int x = view_of(w, digits, 0, from[0]), y = view_of(w, digits, 1, from[1]);
  return w.add(Op::DOT2, DType::f32, w[x].numel, {}, {x, y, zero});
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

  const int64_t lanes = std::max<int64_t>(1, caps.vector_bytes / itemsize(dtype));
  auto are_widened = [&](DType d) { return o[0].widened && o[1].widened && w[o[0].base].dtype == d && w[o[1].base].dtype == d; };
  if (caps.has_dot2 && dtype == DType::f32 && are_widened(DType::bf16)) {
    const int dots = product_of_pairs(w, digits, o, reuse, readers, lanes, layouts);
    if (dots >= 0) return dots;
  }
  bool changed = false;
  Source from[2] = {{o[0].base, o[0].view.offset}, {o[1].base, o[1].view.offset}};
  // Tensor cores multiply them as they are.
  const bool narrow = caps.tensor_cores && (are_widened(DType::bf16) || are_widened(DType::f16));
  for (int side = 0; side < 2; ++side) {
    int& base = from[side].base;
    if (narrow && caps.block_bytes && reuse[side] >= kReuse && lay_channels_last(w, digits, side, from[side], layouts)) {
      changed = true;
    } else if (o[side].widened && !narrow && reuse[side] >= kReuse) {
      int wide = w.add(Op::CAST, dtype, w[base].numel, {}, {base});
      base = w.add(Op::CONTIGUOUS, dtype, w[wide].numel, {}, {wide});
      o[side].widened = false, changed = true;
    } else if (has_padding(w, base) && reuse[side] >= kReuse) {
      base = w.add(Op::CONTIGUOUS, w[base].dtype, w[base].numel, {}, {base});
      changed = true;
    }
  }

  if (caps.pack_operands && caps.vector_bytes) {
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
      bool allowed[2];
      for (int side : {0, 1})
        allowed[side] = (near_side < 0 || side == near_side) && reuse[side] * readers[side] >= kPackReuse && !o[side].widened;
      if (Panel panel = find_panel(w, digits, from, allowed, lanes); panel.side >= 0) {
        const size_t vector = split_digit(digits, panel.digit, panel.inner);
        from[panel.side] = copy(w, digits, panel.side, from[panel.side], vector, layouts);
        changed = true;
      }
    }
  }
  if (!changed) return product;
  int operand[2];
  for (int side = 0; side < 2; ++side) {
    operand[side] = view_of(w, digits, side, from[side]);
    if (w[operand[side]].dtype != mul.dtype) operand[side] = w.add(Op::CAST, mul.dtype, total, {}, {operand[side]});
  }
  return w.add(Op::MUL, mul.dtype, total, {}, {operand[0], operand[1]});
}

}  // namespace tiny::sched
