#include "renderer/c_emit.h"

#include <fmt/format.h>

#include <cmath>

#include "renderer/c_lang.h"
#include "renderer/libm.h"
#include "uop/eval.h"

namespace tiny {
namespace {

std::string fill(std::string_view pattern, std::initializer_list<std::string> sources) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '{' && i + 2 < pattern.size() && pattern[i + 2] == '}') {
      out += sources.begin()[pattern[i + 1] - '0'];
      i += 2;
    } else {
      out += pattern[i];
    }
  }
  return out;
}

std::string name(const UOp* u) { return fmt::format("v{}", u->slot); }

}  // namespace

std::string CEmitter::run() {
  for (UOp* u : program_.linear)
    if (u->is(Op::PARAM) && params_.insert(u->arg.i).second)
      line(fmt::format("{0}* __restrict p{1} = ({0}*)buffers[{1}];", memory_type(u->dtype), u->arg.i));
  line("for (i64 group = begin; group < end; ++group) {");
  ++depth_;
  split_group_number();
  for (UOp* u : program_.linear) emit(u);
  --depth_;
  line("}");
  return fmt::format("{}{}{}extern \"C\" void {}(void* const* buffers, const u64* scalars, i64 begin, i64 end, char* scratch) {{\n{}}}\n",
                     kCPrelude, types_text_, functions_text_, program_.info.name, body_);
}

void CEmitter::line(const std::string& text) { body_ += std::string(static_cast<size_t>(depth_) * 2, ' ') + text + "\n"; }

void CEmitter::define(UOp* u, const std::string& expression) {
  line(fmt::format("const {} {} = {};", type(u->dtype, u->numel), name(u), expression));
}

void CEmitter::split_group_number() {
  std::vector<UOp*> globals = ranges_of(program_, Axis::Global);
  if (globals.empty()) return;
  line("u64 rest = group;");
  for (size_t i = globals.size(); i-- > 0;) {
    std::string extent = std::to_string(const_int(globals[i]->src[0]));
    define(globals[i], i == 0 ? "rest" : "rest % " + extent);
    if (i > 0) line("rest /= " + extent + ";");
  }
}

void CEmitter::emit(UOp* u) {
  switch (u->op) {
    case Op::CONST: case Op::PARAM: case Op::LOCAL: case Op::INDEX: case Op::NOOP: case Op::BARRIER: return;
    case Op::RANGE:
      if (range_axis(u) == Axis::Global) return;
      line(fmt::format("for ({0} {1} = 0; {1} < {2}; ++{1}) {{", type(u->dtype), name(u), lane(u->src[0], 0)));
      ++depth_;
      return;
    case Op::END:
      if (range_axis(u->src[0]) == Axis::Global) return;
      --depth_;
      return line("}");
    case Op::ACC: return line(fmt::format("{} {} = {};", type(u->dtype, u->numel), name(u), value(u->src[0], u->numel)));
    case Op::UPDATE: return line(fmt::format("{} = {};", name(u->src[0]), value(u->src[1], u->src[0]->numel)));
    case Op::LOAD: return load(u);
    case Op::STORE: return store(u);
    case Op::AFTER:
      if (is_array(u)) return;
      [[fallthrough]];
    default: return define(u, expression(u));
  }
}

std::string CEmitter::expression(UOp* u) {
  switch (u->op) {
    case Op::VAR: return fmt::format("bits<{}>(scalars[{}])", type(u->dtype), u->arg.i);
    case Op::AFTER: return name(u->src[0]);
    case Op::LANE: return lane(u->src[0], u->arg.i);
    case Op::FOLDLANES: return fold_lanes(u);
    case Op::LANES: {
      std::string s;
      for (int64_t i = 0; i < u->numel; ++i) s += fmt::format("{}{}", i ? ", " : "", i);
      return "{" + s + "}";
    }
    case Op::STACK: {
      if (u->numel == 1) return value(u->src[0], 1);
      std::string s;
      for (UOp* x : u->sources()) s += (s.empty() ? "" : ", ") + (is_bool(u->dtype) ? "-" + lane(x, 0) : lane(x, 0));
      return "{" + s + "}";
    }
    default: return alu(u);
  }
}

// ---- memory

std::string CEmitter::array(UOp* a) {
  if (a->is(Op::PARAM)) return fmt::format("p{}", a->arg.i);
  return fmt::format("(({}*)(scratch + {}))", memory_type(a->dtype), local_offsets_[a->arg.i]);
}

