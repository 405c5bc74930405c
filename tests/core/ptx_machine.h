// Runs the PTX of our own kernels, one workgroup after the other, all lanes in step: branches must go one way for all of them. Finds what a
// GPU would not tell: accesses outside of buffers, shared memory read or overwritten without a barrier between, tiles that the tensor
// cores read before a fence, registers used while wgmma writes them. Knows the instructions that renderer/ptx/ writes, no others.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "uop/float_bits.h"

namespace tiny::testing {

class PtxMachine {
 public:
  struct Buffer {
    void* data;
    size_t bytes;
  };

  PtxMachine(const std::string& text, int64_t lanes, int64_t shared_bytes) : lanes_(static_cast<size_t>(lanes)) {
    shared_.resize(static_cast<size_t>(shared_bytes));
    size_t begin = text.find('{') + 1;
    while (begin < text.size()) {
      size_t end = text.find('\n', begin);
      if (end == std::string::npos) end = text.size();
      parse_line(std::string_view(text).substr(begin, end - begin));
      begin = end + 1;
    }
  }

  void run(int64_t groups, const std::vector<Buffer>& buffers, const std::vector<uint64_t>& scalars) {
    buffers_ = buffers, scalars_ = scalars;
    for (group_ = 0; group_ < static_cast<uint64_t>(groups); ++group_) run_group();
  }

 private:
  enum Kind : uint8_t { R, D, F, P, kKinds };
  struct Operand {
    enum { Register, Number, List, Memory, Parameter, Special } what = Number;
    Kind kind = R;
    size_t number = 0;            // of the register
    uint64_t value = 0;           // or the offset of an address
    std::vector<Operand> list;
    std::string text;
  };
  struct Instruction {
    std::string op, text;
    std::vector<Operand> operands;
    int predicate = -1;
    size_t target = 0;
  };

  [[noreturn]] void fail(const std::string& why) const {
    throw std::runtime_error("group " + std::to_string(group_) + ", " + (at_ < code_.size() ? code_[at_].text : "end") + ": " + why);
  }

  // ---- text
  static std::string_view trimmed(std::string_view s) {
    while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
    while (!s.empty() && (s.back() == ' ' || s.back() == ';')) s.remove_suffix(1);
    return s;
  }
  void parse_line(std::string_view line) {
    line = trimmed(line);
    if (line.empty() || line == "}" || line.starts_with(".")) return;
    if (line.back() == ':') {
      labels_[std::string(line.substr(0, line.size() - 1))] = code_.size();
      return;
    }
    Instruction i;
    i.text = line;
    if (line.front() == '@') {
      size_t space = line.find(' ');
      i.predicate = std::stoi(std::string(line.substr(3, space - 3)));
      line = trimmed(line.substr(space));
    }
    size_t space = std::min(line.find(' '), line.size());
    i.op = line.substr(0, space);
    line = line.substr(space);
    for (int depth = 0; !line.empty();) {
      size_t k = 0;
      for (; k < line.size() && (depth || line[k] != ','); ++k) depth += line[k] == '{' ? 1 : line[k] == '}' ? -1 : 0;
      i.operands.push_back(parse_operand(trimmed(line.substr(0, k))));
      line = k < line.size() ? line.substr(k + 1) : std::string_view();
    }
    code_.push_back(std::move(i));
  }
  Operand parse_operand(std::string_view s) {
    Operand o;
    o.text = s;
    if (s.front() == '{') {
      o.what = Operand::List;
      s = s.substr(1, s.size() - 2);
      while (!s.empty()) {
        size_t comma = std::min(s.find(','), s.size());
        o.list.push_back(parse_operand(trimmed(s.substr(0, comma))));
        s = comma < s.size() ? s.substr(comma + 1) : std::string_view();
      }
    } else if (s.front() == '[') {
      s = s.substr(1, s.size() - 2);
      size_t plus = std::min(s.find('+'), s.size());
      if (s.front() != '%') {
        o.what = Operand::Parameter, o.text = s;
        return o;
      }
      Operand base = parse_operand(s.substr(0, plus));
      o.what = Operand::Memory, o.kind = base.kind, o.number = base.number;
      if (plus < s.size()) o.value = static_cast<uint64_t>(std::stoll(std::string(s.substr(plus + 1))));
    } else if (s.front() == '%' && (s[1] == 'r' || s[1] == 'd' || s[1] == 'f' || s[1] == 'p')) {
      o.what = Operand::Register, o.kind = s[1] == 'r' ? R : s[1] == 'd' ? D : s[1] == 'f' ? F : P;
      o.number = static_cast<size_t>(std::stoll(std::string(s.substr(2))));
      auto& file = files_[o.kind];
      if (file.size() < (o.number + 1) * lanes_) file.resize((o.number + 1) * lanes_), state_[o.kind].resize(o.number + 1);
    } else if (s.starts_with("0f")) {
      o.value = std::stoull(std::string(s.substr(2)), nullptr, 16);
    } else if (s.front() == '-' || (s.front() >= '0' && s.front() <= '9')) {
      o.value = static_cast<uint64_t>(std::stoll(std::string(s)));
    } else {
      o.what = Operand::Special;
    }
    return o;
  }

