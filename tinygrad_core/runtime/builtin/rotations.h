// Plane rotations of the columns of a matrix, noted as an iteration finds them and done many sweeps at a time, in strips of rows that fit
// the cache.
// Source: F. Van Zee, R. van de Geijn, G. Quintana-Orti, Restructuring the tridiagonal and bidiagonal QR algorithms for performance,
// ACM TOMS 40 (2014).
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/builtin/vector_kernels.h"

namespace tiny {

template <class R>
class Rotations {
 public:
  /// Of columns of `rows` elements, `across` apart; with rows 0 nothing is noted.
  Rotations(R* columns, int64_t rows, int64_t across) : columns_(columns), rows_(rows), across_(across) {}

  /// The next rotations are of column `first` and the one beside it, then of that and the next ...; step is 1 or -1.
  void sweep(int64_t first, int64_t step) {
    if (turns_.size() > kMost) run();
    if (rows_) sweeps_.push_back({first, step, turns_.size()});
  }
  /// Column x and the next y become s y + c x and c y - s x.
  void add(R c, R s) {
    if (rows_) turns_.push_back(c), turns_.push_back(s);
  }
  void run() {
    const VectorKernels<R>& kernels = vector_kernels<R>();
    int64_t low = INT64_MAX, high = -1;
    for (size_t i = 0; i < sweeps_.size(); ++i) {
      int64_t a = sweeps_[i].first, b = a + sweeps_[i].step * count(i);
      low = std::min({low, a, b}), high = std::max({high, a, b});
    }
    strip_.resize(static_cast<size_t>(std::max<int64_t>(high - low + 1, 0) * kernels.strip));
    for (int64_t row = 0; row < rows_ && high >= 0; row += kernels.strip) {
      int64_t some = std::min<int64_t>(kernels.strip, rows_ - row);
      for (int64_t k = low; k <= high; ++k) std::copy_n(columns_ + k * across_ + row, some, strip_.data() + (k - low) * kernels.strip);
      for (size_t i = 0; i < sweeps_.size(); ++i) {
        const Sweep& s = sweeps_[i];
        kernels.rotate(count(i), turns_.data() + s.begin, s.step * kernels.strip, strip_.data() + (s.first - low) * kernels.strip);
      }
      for (int64_t k = low; k <= high; ++k) std::copy_n(strip_.data() + (k - low) * kernels.strip, some, columns_ + k * across_ + row);
    }
    sweeps_.clear(), turns_.clear();
  }

 private:
  static constexpr size_t kMost = 16384;  // numbers that are noted
  struct Sweep {
    int64_t first, step;
    size_t begin;
  };
  int64_t count(size_t i) const {
    return static_cast<int64_t>((i + 1 < sweeps_.size() ? sweeps_[i + 1].begin : turns_.size()) - sweeps_[i].begin) / 2;
  }

  R* columns_;
  int64_t rows_, across_;
  std::vector<Sweep> sweeps_;
  std::vector<R> turns_, strip_;
};

}  // namespace tiny
