// Text of a graph. One node a line: "%3 = ADD.f32[8] %1 %2"; lanes in brackets where there is more than one, the argument in braces.
#include <fmt/format.h>

#include <cmath>

#include "unordered_dense/unordered_dense.h"
#include "uop/text.h"

namespace tiny {
namespace text {

const char* const kAxes[] = {"Global", "Local", "Loop", "Reduce", "GroupReduce", "Upcast", "Unroll", "Vector"};

Payload payload(Op op) {
  switch (op) {
    case Op::RANGE: return Payload::Range;
    case Op::REDUCE: case Op::SCAN: return Payload::Reduce;
    case Op::FOLD: case Op::PREFIX: case Op::ORDERED: case Op::FOLDLANES: return Payload::Operator;
    default: break;
  }
  switch (info(op).arg) {
    case ArgKind::Int: return Payload::Int;
    case ArgKind::Bits: return Payload::Value;
    case ArgKind::Rec: return Payload::Record;
    case ArgKind::Buf: return Payload::Buffer;
    default: return Payload::None;
  }
}

}  // namespace text

namespace {

std::string quoted(const std::string& s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') out += "\\n";
    else out += c;
  }
  return out + '"';
}

std::string value(const UOp* u) {
  if (!is_float(u->dtype)) return is_unsigned(u->dtype) ? fmt::format("{}", u->arg.bits) : fmt::format("{}", u->arg.i);
  if (std::isnan(u->arg.f)) return fmt::format("nan:{:#x}", u->arg.bits);
  return fmt::format("{}", u->arg.f);
}

std::string record(const Record* r) {
  if (!r) return "null";
  std::string out;
  for (auto [name, d] : {std::pair{"a", &r->a}, {"b", &r->b}, {"c", &r->c}})
    if (!d->empty()) out += fmt::format("{}=[{}] ", name, fmt::join(d->begin(), d->end(), " "));
  out += fmt::format("n={}", r->n);
  return r->text.empty() ? out : out + " text=" + quoted(r->text);
}

std::string argument(const UOp* u) {
  switch (text::payload(u->op)) {
    case text::Payload::None: return "";
    case text::Payload::Int: return fmt::format(" {{{}}}", u->arg.i);
    case text::Payload::Value: return fmt::format(" {{{}}}", value(u));
    case text::Payload::Range: return fmt::format(" {{{} {}}}", range_number(u), text::kAxes[static_cast<int>(range_axis(u))]);
    case text::Payload::Reduce: return fmt::format(" {{{} {}}}", info(reduce_op(u)).name, reduce_columns(u));
    case text::Payload::Operator: return fmt::format(" {{{}}}", info(static_cast<Op>(u->arg.i)).name);
    case text::Payload::Record: return fmt::format(" {{{}}}", record(u->arg.rec));
    case text::Payload::Buffer: return fmt::format(" {{{}}}", static_cast<const void*>(u->arg.buf));
  }
  return "";
}

}  // namespace

std::string print(std::span<UOp* const> roots) {
  ankerl::unordered_dense::map<const UOp*, size_t> numbers;  // not marks: tensor-graph nodes may be printed in the midst of a walk
  std::string out;
  std::vector<std::pair<const UOp*, size_t>> stack;
  for (const UOp* root : roots) {
    if (!numbers.contains(root)) stack.push_back({root, 0});
    while (!stack.empty()) {
      auto& [u, next] = stack.back();
      if (next < u->nsrc) {
        const UOp* s = u->src[next++];
        if (!numbers.contains(s)) stack.push_back({s, 0});
        continue;
      }
      size_t n = numbers.size();
      numbers.emplace(u, n);
      out += fmt::format("%{} = {}.{}", n, info(u->op).name, info(u->dtype).name);
      if (u->numel != 1) out += fmt::format("[{}]", u->numel);
      out += argument(u);
      for (const UOp* s : u->sources()) out += fmt::format(" %{}", numbers.at(s));
      out += '\n';
      stack.pop_back();
    }
  }
  if (roots.size() != 1) {
    out += "roots";
    for (const UOp* r : roots) out += fmt::format(" %{}", numbers.at(r));
    out += '\n';
  }
  return out;
}

std::string print(const UOp* root) {
  UOp* r = const_cast<UOp*>(root);
  return print(std::span<UOp* const>(&r, 1));
}

}  // namespace tiny