  // ---- registers
  struct State {
    int in_flight = 0;    // wgmma groups that write or read it
    bool dirty = false;   // written since the last wgmma.fence
  };
  uint64_t& reg(const Operand& o, size_t lane) { return files_[o.kind][o.number * lanes_ + lane]; }
  uint64_t value(const Operand& o, size_t lane) {
    switch (o.what) {
      case Operand::Register: return reg(o, lane);
      case Operand::Number: return o.value;
      case Operand::Memory: return (o.kind == R ? static_cast<uint32_t>(reg(o, lane) + o.value) : reg(o, lane) + o.value);
      case Operand::Special:
        if (o.text == "%tid.x") return lane;
        if (o.text == "%ctaid.x") return group_;
        if (o.text == "scratch") return 0;
        break;
      default: break;
    }
    fail("what is " + o.text + "?");
  }
  void use(const Operand& o) {
    if (o.what == Operand::Register && state_[o.kind][o.number].in_flight) fail(o.text + " belongs to a wgmma that is not waited for");
    for (const Operand& x : o.list) use(x);
  }
  void written(const Operand& o) {
    state_[o.kind][o.number].dirty = true;
  }

  // ---- memory
  char* global(uint64_t address, size_t n) {
    for (const Buffer& b : buffers_) {
      uint64_t begin = reinterpret_cast<uint64_t>(b.data);
      if (address >= begin && address + n <= begin + b.bytes) return reinterpret_cast<char*>(address);
    }
    fail("an access outside of the buffers");
  }
  struct Word {             // of shared memory, 4 bytes
    int written = -1, read = -1;      // epochs: barriers passed
    uint32_t writer = 0, reader = 0;  // lanes; kTeam + team
    bool fenced = false;
  };
  static constexpr uint32_t kTeam = 1 << 20;
  void check_write(uint64_t address, size_t n, uint32_t who) {
    if (address + n > shared_.size()) fail("an access outside of shared memory");
    for (uint64_t w = address / 4; w < (address + n) / 4; ++w) {
      Word& x = words_[w];
      if (x.read == epoch_ && x.reader != who) fail("shared memory is overwritten while others may read it");
      if (x.written == epoch_ && x.writer != who) fail("two lanes write one place of shared memory");
    }
  }
  void land(uint64_t address, size_t n, uint32_t who) {
    for (uint64_t w = address / 4; w < (address + n) / 4; ++w) words_[w].written = epoch_, words_[w].writer = who, words_[w].fenced = false;
  }
  void check_read(uint64_t address, size_t n, uint32_t who) {
    if (address + n > shared_.size()) fail("an access outside of shared memory");
    for (uint64_t w = address / 4; w < (address + n) / 4; ++w) {
      Word& x = words_[w];
      if (x.written < 0) fail("shared memory is read that nobody wrote");
      if (x.written == epoch_ && x.writer != who) fail("shared memory is read without a barrier");
      if (who >= kTeam && !x.fenced) fail("the tensor cores read what no fence has shown them");
      x.read = epoch_, x.reader = x.read == epoch_ && x.reader != who && x.reader ? kTeam - 1 : who;
    }
  }
  struct Copy {
    uint64_t to;
    char bytes[16];
    size_t n;
    uint32_t lane;
  };
  void copy_async(const Instruction& i, size_t lane) {
    size_t n = i.operands[2].value, taken = static_cast<uint32_t>(value(i.operands[3], lane));
    Copy c{value(i.operands[0], lane), {}, n, static_cast<uint32_t>(lane)};
    if (c.to % n || value(i.operands[1], lane) % n) fail("a copy that is not aligned");
    if (taken) std::memcpy(c.bytes, global(value(i.operands[1], lane), taken), taken);
    check_write(c.to, n, c.lane);
    std::memset(&shared_[c.to], 0xFF, n);  // NaN until it is there
    copies_.push_back(c);
  }
  void wait_for_copies(uint64_t left) {
    while (committed_.size() > left) {
      for (const Copy& c : committed_.front()) std::memcpy(&shared_[c.to], c.bytes, c.n), land(c.to, c.n, c.lane);
      committed_.erase(committed_.begin());
    }
  }

