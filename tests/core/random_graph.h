// Random tensor programs for differential tests: what a seed draws is always the same.
//
// A program has one right result up to rounding: where a small error could become a large one (floor, comparisons, conversions to integers
// and short floats) the operand is exact, that is, made by operators whose every result is correctly rounded.
#pragma once
#include <cstring>
#include <random>

#include "engine/storage.h"

namespace tiny::testing {

class RandomGraph {
 public:
  RandomGraph(uint64_t seed, Device& device) : rng_(seed), device_(device) {}

  /// A program of `steps` operators; returns a few of its values, and `more`.
  std::vector<Tensor> draw(int steps, int more = 0) {
    pool_.clear();
    static constexpr DType kThird[] = {DType::i32, DType::i32, DType::i64, DType::f64, DType::u8, DType::i16, DType::bool_};
    for (int i = 0; i < 3; ++i) pool_.push_back(leaf(shape(), i == 2 ? kThird[below(7)] : DType::f32));
    for (int i = 0; i < steps; ++i) {
      Tensor t = step();
      if (t.defined() && t.numel() > 0 && t.numel() <= 20000) pool_.push_back(t);
    }
    std::vector<Tensor> out;
    int wanted = 1 + below(3) + more;
    for (int i = 0; i < wanted; ++i) out.push_back(i == 0 ? pool_.back() : pool_[below(static_cast<int>(pool_.size()))]);
    return out;
  }

  Tensor leaf(Dims sizes, DType d) {
    int64_t n = product(sizes);
    Buffer* b = device_.alloc(static_cast<size_t>(n * itemsize(d)) + 8);
    std::string bytes(static_cast<size_t>(n * itemsize(d)), '\0');
    for (int64_t i = 0; i < n; ++i) {
      if (d == DType::f32) put(bytes, i, static_cast<float>(below(4001) - 2000) / 500.0f);
      else if (d == DType::f64) put(bytes, i, static_cast<double>(below(4001) - 2000) / 500.0);
      else put_int(bytes, i, d, is_bool(d) ? below(2) : below(41) - (is_signed(d) ? 20 : 0));
    }
    device_.copy_in(b, 0, bytes.data(), bytes.size());
    Tensor t(make_buffer_node(b, d, n), sizes);
    b->release();
    return t;
  }

 private:
  template <class T> static void put(std::string& bytes, int64_t i, T v) { std::memcpy(bytes.data() + i * sizeof(T), &v, sizeof v); }
  static void put_int(std::string& bytes, int64_t i, DType d, int64_t v) {
    std::memcpy(bytes.data() + i * itemsize(d), &v, static_cast<size_t>(itemsize(d)));  // little endian, as the devices
  }
  int below(int n) { return static_cast<int>(rng_() % static_cast<uint64_t>(n)); }
  Dims shape() {
    Dims d;
    int n = 1 + below(3);
    for (int i = 0; i < n; ++i) d.push_back(std::initializer_list<int>{1, 2, 3, 4, 5, 8, 16, 17}.begin()[below(8)]);
    return d;
  }
  const Tensor& any() { return pool_[below(static_cast<int>(pool_.size()))]; }
  /// True if every device must compute the very same bits.
  static bool exact(const Tensor& t) {
    UOp* roots[] = {t.node()};
    for (UOp* u : toposort(roots)) {
      bool combines = (u->is(Op::REDUCE) || u->is(Op::SCAN)) && reduce_op(u) == Op::ADD;
      combines |= u->is(Op::SCATTER) && static_cast<Op>(u->arg.rec->n) == Op::ADD;
      if (has(u->op, group::Trans) || u->is(Op::DFT) || (combines && is_float(u->dtype))) return false;
    }
    return true;
  }
  /// Another value of t's dtype that broadcasts with it.
  Tensor partner(const Tensor& t) {
    for (int i = 0; i < 6; ++i) {
      const Tensor& o = any();
      if (o.dtype() == t.dtype() && o.sizes() == t.sizes()) return o;
    }
    Dims s = t.sizes();
    for (int64_t& x : s)
      if (below(3) == 0) x = 1;
    return leaf(s, t.dtype());
  }
  static Tensor bounded(const Tensor& t) {  // keeps values small, so that rounding errors stay small too
    return is_float(t.dtype()) ? minimum(maximum(t, constant(t.dtype(), -8.0)), constant(t.dtype(), 8.0)) : t;
  }
  /// To another type; into integers only what fits them.
  Tensor convert(const Tensor& t) {
    static constexpr DType kTo[] = {DType::i32, DType::i64, DType::i16, DType::bool_, DType::u8, DType::f64, DType::f32};
    DType to = is_float(t.dtype()) ? kTo[below(7)] : below(2) ? DType::f32 : kTo[below(7)];
    if (!is_float(t.dtype())) return t.cast(to);
    if (is_float(to)) return t.cast(to);
    if (!exact(t)) return {};
    return (to == DType::u8 ? bounded(t).unary(Op::ABS) : bounded(t)).cast(to);
  }

