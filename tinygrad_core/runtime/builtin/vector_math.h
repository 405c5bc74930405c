// Functions of vectors' lanes, for the files that choose their vector instructions first (vector_loops.h).
#pragma once
#include "runtime/builtin/vector_loops.h"

namespace tiny {
namespace {

template <class T, int Bytes>
struct VectorMath {
  typedef typename Vector<T, Bytes>::Aligned V;
  typedef decltype(V{} < V{}) Bits;               // integers of the lanes' size
  static constexpr bool kSingle = sizeof(T) == 4;
  static constexpr int kShift = kSingle ? 23 : 52;
  static constexpr T kRound = kSingle ? 0x1.8p23 : 0x1.8p52;

  static V all(T x) { return x - V{}; }
  static V select(Bits c, V a, V b) { return c ? a : b; }

  /// e^x - 1 = `rest` + 1 times 2^n, less 1: x = n ln 2 + r, and rest the Taylor series of e^r - 1, within 1 ulp.
  struct Parts {
    V rest, power;       // power: 2^n
  };
  static Parts parts_of_exp(V x) {
    constexpr T kLog2e = 1.44269504088896340736, kHigh = kSingle ? 0.693359375 : 0x1.62e42feep-1,
                kLow = kSingle ? -2.12194440054690583e-4 : 1.90821492927058770002e-10;
    constexpr int kDegree = kSingle ? 7 : 13, kBias = kSingle ? 127 : 1023;
    V shifted = x * kLog2e + kRound, n = shifted - kRound;
    V r = (x - n * kHigh) - n * kLow;
    T factor = 1;
    for (int k = 2; k <= kDegree; ++k) factor /= static_cast<T>(k);
    V sum = all(factor);
    for (int k = kDegree; k > 1; --k) factor *= static_cast<T>(k), sum = sum * r + factor;
    Bits power = reinterpret_cast<Bits>(shifted) - reinterpret_cast<Bits>(all(kRound)) + kBias;
    return {sum * r, reinterpret_cast<V>(power << kShift)};
  }

  /// exp of numbers up to 87 in float32, 708 in float64. What would be subnormal is 0; NaN stays.
  static V exp(V x) {
    constexpr T kLeast = kSingle ? -87.3 : -708.3;
    Parts e = parts_of_exp(x);
    return select(x < kLeast, V{}, (e.rest + 1) * e.power);
  }

  /// 1 / (1 + exp(-x)).
  static V sigmoid(V x) {
    constexpr T kMost = sizeof(T) == 4 ? 87 : 708;  // from there on exp(-x) has no finite value, and the result is 0
    return select(x < -kMost, V{}, 1 / (1 + exp(select(x < -kMost, V{}, -x))));
  }

  /// (e^2|x| - 1) / (e^2|x| + 1) with the sign of x: exact about 0.
  static V tanh(V x) {
    constexpr T kMost = 40;  // from there on it is 1
    const Bits sign = reinterpret_cast<Bits>(x) & reinterpret_cast<Bits>(all(T(-0.0)));
    V twice = reinterpret_cast<V>(reinterpret_cast<Bits>(x) ^ sign) * 2;
    Parts e = parts_of_exp(select(twice > kMost, all(kMost), twice));
    V less = e.rest * e.power + (e.power - 1);
    return reinterpret_cast<V>(reinterpret_cast<Bits>(less / (less + 2)) | sign);
  }
};

}  // namespace
}  // namespace tiny
