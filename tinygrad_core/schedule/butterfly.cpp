#include "schedule/butterfly.h"

#include "base/error.h"
#include "uop/dft.h"

namespace tiny::sched {
namespace {

U sum(U a, U b) { return !a.u ? b : !b.u ? a : a + b; }
U negative(U a) { return a.u ? alu(Op::NEG, {a}) : a; }
U difference(U a, U b) { return !b.u ? a : !a.u ? negative(b) : a - b; }
U scaled(U a, double c) { return a.u ? a * const_(a->dtype, c) : a; }
/// acc + a * c in one rounding where the target has it.
U accumulated(U acc, U a, double c) {
  if (!a.u) return acc;
  return acc.u ? alu(Op::MULACC, {a, const_(a->dtype, c), acc}) : scaled(a, c);
}

Complex operator+(const Complex& a, const Complex& b) { return {sum(a.re, b.re), sum(a.im, b.im)}; }
Complex operator-(const Complex& a, const Complex& b) { return {difference(a.re, b.re), difference(a.im, b.im)}; }
Complex plus_i(const Complex& a, const Complex& b) { return {difference(a.re, b.im), sum(a.im, b.re)}; }
Complex minus_i(const Complex& a, const Complex& b) { return {sum(a.re, b.im), difference(a.im, b.re)}; }

/// a * exp(-+ 2 pi i k / n).
Complex turned(const Complex& a, int64_t k, int64_t n, bool inverse) {
  UnitRoot w = unit_root(k, n);
  return rotated(a, w.cos, inverse ? w.sin : -w.sin);
}

/// x[k] and x[n-k] have conjugate factors: their sum needs the cosines, their difference the sines.
std::vector<Complex> odd(const std::vector<Complex>& x, bool inverse) {
  int64_t n = static_cast<int64_t>(x.size()), half = n / 2;
  std::vector<Complex> sums(1), differences(1), out(x.size());
  out[0] = x[0];
  for (int64_t k = 1; k <= half; ++k) {
    sums.push_back(x[k] + x[n - k]), differences.push_back(x[k] - x[n - k]);
    out[0] = out[0] + sums.back();
  }
  for (int64_t j = 1; j <= half; ++j) {
    Complex even = x[0], other;
    for (int64_t k = 1; k <= half; ++k) {
      UnitRoot w = unit_root(j * k, n);
      even = {accumulated(even.re, sums[k].re, w.cos), accumulated(even.im, sums[k].im, w.cos)};
      other = {accumulated(other.re, differences[k].re, w.sin), accumulated(other.im, differences[k].im, w.sin)};
    }
    out[j] = inverse ? plus_i(even, other) : minus_i(even, other);
    out[n - j] = inverse ? minus_i(even, other) : plus_i(even, other);
  }
  return out;
}

std::vector<Complex> four(const std::vector<Complex>& x, bool inverse) {
  Complex a = x[0] + x[2], b = x[0] - x[2], c = x[1] + x[3], d = x[1] - x[3];
  return {a + c, inverse ? plus_i(b, d) : minus_i(b, d), a - c, inverse ? minus_i(b, d) : plus_i(b, d)};
}

int64_t factor_of(int64_t n) {
  if (n % 4 == 0) return 4;
  for (int64_t f = 2; f * f <= n; ++f)
    if (n % f == 0) return f;
  return n;
}

}  // namespace

Complex rotated(const Complex& a, double cos, double sin) {
  if (sin == 0) return cos > 0 ? a : Complex{negative(a.re), negative(a.im)};
  if (cos == 0) return sin > 0 ? Complex{negative(a.im), a.re} : Complex{a.im, negative(a.re)};
  if (cos == sin) return {scaled(difference(a.re, a.im), cos), scaled(sum(a.re, a.im), cos)};
  if (cos == -sin) return {scaled(sum(a.re, a.im), cos), scaled(difference(a.im, a.re), cos)};
  return {accumulated(scaled(a.re, cos), a.im, -sin), accumulated(scaled(a.im, cos), a.re, sin)};
}

std::vector<Complex> butterfly(std::vector<Complex> x, bool inverse) {
  int64_t n = static_cast<int64_t>(x.size());
  if (n == 1) return x;
  if (n == 2) return {x[0] + x[1], x[0] - x[1]};
  if (n == 4) return four(x, inverse);
  int64_t rows = factor_of(n), columns = n / rows;
  if (columns == 1) return odd(x, inverse);
  std::vector<Complex> out(x.size());
  std::vector<std::vector<Complex>> turns(static_cast<size_t>(rows));
  for (int64_t c = 0; c < columns; ++c) {
    std::vector<Complex> column;
    for (int64_t r = 0; r < rows; ++r) column.push_back(x[r * columns + c]);
    column = butterfly(std::move(column), inverse);
    for (int64_t r = 0; r < rows; ++r) turns[r].push_back(turned(column[r], r * c, n, inverse));
  }
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<Complex> row = butterfly(std::move(turns[r]), inverse);
    for (int64_t c = 0; c < columns; ++c) out[r + rows * c] = row[c];
  }
  return out;
}

}  // namespace tiny::sched