  /// A Fourier transform along d of t, and of something else or nothing as the imaginary part.
  Tensor transform(const Tensor& t, int64_t d) {
    Dft shape;
    for (int64_t k = 0; k < t.dim(); ++k) (k < d ? shape.batch : k == d ? shape.n : shape.inner) *= t.size(k);
    shape.radices = dft_radices(shape.n);
    if (shape.radices.empty()) return {};
    shape.last = shape.passes();
    shape.inverse = below(2), shape.result = static_cast<DftResult>(below(3)), shape.scale = below(2) ? 1 : 0.5;
    std::vector<double> roots(static_cast<size_t>(shape.roots()));
    shape.fill_roots(roots.data());
    std::string bytes(roots.size() * static_cast<size_t>(itemsize(t.dtype())), '\0');
    for (size_t i = 0; i < roots.size(); ++i) {
      if (t.dtype() == DType::f32) put(bytes, static_cast<int64_t>(i), static_cast<float>(roots[i]));
      else put(bytes, static_cast<int64_t>(i), roots[i]);
    }
    Buffer* b = device_.alloc(bytes.size() + 8);
    device_.copy_in(b, 0, bytes.data(), bytes.size());
    Tensor table(make_buffer_node(b, t.dtype(), shape.roots()), Dims{shape.roots()});
    b->release();
    Tensor imaginary = below(2) ? t.flip(Dims{d}) : Tensor();
    Dims sizes = t.sizes();
    Tensor r = dft(t, imaginary, table, shape);
    if (shape.result == DftResult::Planar) sizes[0] *= 2;  // some shape that fits
    if (shape.result == DftResult::Pairs) sizes.push_back(2);
    return r.reshape(sizes);
  }

