// Bessel's and Airy's functions. Source of the approximations: Cephes (special_tables.h).
#include <cmath>

#include "lower/special.h"
#include "lower/special_tables.h"
#include "lower/special_util.h"

namespace tiny::lower {
namespace special {

Tensor polynomial(const Tensor& x, std::span<const double> coefficients) {
  Tensor sum = number(coefficients[0]);
  for (double c : coefficients.subspan(1)) sum = sum * x + c;
  return sum;
}

Tensor chebyshev(const Tensor& x, std::span<const double> coefficients) {
  Tensor b0 = number(coefficients[0]), b1 = number(0), b2;
  for (double c : coefficients.subspan(1)) {
    b2 = b1, b1 = b0;
    b0 = x * b1 - b2 + c;
  }
  return (b0 - b2) * 0.5;
}

}  // namespace special

namespace {
using namespace special;

/// NaN below 0, `at_zero` at 0, else the value: functions with a branch point.
Tensor right_half(const Tensor& x, double at_zero, const Tensor& value) {
  return where(eq(x, number(0)), number(at_zero), where(lt(x, number(0)), number(NAN), value));
}

// ---- i0 and i1, divided by exp(|x|)

Tensor scaled_i0(const Tensor& x) {
  Tensor size = abs(x);
  Tensor near = chebyshev(size * 0.5 - 2.0, kI0A), far = chebyshev(number(32) / size - 2.0, kI0B) / sqrt(size);
  return where(le(size, number(8)), near, far);
}

Tensor scaled_i1(const Tensor& x) {
  Tensor size = abs(x);
  Tensor near = chebyshev(size * 0.5 - 2.0, kI1A) * size, far = chebyshev(number(32) / size - 2.0, kI1B) / sqrt(size);
  Tensor r = where(le(size, number(8)), near, far);
  return where(lt(x, number(0)), -r, r);
}

/// exp(|x|) times a scaled function; infinity is NaN, as in PyTorch.
Tensor unscaled(const Tensor& x, const Tensor& scaled) { return exp(abs(x)) * scaled; }

// ---- k0 and k1, times exp(x)

Tensor scaled_k0(const Tensor& x) {
  Tensor near = (chebyshev(x * x - 2.0, kK0A) - log(x * 0.5) * unscaled(x, scaled_i0(x))) * exp(x);
  Tensor far = chebyshev(number(8) / x - 2.0, kK0B) / sqrt(x);
  return right_half(x, INFINITY, where(le(x, number(2)), near, far));
}

Tensor scaled_k1(const Tensor& x) {
  Tensor near = (log(x * 0.5) * unscaled(x, scaled_i1(x)) + chebyshev(x * x - 2.0, kK1A) / x) * exp(x);
  Tensor far = chebyshev(number(8) / x - 2.0, kK1B) / sqrt(x);
  return right_half(x, INFINITY, where(le(x, number(2)), near, far));
}

// ---- j and y for x > 5: modulus and phase

struct Phase {
  Tensor p, q, sin, cos, scale;
};

Phase phase(const Tensor& x, std::span<const double> pp, std::span<const double> pq, std::span<const double> qp, std::span<const double> qq,
            double shift) {
  Tensor w = number(5) / x, z = w * w, angle = x - shift;
  return {polynomial(z, pp) / polynomial(z, pq), w * (polynomial(z, qp) / polynomial(z, qq)), angle.unary(Op::SIN), angle.unary(Op::COS),
          number(std::sqrt(2 / M_PI)) / sqrt(x)};
}

Phase phase0(const Tensor& x) { return phase(x, kBesselJ0PP, kBesselJ0PQ, kBesselJ0QP, kBesselJ0QQ, M_PI / 4); }
Phase phase1(const Tensor& x) { return phase(x, kBesselJ1PP, kBesselJ1PQ, kBesselJ1QP, kBesselJ1QQ, 3 * M_PI / 4); }
Tensor far_j(const Phase& f) { return (f.p * f.cos - f.q * f.sin) * f.scale; }
Tensor far_y(const Phase& f) { return (f.p * f.sin + f.q * f.cos) * f.scale; }

/// The factors are the squares of the first two zeros.
Tensor near_j0(const Tensor& x) {
  Tensor z = x * x;
  return (z - 5.78318596294678452118) * (z - 30.4712623436620863991) * (polynomial(z, kBesselJ0RP) / polynomial(z, kBesselJ0RQ));
}
Tensor near_j1(const Tensor& x) {
  Tensor z = x * x;
  return polynomial(z, kBesselJ1RP) / polynomial(z, kBesselJ1RQ) * x * (z - 14.6819706421238932572) * (z - 49.2184563216946036703);
}

Tensor j0(const Tensor& given) {
  Tensor x = abs(given);
  return where(le(x, number(5)), near_j0(x), far_j(phase0(x)));
}
Tensor j1(const Tensor& given) {
  Tensor x = abs(given), r = where(le(x, number(5)), near_j1(x), far_j(phase1(x)));
  return where(lt(given, number(0)), -r, r);
}

Tensor y0(const Tensor& x) {
  Tensor z = x * x, near = polynomial(z, kBesselY0YP) / polynomial(z, kBesselY0YQ) + log(x) * near_j0(x) * M_2_PI;
  return right_half(x, -INFINITY, where(le(x, number(5)), near, far_y(phase0(x))));
}
Tensor y1(const Tensor& x) {
  Tensor z = x * x;
  Tensor near = x * (polynomial(z, kBesselY1YP) / polynomial(z, kBesselY1YQ)) + (near_j1(x) * log(x) - recip(x)) * M_2_PI;
  return right_half(x, -INFINITY, where(le(x, number(5)), near, far_y(phase1(x))));
}

// ---- Ai

/// Below -2.09: an oscillation with slowly varying amplitude.
Tensor airy_left(const Tensor& x) {
  Tensor root = sqrt(-x), phase = -x * root * (2.0 / 3.0), z = recip(phase), zz = z * z, angle = phase + M_PI / 4;
  Tensor f = zz * (polynomial(zz, kAiryAiAFN) / polynomial(zz, kAiryAiAFD)) + 1.0;
  Tensor g = z * (polynomial(zz, kAiryAiAGN) / polynomial(zz, kAiryAiAGD));
  return (angle.unary(Op::SIN) * f - angle.unary(Op::COS) * g) * (1 / std::sqrt(M_PI)) / sqrt(root);
}

/// From 2.09 on: exponential decay.
Tensor airy_right(const Tensor& x) {
  Tensor root = sqrt(x), phase = x * root * (2.0 / 3.0), z = recip(phase);
  Tensor ratio = polynomial(z, kAiryAiAN) / polynomial(z, kAiryAiAD);
  return ratio * (0.5 / std::sqrt(M_PI)) / (sqrt(root) * exp(phase));
}

/// Between: Maclaurin's series, 14 terms. Source: DLMF 9.4.1.
Tensor airy_middle(const Tensor& x) {
  double f[15], g[15];
  f[14] = g[14] = 1;
  for (int k = 1; k < 15; ++k) {
    f[14 - k] = f[15 - k] / ((3.0 * k - 1) * (3.0 * k));
    g[14 - k] = g[15 - k] / ((3.0 * k) * (3.0 * k + 1));
  }
  Tensor z = x * x * x;
  return polynomial(z, f) * 0.355028053887817239260 - x * polynomial(z, g) * 0.258819403792806798405;
}

}  // namespace

/// 0 where PyTorch says that it underflows; NaN at infinity.
Tensor airy_ai(Args& a) {
  return in_double(a, [](const Tensor& x) {
    Tensor right = where(gt(x, number(103.892)), number(0), airy_right(x));
    Tensor r = where(lt(x, number(-2.09)), airy_left(x), where(ge(x, number(2.09)), right, airy_middle(x)));
    return where(eq(abs(x), number(INFINITY)), number(NAN), r);
  });
}

Tensor bessel_j0(Args& a) { return in_double(a, j0); }
Tensor bessel_j1(Args& a) { return in_double(a, j1); }
Tensor bessel_y0(Args& a) { return in_double(a, y0); }
Tensor bessel_y1(Args& a) { return in_double(a, y1); }

Tensor i0(Args& a) {
  return in_double(a, [](const Tensor& x) { return unscaled(x, scaled_i0(x)); });
}
Tensor i0e(Args& a) { return in_double(a, scaled_i0); }
Tensor i1(Args& a) {
  return in_double(a, [](const Tensor& x) { return unscaled(x, scaled_i1(x)); });
}
Tensor i1e(Args& a) { return in_double(a, scaled_i1); }

Tensor modified_bessel_k0(Args& a) {
  return in_double(a, [](const Tensor& x) { return right_half(x, INFINITY, exp(-x) * scaled_k0(x)); });
}
Tensor modified_bessel_k1(Args& a) {
  return in_double(a, [](const Tensor& x) { return right_half(x, INFINITY, exp(-x) * scaled_k1(x)); });
}
Tensor scaled_modified_bessel_k0(Args& a) { return in_double(a, scaled_k0); }
Tensor scaled_modified_bessel_k1(Args& a) { return in_double(a, scaled_k1); }

/// sin(x) / x; a series where the quotient would lose bits.
Tensor spherical_bessel_j0(Args& a) {
  return in_double(a, [](const Tensor& x) {
    const double series[] = {1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1};
    Tensor r = where(lt(abs(x), number(0.5)), polynomial(x * x, series), x.unary(Op::SIN) / x);
    return where(eq(abs(x), number(INFINITY)), number(0), r);
  });
}

}  // namespace tiny::lower
