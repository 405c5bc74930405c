#include "lower/orthogonal.h"

#include <fmt/format.h>

#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

Tensor polynomial(Args& a, BuiltinName name) {
  DType d = a.common_float({0, 1});
  if (is_reduced_float(d)) {
    std::string op(a.op.substr(a.op.find("special_") + 8));
    fail(ErrorKind::NotImplemented, fmt::format("\"{}_cpu\" not implemented for '{}'", op.substr(0, op.find('.')), scalar_type_name(d)));
  }
  return orthogonal_polynomial(name, a.as(0, d), a.as(1, d));
}

}  // namespace

Tensor hermite_h(Args& a) { return polynomial(a, BuiltinName::hermite_h); }
Tensor hermite_he(Args& a) { return polynomial(a, BuiltinName::hermite_he); }
Tensor laguerre_l(Args& a) { return polynomial(a, BuiltinName::laguerre_l); }
Tensor legendre_p(Args& a) { return polynomial(a, BuiltinName::legendre_p); }

}  // namespace tiny::lower