  Tensor step() {
    const Tensor t = any();
    int64_t d = t.dim() ? below(static_cast<int>(t.dim())) : 0;
    switch (below(25)) {
      case 0: case 1: {
        static constexpr Op ops[] = {Op::NEG, Op::ABS, Op::EXP, Op::TANH, Op::SIN, Op::SQRT, Op::FLOOR, Op::ERF};
        Op op = ops[below(8)];
        if (!is_float(t.dtype())) return is_signed(t.dtype()) ? t.unary(op == Op::NEG ? Op::NEG : Op::ABS) : Tensor();
        if (op == Op::FLOOR && !exact(t)) return {};
        if (op != Op::SQRT) return bounded(t.unary(op));
        return exact(t) ? t.unary(Op::ABS).unary(op) : (t.unary(Op::ABS) + 0.25).unary(op);  // steep at 0
      }
      case 2: case 3: case 4: {
        if (t.dtype() == DType::bool_) return binary(Op::XOR, t, partner(t));
        static constexpr Op ops[] = {Op::ADD, Op::SUB, Op::MUL, Op::MAX, Op::MIN};
        return bounded(binary(ops[below(5)], t, partner(t)));
      }
      case 5: {
        Tensor other = partner(t);
        if (t.dtype() == DType::bool_ || !exact(t) || !exact(other)) return {};
        return binary(below(2) ? Op::CMPLT : Op::CMPEQ, t, other);
      }
      case 6: {
        Tensor other = partner(t);
        if (!exact(t) || !exact(other)) return {};
        Tensor c = t.dtype() == DType::bool_ ? t : lt(t, other);
        Tensor a = leaf(c.sizes(), DType::f32);
        return where(c, a, a * 0.5);
      }
      case 7: return convert(t);
      case 8: return t.dtype() == DType::f32 && exact(t) ? t.cast(below(2) ? DType::bf16 : DType::f16).cast(DType::f32) : Tensor();
      case 9: case 10: {
        if (!t.dim() || t.dtype() == DType::bool_) return {};
        static constexpr Op ops[] = {Op::ADD, Op::MAX, Op::MIN};
        Tensor r = t.reduce(ops[below(3)], std::initializer_list<int64_t>{d}, below(2));
        return is_float(t.dtype()) ? bounded(r * 0.25) : r;
      }
      case 11: return t.dim() >= 2 ? t.transpose(0, t.dim() - 1) : Tensor();
      case 12: return t.reshape(Dims{-1});
      case 13: return t.dim() && t.size(d) > 1 ? t.slice(d, below(2), t.size(d), 1 + below(2)) : Tensor();
      case 14: return t.flip(std::initializer_list<int64_t>{d}.begin()[0] < t.dim() ? Dims{d} : Dims{});
      case 15: {
        Dims lo(t.sizes().size()), hi(t.sizes().size());
        for (size_t i = 0; i < lo.size(); ++i) lo[i] = below(3), hi[i] = below(3);
        return t.pad(lo, hi);
      }
      case 16: {  // softmax
        if (!t.dim() || !is_float(t.dtype())) return {};
        Dims ax{d};
        Tensor e = (t - t.amax(ax, true)).unary(Op::EXP);
        return e / e.sum(ax, true);
      }
      case 17: {  // layer norm
        if (!t.dim() || !is_float(t.dtype())) return {};
        Dims ax{t.dim() - 1};
        double n = static_cast<double>(t.size(-1));
        Tensor c = t - t.sum(ax, true) / n;
        return bounded(c / ((c * c).sum(ax, true) / n + 1.0).unary(Op::SQRT));
      }
      case 18: {
        if (t.dim() != 2 || t.dtype() != DType::f32) return {};
        return bounded(matmul(t, leaf(Dims{t.size(1), 1 + below(33)}, DType::f32), DType::f32) * 0.1);
      }
      case 19: {
        if (!t.dim()) return {};
        Tensor other = t;
        Tensor parts[] = {t, other, t};
        return cat(std::span<const Tensor>(parts, static_cast<size_t>(2 + below(2))), d);
      }
      case 20: {
        if (t.dim() != 1 || t.dtype() == DType::bool_) return {};
        Tensor index = checked_index(leaf(Dims{1 + below(9)}, DType::i32).unary(Op::ABS).cast(DType::i64), 64, "test: {} of {}");
        Tensor in_range = binary(Op::MOD, index, constant(DType::i64, t.numel()));
        if (below(2)) return gather_flat(t, in_range);
        Tensor src = leaf(in_range.sizes(), t.dtype());
        return scatter_rows(t, in_range, src, below(2) ? Op::ADD : Op::NOOP);
      }
      case 21: {
        if (!t.dim() || (t.dtype() != DType::f32 && t.dtype() != DType::f64)) return {};
        Tensor r = transform(t, d);
        return r.defined() ? bounded(r * 0.1) : r;
      }
      case 22: {
        Tensor other = below(3) ? partner(t) : full(t.sizes(), constant(t.dtype(), int64_t{1}));
        return interleave(t, other.sizes() == t.sizes() ? other : bounded(binary(Op::MAX, t, t)));
      }
      case 23: {
        if (!t.dim() || t.size(-1) != 2) return {};
        Tensor a = t.select(-1, 0), b = t.select(-1, 1);
        return below(2) ? a : interleave(b, a);
      }
      default: {
        if (!t.dim() || t.dtype() == DType::bool_) return {};
        if (below(2)) return bounded(t.scan(below(2) ? Op::ADD : Op::MAX, d));
        if (t.size(d) < 2) return {};
        Dims strides = contiguous_strides(t.sizes()), part = t.sizes();
        part[d] = 1;
        return assign_view(t, strides, strides[d], leaf(part, t.dtype()));
      }
    }
  }

  std::mt19937_64 rng_;
  Device& device_;
  std::vector<Tensor> pool_;
};

}  // namespace tiny::testing
