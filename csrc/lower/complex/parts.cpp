#include "lower/complex/parts.h"

#include <utility>

namespace tiny::lower {
namespace {

Results run(Args& a, Lowering1 one, LoweringN many) {
  if (!one) return many(a);
  Results r;
  r.push_back(one(a));
  return r;
}

Tensor zeros_like(const Tensor& x) { return x.defined() ? zeros(x.sizes(), x.dtype()) : Tensor(); }

/// From the real parts of an argument, which it holds, to the imaginary ones.
void take_imaginary(ArgValue& v) {
  switch (v.kind) {
    case ArgKind::Tensor: v.tensor = v.imaginary.defined() ? v.imaginary : zeros_like(v.tensor); break;
    case ArgKind::Tensors:
      for (size_t k = 0; k < v.tensors.size(); ++k) {
        const bool complex = !v.imaginaries.empty() && v.imaginaries[k].defined();
        v.tensors[k] = complex ? v.imaginaries[k] : zeros_like(v.tensors[k]);
      }
      break;
    case ArgKind::Double: v.d = v.imag; break;
    case ArgKind::Int:
    case ArgKind::Bool: v.i = 0; break;
    default: break;
  }
}

}  // namespace

ComplexResults on_parts(Args& a, Lowering1 one, LoweringN many, std::span<const int> positions) {
  for (int i : positions)
    if (a.has(i) && a.values[i].kind == ArgKind::Complex) a.values[i].kind = ArgKind::Double;
  Results re = run(a, one, many);
  for (int i : positions)
    if (a.has(i)) take_imaginary(a.values[i]);
  Results im = run(a, one, many);
  ComplexResults out;
  for (size_t k = 0; k < re.size(); ++k) out.push_back({std::move(re[k]), std::move(im[k])});
  return out;
}

Complex bilinear(Args& a, Lowering1 f, int x, int y) {
  const Complex p = a.complex(x), q = a.complex(y);
  auto of = [&](const Tensor& u, const Tensor& v) {
    a.values[x].tensor = u, a.values[y].tensor = v;
    return f(a);
  };
  return {of(p.re, q.re) - of(p.im, q.im), of(p.re, q.im) + of(p.im, q.re)};
}

}  // namespace tiny::lower