  // ---- tensor cores
  float element(uint16_t bits, bool bf16) const { return bf16 ? bf16_to_float(bits) : half_to_float(bits); }
  /// Element of a tile behind a descriptor: `line` of those that lie 8 by 8, `inner` along them.
  float tile_element(uint64_t descriptor, bool terms_across, int64_t row, int64_t term, bool bf16, uint32_t who) {
    uint64_t start = (descriptor & 0x3FFF) * 16, across = (descriptor >> 16 & 0x3FFF) * 16, down = (descriptor >> 32 & 0x3FFF) * 16;
    if (descriptor >> 62 != 1) fail("not the 128-byte swizzle");
    uint64_t r = static_cast<uint64_t>(row), k = static_cast<uint64_t>(term);
    uint64_t address = terms_across ? start + r / 64 * across + k / 8 * down + k % 8 * 128 + r % 64 * 2
                                    : start + r / 8 * down + r % 8 * 128 + k * 2;
    address ^= (address >> 7 & 7) << 4;
    check_read(address / 4 * 4, 4, who);
    uint16_t bits;
    std::memcpy(&bits, &shared_[address], 2);
    return element(bits, bf16);
  }
  void multiply(const Instruction& i) {
    size_t n_at = i.op.find("m64n") + 4;
    const int64_t n = std::stoll(i.op.substr(n_at));
    const bool bf16 = i.op.find("bf16") != std::string::npos, fragments = i.operands[1].what == Operand::List;
    const std::vector<Operand>& sums = i.operands[0].list;
    if (static_cast<int64_t>(sums.size()) != n / 2) fail("a wrong number of sums");
    for (const Operand& o : sums)
      if (state_[o.kind][o.number].dirty) fail(o.text + " was written since the last wgmma.fence");
    for (const Operand& o : i.operands[1].list)
      if (state_[o.kind][o.number].dirty) fail(o.text + " was written since the last wgmma.fence");
    const bool b_across = i.operands.back().value != 0;
    for (size_t team = 0; team < lanes_ / 128; ++team) {
      const size_t first = team * 128;
      const uint32_t who = kTeam + static_cast<uint32_t>(team);
      const bool adds = value(i.operands[3], first) != 0;
      float a[64][16];
      std::vector<float> b(static_cast<size_t>(n) * 16);
      for (int64_t row = 0; row < 64; ++row)
        for (int64_t k = 0; k < 16; ++k) {
          if (fragments) {
            size_t lane = first + static_cast<size_t>(row / 16 * 32 + row % 8 * 4 + k % 8 / 2);
            uint64_t pair = value(i.operands[1].list[static_cast<size_t>(row % 16 / 8 + k / 8 * 2)], lane);
            a[row][k] = element(static_cast<uint16_t>(pair >> (k % 2 * 16)), bf16);
          } else {
            a[row][k] = tile_element(value(i.operands[1], first), false, row, k, bf16, who);
          }
        }
      for (int64_t col = 0; col < n; ++col)
        for (int64_t k = 0; k < 16; ++k)
          b[static_cast<size_t>(col * 16 + k)] = tile_element(value(i.operands[2], first), b_across, col, k, bf16, who);
      for (size_t lane = 0; lane < 128; ++lane)
        for (size_t s = 0; s < sums.size(); ++s) {
          size_t row = lane / 32 * 16 + lane % 32 / 4 + s / 2 % 2 * 8, col = s / 4 * 8 + lane % 4 * 2 + s % 2;
          uint64_t& sum = reg(sums[s], first + lane);
          float x = adds ? as_float(sum) : 0;
          for (size_t k = 0; k < 16; ++k) x += a[row][k] * b[col * 16 + k];
          sum = std::bit_cast<uint32_t>(x);
        }
    }
    for (const std::vector<Operand>* list : {&sums, &i.operands[1].list})
      for (const Operand& o : *list) ++state_[o.kind][o.number].in_flight, open_products_.push_back(&state_[o.kind][o.number]);
  }
  void wait_for_products(uint64_t left) {
    while (products_.size() > left) {
      for (State* s : products_.front()) --s->in_flight;
      products_.erase(products_.begin());
    }
  }

