#include "lower/complex/fft_tables.h"

#include <bit>
#include <complex>

namespace tiny::lower::complex {
namespace {

using Number = std::complex<double>;

Number unit(int64_t k, int64_t n) {
  UnitRoot w = unit_root(-k, n);
  return {w.cos, w.sin};
}

/// A table of `count` complex numbers, number k being f(key, k).
template <Number (*f)(const Dims& key, int64_t k)>
void fill(const Dims& key, int64_t count, double* out) {
  for (int64_t k = 0; k < count; ++k) {
    Number v = f(key, k);
    out[k] = v.real(), out[count + k] = v.imag();
  }
}

Number circle(const Dims& key, int64_t k) { return unit(k, key[0]); }
Number matrix(const Dims& key, int64_t k) { return unit(k / key[0] * (k % key[0]), key[0]); }
Number chirp(const Dims& key, int64_t k) { return unit(static_cast<int64_t>(static_cast<__int128>(k) * k % (2 * key[0])), 2 * key[0]); }

void fill_circle(const Dims& key, double* out) { fill<circle>(key, key[0] / 2 + 1, out); }
void fill_matrix(const Dims& key, double* out) { fill<matrix>(key, key[0] * key[0], out); }
void fill_chirp(const Dims& key, double* out) { fill<chirp>(key, key[0], out); }

/// The transform of n numbers, n a power of 2 times at most 15, by halves.
std::vector<Number> transform(const std::vector<Number>& x) {
  size_t n = x.size();
  std::vector<Number> out(n);
  if (n % 2) {
    for (size_t j = 0; j < n; ++j)
      for (size_t k = 0; k < n; ++k) out[j] += x[k] * unit(static_cast<int64_t>(j * k), static_cast<int64_t>(n));
    return out;
  }
  std::vector<Number> even, odd;
  for (size_t k = 0; k < n; k += 2) even.push_back(x[k]), odd.push_back(x[k + 1]);
  even = transform(even), odd = transform(odd);
  for (size_t j = 0; j < n / 2; ++j) {
    Number t = odd[j] * unit(static_cast<int64_t>(j), static_cast<int64_t>(n));
    out[j] = even[j] + t, out[j + n / 2] = even[j] - t;
  }
  return out;
}

void fill_chirp_spectrum(const Dims& key, double* out) {
  int64_t n = key[0], m = chirp_period(n);
  std::vector<Number> x(static_cast<size_t>(m));
  for (int64_t k = 0; k < n; ++k) x[k] = x[(m - k) % m] = std::conj(chirp(key, k)) / static_cast<double>(m);
  x = transform(x);
  for (int64_t k = 0; k < m; ++k) out[k] = x[k].real(), out[m + k] = x[k].imag();
}

void fill_roots(const Dims& key, double* out) {
  Dft shape;
  shape.n = key[0], shape.kind = static_cast<DftKind>(key[1]), shape.radices = Dims(key.begin() + 2, key.end());
  shape.fill_roots(out);
}

}  // namespace

Table dft_table(const Dft& shape) {
  Dims key{shape.n, static_cast<int64_t>(shape.kind == DftKind::Numbers ? DftKind::Numbers : DftKind::ToHalf)};
  key.append(shape.radices.begin(), shape.radices.end());
  return {fill_roots, std::move(key), shape.roots()};
}
Table circle_table(int64_t n) { return {fill_circle, {n}, 2 * (n / 2 + 1)}; }
Table matrix_table(int64_t n) { return {fill_matrix, {n}, 2 * n * n}; }
Table chirp_table(int64_t n) { return {fill_chirp, {n}, 2 * n}; }
Table chirp_spectrum_table(int64_t n) { return {fill_chirp_spectrum, {n}, 2 * chirp_period(n)}; }

int64_t chirp_period(int64_t n) {
  int64_t best = INT64_MAX;
  for (int64_t odd : {1, 3, 5, 9, 15}) {
    int64_t m = odd;
    while (m < 2 * n - 1) m *= 2;
    best = std::min(best, m);
  }
  return best;
}

Complex table_parts(Args& a, const Table& t, DType d, const Dims& sizes) {
  int64_t count = product(sizes);
  Tensor all = a.table(t, d);
  return {all.slice(0, 0, count).reshape(sizes), all.slice(0, count, 2 * count).reshape(sizes)};
}

}  // namespace tiny::lower::complex