void CEmitter::load(UOp* u) {
  Access a(u);
  DType d = a.array->dtype;
  int64_t n = a.lanes;
  std::string t = type(d, n), v = name(u), p = array(a.array), truth = is_bool(d) ? " != 0" : "";
  bool consecutive = a.index->numel == 1, lanewise = n > 1 && (!consecutive || (a.gate && a.gate->numel > 1));
  std::string i = lane(a.index, 0);
  auto whole = [&] {
    if (n == 1) return fmt::format("{}[{}]{}", p, i, truth);
    std::string loaded = fmt::format("*(const {}_u*)&{}[{}]", memory_type(d, n), p, i);
    return is_bool(d) ? fmt::format("(__builtin_convertvector({}, {}) != 0)", loaded, t) : loaded;
  };
  if (!a.gate && !lanewise) return line(fmt::format("const {} {} = {};", t, v, whole()));
  line(fmt::format("{} {} = {};", t, v, a.gate && a.other ? value(a.other, n) : a.gate || n > 1 ? splat("0", d, n) : "0"));
  if (!lanewise) return line(fmt::format("if ({}) {} = {};", lane(a.gate, 0), v, whole()));
  for (int64_t l = 0; l < n; ++l) {
    std::string at = consecutive ? fmt::format("{} + {}", i, l) : lane(a.index, l);
    std::string loaded = fmt::format("{}[{}]", p, at);
    if (is_bool(d)) loaded = fmt::format("-({} != 0)", loaded);
    line(fmt::format("{}{}[{}] = {};", a.gate ? fmt::format("if ({}) ", lane(a.gate, l)) : "", v, l, loaded));
  }
}

void CEmitter::store(UOp* u) {
  Access a(u);
  DType d = a.array->dtype;
  int64_t n = a.lanes;
  std::string p = array(a.array), i = lane(a.index, 0);
  bool consecutive = a.index->numel == 1, lanewise = n > 1 && (!consecutive || (a.gate && a.gate->numel > 1));
  if (!lanewise) {
    std::string gate = a.gate ? fmt::format("if ({}) ", lane(a.gate, 0)) : "", v = value(a.value, n);
    if (n == 1) return line(fmt::format("{}{}[{}] = {};", gate, p, i, v));
    std::string m = memory_type(d, n);
    if (is_bool(d)) v = fmt::format("__builtin_convertvector({} & 1, {})", v, m);
    return line(fmt::format("{}*({}_u*)&{}[{}] = {};", gate, m, p, i, v));
  }
  for (int64_t l = 0; l < n; ++l) {
    std::string at = consecutive ? fmt::format("{} + {}", i, l) : lane(a.index, l);
    line(fmt::format("{}{}[{}] = {};", a.gate ? fmt::format("if ({}) ", lane(a.gate, l)) : "", p, at, lane(a.value, l)));
  }
}

// ---- values

std::string CEmitter::lane(UOp* u, int64_t i) {
  if (u->is(Op::CONST)) return constant(u);
  if (u->numel == 1) return name(u);
  return is_bool(u->dtype) ? fmt::format("({}[{}] != 0)", name(u), i) : fmt::format("{}[{}]", name(u), i);
}

std::string CEmitter::value(UOp* u, int64_t n) {
  TINY_ASSERT(u->numel == n || u->numel == 1, program_.info.name + ": sources of different lanes");
  if (n == 1) return lane(u, 0);
  if (u->numel == n && !u->is(Op::CONST)) return name(u);
  return splat(lane(u, 0), u->dtype, n);
}

std::string CEmitter::splat(const std::string& v, DType d, int64_t n) {
  if (n == 1) return v;
  std::string t = type(d, n), f = "splat_" + (is_bool(d) ? fmt::format("boolx{}", n) : t);
  if (functions_.insert(f).second) {
    std::string lanes;
    for (int64_t i = 0; i < n; ++i) lanes += i ? ", x" : "x";
    functions_text_ += fmt::format("static inline {0} {1}({2} x) {{ return ({0}){{{3}}}; }}\n", t, f, is_bool(d) ? "i32" : type(d), lanes);
  }
  return fmt::format("{}({}({}))", f, is_bool(d) ? "-" : "", v);
}

std::string CEmitter::mask(const std::string& m, int bits, int64_t n) {
  if (bits == 32) return m;
  DType d = bits == 64 ? DType::i64 : bits == 16 ? DType::i16 : DType::i8;
  return fmt::format("__builtin_convertvector({}, {})", m, type(d, n));
}

std::string CEmitter::type(DType d, int64_t n) {
  if (is_bool(d)) return n == 1 ? "bool" : vector_type("i32", 4, n);
  return memory_type(d, n);
}

std::string CEmitter::memory_type(DType d, int64_t n) {
  int bits = info(d).bits;
  std::string e = is_bool(d) ? "u8" : is_reduced_float(d) ? fmt::format("u{}", bits) : info(d).name;
  return n == 1 ? e : vector_type(e, bits / 8, n);
}