  static float as_float(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }
  static uint64_t bits_of(float f) { return std::bit_cast<uint32_t>(f); }

  /// Instructions that make one value of others.
  uint64_t compute(const std::string& op, uint64_t a, uint64_t b, uint64_t c) const {
    auto s = [](uint64_t v) { return static_cast<int32_t>(v); };
    auto u = [](uint64_t v) { return static_cast<uint32_t>(v); };
    auto starts = [&](const char* name) { return op.starts_with(name); };
    if (starts("mov.") || starts("cvta.")) return a;
    if (op == "add.s32") return u(a + b);
    if (op == "sub.s32") return u(a - b);
    if (op == "mul.lo.s32") return u(a * b);
    if (op == "mad.lo.s32") return u(a * b + c);
    if (op == "min.s32") return u(static_cast<uint64_t>(std::min(s(a), s(b))));
    if (op == "div.u32") return u(a) / u(b);
    if (op == "rem.u32") return u(a) % u(b);
    if (op == "and.b32") return u(a & b);
    if (op == "or.b64" || op == "or.b32") return a | b;
    if (op == "xor.b32") return u(a ^ b);
    if (op == "and.pred") return a & b;
    if (op == "shl.b32") return u(u(a) << b);
    if (op == "shr.u32") return u(a) >> b;
    if (op == "shl.b64") return a << b;
    if (op == "add.s64") return a + b;
    if (op == "mul.lo.s64") return a * b;
    if (op == "mad.lo.s64") return a * b + c;
    if (op == "mul.wide.u32") return static_cast<uint64_t>(u(a)) * u(b);
    if (op == "cvt.u64.u32") return u(a);
    if (op == "cvt.s64.s32") return static_cast<uint64_t>(static_cast<int64_t>(s(a)));
    if (op == "cvt.rn.bf16x2.f32") return static_cast<uint32_t>(float_to_bf16(as_float(a))) << 16 | float_to_bf16(as_float(b));
    if (op == "cvt.rn.f16x2.f32") return static_cast<uint32_t>(float_to_half(as_float(a))) << 16 | float_to_half(as_float(b));
    if (starts("selp.")) return c ? a : b;
    if (op == "setp.lt.s32") return s(a) < s(b);
    if (op == "setp.le.s32") return s(a) <= s(b);
    if (op == "setp.gt.s32") return s(a) > s(b);
    if (op == "setp.ge.s32") return s(a) >= s(b);
    if (op == "setp.eq.s32") return s(a) == s(b);
    if (op == "setp.ne.s32") return s(a) != s(b);
    if (op == "setp.lt.u32") return u(a) < u(b);
    if (op == "setp.ge.u32") return u(a) >= u(b);
    if (op == "setp.eq.f32") return as_float(a) == as_float(b);
    if (op == "add.f32") return bits_of(as_float(a) + as_float(b));
    if (op == "sub.f32") return bits_of(as_float(a) - as_float(b));
    if (op == "mul.f32") return bits_of(as_float(a) * as_float(b));
    if (op == "max.f32") return bits_of(std::fmax(as_float(a), as_float(b)));
    if (op == "neg.f32") return bits_of(-as_float(a));
    if (op == "fma.rn.f32") return bits_of(std::fma(as_float(a), as_float(b), as_float(c)));
    if (op == "ex2.approx.ftz.f32") return bits_of(std::exp2(as_float(a)));
    if (op == "lg2.approx.f32") return bits_of(std::log2(as_float(a)));
    if (op == "rcp.rn.f32") return bits_of(1 / as_float(a));
    fail("no such instruction here");
  }

