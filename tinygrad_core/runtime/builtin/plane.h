// Plane rotations.
#pragma once
#include <cmath>
#include <limits>

namespace tiny {

/// Cosine and sine of the rotation that takes (f, g) to (r, 0), and r. Neither is great; squares may vanish.
template <class R>
struct Turn {
  R c, s, r;
};
template <class R>
Turn<R> turn(R f, R g) {
  R square = f * f + g * g;
  R r = square > std::numeric_limits<R>::min() * 1024 ? std::sqrt(square) : std::hypot(f, g);
  return r == 0 ? Turn<R>{1, 0, 0} : Turn<R>{f / r, g / r, r};
}

}  // namespace tiny