/// The name of a vector type, declared at its first use; with _u, the same at any address.
std::string CEmitter::vector_type(const std::string& e, int64_t bytes, int64_t n) {
  TINY_ASSERT((n & (n - 1)) == 0, program_.info.name + ": vectors in C have a power of two of lanes");
  std::string t = fmt::format("{}x{}", e, n);
  if (types_.insert(t).second) {
    types_text_ += fmt::format("typedef {0} {1} __attribute__((vector_size({2})));\n"
                               "typedef {0} {1}_u __attribute__((vector_size({2}), aligned({3}), may_alias));\n", e, t, bytes * n, bytes);
  }
  return t;
}

std::string CEmitter::constant(const UOp* u) {
  double v = u->arg.f;
  bool f32 = u->dtype == DType::f32;
  if (f32 || u->dtype == DType::f64) {
    const char* suffix = f32 ? "f" : "";
    if (std::isnan(v)) return fmt::format("__builtin_nan{}(\"\")", suffix);
    if (std::isinf(v)) return fmt::format("({}__builtin_inf{}())", v < 0 ? "-" : "", suffix);
    return fmt::format("({:a}{})", v, suffix);
  }
  if (is_bool(u->dtype)) return u->arg.i ? "true" : "false";
  if (u->dtype == DType::i64 && u->arg.i == INT64_MIN) return "(-9223372036854775807ll - 1)";  // its magnitude has no literal
  if (is_signed(u->dtype)) return fmt::format("({}){}ll", type(u->dtype), u->arg.i);
  return fmt::format("({}){}ull", type(u->dtype), storage_bits(u->arg, u->dtype));
}

// ---- arithmetic

/// A call of `name` on type `result` with n lanes; its definition is written at the first use. `scalar` is the function of one lane.
std::string CEmitter::function(const std::string& base, DType result, std::initializer_list<DType> sources, int64_t n,
                               const std::string& scalar, const std::string& arguments) {
  if (n == 1) return fmt::format("{}({})", scalar, arguments);
  std::string t = type(result, n), f = fmt::format("{}_{}", base, base.find("_to_") == std::string::npos ? t : "");
  if (f.back() == '_') f.back() = 'x', f += std::to_string(n);
  if (functions_.insert(f).second) {
    std::string params, lanes, builtin;
    size_t i = 0;
    for (DType d : sources) {
      params += fmt::format("{}{} a{}", i ? ", " : "", type(d, n), i);
      lanes += fmt::format("{}a{}[i]", i ? ", " : "", i);
      ++i;
    }
    std::string loop = fmt::format("{} r; for (int i = 0; i < {}; ++i) r[i] = {}({}); return r;", t, n, scalar, lanes);
    for (const CBuiltin& b : kCBuiltins)
      if (f == b.name) builtin = fmt::format("#ifdef {}\n  return {};\n#else\n", b.macro, fill(b.text, {"a0", "a1", "a2"}));
    std::string end = builtin.empty() ? "" : "#endif\n";
    functions_text_ += fmt::format("static inline {} {}({}) {{\n{}  {}\n{}}}\n", t, f, params, builtin, loop, end);
  }
  return fmt::format("{}({})", f, arguments);
}

std::string CEmitter::apply(Op op, DType d, int64_t n, const std::string& a, const std::string& b) {
  const CSpelling* row = nullptr;
  for (const CSpelling& r : kCOps)
    if (r.op == op) row = &r;
  const char* text = !row ? nullptr : is_bool(d) ? (n > 1 ? row->b_vector : row->b) : is_float(d) ? row->f : is_signed(d) ? row->s : row->u;
  TINY_ASSERT(text, program_.info.name + ": no C spelling for " + info(op).name + " on " + info(d).name);
  std::string e = fill(text, {a, b});
  if (!has(op, group::Cmp)) return fmt::format("({})({})", type(d, n), e);
  if (n == 1 || is_bool(d)) return fmt::format("({})", e);
  return info(d).bits == 32 ? fmt::format("({})({})", type(DType::bool_, n), e)
                            : fmt::format("__builtin_convertvector({}, {})", e, type(DType::bool_, n));
}

