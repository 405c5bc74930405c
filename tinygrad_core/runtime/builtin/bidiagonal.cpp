// Implicit QR steps on bidiagonal matrices, without a shift where that keeps the digits of small singular values.
// Source: J. Demmel, W. Kahan, Accurate singular values of bidiagonal matrices, SIAM J. Sci. Stat. Comput. 11 (1990).
#include "runtime/builtin/bidiagonal.h"

#include <cmath>
#include <limits>

#include "runtime/builtin/plane.h"

namespace tiny {
namespace {

/// The smaller singular value of [f g; 0 h].
template <class R>
R smaller(R f, R g, R h) {
  f = std::abs(f), g = std::abs(g), h = std::abs(h);
  R low = std::min(f, h), high = std::max(f, h);
  if (low == 0) return 0;
  R sum = 1 + low / high, difference = (high - low) / high;
  if (g < high) {
    R u = (g / high) * (g / high);
    return low * (2 / (std::sqrt(sum * sum + u) + std::sqrt(difference * difference + u)));
  }
  R u = high / g;
  if (u == 0) return low * high / g;
  R c = 1 / (std::sqrt(1 + sum * u * (sum * u)) + std::sqrt(1 + difference * u * (difference * u)));
  return 2 * (low * c * u);
}

/// A block of the matrix, seen from its end where `backwards`: then it is transposed, and left and right trade places.
template <class R>
struct Block {
  R *diagonal, *above;
  int64_t start, m;  // elements start .. start + m
  bool backwards;
  R& d(int64_t i) const { return diagonal[backwards ? start + m - i : start + i]; }
  R& e(int64_t i) const { return above[backwards ? start + m - 1 - i : start + i]; }

  void sweep(Rotations<R>& r) const { r.sweep(backwards ? start + m : start, backwards ? -1 : 1); }

  void step_without_shift(Rotations<R>& left, Rotations<R>& right) const {
    R c = 1, old_c = 1, old_s = 0;
    for (int64_t i = 0; i < m; ++i) {
      Turn<R> t = turn(d(i) * c, e(i));
      if (i > 0) e(i - 1) = old_s * t.r;
      Turn<R> u = turn(old_c * t.r, d(i + 1) * t.s);
      d(i) = u.r;
      c = t.c, old_c = u.c, old_s = u.s;
      right.add(t.c, t.s), left.add(u.c, u.s);
    }
    R h = d(m) * c;
    d(m) = h * old_c, e(m - 1) = h * old_s;
  }

  void step(R shift, Rotations<R>& left, Rotations<R>& right) const {
    R f = (std::abs(d(0)) - shift) * (std::copysign(R(1), d(0)) + shift / d(0)), g = e(0);
    for (int64_t i = 0; i < m; ++i) {
      Turn<R> t = turn(f, g);
      if (i > 0) e(i - 1) = t.r;
      f = t.c * d(i) + t.s * e(i);
      e(i) = t.c * e(i) - t.s * d(i);
      g = t.s * d(i + 1);
      d(i + 1) *= t.c;
      Turn<R> u = turn(f, g);
      d(i) = u.r;
      f = u.c * e(i) + u.s * d(i + 1);
      d(i + 1) = u.c * d(i + 1) - u.s * e(i);
      if (i + 1 < m) {
        g = u.s * e(i + 1);
        e(i + 1) *= u.c;
      }
      right.add(t.c, t.s), left.add(u.c, u.s);
    }
    e(m - 1) = f;
  }
};

template <class R>
bool find(int64_t n, R* d, R* e, Rotations<R>& left, Rotations<R>& right) {
  const R eps = std::numeric_limits<R>::epsilon() / 2, count = static_cast<R>(n);
  const R tolerance = eps * std::clamp(std::pow(eps, R(-0.125)), R(10), R(100));
  R least = std::abs(d[0]), mu = least;  // not above the smallest singular value
  for (int64_t i = 1; i < n && least > 0; ++i) mu = std::abs(d[i]) * (mu / (mu + std::abs(e[i - 1]))), least = std::min(least, mu);
  const R nothing = std::max(tolerance * (least / std::sqrt(count)), 6 * count * count * std::numeric_limits<R>::min());

  int64_t work_left = 6 * n * n + 100;
  Block<R> block{d, e, -1, -1, false};
  for (int64_t end = n - 1; end > 0;) {
    if (std::abs(d[end]) <= nothing) d[end] = 0;
    R most = std::abs(d[end]);
    int64_t start = end;
    while (start > 0) {
      R x = std::abs(d[start - 1]), y = std::abs(e[start - 1]);
      if (x <= nothing) d[start - 1] = 0;
      if (y <= nothing) {
        e[start - 1] = 0;
        break;
      }
      most = std::max({most, x, y});
      --start;
    }
    if (start == end) {
      --end;
      continue;
    }
    if (start > block.start + block.m || end < block.start) block.backwards = std::abs(d[start]) < std::abs(d[end]);
    block.start = start, block.m = end - start;
    if ((work_left -= block.m) < 0) return false;

    const int64_t m = block.m;
    if (std::abs(block.e(m - 1)) <= tolerance * std::abs(block.d(m))) {
      block.e(m - 1) = 0;
      continue;
    }
    R smallest = std::abs(block.d(0));
    bool split = false;
    mu = smallest;
    for (int64_t i = 0; i < m && !split; ++i) {
      split = std::abs(block.e(i)) <= tolerance * mu;
      if (split) block.e(i) = 0;
      mu = std::abs(block.d(i + 1)) * (mu / (mu + std::abs(block.e(i))));
      smallest = std::min(smallest, mu);
    }
    if (split) continue;

    R shift = 0;
    if (count * tolerance * (smallest / most) > std::max(eps, R(0.01) * tolerance)) {
      shift = smaller(block.d(m - 1), block.e(m - 1), block.d(m));
      R share = shift / std::abs(block.d(0));
      if (share * share < eps) shift = 0;
    }
    block.sweep(left), block.sweep(right);
    Rotations<R>&l = block.backwards ? right : left, &r = block.backwards ? left : right;
    shift == 0 ? block.step_without_shift(l, r) : block.step(shift, l, r);
    if (std::abs(block.e(m - 1)) <= nothing) block.e(m - 1) = 0;
  }
  left.run(), right.run();
  return true;
}

}  // namespace

bool diagonalise(int64_t n, float* d, float* e, Rotations<float>& left, Rotations<float>& right) { return find(n, d, e, left, right); }
bool diagonalise(int64_t n, double* d, double* e, Rotations<double>& left, Rotations<double>& right) { return find(n, d, e, left, right); }

}  // namespace tiny
