#include "renderer/ptx/writer.h"

namespace tiny::ptx {
namespace {

constexpr const char* kNames[] = {"r", "d", "f", "p"};
constexpr const char* kTypes[] = {"b32", "b64", "f32", "pred"};

std::string joined(std::initializer_list<Operand> operands) {
  std::string s;
  for (const Operand& o : operands) s += (s.empty() ? " " : ", ") + o.text;
  return s;
}

}  // namespace

Operand::Operand(Reg r) : text(fmt::format("%{}{}", kNames[static_cast<size_t>(r.kind)], r.number)) {}

Operand::Operand(const Regs& list) {
  for (Reg r : list) text += (text.empty() ? "{" : ", ") + Operand(r).text;
  text += "}";
}

Operand at(Operand base, int64_t offset) { return offset ? fmt::format("[{}+{}]", base.text, offset) : "[" + base.text + "]"; }

Regs Writer::fresh(Kind kind, int64_t n) {
  Regs list;
  for (int64_t i = 0; i < n; ++i) list.push_back(fresh(kind));
  return list;
}

Reg Writer::made(Kind kind, std::string_view op, std::initializer_list<Operand> operands) {
  Reg r = fresh(kind);
  std::string rest = joined(operands);
  body_ += fmt::format("  {} {}{}{};\n", op, Operand(r).text, rest.empty() ? "" : ",", rest);
  return r;
}

void Writer::put(std::string_view op, std::initializer_list<Operand> operands) { body_ += fmt::format("  {}{};\n", op, joined(operands)); }

void Writer::put_if(Reg predicate, std::string_view op, std::initializer_list<Operand> operands) {
  body_ += fmt::format("  @{} {}{};\n", Operand(predicate).text, op, joined(operands));
}

Reg Writer::buffer(int64_t number) {
  return b64("cvta.to.global.u64", {b64("ld.param.u64", {fmt::format("[p{}]", number)})});
}

Reg Writer::scalar(int64_t number, Kind kind) {
  constexpr const char* kLoads[] = {"ld.param.u32", "ld.param.u64", "ld.param.f32"};
  return made(kind, kLoads[static_cast<size_t>(kind)], {fmt::format("[s{}]", number)});
}

std::string Writer::kernel(const Frame& f) const {
  std::string s = fmt::format(".version {}\n.target {}\n.address_size 64\n", f.version, f.target);
  if (f.dynamic) s += ".extern .shared .align 1024 .b8 scratch[];\n";
  s += fmt::format(".visible .entry {}(\n", f.name);
  for (int64_t i = 0; i < f.buffers + f.scalars; ++i)
    s += fmt::format("  .param .u64 {}{}{}\n", i < f.buffers ? "p" : "s", i < f.buffers ? i : i - f.buffers,
                     i + 1 < f.buffers + f.scalars ? "," : ")");
  s += fmt::format(".maxntid {}, 1, 1\n.minnctapersm {}\n{{\n", f.threads, f.groups_at_once);
  if (!f.dynamic) s += fmt::format("  .shared .align 1024 .b8 scratch[{}];\n", f.shared_bytes);
  for (size_t k = 0; k < 4; ++k)
    if (counts_[k]) s += fmt::format("  .reg .{} %{}<{}>;\n", kTypes[k], kNames[k], counts_[k]);
  return s + body_ + "  ret;\n}\n";
}

}  // namespace tiny::ptx