std::string CEmitter::alu(UOp* u) {
  int64_t n = u->numel;
  DType from = u->src[0]->dtype, d = u->dtype;
  std::string a = value(u->src[0], n);
  if (u->is(Op::CAST)) return cast(a, from, d, n);
  if (u->is(Op::BITCAST)) return fmt::format("bits<{}>({})", type(d, n), a);
  if (u->is(Op::WHERE)) {
    std::string yes = value(u->src[1], n), no = value(u->src[2], n);
    if (u->src[0]->numel == 1) return fmt::format("{} ? {} : {}", lane(u->src[0], 0), yes, no);
    return fmt::format("{} ? {} : {}", mask(a, is_bool(d) ? 32 : info(d).bits, n), yes, no);
  }
  TINY_ASSERT(!is_reduced_float(from), program_.info.name + ": arithmetic on a reduced float reached the renderer:\n" + print(u));
  if (u->is(Op::MULACC) && !(is_float(d) && caps_.has_fma))
    return apply(Op::ADD, d, n, apply(Op::MUL, d, n, a, value(u->src[1], n)), value(u->src[2], n));
  if (is_float(from)) {
    if (u->is(Op::RECIP)) return fmt::format("({})1 / {}", type(d), a);
    for (const CFunction& f : kCFunctions) {
      if (f.op != u->op) continue;
      std::string arguments = a;
      for (int i = 1; i < u->nsrc; ++i) arguments += ", " + value(u->src[i], n);
      const char* scalar = d == DType::f32 ? f.f32 : f.f64;
      if (u->nsrc == 3) return function(f.name, d, {d, d, d}, n, scalar, arguments);
      return function(f.name, d, {d}, n, scalar, arguments);
    }
    if (has(u->op, group::Trans) || u->is(Op::MOD)) return libm(u);
  }
  return apply(u->op, from, n, a, u->nsrc > 1 ? value(u->src[1], n) : "");
}

std::string CEmitter::libm(UOp* u) {
  const LibmRow* row = libm_row(u->op);
  TINY_ASSERT(row, program_.info.name + ": no function for " + info(u->op).name);
  DType d = u->dtype;
  std::string scalar = fmt::format("__builtin_{}", d == DType::f64 ? row->f64 : row->f32), arguments = value(u->src[0], u->numel);
  if (u->nsrc == 1) return function(row->f64, d, {d}, u->numel, scalar, arguments);
  return function(row->f64, d, {d, d}, u->numel, scalar, arguments + ", " + value(u->src[1], u->numel));
}

/// C conversion, with the same detours as the LLVM renderer's: reduced floats through f32, floats to narrow integers through wider ones.
std::string CEmitter::cast(const std::string& v, DType from, DType to, int64_t n) {
  auto convert = [&](const std::string& x, DType t) {
    return n == 1 ? fmt::format("(({})({}))", type(t), x) : fmt::format("__builtin_convertvector({}, {})", x, type(t, n));
  };
  if (from == to) return v;
  for (DType d : {DType::bf16, DType::f16}) {
    std::string t = info(d).name;
    if (from == d) return cast(function(t + "_to_f32", DType::f32, {d}, n, t + "_to_f32", v), DType::f32, to, n);
    if (to == d) return function("f32_to_" + t, d, {DType::f32}, n, "f32_to_" + t, cast(v, from, DType::f32, n));
  }
  TINY_ASSERT(!is_reduced_float(from) && !is_reduced_float(to), program_.info.name + ": a CAST that belongs to decompose()");
  if (is_bool(to)) {
    std::string truth = fmt::format("({} != 0)", v);
    if (n == 1) return truth;
    if (info(from).bits == 32) return fmt::format("({}){}", type(to, n), truth);
    return fmt::format("__builtin_convertvector({}, {})", truth, type(to, n));
  }
  if (is_bool(from)) return n == 1 ? convert(v, to) : convert(fmt::format("({} & 1)", v), to);
  if (is_float(from) && to == DType::u64) return function(std::string(info(from).name) + "_to_u64", to, {from}, n, "float_to_u64", v);
  if (is_float(from) && is_int(to)) {
    DType wide = info(to).bits == 64 || to == DType::u32 ? DType::i64 : DType::i32;
    std::string w = convert(v, wide);
    return wide == to ? w : convert(w, to);
  }
  return convert(v, to);
}

/// Halves first, as the LLVM renderer does, so that both round alike.
std::string CEmitter::fold_lanes(UOp* u) {
  Op op = static_cast<Op>(u->arg.i);
  std::vector<std::string> lanes;
  for (int64_t i = 0; i < u->src[0]->numel; ++i) lanes.push_back(lane(u->src[0], i));
  while (lanes.size() > 1) {
    size_t half = lanes.size() / 2;
    for (size_t i = 0; i < half; ++i) {
      std::string t = fmt::format("{}_{}_{}", name(u), half, i);
      line(fmt::format("const {} {} = {};", type(u->dtype), t, apply(op, u->dtype, 1, lanes[i], lanes[half + i])));
      lanes[i] = t;
    }
    lanes.resize(half);
  }
  return lanes[0];
}

}  // namespace tiny
