// PTX as text, an instruction at a time: for kernels that are written by hand, not made from loop nests.
#pragma once
#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace tiny::ptx {

enum class Kind : uint8_t { B32, B64, F32, Predicate };

struct Reg {
  Kind kind = Kind::B32;
  int number = -1;
  explicit operator bool() const { return number >= 0; }
};
using Regs = std::vector<Reg>;

/// An operand as it is spelled.
struct Operand {
  std::string text;
  Operand(Reg r);
  Operand(int64_t n) : text(fmt::format("{}", n)) {}
  Operand(int n) : Operand(static_cast<int64_t>(n)) {}
  Operand(float v) : text(fmt::format("0f{:08X}", std::bit_cast<uint32_t>(v))) {}
  Operand(std::string s) : text(std::move(s)) {}
  Operand(const char* s) : text(s) {}
  Operand(const Regs& list);
};
/// [base + offset]
Operand at(Operand base, int64_t offset = 0);

class Writer {
 public:
  Reg fresh(Kind kind) { return {kind, counts_[static_cast<size_t>(kind)]++}; }
  Regs fresh(Kind kind, int64_t n);

  /// `op destination, operands...;` with a new destination.
  Reg b32(std::string_view op, std::initializer_list<Operand> operands) { return made(Kind::B32, op, operands); }
  Reg b64(std::string_view op, std::initializer_list<Operand> operands) { return made(Kind::B64, op, operands); }
  Reg f32(std::string_view op, std::initializer_list<Operand> operands) { return made(Kind::F32, op, operands); }
  Reg predicate(std::string_view op, std::initializer_list<Operand> operands) { return made(Kind::Predicate, op, operands); }
  void put(std::string_view op, std::initializer_list<Operand> operands = {});
  void put_if(Reg predicate, std::string_view op, std::initializer_list<Operand> operands = {});

  std::string new_label() { return fmt::format("L{}", labels_++); }
  void mark(const std::string& label) { body_ += label + ":\n"; }
  void go(const std::string& label) { put("bra.uni", {label}); }
  void go_if(Reg predicate, const std::string& label) { put_if(predicate, "bra.uni", {label}); }

  struct Frame {
    std::string name, target, version;     // "sm_90a", "8.3"
    int64_t buffers, scalars, threads, groups_at_once, shared_bytes;
    bool dynamic;                          // shared memory
  };
  /// The whole module.
  std::string kernel(const Frame& f) const;
  /// Value of a parameter, and the address of `scratch`, the kernel's shared memory.
  Reg buffer(int64_t number);
  Reg scalar(int64_t number, Kind kind);
  Reg shared() { return b32("mov.u32", {"scratch"}); }

 private:
  Reg made(Kind kind, std::string_view op, std::initializer_list<Operand> operands);

  std::string body_;
  int counts_[4] = {}, labels_ = 0;
};

}  // namespace tiny::ptx
