// Householder reflections for other decompositions: H = I - tau v v^H, v with 1 in its first place.
#pragma once
#include "runtime/builtin/matrix.h"

namespace tiny {

/// The reflection whose adjoint takes column x to beta times the first unit vector: x becomes beta, v[1:]; returns tau.
template <class T>
T reflection(int64_t n, T* x);

/// c = Q c with Q = H1 H2 ... Hn of the columns of `columns`, or with its adjoint. from_diagonal: c is the unit matrix.
template <class T>
void apply_reflections(Device& device, Matrix<T> columns, const T* tau, int64_t n, Matrix<T> c, bool adjoint, bool from_diagonal);

/// a = Q R: R on and above the diagonal, the reflections of Q below it.
template <class T>
void factor_qr(Device& device, Matrix<T> a, T* tau);

}  // namespace tiny
