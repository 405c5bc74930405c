#include "lower/random.h"

#include <fmt/format.h>

#include <cmath>

#include "lower/nn_util.h"

namespace tiny::lower {
namespace {

Tensor shift_right(const Tensor& bits, int n) { return binary(Op::SHR, bits, constant(DType::u64, int64_t{n})); }

}  // namespace

Tensor bits_for(Args& a, int generator, const Dims& sizes) {
  Args::Rng r = a.rng(generator, product(sizes));
  return random_bits(sizes, r.seed, r.offset);
}

namespace {

/// Bits of a uniform number in [0, 1) that dtype d holds exactly, so that 1 is never reached by rounding.
int uniform_bits(DType d) {
  switch (d) {
    case DType::f64: return 53;
    case DType::bf16: return 8;
    case DType::f16: return 11;
    default: return 24;
  }
}

/// Uniform in [0, 1), of the computing type of d.
Tensor uniform_01(const Tensor& bits, DType d) {
  int n = uniform_bits(d);
  return shift_right(bits, 64 - n).cast(compute_dtype(d)) * std::ldexp(1.0, -n);
}

}  // namespace

/// f32 takes 32 bits of which rounding keeps the leading 24, so that small numbers are finer.
Tensor uniform_open(const Tensor& bits, DType c) {
  if (c == DType::f64) return (shift_right(bits, 11).cast(c) + 0.5) * 0x1p-53;
  Tensor u = (shift_right(bits, 32).cast(DType::f32) + 0.5) * 0x1p-32;
  return minimum(u, constant(DType::f32, 1 - 0x1p-24));
}

/// Source: Box and Muller, 1958.
Tensor standard_normal(Args& a, int generator, const Dims& sizes, DType c) {
  Tensor bits = bits_for(a, generator, sizes), angle;
  if (c == DType::f64) angle = uniform_01(bits_for(a, generator, sizes), c);
  else angle = (bits & constant(DType::u64, int64_t{0xffffffff})).cast(DType::f32) * 0x1p-32;
  Tensor radius = sqrt(log(uniform_open(bits, c)) * -2.0);
  return radius * (angle * (2 * M_PI)).unary(Op::COS);
}

namespace {

const Dims& self_sizes(const Args& a) { return a.tensor(0).sizes(); }
DType self_dtype(const Args& a) { return a.tensor(0).dtype(); }

/// low + bits mod range, as dtype d; range 0 stands for 2^64.
Tensor integers(const Tensor& bits, uint64_t range, int64_t low, DType d) {
  Tensor r = bits;
  if (range) r = binary(Op::MOD, bits, scalar(DType::i64, static_cast<int64_t>(range)).cast(DType::u64));
  Tensor v = r.cast(DType::i64);
  return (low ? v + scalar(DType::i64, low) : v).cast(d);
}

/// Greatest n with every integer 0..n exact in d.
int64_t greatest_exact(DType d) {
  switch (d) {
    case DType::bool_: return 1;
    case DType::bf16: return 1 << 8;
    case DType::f16: return 1 << 11;
    case DType::f32: return 1 << 24;
    case DType::f64: return int64_t{1} << 53;
    case DType::u64: return INT64_MAX;
    default: return is_signed(d) ? static_cast<int64_t>(~0ull >> (65 - info(d).bits)) : (int64_t{1} << info(d).bits) - 1;
  }
}

const char* c_name(DType d) {
  switch (d) {
    case DType::bool_: return "bool";
    case DType::u8: return "uint8_t";
    case DType::i8: return "int8_t";
    case DType::i16: return "int16_t";
    case DType::i32: return "int";
    default: return info(d).name;
  }
}

/// Whether an integer dtype holds all of from..last, in PyTorch's words.
void check_range(int64_t from, int64_t last, DType d) {
  if (is_float(d)) return;
  const int64_t most = greatest_exact(d), least = is_signed(d) ? -most - 1 : 0;
  const char* type = d == DType::u8 ? "unsigned char" : d == DType::i8 ? "signed char" : d == DType::i16 ? "short" : c_name(d);
  if (from < least || from > most) fail(ErrorKind::Runtime, fmt::format("from is out of bounds for {}", type));
  if (last < least || last > most) fail(ErrorKind::Runtime, fmt::format("to - 1 is out of bounds for {}", type));
}

void check_probability(double p, const char* op) {
  if (!(p >= 0 && p <= 1)) fail(ErrorKind::Runtime, fmt::format("{} expects p to be in [0, 1], but got p={}", op, p));
}

}  // namespace

Tensor uniform(Args& a) {
  require_float(a, self_dtype(a));
  DType d = self_dtype(a);
  double from = a.number(1), to = a.number(2);
  if (from > to) fail(ErrorKind::Runtime, fmt::format("uniform_ expects to return a [from, to) range, but found from={} > "
                                                      "to={}", from, to));
  Tensor u = uniform_01(bits_for(a, 3, self_sizes(a)), d), low = scalar(u.dtype(), from);
  Tensor v = (u * scalar(u.dtype(), to - from) + low).cast(d);
  if (from == to) return v;
  return where(ge(v, a.as(2, d)), low.cast(d), v);  // rounding may reach the end
}

Tensor normal(Args& a) {
  require_float(a, self_dtype(a));
  if (a.number(2) < 0) fail(ErrorKind::Runtime, fmt::format("normal expects std >= 0.0, but found std {}", a.number(2)));
  DType c = compute_dtype(self_dtype(a));
  return (standard_normal(a, 3, self_sizes(a), c) * a.as(2, c) + a.as(1, c)).cast(self_dtype(a));
}

Tensor normal_of(Args& a) {
  bool tensor_mean = a.values[0].kind == ArgKind::Tensor, tensor_std = a.values[1].kind == ArgKind::Tensor;
  DType d = a.tensor(tensor_mean ? 0 : 1).dtype(), c = compute_dtype(d);
  Dims sizes = a.tensor(tensor_mean ? 0 : 1).sizes();
  if (tensor_mean && tensor_std) sizes = broadcast_sizes(sizes, a.tensor(1).sizes());
  Tensor std = a.as(1, c);
  if (tensor_std) std = check(std, ge(std, like(std, 0)), "normal expects all elements of std >= 0.0", 0);
  else if (a.number(1) < 0) fail(ErrorKind::Runtime, fmt::format("normal expects std >= 0.0, but found std {}", a.number(1)));
  return (standard_normal(a, 2, sizes, c) * std + a.as(0, c)).cast(d);
}

Tensor log_normal(Args& a) {
  require_float(a, self_dtype(a));
  if (a.number(2) <= 0) fail(ErrorKind::Runtime, fmt::format("log_normal_ expects std > 0.0, but found std={}", a.number(2)));
  DType c = compute_dtype(self_dtype(a));
  return exp(standard_normal(a, 3, self_sizes(a), c) * a.as(2, c) + a.as(1, c)).cast(self_dtype(a));
}

Tensor exponential(Args& a) {
  if (!is_float(self_dtype(a)))
    fail(ErrorKind::Runtime, std::string("Exponential distribution is a continuous probability distribution. dtype must be a floating "
                                         "point but you specified ") + scalar_type_name(self_dtype(a)));
  if (a.number(1) <= 0) fail(ErrorKind::Runtime, fmt::format("exponential_ expects lambda > 0.0, but found "
                                                             "lambda={}", a.number(1)));
  DType c = compute_dtype(self_dtype(a));
  return (-log(uniform_open(bits_for(a, 2, self_sizes(a)), c)) / a.as(1, c)).cast(self_dtype(a));
}

Tensor cauchy(Args& a) {
  require_float(a, self_dtype(a));
  if (a.number(2) <= 0) fail(ErrorKind::Runtime, fmt::format("cauchy_ expects sigma > 0.0, but found sigma={}", a.number(2)));
  DType c = compute_dtype(self_dtype(a));
  Tensor u = uniform_open(bits_for(a, 3, self_sizes(a)), c);
  return (((u - 0.5) * M_PI).unary(Op::TAN) * a.as(2, c) + a.as(1, c)).cast(self_dtype(a));
}

Tensor geometric(Args& a) {
  double p = a.number(1);
  if (!(p > 0 && p < 1)) fail(ErrorKind::Runtime, fmt::format("geometric_ expects p to be in (0, 1), but got p={}", p));
  DType d = self_dtype(a), c = is_float(d) ? compute_dtype(d) : DType::f64;
  Tensor u = uniform_open(bits_for(a, 2, self_sizes(a)), c);
  return (log(u) / scalar(c, std::log1p(-p))).unary(Op::CEIL).cast(d);
}

Tensor bernoulli(Args& a) {
  const Tensor& p = a.tensor(0);
  require_float(a, p.dtype());
  Tensor known = check(p, ge(p, like(p, 0)) & le(p, like(p, 1)), "Expected p_in >= 0 && p_in <= 1 to be true", 0);
  DType c = compute_dtype(p.dtype()) == DType::f64 ? DType::f64 : DType::f32;
  return lt(uniform_01(bits_for(a, 1, p.sizes()), c), known.cast(c)).cast(a.out_dtype(0, p.dtype()));
}

Tensor bernoulli_p(Args& a) {
  bool tensor = a.values[1].kind == ArgKind::Tensor;
  if (tensor) require_float(a, a.tensor(1).dtype());
  if (!tensor) check_probability(a.number(1), "bernoulli_");
  Tensor p = a.as(1, tensor && a.tensor(1).dtype() == DType::f64 ? DType::f64 : DType::f32);
  if (tensor) p = check(p, ge(p, like(p, 0)) & le(p, like(p, 1)), "Expected p_in >= 0 && p_in <= 1 to be true", 0);
  return lt(uniform_01(bits_for(a, 2, self_sizes(a)), p.dtype()), p).cast(self_dtype(a));
}

Tensor random(Args& a) {
  DType d = self_dtype(a);
  uint64_t range = static_cast<uint64_t>(greatest_exact(d)) + 1;
  return integers(bits_for(a, 1, self_sizes(a)), range, 0, d);
}

Tensor random_to(Args& a) {
  int64_t to = a.integer(1);
  if (to <= 0) fail(ErrorKind::Runtime, fmt::format("random_ expects 'from' to be less than 'to', but got from=0 >= to={}", to));
  check_range(0, to - 1, self_dtype(a));
  return integers(bits_for(a, 2, self_sizes(a)), static_cast<uint64_t>(to), 0, self_dtype(a));
}

Tensor random_from(Args& a) {
  DType d = self_dtype(a);
  int64_t from = a.integer(1);
  uint64_t range;
  if (a.has(2)) {
    int64_t to = a.integer(2);
    if (from >= to) fail(ErrorKind::Runtime, fmt::format("random_ expects 'from' to be less than 'to', but got from={} >= "
                                                         "to={}", from, to));
    check_range(from, to - 1, d);
    range = static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
  } else if (from == INT64_MIN) {
    range = 0;
  } else {
    range = static_cast<uint64_t>(greatest_exact(d)) - static_cast<uint64_t>(from) + 1;
  }
  return integers(bits_for(a, 3, self_sizes(a)), range, from, d);
}

Tensor randperm(Args& a) {
  int64_t n = a.integer(0);
  if (n < 0) fail(ErrorKind::Runtime, fmt::format("n must be non-negative, got {}", n));
  DType d = a.out_dtype(0, DType::i64);
  if (!is_float(d) && n > greatest_exact(d))
    fail(ErrorKind::Runtime, fmt::format("value cannot be converted to type {} without overflow", c_name(d)));
  int generator = a.size() > 1 ? 1 : -1;
  return bits_for(a, generator, {n}).argsort(false).cast(d);
}

Tensor multinomial(Args& a) {
  const Tensor& self = a.tensor(0);
  int64_t samples = a.integer(1), classes = self.size(-1);
  bool replacement = a.integer(2, 0);
  if (self.dim() != 1 && self.dim() != 2) fail(ErrorKind::Runtime, "prob_dist must be 1 or 2 dim");
  if (!is_float(self.dtype())) fail(ErrorKind::Runtime, std::string("multinomial only supports floating-point dtypes for "
                                                                    "input, got: ") + scalar_type_name(self.dtype()));
  if (samples <= 0) fail(ErrorKind::Runtime, "cannot sample n_sample <= 0 samples");
  if (!replacement && samples > classes) fail(ErrorKind::Runtime, "cannot sample n_sample > prob_dist.size(-1) samples "
                                                                  "without replacement");
  if (DType d = a.out_dtype(0, DType::i64); d != DType::i64)
    fail(ErrorKind::Runtime, std::string("multinomial expects Long tensor out, got: ") + scalar_type_name(d));
  if (classes > 1 << 24) fail(ErrorKind::Runtime, "number of categories cannot exceed 2^24");
  Tensor p = widened(a, 0).reshape({-1, classes});
  int64_t rows = p.size(0), last[] = {1};
  bool races = !replacement || samples == 1;
  Tensor positive = ge(p, like(p, 0)), finite = lt(p, like(p, INFINITY));
  if (races) {
    p = check(p, finite & positive, "probability tensor contains either `inf`, `nan` or element < 0", 0);
  } else {
    p = check(p, positive | ne(p, p), "invalid multinomial distribution (encountering probability entry < 0)", 0);
    p = check(p, finite, "invalid multinomial distribution (encountering probability entry = infinity or NaN)", 0);
  }
  Tensor total = p.sum(last, true);
  total = check(total, lt(like(p, 0), total), "invalid multinomial distribution (sum of probabilities <= 0)", 0);
  Tensor picked;
  if (races) {
    // The order of exponential waiting times with rates p is the order of draws without replacement.
    Tensor key = p / total / -log(uniform_open(bits_for(a, 3, p.sizes()), p.dtype()));
    picked = samples == 1 ? key.argmax(1, true) : key.argsort(true).slice(1, 0, samples);
  } else {
    Tensor until = (p / total).scan(Op::ADD, 1).unsqueeze(1);  // [rows, 1, classes]
    Tensor u = uniform_01(bits_for(a, 3, {rows, samples}), p.dtype()) * until.select(2, classes - 1);
    int64_t inner[] = {2};
    picked = le(until, u.unsqueeze(-1)).cast(DType::i64).sum(inner);
    picked = minimum(picked, index_constant(classes - 1));
  }
  return self.dim() == 1 ? picked.reshape({samples}) : picked;
}

Results native_dropout(Args& a) {
  const Tensor& x = a.tensor(0);
  double p = a.number(1);
  check_probability(p, "dropout");
  if (!is_float(x.dtype()))
    fail(ErrorKind::Runtime, std::string("result type Float can't be cast to the desired output type ") + scalar_type_name(x.dtype()));
  if (a.has(2) && !a.flag(2)) return {x, full(x.sizes(), truth(true))};
  if (p == 1) return {full(x.sizes(), like(x, 0)), full(x.sizes(), truth(false))};
  Tensor u = uniform_01(bits_for(a, -1, x.sizes()), DType::f32), kept = lt(u, scalar(DType::f32, 1 - p)), wide = widened(a, 0);
  return {(wide * kept.cast(wide.dtype()) * scalar(wide.dtype(), 1 / (1 - p))).cast(x.dtype()), kept};
}

Tensor native_dropout_backward(Args& a) {
  DType d = a.common_float({0});
  Tensor g = operand(a, 0, d);
  return (g * a.as(1, g.dtype()) * a.as(2, g.dtype())).cast(d);
}

Results rrelu_with_noise(Args& a) {
  const Tensor& x = a.tensor(0);
  DType d = x.dtype(), c = compute_dtype(d);
  Tensor wide = widened(a, 0), zero = like(wide, 0), one = like(wide, 1);
  double low = a.number(2), high = a.number(3);
  if (!a.flag(4)) {
    Tensor slope = scalar(c, (low + high) / 2);
    return {where(le(wide, zero), wide * slope, wide).cast(d), a.tensor(1)};
  }
  Tensor r = uniform_01(bits_for(a, 5, x.sizes()), d) * scalar(c, high - low) + scalar(c, low);
  Tensor noise = where(le(wide, zero), r, one);
  return {(wide * noise).cast(d), noise.cast(d)};
}

}  // namespace tiny::lower
