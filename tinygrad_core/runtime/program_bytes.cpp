#include "runtime/program_bytes.h"

#include <cstring>
#include <type_traits>

namespace tiny {
namespace {

constexpr uint32_t kFormat = 0x746e7901;  // last byte: counts changes of the layout below

/// Writes and reads with one description of the layout (`visit`), so the two cannot disagree.
struct Writer {
  std::string out;
  template <class T> void operator()(const T& v) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      out.append(reinterpret_cast<const char*>(&v), sizeof v);
    } else {
      (*this)(static_cast<uint64_t>(v.size()));
      if constexpr (std::is_same_v<T, std::string>) out += v;
    }
  }
};

struct Reader {
  const std::string& in;
  size_t at = 0;
  bool good = true;
  template <class T> void operator()(T& v) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      good = good && in.size() - at >= sizeof v;
      if (good) std::memcpy(&v, in.data() + at, sizeof v), at += sizeof v;
    } else {
      uint64_t n = 0;
      (*this)(n);
      good = good && n <= in.size() - at;  // an element takes at least a byte
      if (!good) return;
      if constexpr (std::is_same_v<T, std::string>) {
        v = in.substr(at, n);
        at += n;
      } else {
        v.resize(n);
      }
    }
  }
};

template <class Stored, class Visitor>
void visit(Stored& p, Visitor& f) {
  f(p.info.name);
  f(p.info.params);
  for (auto& x : p.info.params) f(x.dtype), f(x.numel), f(x.written), f(x.read);
  f(p.info.scalars);
  f(p.info.groups), f(p.info.lanes), f(p.info.scratch_bytes);
  f(p.info.flops), f(p.info.bytes);
  f(p.checks);
  for (auto& [number, text] : p.checks) f(number), f(text);
  f(p.binary);
}

}  // namespace

std::string to_bytes(const StoredProgram& program) {
  Writer w;
  w(kFormat);
  visit(program, w);
  return std::move(w.out);
}

std::optional<StoredProgram> from_bytes(const std::string& bytes) {
  Reader r{bytes};
  uint32_t format = 0;
  r(format);
  if (!r.good || format != kFormat) return std::nullopt;
  StoredProgram p;
  visit(p, r);
  if (!r.good || r.at != bytes.size()) return std::nullopt;
  return p;
}

}  // namespace tiny
