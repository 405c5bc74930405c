// Orthogonal polynomials by their recurrences, as many steps as each element's degree asks for. Source: DLMF 18.9.1, table 18.9.1. Where a
// degree has no result, and where the recurrence would only approach it, PyTorch's rules. Terms cancel, so results are PyTorch's only if a
// product and a difference are rounded together where they are in its kernels.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "runtime/builtin/builtin.h"

namespace tiny {
namespace {

/// Degrees above this overflow; no more steps than this are worth taking.
template <class T>
constexpr int64_t kHermiteLimit = sizeof(T) == 4 ? 128 : 512;

template <class T>
struct HermiteH {
  static T of(T x, int64_t n) {
    if (n == 1) return x + x;
    if (n > kHermiteLimit<T>) return std::numeric_limits<T>::quiet_NaN();
    T before = 1, now = x + x;
    for (int64_t k = 1; k < n; ++k) {
      T next = std::fma(x + x, now, -(static_cast<T>(2 * k) * before));
      before = now, now = next;
    }
    return now;
  }
};

template <class T>
struct HermiteHe {
  static T of(T x, int64_t n) {
    if (n == 1) return x;
    if (n > kHermiteLimit<T>) return std::numeric_limits<T>::quiet_NaN();
    T before = 1, now = x;
    for (int64_t k = 1; k < n; ++k) {
      T next = std::fma(x, now, -(static_cast<T>(k) * before));
      before = now, now = next;
    }
    return now;
  }
};

template <class T>
struct LaguerreL {
  static T of(T x, int64_t n) {
    if (x == 0) return 1;
    T before = 1, now = T{1} - x;
    for (int64_t k = 1; k < n && !std::isnan(now); ++k) {
      T next = std::fma(static_cast<T>(2 * k) + (T{1} - x), now, -(static_cast<T>(k) * before)) / static_cast<T>(k + 1);
      before = now, now = next;
    }
    return now;
  }
};

template <class T>
struct LegendreP {
  static T of(T x, int64_t n) {
    if (std::abs(x) == 1) return x > 0 || n % 2 == 0 ? T{1} : T{-1};
    T before = 1, now = x;
    for (int64_t k = 1; k < n && !std::isnan(now); ++k) {
      T next = std::fma(static_cast<T>(2 * k + 1) * x, now, -(static_cast<T>(k) * before)) / static_cast<T>(k + 1);
      before = now, now = next;
    }
    return now;
  }
};

/// -1 for what is no number or too great for one.
template <class T>
int64_t degree(T n) {
  return std::abs(n) < static_cast<T>(9.2e18) ? static_cast<int64_t>(n) : -1;
}

struct Job {
  void* y;
  const void *x, *n;
  bool one_x, one_n;
};

template <class T, class Polynomial>
void evaluate(void* context, int64_t begin, int64_t end) {
  const Job& job = *static_cast<Job*>(context);
  const T *x = static_cast<const T*>(job.x), *n = static_cast<const T*>(job.n);
  for (int64_t i = begin; i < end; ++i) {
    int64_t steps = degree(n[job.one_n ? 0 : i]);
    static_cast<T*>(job.y)[i] = steps < 0 ? T{0} : steps == 0 ? T{1} : Polynomial::of(x[job.one_x ? 0 : i], steps);
  }
}

constexpr int64_t kGrain = 1024;  // elements of a piece

template <template <class> class Polynomial>
void run(void* const* buffers, const int64_t* ints, Device& device) {
  DType d = static_cast<DType>(ints[3]);
  TINY_ASSERT(d == DType::f32 || d == DType::f64, "polynomials of f32 or f64");
  Job job{buffers[0], buffers[1], buffers[2], ints[1] == 1, ints[2] == 1};
  device.parallel_for(ints[0], kGrain, d == DType::f32 ? evaluate<float, Polynomial<float>> : evaluate<double, Polynomial<double>>, &job);
}

}  // namespace

void builtin_hermite_h(void* const* b, const uint64_t*, const int64_t* ints, Device& device) { run<HermiteH>(b, ints, device); }
void builtin_hermite_he(void* const* b, const uint64_t*, const int64_t* ints, Device& device) { run<HermiteHe>(b, ints, device); }
void builtin_laguerre_l(void* const* b, const uint64_t*, const int64_t* ints, Device& device) { run<LaguerreL>(b, ints, device); }
void builtin_legendre_p(void* const* b, const uint64_t*, const int64_t* ints, Device& device) { run<LegendreP>(b, ints, device); }

}  // namespace tiny