  void step_lane(const Instruction& i, size_t lane) {
    const std::string& op = i.op;
    const auto& o = i.operands;
    if (op.starts_with("cp.async.c") && o.size() == 4) return copy_async(i, lane);
    if (op.starts_with("ld.param")) {
      size_t n = std::stoul(o[1].text.substr(1));
      uint64_t v = o[1].text[0] == 'p' ? reinterpret_cast<uint64_t>(buffers_[n].data) : scalars_[n];
      reg(o[0], lane) = op == "ld.param.u64" ? v : static_cast<uint32_t>(v);
    } else if (op == "ld.global.f32") {
      uint32_t v;
      std::memcpy(&v, global(value(o[1], lane), 4), 4);
      reg(o[0], lane) = v;
    } else if (op == "ld.shared.v2.f32") {
      for (size_t k = 0; k < 2; ++k) {
        uint32_t v;
        uint64_t address = value(o[1], lane) + 4 * k;
        check_read(address, 4, static_cast<uint32_t>(lane));
        std::memcpy(&v, &shared_[address], 4);
        reg(o[0].list[k], lane) = v;
      }
    } else if (op.starts_with("st.global")) {
      size_t n = op.ends_with("v4.b32") ? 16 : 4;
      char* to = global(value(o[0], lane), n);
      if (value(o[0], lane) % n) fail("a store that is not aligned");
      for (size_t k = 0; k < n / 4; ++k) {
        uint32_t v = static_cast<uint32_t>(value(n == 4 ? o[1] : o[1].list[k], lane));
        std::memcpy(to + 4 * k, &v, 4);
      }
    } else {
      auto source = [&](size_t k) { return k < o.size() ? value(o[k], lane) : 0; };
      reg(o[0], lane) = compute(op, source(1), source(2), source(3));
    }
  }

  void exchange(const Instruction& i) {
    std::vector<uint64_t> old;
    for (size_t lane = 0; lane < lanes_; ++lane) old.push_back(value(i.operands[1], lane));
    for (size_t lane = 0; lane < lanes_; ++lane) reg(i.operands[0], lane) = old[lane ^ i.operands[2].value];
  }

  void step(const Instruction& i) {
    const std::string& op = i.op;
    if (op.starts_with("wgmma.mma_async")) return multiply(i);
    if (op == "wgmma.fence.sync.aligned") {
      for (auto& file : state_)
        for (State& s : file) s.dirty = false;
      return;
    }
    if (op == "wgmma.commit_group.sync.aligned") return products_.push_back(std::move(open_products_)), open_products_.clear();
    if (op == "wgmma.wait_group.sync.aligned") return wait_for_products(i.operands[0].value);
    if (op == "cp.async.commit_group") return committed_.push_back(std::move(copies_)), copies_.clear();
    if (op == "cp.async.wait_group") return wait_for_copies(i.operands[0].value);
    if (op == "fence.proxy.async.shared::cta") {
      for (Word& w : words_) w.fenced = true;
      return;
    }
    if (op == "bar.sync") return ++epoch_, void();
    for (const Operand& o : i.operands) use(o);
    if (op == "shfl.sync.bfly.b32") {
      exchange(i);
    } else {
      for (size_t lane = 0; lane < lanes_; ++lane)
        if (i.predicate < 0 || files_[P][static_cast<size_t>(i.predicate) * lanes_ + lane]) step_lane(i, lane);
    }
    if (op.starts_with("st.") || op.starts_with("cp.")) return;
    if (i.operands[0].what == Operand::Register) written(i.operands[0]);
    for (const Operand& o : i.operands[0].list) written(o);
  }

  void run_group() {
    words_.assign(shared_.size() / 4, {});
    std::fill(shared_.begin(), shared_.end(), static_cast<char>(0xFF));
    for (auto& file : files_) std::fill(file.begin(), file.end(), 0xFFFFFFFFu);
    for (auto& file : state_) std::fill(file.begin(), file.end(), State());
    copies_.clear(), committed_.clear(), products_.clear(), open_products_.clear();
    epoch_ = 0;
    for (at_ = 0; at_ < code_.size(); ++at_) {
      const Instruction& i = code_[at_];
      if (i.op == "ret") return;
      if (i.op != "bra.uni") {
        step(i);
        continue;
      }
      bool taken = i.predicate < 0;
      if (!taken) {
        const uint64_t* p = &files_[P][static_cast<size_t>(i.predicate) * lanes_];
        taken = p[0] != 0;
        for (size_t lane = 1; lane < lanes_; ++lane)
          if ((p[lane] != 0) != taken) fail("lanes go different ways");
      }
      if (taken) at_ = labels_.at(i.operands[0].text) - 1;
    }
  }

  const size_t lanes_;
  std::vector<Instruction> code_;
  std::map<std::string, size_t> labels_;
  std::vector<uint64_t> files_[kKinds];
  std::vector<State> state_[kKinds];
  std::vector<char> shared_;
  std::vector<Word> words_;
  std::vector<Copy> copies_;
  std::vector<std::vector<Copy>> committed_;
  std::vector<State*> open_products_;
  std::vector<std::vector<State*>> products_;
  std::vector<Buffer> buffers_;
  std::vector<uint64_t> scalars_;
  uint64_t group_ = 0;
  size_t at_ = 0;
  int epoch_ = 0;
};

}  // namespace tiny::testing
