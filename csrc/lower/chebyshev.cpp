#include "lower/chebyshev.h"

#include <cmath>

#include "lower/special_util.h"

namespace tiny::lower {
namespace {
using special::number;

/// Quotient of f(m t) by f(s t), for t the angle or the hyperbolic angle of y >= 0; `limit` where t is 0.
struct Angles {
  Tensor inside, round, wide;   // y < 1; acos y; acosh y

  explicit Angles(const Tensor& y) {
    inside = lt(y, number(1));
    round = minimum(y, number(1)).unary(Op::ACOS), wide = maximum(y, number(1)).unary(Op::ACOSH);
  }
  Tensor cosines(const Tensor& m, double s) const {
    Tensor r = (round * m).unary(Op::COS), w = (wide * m).unary(Op::COSH);
    return s == 0 ? where(inside, r, w) : where(inside, r / (round * s).unary(Op::COS), w / (wide * s).unary(Op::COSH));
  }
  Tensor sines(const Tensor& m, double s, const Tensor& limit) const {
    Tensor r = (round * m).unary(Op::SIN) / (round * s).unary(Op::SIN), w = (wide * m).unary(Op::SINH) / (wide * s).unary(Op::SINH);
    return where(inside, r, where(eq(wide, number(0)), limit, w));
  }
};

}  // namespace

/// Source: DLMF 18.5.1 to 18.5.4, with hyperbolic functions beyond 1; 18.6.1 and 18.7.5 for negative x, where the quotients would cancel.
Tensor chebyshev(Args& a, ChebyshevKind kind, bool shifted) {
  return special::in_double2(a, [&](const Tensor& given, const Tensor& degree) {
    Tensor n = degree.unary(Op::TRUNC), x = shifted ? given * 2.0 - 1.0 : given, y = abs(x), left = lt(x, number(0));
    Angles angles(y);
    Tensor half = n + 0.5, r;
    auto v = [&] { return angles.cosines(half, 0.5); };
    auto w = [&] { return angles.sines(half, 0.5, n * 2.0 + 1.0); };
    switch (kind) {
      case ChebyshevKind::T: r = angles.cosines(n, 0); break;
      case ChebyshevKind::U: r = angles.sines(n + 1.0, 1, n + 1.0); break;
      case ChebyshevKind::V: r = where(left, w(), v()); break;
      case ChebyshevKind::W: r = where(left, v(), w()); break;
    }
    Tensor odd = ne(binary(Op::MOD, n, number(2)), number(0));
    r = where(eq(y, number(INFINITY)), y, r);
    r = where(left & odd, -r, r);
    return where(lt(n, number(0)), number(0), where(eq(n, number(0)), number(1), r));
  });
}

}  // namespace tiny::lower
