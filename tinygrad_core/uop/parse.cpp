#include "uop/parse.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "unordered_dense/unordered_dense.h"
#include "uop/text.h"

namespace tiny {

Op op_by_name(std::string_view name) {
  for (size_t i = 0; i < static_cast<size_t>(Op::count); ++i)
    if (name == info(static_cast<Op>(i)).name) return static_cast<Op>(i);
  return Op::count;
}

namespace {

/// A cursor over one line.
class Line {
 public:
  Line(std::string_view text, int number) : rest_(text), number_(number) {}

  [[noreturn]] void fail(std::string_view what) const {
    throw Error(ErrorKind::Value, fmt::format("line {}: {} at \"{}\"", number_, what, rest_));
  }
  bool done() { return skip_spaces(), rest_.empty(); }
  bool take(std::string_view word) {
    skip_spaces();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) fail(fmt::format("expected '{}'", word));
  }
  std::string_view word(std::string_view ends) {
    skip_spaces();
    size_t n = std::min(rest_.find_first_of(ends), rest_.size());
    if (n == 0) fail("expected a word");
    std::string_view w = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return w;
  }
  template <class T>
  T integer() {
    skip_spaces();
    T v{};
    auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), v);
    if (error != std::errc()) fail("expected an integer");
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return v;
  }
  Op op() {
    Op o = op_by_name(word(" .}"));
    if (o == Op::count) fail("unknown operator before");
    return o;
  }
  std::string quoted() {
    expect("\"");
    std::string out;
    for (;; rest_.remove_prefix(1)) {
      if (rest_.empty()) fail("a string without end");
      if (rest_[0] == '"') break;
      if (rest_[0] == '\\' && rest_.size() > 1) {
        rest_.remove_prefix(1);
        out += rest_[0] == 'n' ? '\n' : rest_[0];
      } else {
        out += rest_[0];
      }
    }
    rest_.remove_prefix(1);
    return out;
  }

 private:
  void skip_spaces() {
    while (!rest_.empty() && rest_[0] == ' ') rest_.remove_prefix(1);
  }
  std::string_view rest_;
  int number_;
};

Arg parse_value(Line& line, DType d) {
  if (is_unsigned(d)) return Arg(static_cast<int64_t>(line.integer<uint64_t>()));
  if (!is_float(d)) return Arg(line.integer<int64_t>());
  std::string word(line.word(" }"));
  Arg a;
  if (word.starts_with("nan:")) a.bits = std::strtoull(word.c_str() + 4, nullptr, 16);
  else a = Arg::from_double(std::strtod(word.c_str(), nullptr));
  return a;
}

Dims parse_dims(Line& line) {
  Dims d;
  line.expect("[");
  while (!line.take("]")) d.push_back(line.integer<int64_t>());
  return d;
}

const Record* parse_record(Line& line) {
  if (line.take("null")) return nullptr;
  Record r;
  if (line.take("a=")) r.a = parse_dims(line);
  if (line.take("b=")) r.b = parse_dims(line);
  if (line.take("c=")) r.c = parse_dims(line);
  line.expect("n=");
  r.n = line.integer<int64_t>();
  if (line.take("text=")) r.text = line.quoted();
  return intern(std::move(r));
}

Arg parse_range(Line& line) {
  int64_t number = line.integer<int64_t>();
  std::string_view axis = line.word(" }");
  for (int i = 0; i < 8; ++i)
    if (axis == text::kAxes[i]) return range_arg(number, static_cast<Axis>(i));
  line.fail("unknown axis before");
}

Arg parse_argument(Line& line, Op op, DType d) {
  text::Payload kind = text::payload(op);
  if (kind == text::Payload::None) return {};
  line.expect("{");
  Arg a;
  switch (kind) {
    case text::Payload::Int: a = line.integer<int64_t>(); break;
    case text::Payload::Value: a = parse_value(line, d); break;
    case text::Payload::Range: a = parse_range(line); break;
    case text::Payload::Reduce: {
      Op by = line.op();
      a = reduce_arg(by, line.integer<int64_t>());
      break;
    }
    case text::Payload::Operator: a = Arg(static_cast<int64_t>(line.op())); break;
    case text::Payload::Record: a = Arg(parse_record(line)); break;
    default: line.fail("this operator cannot be read");
  }
  line.expect("}");
  return a;
}

}  // namespace

std::vector<UOp*> parse(std::string_view text) {
  ankerl::unordered_dense::map<uint64_t, UOp*> nodes;
  std::vector<UOp*> roots, src;
  bool named_roots = false;
  UOp* last = nullptr;
  for (int number = 1; !text.empty(); ++number) {
    size_t n = std::min(text.find('\n'), text.size());
    Line line(text.substr(0, n), number);
    text.remove_prefix(std::min(n + 1, text.size()));
    if (line.done() || line.take("#")) continue;
    auto source = [&] {
      line.expect("%");
      auto at = nodes.find(line.integer<uint64_t>());
      if (at == nodes.end()) line.fail("unknown node before");
      return at->second;
    };
    if (line.take("roots")) {
      named_roots = true;
      while (!line.done()) roots.push_back(source());
      continue;
    }
    line.expect("%");
    uint64_t id = line.integer<uint64_t>();
    line.expect("=");
    Op op = line.op();
    line.expect(".");
    DType d = dtype_by_name(line.word(" ["));
    if (d == DType::count) line.fail("unknown dtype before");
    int64_t numel = 1;
    if (line.take("[")) numel = line.integer<int64_t>(), line.expect("]");
    Arg arg = parse_argument(line, op, d);
    src.clear();
    while (!line.done()) src.push_back(source());
    if (info(op).nsrc >= 0 && info(op).nsrc != static_cast<int>(src.size())) line.fail("wrong number of sources");
    nodes[id] = last = current_arena().make(op, d, numel, arg, src);
  }
  if (!named_roots && last) roots.push_back(last);
  return roots;
}

}  // namespace tiny
