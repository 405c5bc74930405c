// Chebyshev's polynomials of four kinds, also shifted to 0 .. 1: (x, n), of any degree.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

enum class ChebyshevKind { T, U, V, W };
Tensor chebyshev(Args& a, ChebyshevKind kind, bool shifted);
template <ChebyshevKind kind, bool shifted> Tensor chebyshev_polynomial(Args& a) { return chebyshev(a, kind, shifted); }

inline constexpr auto chebyshev_t = chebyshev_polynomial<ChebyshevKind::T, false>;
inline constexpr auto chebyshev_u = chebyshev_polynomial<ChebyshevKind::U, false>;
inline constexpr auto chebyshev_v = chebyshev_polynomial<ChebyshevKind::V, false>;
inline constexpr auto chebyshev_w = chebyshev_polynomial<ChebyshevKind::W, false>;
inline constexpr auto shifted_chebyshev_t = chebyshev_polynomial<ChebyshevKind::T, true>;
inline constexpr auto shifted_chebyshev_u = chebyshev_polynomial<ChebyshevKind::U, true>;
inline constexpr auto shifted_chebyshev_v = chebyshev_polynomial<ChebyshevKind::V, true>;
inline constexpr auto shifted_chebyshev_w = chebyshev_polynomial<ChebyshevKind::W, true>;

}  // namespace tiny::lower
