#include "uop/dft.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numbers>

namespace tiny {

Dft Dft::of(const Record& r) {
  Dft d;
  d.batch = r.a[0], d.n = r.a[1], d.inner = r.a[2];
  d.radices = r.b;
  d.inverse = r.n & 1, d.result = static_cast<DftResult>(r.n >> 1 & 3), d.kind = static_cast<DftKind>(r.n >> 3);
  d.scale = std::bit_cast<double>(r.c[0]);
  d.first = static_cast<size_t>(r.c[1]), d.last = static_cast<size_t>(r.c[2]);
  return d;
}

const Record* Dft::record() const {
  Record r;
  r.a = {batch, n, inner};
  r.b = radices;
  r.c = {std::bit_cast<int64_t>(scale), static_cast<int64_t>(first), static_cast<int64_t>(last)};
  r.n = static_cast<int64_t>(kind) << 3 | static_cast<int64_t>(result) << 1 | inverse;
  return intern(std::move(r));
}

int64_t Dft::remaining(size_t radix) const {
  int64_t p = 1;
  for (size_t i = radix; i < radices.size(); ++i) p *= radices[i];
  return p;
}

int64_t Dft::roots_before(size_t radix) const {
  int64_t count = 0;
  for (size_t i = 0; i < radix; ++i)
    if (remaining(i + 1) > 1) count += 2 * (radices[i] - 1) * remaining(i + 1);
  return count;
}

void Dft::fill_roots(double* out) const {
  for (size_t i = 0; i < radices.size(); ++i) {
    int64_t period = remaining(i), rest = remaining(i + 1), count = (radices[i] - 1) * rest;
    if (rest == 1) continue;
    for (int64_t j = 1; j < radices[i]; ++j)
      for (int64_t p = 0; p < rest; ++p) {
        UnitRoot w = unit_root(j * p, period);
        out[(j - 1) * rest + p] = w.cos, out[count + (j - 1) * rest + p] = -w.sin;
      }
    out += 2 * count;
  }
  if (kind == DftKind::Numbers) return;
  for (int64_t k = 0; k <= n / 2; ++k) {
    UnitRoot w = unit_root(k, 2 * n);
    out[k] = w.cos, out[n / 2 + 1 + k] = -w.sin;
  }
}

namespace {

constexpr int64_t kMaxRadix = 16, kMaxPrime = 13;
constexpr double kPass = 6;  // cost of an element's way from memory and back, in arithmetic of a radix of 2

/// Arithmetic for each element.
double radix_cost(int64_t r) {
  double cost = kPass + 0.02 * static_cast<double>(r);  // of equal products, the one with less in registers
  for (int64_t p = 2; r > 1; ++p)
    for (; r % p == 0; r /= p) cost += p == 2 ? 1.5 : 0.8 * static_cast<double>(p);
  return cost;
}

struct Factors {
  double cost = 0;
  Dims radices;
};

Factors factors_of(int64_t n, std::map<int64_t, Factors>& known) {
  if (n == 1) return {};
  auto it = known.find(n);
  if (it != known.end()) return it->second;
  Factors best{INFINITY, {}};
  for (int64_t r = 2; r <= kMaxRadix; ++r) {
    if (n % r) continue;
    Factors f = factors_of(n / r, known);
    f.cost += radix_cost(r), f.radices.push_back(r);
    if (f.cost < best.cost) best = f;
  }
  return known[n] = best;
}

}  // namespace

Dims dft_radices(int64_t n) {
  int64_t rest = n;
  for (int64_t p = 2; p <= kMaxPrime; ++p)
    while (rest % p == 0) rest /= p;
  if (rest != 1) return {};
  if (n == 1) return {1};
  std::map<int64_t, Factors> known;
  Dims radices = factors_of(n, known).radices;
  // Passes after the first work along what is done: that had better be a multiple of the lanes of a vector.
  std::sort(radices.begin(), radices.end(), [](int64_t a, int64_t b) {
    int64_t even_a = a & -a, even_b = b & -b;
    return even_a != even_b ? even_a > even_b : a > b;
  });
  return radices;
}

UnitRoot unit_root(int64_t k, int64_t n) {
  // In quarters of the n-th part of a circle, so that reflections at 180, 90 and 45 degrees are exact.
  int64_t circle = 4 * n, a = k % n * 4;
  if (a < 0) a += circle;
  bool below = a > circle / 2;
  if (below) a = circle - a;
  bool left = a > circle / 4;
  if (left) a = circle / 2 - a;
  bool steep = a > circle / 8;
  if (steep) a = circle / 4 - a;
  double angle = 2 * std::numbers::pi * static_cast<double>(a) / static_cast<double>(circle);
  UnitRoot w{std::cos(angle), std::sin(angle)};
  if (steep) std::swap(w.cos, w.sin);
  if (left) w.cos = -w.cos;
  if (below) w.sin = -w.sin;
  return w;
}

}  // namespace tiny
