// - (d cdf / d parameter) / pdf by series, by saddle point expansions and by rational functions, each where it converges: the CPU's
// formulas and borders, because they are approximations, computed in f64. Source: M. Jankowiak and F. Obermeyer, Pathwise Derivatives
// Beyond the Reparameterization Trick, ICML 2018; coefficients: PyTorch, ATen/native/Distributions.h.
#include "lower/gamma_grad.h"

#include "lower/nn_util.h"
#include "lower/special_util.h"
#include "lower/unary.h"

namespace tiny::lower {
namespace {
using special::number;

Tensor pow(const Tensor& x, const Tensor& y) { return binary(Op::POW, x, y); }
Tensor square(const Tensor& x) { return x * x; }
Tensor operator-(double a, const Tensor& b) { return number(a) - b; }
Tensor operator/(double a, const Tensor& b) { return number(a) / b; }
Tensor number_or_0(const Tensor& x) { return where(is_nan(x), number(0), x); }
/// Coefficients from the lowest power.
Tensor ascending(const Tensor& x, std::span<const Tensor> c) {
  Tensor sum = c.back();
  for (size_t k = c.size() - 1; k-- > 0;) sum = c[k] + x * sum;
  return sum;
}
Tensor ascending(const Tensor& x, std::span<const double> c) {
  Tensor sum = number(c.back());
  for (size_t k = c.size() - 1; k-- > 0;) sum = number(c[k]) + x * sum;
  return sum;
}

// ---- Gamma(alpha, 1)

/// Taylor's series around x = 0.
Tensor gamma_small(const Tensor& alpha, const Tensor& x) {
  Tensor term = number(1), at = alpha, first = 1 / alpha, second = 1 / square(alpha);
  for (int i = 1; i <= 5; ++i) {
    term = term * (-x) / static_cast<double>(i), at = at + 1.0;
    first = first + term / at, second = second + term / square(at);
  }
  Tensor power = pow(x, alpha), pdf = pow(x, alpha - 1.0) * exp(-x);
  return number_or_0(-((log(x) - digamma_of(alpha)) * (power * first) - power * second) / pdf);
}

Tensor gamma_near_mean(const Tensor& alpha, const Tensor& x) {
  Tensor first = alpha * 24.0 * (alpha * 12.0 + 1.0) + 1.0, squared = square(alpha);
  Tensor second = squared * 1440.0 + x * 6.0 * (53 - x * 120.0) - square(x) * 65.0 / alpha + alpha * (x * 3600.0 + 107.0);
  return first * second / (square(squared) * 1244160.0);
}

/// Rice's saddle point expansion.
Tensor gamma_large(const Tensor& alpha, const Tensor& x) {
  Tensor width = sqrt(alpha * 8.0), ratio = log(x / alpha);
  Tensor first = width / (alpha - x), second = pow(x - alpha - alpha * ratio, number(-1.5));
  Tensor both = where(lt(x, alpha), first - second, first + second);
  Tensor sum = ratio * both - sqrt(2 / alpha) * (alpha + x) / square(alpha - x);
  Tensor stirling = 1 / (alpha * 12.0) * (1 / (alpha * 24.0) + 1.0) + 1.0;
  return -stirling * (x * sum) / width;
}

Tensor gamma_rational(const Tensor& alpha, const Tensor& x) {
  static constexpr double kByRatio[8][3] = {
    {0.16009398, 0.53487893, 0.040121004},
    {-0.094634809, 0.1298071, -0.0065914022},
    {0.025146376, 0.065735949, -0.0026286047},
    {-0.0030648343, -0.0015649758, -0.0013441777},
    {1, 0.16639465, 0.017050642},
    {0.32668115, 0.020070113, -0.0021309326},
    {0.10406089, -0.0035938915, 0.00085092367},
    {0.0014179084, -0.00058392623, -1.5247877e-07},
  };
  Tensor ratio = log(x / alpha), size = log(alpha);
  std::vector<Tensor> c;
  for (const auto& row : kByRatio) c.push_back(ascending(ratio, row));
  std::span<const Tensor> all(c);
  return exp(ascending(size, all.first(4)) / ascending(size, all.last(4)));
}

// ---- Beta(alpha, beta)

/// By alpha, x near 0.
Tensor beta_alpha_small(const Tensor& x, const Tensor& alpha, const Tensor& beta) {
  Tensor factor = digamma_of(alpha) - digamma_of(alpha + beta) - log(x), term = number(1), sum = 1 / alpha * (factor + 1 / alpha);
  for (int i = 1; i <= 10; ++i) {
    double n = i;
    Tensor at = alpha + n;
    term = term * ((n - beta) * x / n);
    sum = sum + term / at * (factor + 1 / at);
  }
  return number_or_0(x * pow(1 - x, -beta) * sum);
}

/// By beta, x near 0.
Tensor beta_beta_small(const Tensor& x, const Tensor& alpha, const Tensor& beta) {
  Tensor factor = digamma_of(alpha + beta) - digamma_of(beta), sum = factor / alpha;
  Tensor term = number(1), product = number(1), derivative = number(0);
  for (int i = 1; i <= 8; ++i) {
    double n = i;
    term = term * (-x / n);
    derivative = derivative * (beta - n) + product, product = product * (beta - n);
    sum = sum + term / (alpha + n) * (derivative + factor * product);
  }
  return number_or_0(-pow(1 - x, 1 - beta) * sum);
}

/// By alpha, near the mean, both parameters large.
Tensor beta_near_mean(const Tensor& x, const Tensor& alpha, const Tensor& beta) {
  Tensor total = alpha + beta, b2 = square(beta), rest = 1 - x;
  const Tensor powers[] = {
    x * 47.0 * square(b2),
    ((beta * 27.0 + 16.0) * 20.0 * x + 43.0) * b2 * beta,
    (beta * 180.0 + 59.0 - x * 90.0) * 3.0 * b2,
    (beta * 1620.0 * rest + 453.0 - x * 455.0) * beta,
    rest * 8.0 * (beta * 135.0 - 11.0),
  };
  Tensor above = (alpha * 12.0 + 1.0) * (beta * 12.0 + 1.0) / square(total);
  Tensor below = alpha * alpha * alpha * 12960.0 * b2 * (total * 12.0 + 1.0);
  return above / rest * ascending(alpha, powers) / below;
}

/// By alpha, both parameters large: Rice's saddle point expansion.
Tensor beta_large(const Tensor& x, const Tensor& alpha, const Tensor& beta, const Tensor& mean) {
  Tensor total = alpha + beta, from_mean = beta * x + alpha * (x - 1.0);
  auto stirling = [](const Tensor& t) { return 1 / (t * 12.0) + 1 / (square(t) * 288.0) + 1.0; };
  Tensor first = square(alpha) * 2.0 * (x - 1.0) + alpha * beta * (x - 1.0) - x * square(beta);
  first = first / (sqrt(alpha * 2.0 / beta) * pow(total, number(1.5)) * square(from_mean));
  Tensor a = log(alpha / (total * x)), b = log(beta / (total * (1 - x)));
  Tensor width = sqrt(alpha * beta * 8.0 / total), root = pow(beta * b + alpha * a, number(-1.5));
  Tensor sum = first + a * 0.5 * (width / from_mean + where(lt(x, mean), root, -root));
  return stirling(alpha) * stirling(beta) / stirling(total) * (-x / sqrt(alpha * beta * 2.0 / total)) * sum;
}

Tensor beta_rational(const Tensor& x, const Tensor& alpha, const Tensor& beta, const Tensor& total) {
  static constexpr double kAbove[3][3][4] = {
    {{1.003668233, -0.01061107488, -0.0657888334, 0.01201642863},
     {0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033},
     {-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013}},
    {{0.221950385, -0.3187676331, 0.01799915743, 0.01074823814},
     {-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057},
     {0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05}},
    {{-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565},
     {0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181},
     {0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05}},
  };
  static constexpr double kBelow[3][3][4] = {
    {{1, -0.02924021934, -0.04438342661, 0.007285809825},
     {0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521},
     {-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149}},
    {{0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273},
     {0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956},
     {-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05}},
    {{0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05},
     {0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05},
     {-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06}},
  };
  Tensor u = log(x), a = log(alpha) - u, b = log(total) - a;
  auto value = [&](const double (&c)[3][3][4]) {
    std::vector<Tensor> by_u;
    for (const auto& plane : c) {
      std::vector<Tensor> by_a;
      for (const auto& row : plane) by_a.push_back(ascending(b, row));
      by_u.push_back(ascending(a, by_a));
    }
    return ascending(u, by_u);
  };
  return value(kAbove) / value(kBelow) * (x * (digamma_of(total) - digamma_of(alpha)) / beta);
}

/// A number that the CPU writes as a float beside doubles.
Tensor single(float v) { return number(v); }

/// The arguments' one dtype; throws as TensorIterator for others.
DType one_dtype(Args& a, const char* name) {
  DType d = a.tensor(0).dtype();
  for (int i = 1; i < a.size(); ++i)
    if (a.tensor(i).dtype() != d)
      fail(ErrorKind::Runtime,
           std::string("Found dtype ") + scalar_type_name(a.tensor(i).dtype()) + " but expected " + scalar_type_name(d));
  if (d != DType::f32 && d != DType::f64)
    fail(ErrorKind::NotImplemented, std::string("\"") + name + "\" not implemented for '" + scalar_type_name(d) + "'");
  return d;
}

}  // namespace

Tensor standard_gamma_grad(Args& a) {
  DType d = one_dtype(a, "_standard_gamma_grad_cpu");
  Tensor alpha = a.tensor(0).cast(DType::f64), x = a.tensor(1).cast(DType::f64);
  Tensor near = le(alpha * single(0.9f), x) & le(x, alpha * single(1.1f));
  Tensor large = where(near, gamma_near_mean(alpha, x), gamma_large(alpha, x));
  Tensor r = where(gt(alpha, number(8)), large, gamma_rational(alpha, x));
  return where(lt(x, single(0.8f)), gamma_small(alpha, x), r).cast(d);
}

Tensor dirichlet_grad(Args& a) {
  DType d = one_dtype(a, "_dirichlet_grad_cpu");
  Tensor beta_d = a.tensor(2) - a.tensor(1), border = a.tensor(2) * a.tensor(0) * (like(a.tensor(0), 1) - a.tensor(0));
  Tensor x = a.tensor(0).cast(DType::f64), alpha = a.tensor(1).cast(DType::f64), total = a.tensor(2).cast(DType::f64);
  Tensor beta = beta_d.cast(DType::f64), mean = alpha / (alpha + beta), width = sqrt(alpha * beta / (alpha + beta + 1.0)) / (alpha + beta);
  Tensor near = le(mean - width * 0.1, x) & le(x, mean + width * 0.1);
  Tensor large = where(near, beta_near_mean(x, alpha, beta), beta_large(x, alpha, beta, mean));
  Tensor r = where(gt(alpha, number(6)) & gt(beta, number(6)), large, beta_rational(x, alpha, beta, total));
  Tensor half = number(0.5);
  r = where(ge(x, half) & lt(border, like(border, 0.75)), -beta_beta_small(1 - x, beta, alpha), r);
  return where(le(x, half) & lt(border, like(border, 2.5)), beta_alpha_small(x, alpha, beta), r).cast(d);
}

}  // namespace tiny::lower
