// The algorithm: T. Dao, "FlashAttention-2", arXiv 2307.08691; softmax in passes: M. Milakov, N. Gimelshein, arXiv 1805.02867.
// Instructions, fragments and descriptors: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
//
// All three kernels have one form. Rows stay with their workgroup, columns stream past them:
//   Forward: rows are queries. s = q k^T, p = exp2(s - greatest), out += p v.
//   Keys:    rows are keys.    s = k q^T, p = exp2(s - log_sums), d = v grad^T, grad_v += p grad, grad_k += (p (d - deltas)) q.
//   Queries: rows are queries. s = q k^T, p = exp2(s - log_sums), d = grad v^T, grad_q += (p (d - deltas)) k.
// The sums of the first product are, in the registers where they are, the left operand of the next (its fragments agree).
#include "renderer/ptx/attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "renderer/ptx/writer.h"
#include "renderer/renderer.h"

namespace tiny {
namespace {

using ptx::at, ptx::Kind, ptx::Operand, ptx::Reg, ptx::Regs;

constexpr int64_t kTeamRows = 64, kTeamLanes = 128, kTerms = 16;  // of a wgmma.m64nNk16
constexpr int64_t kLine = 128, kPanel = 64;                       // bytes and elements of a line of a tile; a tile is panels of 64 columns
constexpr float kLog2e = 1.44269504088896340736f, kLn2 = 0.693147180559945309417f, kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kHeads = 0, kQueries = 1, kKeys = 2, kScale = 3, kPlaces = 4, kBias = kPlaces + 4 * AttentionBlocks::kOperands,
                  kScalars = kBias + 4;

int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
int64_t panels(int64_t columns) { return up(columns, kPanel) / kPanel; }
int64_t tile_bytes(int64_t rows, int64_t columns) { return rows * kLine * panels(columns); }

class KernelWriter {
 public:
  using Form = AttentionKernel::Kind;
  KernelWriter(Form form, const AttentionBlocks& b, const AttentionKernel::Shape& s)
      : form_(form), b_(b), n_(s.columns), stages_(s.stages), threads_(s.teams * kTeamLanes), rows_(s.teams * kTeamRows),
        pass_(threads_ / 8), scaled_(b.has_bias || !(b.scale > 0)) {}

  ptx::Writer run() {
    open();
    if (form_ == Form::Forward) forward();
    if (form_ == Form::Keys) keys();
    if (form_ == Form::Queries) queries();
    return std::move(w_);
  }

  int64_t threads() const { return threads_; }
  int64_t rows() const { return rows_; }
  int64_t shared_bytes() const { return fixed_bytes() + stages_ * stage_bytes(); }
  int64_t results() const { return form_ == Form::Forward ? 2 : form_ == Form::Keys ? b_.wants_k + b_.wants_v : 1; }
  int64_t buffers() const { return results() + (form_ == Form::Forward ? 3 : 6) + b_.has_bias; }

 private:
  // ---- places in shared memory: what stays, then the stages. Columns of what stays first, second; of what streams first, second.
  bool by_keys() const { return form_ == Form::Keys; }
  bool has_second() const { return form_ == Form::Queries || (by_keys() && b_.wants_k); }  // the second product
  int64_t fixed_bytes() const {
    return tile_bytes(rows_, b_.depth) + (form_ == Form::Forward ? 0 : tile_bytes(rows_, b_.width));
  }
  int64_t first_bytes() const { return tile_bytes(n_, b_.depth); }
  int64_t statistics_at() const { return first_bytes() + tile_bytes(n_, b_.width); }
  int64_t stage_bytes() const { return statistics_at() + (by_keys() ? up(8 * n_, 1024) : 0); }

  /// What a lane copies of a tile whose rows are at `pointer`: rows tid / 8 + i * pass_, 16 bytes of each panel.
  struct Stream {
    Reg pointer, pass, tile;  // the lane's address; bytes from pass to pass, from tile to tile
    int64_t columns;
    Reg last;                 // the lane has elements of the last panel; none: all have
  };

  void open() {
    Reg block = w_.b32("mov.u32", {"%ctaid.x"});
    tid_ = w_.b32("mov.u32", {"%tid.x"});
    heads_ = w_.scalar(kHeads, Kind::B32), queries_ = w_.scalar(kQueries, Kind::B32), keys_ = w_.scalar(kKeys, Kind::B32);
    scale_ = w_.scalar(kScale, Kind::F32), factor_ = w_.f32("mul.f32", {scale_, kLog2e});
    row_count_ = by_keys() ? keys_ : queries_, column_count_ = by_keys() ? queries_ : keys_;
    Reg tiles = w_.b32("div.u32", {w_.b32("add.s32", {row_count_, rows_ - 1}), rows_});
    number_ = w_.b32("div.u32", {block, tiles});
    Reg tile = w_.b32("rem.u32", {block, tiles});
    // Blocks with the most to do begin first.
    if (b_.causal && !by_keys()) tile = w_.b32("sub.s32", {w_.b32("sub.s32", {tiles, 1}), tile});
    first_ = w_.b32("mul.lo.s32", {tile, rows_});
    batch_ = w_.b64("cvt.u64.u32", {w_.b32("div.u32", {number_, heads_})});
    head_ = w_.b64("cvt.u64.u32", {w_.b32("rem.u32", {number_, heads_})});
    Reg lane = w_.b32("and.b32", {tid_, 31});
    quad_ = w_.b32("and.b32", {lane, 3});
    twice_quad_ = w_.b32("shl.b32", {quad_, 1});
    team_ = w_.b32("shr.u32", {tid_, 7});
    Reg warp_rows = w_.b32("shl.b32", {w_.b32("shr.u32", {tid_, 5}), 4});
    row_[0] = w_.b32("add.s32", {first_, w_.b32("add.s32", {warp_rows, w_.b32("shr.u32", {lane, 2})})});
    row_[1] = w_.b32("add.s32", {row_[0], 8});
    for (int r : {0, 1}) row_inside_[r] = w_.predicate("setp.lt.s32", {row_[r], row_count_});
    line_ = w_.b32("shr.u32", {tid_, 3}), chunk_ = w_.b32("and.b32", {tid_, 7});
    Reg swizzled = w_.b32("shl.b32", {w_.b32("xor.b32", {chunk_, w_.b32("and.b32", {line_, 7})}), 4});
    shared_ = w_.shared();
    mine_ = w_.b32("add.s32", {shared_, w_.b32("mad.lo.s32", {line_, kLine, swizzled})});
    yes_ = w_.predicate("setp.eq.s32", {0, 0}), no_ = w_.predicate("setp.ne.s32", {0, 0});
    bias_ = Reg();
    if (b_.has_bias) open_bias();
  }

  // ---- global memory
  Reg place(int64_t operand, int64_t k) { return w_.scalar(kPlaces + 4 * operand + k, Kind::B64); }
  /// Address of the head's first row, and the bytes of a row.
  struct Head {
    Reg pointer, row_bytes;
  };
  Head head(int64_t operand, int64_t buffer) {
    Reg element = w_.b64("mad.lo.s64", {batch_, place(operand, 1), place(operand, 0)});
    element = w_.b64("mad.lo.s64", {head_, place(operand, 2), element});
    return {w_.b64("add.s64", {w_.buffer(buffer), w_.b64("shl.b64", {element, 1})}), w_.b64("shl.b64", {place(operand, 3), 1})};
  }
  Reg row_pointer(const Head& h, Reg row) { return w_.b64("mad.lo.s64", {w_.b64("cvt.s64.s32", {row}), h.row_bytes, h.pointer}); }

  Stream stream(int64_t operand, int64_t buffer, Reg first, int64_t columns) {
    Head h = head(operand, buffer);
    Stream s;
    s.columns = columns;
    s.pointer = w_.b64("add.s64", {row_pointer(h, w_.b32("add.s32", {first, line_})), w_.b64("mul.wide.u32", {chunk_, 16})});
    s.pass = w_.b64("mul.lo.s64", {h.row_bytes, pass_}), s.tile = w_.b64("mul.lo.s64", {h.row_bytes, n_});
    if (columns % kPanel) s.last = w_.predicate("setp.lt.u32", {chunk_, columns % kPanel / 8});
    return s;
  }
  /// Copies `rows` rows to `to`, the lane's place in the tile, with zeros from row `left` on as this lane counts them.
  void copy(const Stream& s, int64_t rows, Reg left, Reg to, int64_t offset) {
    Reg from = s.pointer;
    for (int64_t i = 0; i * pass_ < rows; ++i) {
      if (i) from = w_.b64("add.s64", {from, s.pass});
      Reg inside = w_.predicate("setp.gt.s32", {left, i * pass_});
      Reg whole = w_.b32("selp.b32", {16, 0, inside}), part = whole;
      if (s.last) part = w_.b32("selp.b32", {whole, 0, s.last});
      Reg guard;
      if ((i + 1) * pass_ > rows) guard = w_.predicate("setp.lt.u32", {line_, rows - i * pass_});
      for (int64_t p = 0; p < panels(s.columns); ++p) {
        std::initializer_list<Operand> operands{at(to, offset + i * pass_ * kLine + p * rows * kLine), at(from, p * kLine), 16,
                                                p + 1 == panels(s.columns) ? part : whole};
        guard ? w_.put_if(guard, "cp.async.cg.shared.global", operands) : w_.put("cp.async.cg.shared.global", operands);
      }
    }
  }

  /// Of log_sums and deltas: row `row` of the head, where `inside`, else 0.
  Reg statistic(Reg pointer, Reg row, Reg inside) {
    Reg v = w_.f32("mov.f32", {0.0f});
    w_.put_if(inside, "ld.global.f32", {v, at(w_.b64("mad.lo.s64", {w_.b64("cvt.s64.s32", {row}), 4, pointer}))});
    return v;
  }
  Reg statistics(int64_t buffer) {
    Reg element = w_.b32("mul.lo.s32", {number_, queries_});
    return w_.b64("add.s64", {w_.buffer(buffer), w_.b64("mul.wide.u32", {element, 4})});
  }

  /// A row's values, times `factor`, as numbers of 16 bits.
  void store_row(int r, const Head& h, const Regs& sums, int64_t columns, Reg factor) {
    Reg pointer = w_.b64("add.s64", {row_pointer(h, row_[r]), w_.b64("mul.wide.u32", {quad_, 4})});
    for (int64_t j = 0; j * 8 < columns; ++j) {
      const size_t i = static_cast<size_t>(j * 4 + r * 2);
      Reg a = w_.f32("mul.f32", {sums[i], factor}), c = w_.f32("mul.f32", {sums[i + 1], factor});
      w_.put_if(row_inside_[r], "st.global.b32", {at(pointer, j * 16), packed(a, c)});
    }
  }

  // ---- products
  /// Descriptor of a tile at byte `address`: `across` from one group of 64 columns to the next, in units of 16 bytes (1 where a product
  /// sums over columns), 8 lines of 128 bytes to the next 8, the 128-byte swizzle.
  Reg descriptor(Reg address, int64_t across) {
    Reg low = w_.b64("cvt.u64.u32", {w_.b32("shr.u32", {address, 4})});
    return w_.b64("or.b64", {low, static_cast<int64_t>(across << 16 | int64_t{8 * kLine / 16} << 32 | int64_t{1} << 62)});
  }
  const char* type() const { return b_.dtype == DType::bf16 ? "bf16" : "f16"; }
  std::string product(int64_t n) const { return fmt::format("wgmma.mma_async.sync.aligned.m64n{}k16.f32.{}.{}", n, type(), type()); }

  /// sums = rows of the tile at descriptor `a` times rows of that at `b`, over `columns`.
  void multiply_rows(const Regs& sums, Reg a, Reg b, int64_t columns) {
    for (int64_t t = 0; t * kTerms < columns; ++t) {
      int64_t panel = t / 4, inner = t % 4 * (2 * kTerms / 16);
      Reg x = w_.b64("add.s64", {a, panel * (rows_ * kLine / 16) + inner}), y = w_.b64("add.s64", {b, panel * (n_ * kLine / 16) + inner});
      w_.put(product(n_), {sums, x, y, t ? yes_ : no_, 1, 1, 0, 0});
    }
    commit();
  }
  /// sums += fragments times the tile of n_ rows at descriptor `b`.
  void multiply_fragments(const Regs& sums, const Regs& a, Reg b) {
    for (int64_t t = 0; t * kTerms < n_; ++t) {
      Regs four(a.begin() + t * 4, a.begin() + t * 4 + 4);
      Reg y = w_.b64("add.s64", {b, t * (kTerms * kLine / 16)});
      w_.put(product(static_cast<int64_t>(sums.size()) * 2), {sums, four, y, yes_, 1, 1, 1});
    }
    commit();
  }
  void fence() { w_.put("wgmma.fence.sync.aligned"); }
  void commit() { w_.put("wgmma.commit_group.sync.aligned"); }
  void wait(int64_t left) { w_.put("wgmma.wait_group.sync.aligned", {left}); }
  Regs sums(int64_t columns) { return w_.fresh(Kind::F32, columns / 2); }
  Regs zero_sums(int64_t columns) {
    Regs s = sums(up(columns, kPanel));
    for (Reg r : s) w_.put("mov.f32", {r, 0.0f});
    return s;
  }
  Reg packed(Reg low, Reg high) { return w_.b32(b_.dtype == DType::bf16 ? "cvt.rn.bf16x2.f32" : "cvt.rn.f16x2.f32", {high, low}); }
  void pack(const Regs& values, const Regs& to) {
    for (size_t i = 0; i < to.size(); ++i)
      w_.put(b_.dtype == DType::bf16 ? "cvt.rn.bf16x2.f32" : "cvt.rn.f16x2.f32", {to[i], values[2 * i + 1], values[2 * i]});
  }

  // ---- scores
  /// The element of a lane's sums, `i`, is in row_[i / 2 % 2] and in column 8 * (i / 4) + i % 2 of those that begin with 2 * quad.
  static int row_of(size_t i) { return static_cast<int>(i / 2 % 2); }
  static int64_t column_of(size_t i) { return static_cast<int64_t>(8 * (i / 4) + i % 2); }

  void open_bias() {
    Reg element = w_.b64("mul.lo.s64", {batch_, w_.scalar(kBias, Kind::B64)});
    element = w_.b64("mad.lo.s64", {head_, w_.scalar(kBias + 1, Kind::B64), element});
    bias_ = w_.b64("add.s64", {w_.buffer(buffers() - 1), w_.b64("shl.b64", {element, 2})});
    bias_row_ = w_.b64("shl.b64", {w_.scalar(by_keys() ? kBias + 3 : kBias + 2, Kind::B64), 2});
    bias_column_ = w_.b64("shl.b64", {w_.scalar(by_keys() ? kBias + 2 : kBias + 3, Kind::B64), 2});
  }
  /// Scores in units of log 2: times the factor, plus the bias. `column`: of the lane's first.
  void scale_scores(const Regs& s, Reg column) {
    if (!scaled_) return;
    for (Reg v : s) w_.put("mul.f32", {v, v, factor_});
    if (!b_.has_bias) return;
    Reg left = w_.b32("sub.s32", {column_count_, column});
    Reg pointer[2];
    for (int r : {0, 1}) {
      pointer[r] = w_.b64("mad.lo.s64", {w_.b64("cvt.s64.s32", {row_[r]}), bias_row_, bias_});
      pointer[r] = w_.b64("mad.lo.s64", {w_.b64("cvt.s64.s32", {column}), bias_column_, pointer[r]});
    }
    for (size_t i = 0; i < s.size(); ++i) {
      Reg inside = w_.predicate("setp.gt.s32", {left, column_of(i)}), v = w_.f32("mov.f32", {0.0f});
      inside = w_.predicate("and.pred", {inside, row_inside_[row_of(i)]});
      w_.put_if(inside, "ld.global.f32", {v, at(w_.b64("mad.lo.s64", {bias_column_, column_of(i), pointer[row_of(i)]}))});
      w_.put("fma.rn.f32", {s[i], v, kLog2e, s[i]});
    }
  }
  /// -infinity where a query does not see a key. Columns are keys: those behind `last_seen_`; queries: those before the row's key.
  void mask(const Regs& s, Reg first_column, Reg column) {
    std::string done = w_.new_label();
    if (by_keys()) {
      if (!b_.causal) return;
      w_.go_if(w_.predicate("setp.ge.s32", {first_column, w_.b32("add.s32", {first_, rows_ - 1})}), done);
    } else {
      w_.go_if(w_.predicate("setp.le.s32", {w_.b32("add.s32", {first_column, n_ - 1}), all_see_}), done);
    }
    Reg bound[2];
    for (int r : {0, 1}) bound[r] = w_.b32("sub.s32", {by_keys() ? row_[r] : last_seen_[r], column});
    for (size_t i = 0; i < s.size(); ++i) {
      Reg hidden = w_.predicate(by_keys() ? "setp.gt.s32" : "setp.lt.s32", {bound[row_of(i)], column_of(i)});
      w_.put("selp.f32", {s[i], -kInfinity, s[i], hidden});
    }
    w_.mark(done);
  }
  /// Of rows of queries: the last key that each sees, and that all of the workgroup see. Leaves the end of the columns' tiles.
  void find_seen_keys() {
    Reg last = w_.b32("sub.s32", {keys_, 1});
    all_see_ = b_.causal ? w_.b32("min.s32", {last, first_}) : last;
    for (int r : {0, 1}) last_seen_[r] = b_.causal ? w_.b32("min.s32", {last, row_[r]}) : last;
    end_ = b_.causal ? w_.b32("min.s32", {keys_, w_.b32("add.s32", {first_, rows_})}) : keys_;
  }
  /// exp2(s * factor - subtracted) for element i
  void exponential(Reg s, Reg negative) {
    scaled_ ? w_.put("add.f32", {s, s, negative}) : w_.put("fma.rn.f32", {s, s, factor_, negative});
    w_.put("ex2.approx.ftz.f32", {s, s});
  }

  // ---- the loop over tiles of columns
  /// Copies what stays and the first tiles, then calls body(first column, the lane's first column, address of the stage) for each tile
  /// from column `begin`, a multiple of n_, to `end`.
  template <class F>
  void loop(Reg begin, Reg end, const std::vector<Stream>& fixed, std::vector<Stream> moving, const std::vector<Reg>& statistics, F body) {
    moving_ = std::move(moving), statistics_ = statistics;
    next_ = w_.b32("mov.u32", {begin}), stage_to_ = w_.b32("mov.u32", {0}), end_ = end;
    Reg left = w_.b32("sub.s32", {row_count_, w_.b32("add.s32", {first_, line_})});
    for (size_t i = 0; i < fixed.size(); ++i) copy(fixed[i], rows_, left, mine_, i ? tile_bytes(rows_, b_.depth) : 0);
    for (int64_t i = 0; i + 1 < stages_; ++i) copy_ahead();
    Reg column = w_.b32("mov.u32", {begin}), stage = w_.b32("add.s32", {shared_, fixed_bytes()});
    Reg stages_end = w_.b32("add.s32", {shared_, shared_bytes()});
    std::string again = w_.new_label(), over = w_.new_label();
    w_.go_if(w_.predicate("setp.ge.s32", {column, end}), over);
    w_.mark(again);
    w_.put("cp.async.wait_group", {stages_ - 2});
    w_.put("fence.proxy.async.shared::cta");
    w_.put("bar.sync", {0});
    copy_ahead();
    body(column, w_.b32("add.s32", {column, twice_quad_}), stage);
    w_.put("add.s32", {column, column, n_});
    w_.put("add.s32", {stage, stage, stage_bytes()});
    Reg back = w_.b32("sub.s32", {stage, stages_ * stage_bytes()});
    w_.put("selp.b32", {stage, back, stage, w_.predicate("setp.ge.u32", {stage, stages_end})});
    w_.go_if(w_.predicate("setp.lt.s32", {column, end}), again);
    w_.mark(over);
  }

  void copy_ahead() {
    std::string skip = w_.new_label();
    w_.go_if(w_.predicate("setp.ge.s32", {next_, end_}), skip);
    Reg left = w_.b32("sub.s32", {column_count_, w_.b32("add.s32", {next_, line_})}), to = w_.b32("add.s32", {mine_, stage_to_});
    for (size_t i = 0; i < moving_.size(); ++i) {
      copy(moving_[i], n_, left, to, fixed_bytes() + (i ? first_bytes() : 0));
      w_.put("add.s64", {moving_[i].pointer, moving_[i].pointer, moving_[i].tile});
    }
    if (!statistics_.empty()) copy_statistics();
    w_.put("add.s32", {next_, next_, n_});
    w_.put("add.s32", {stage_to_, stage_to_, stage_bytes()});
    w_.put("selp.b32", {stage_to_, 0, stage_to_, w_.predicate("setp.ge.s32", {stage_to_, stages_ * stage_bytes()})});
    w_.mark(skip);
    w_.put("cp.async.commit_group");
  }
  /// log_sums by the first n_ lanes, deltas by the next; zeros where there is no query, whose scores and gradients are zeros too.
  void copy_statistics() {
    Reg second = w_.predicate("setp.ge.u32", {tid_, n_}), mine = w_.predicate("setp.lt.u32", {tid_, 2 * n_});
    Reg column = w_.b32("selp.b32", {w_.b32("sub.s32", {tid_, n_}), tid_, second});
    Reg row = w_.b32("add.s32", {next_, column});
    Reg size = w_.b32("selp.b32", {4, 0, w_.predicate("setp.lt.s32", {row, column_count_})});
    Reg from = w_.b64("selp.b64", {statistics_[1], statistics_[0], second});
    from = w_.b64("mad.lo.s64", {w_.b64("cvt.s64.s32", {row}), 4, from});
    Reg to = w_.b32("mad.lo.s32", {tid_, 4, w_.b32("add.s32", {shared_, stage_to_})});
    w_.put_if(mine, "cp.async.ca.shared.global", {at(to, fixed_bytes() + statistics_at()), at(from), 4, size});
  }

  Reg fixed_descriptor(int64_t offset) {
    Reg row = w_.b32("mad.lo.s32", {team_, kTeamRows * kLine, shared_});
    return descriptor(w_.b32("add.s32", {row, offset}), 1);
  }
  /// Descriptors of the first or second tile of a stage, as rows to multiply with, or as the terms of a sum over its rows.
  Reg as_rows(Reg stage, bool second) { return descriptor(second ? w_.b32("add.s32", {stage, first_bytes()}) : stage, 1); }
  Reg as_terms(Reg stage, bool second) {
    return descriptor(second ? w_.b32("add.s32", {stage, first_bytes()}) : stage, n_ * kLine / 16);
  }

  // ---- the kernels. Buffers: results, then sources in the order of builtins.def.
  void forward() {
    find_seen_keys();
    Reg end = end_, zero = w_.b32("mov.u32", {0});
    std::vector<Stream> fixed{stream(AttentionBlocks::Q, 2, first_, b_.depth)};
    std::vector<Stream> moving{stream(AttentionBlocks::K, 3, zero, b_.depth), stream(AttentionBlocks::V, 4, zero, b_.width)};
    Reg q = fixed_descriptor(0);
    Regs out = zero_sums(b_.width), s = sums(n_), p = w_.fresh(Kind::B32, n_ / 4);
    Reg greatest[2], sum[2];
    for (int r : {0, 1}) greatest[r] = w_.f32("mov.f32", {-kInfinity}), sum[r] = w_.f32("mov.f32", {0.0f});
    loop(zero, end, fixed, moving, {}, [&](Reg first_column, Reg column, Reg stage) {
      fence();
      multiply_rows(s, q, as_rows(stage, false), b_.depth);
      wait(0);
      scale_scores(s, column);
      mask(s, first_column, column);
      for (int r : {0, 1}) rescale(r, s, greatest[r], sum[r], out);
      pack(s, p);
      fence();
      multiply_fragments(out, p, as_terms(stage, true));
      wait(0);
    });
    Reg sums_pointer = statistics(1);
    Head to = head(AttentionBlocks::Result, 0);
    for (int r : {0, 1}) {
      for (int step : {1, 2}) sum[r] = w_.f32("add.f32", {sum[r], exchanged(sum[r], step)});
      Reg blind = w_.predicate("setp.eq.f32", {sum[r], 0.0f});
      store_row(r, to, out, b_.width, w_.f32("selp.f32", {0.0f, w_.f32("rcp.rn.f32", {sum[r]}), blind}));
      Reg log = w_.f32("lg2.approx.f32", {sum[r]});
      log = scaled_ ? w_.f32("add.f32", {log, greatest[r]}) : w_.f32("fma.rn.f32", {greatest[r], factor_, log});
      log = w_.f32("selp.f32", {kInfinity, w_.f32("mul.f32", {log, kLn2}), blind});
      Reg stores = w_.predicate("and.pred", {row_inside_[r], w_.predicate("setp.eq.s32", {quad_, 0})});
      w_.put_if(stores, "st.global.f32", {at(w_.b64("mad.lo.s64", {w_.b64("cvt.s64.s32", {row_[r]}), 4, sums_pointer})), log});
    }
  }
  Reg exchanged(Reg v, int step) { return w_.f32("shfl.sync.bfly.b32", {v, step, 31, -1}); }

  /// Exponentials of the scores of row r, relative to the greatest so far, to which earlier sums are adapted.
  void rescale(int r, const Regs& s, Reg greatest, Reg sum, const Regs& out) {
    Reg most;
    for (size_t i = 0; i < s.size(); ++i)
      if (row_of(i) == r) most = most ? w_.f32("max.f32", {most, s[i]}) : s[i];
    for (int step : {1, 2}) most = w_.f32("max.f32", {most, exchanged(most, step)});
    most = w_.f32("max.f32", {most, greatest});
    Reg used = w_.f32("selp.f32", {0.0f, most, w_.predicate("setp.eq.f32", {most, -kInfinity})});
    if (!scaled_) used = w_.f32("mul.f32", {used, factor_});
    Reg negative = w_.f32("neg.f32", {used});
    exponential(greatest, negative);  // how much smaller what was summed so far becomes
    w_.put("mul.f32", {sum, sum, greatest});
    for (size_t i = 0; i < out.size(); ++i)
      if (row_of(i) == r) w_.put("mul.f32", {out[i], out[i], greatest});
    for (size_t i = 0; i < s.size(); ++i)
      if (row_of(i) == r) exponential(s[i], negative), w_.put("add.f32", {sum, sum, s[i]});
    w_.put("mov.f32", {greatest, most});
  }

  void keys() {
    const int64_t source = results();
    Reg begin = w_.b32("mov.u32", {0});
    if (b_.causal) begin = w_.b32("mul.lo.s32", {w_.b32("div.u32", {first_, n_}), n_});
    std::vector<Stream> fixed{stream(AttentionBlocks::K, source + 2, first_, b_.depth),
                              stream(AttentionBlocks::V, source + 3, first_, b_.width)};
    std::vector<Stream> moving{stream(AttentionBlocks::Q, source + 1, begin, b_.depth),
                               stream(AttentionBlocks::Grad, source, begin, b_.width)};
    Reg k = fixed_descriptor(0), v = fixed_descriptor(tile_bytes(rows_, b_.depth));
    Regs s = sums(n_), p = w_.fresh(Kind::B32, n_ / 4), d, ds, grad_k, grad_v;
    if (b_.wants_v) grad_v = zero_sums(b_.width);
    if (b_.wants_k) grad_k = zero_sums(b_.depth), d = sums(n_), ds = w_.fresh(Kind::B32, n_ / 4);
    loop(begin, queries_, fixed, moving, {statistics(source + 4), statistics(source + 5)}, [&](Reg first_column, Reg column, Reg stage) {
      fence();
      multiply_rows(s, k, as_rows(stage, false), b_.depth);
      if (b_.wants_k) multiply_rows(d, v, as_rows(stage, true), b_.width);
      wait(b_.wants_k);
      scale_scores(s, column);
      mask(s, first_column, column);
      Reg pairs = w_.b32("mad.lo.s32", {twice_quad_, 4, stage});
      auto pair = [&](size_t i, bool deltas) {
        Regs two = w_.fresh(Kind::F32, 2);
        w_.put("ld.shared.v2.f32", {two, at(pairs, statistics_at() + (deltas ? 4 * n_ : 0) + column_of(i) * 4)});
        return two;
      };
      for (size_t i = 0; i < s.size(); i += 4) {
        Regs logs = pair(i, false);
        for (Reg& x : logs) x = w_.f32("mul.f32", {x, -kLog2e});
        for (size_t j = 0; j < 4; ++j) exponential(s[i + j], logs[j % 2]);
      }
      if (b_.wants_v) {
        pack(s, p);
        fence();
        multiply_fragments(grad_v, p, as_terms(stage, true));
      }
      if (b_.wants_k) {
        wait(b_.wants_v);
        for (size_t i = 0; i < s.size(); i += 4) {
          Regs deltas = pair(i, true);
          for (size_t j = 0; j < 4; ++j) score_gradient(d[i + j], s[i + j], deltas[j % 2]);
        }
        pack(d, ds);
        fence();
        multiply_fragments(grad_k, ds, as_terms(stage, false));
      }
      wait(0);
    });
    Reg one = w_.f32("mov.f32", {1.0f});
    int64_t buffer = 0;
    for (bool of_k : {true, false}) {
      if (!(of_k ? b_.wants_k : b_.wants_v)) continue;
      Head to = head(of_k ? AttentionBlocks::Result : AttentionBlocks::SecondResult, buffer++);
      for (int r : {0, 1}) store_row(r, to, of_k ? grad_k : grad_v, of_k ? b_.depth : b_.width, of_k ? scale_ : one);
    }
  }
  /// d = p * (d - delta)
  void score_gradient(Reg d, Reg p, Reg delta) {
    w_.put("sub.f32", {d, d, delta});
    w_.put("mul.f32", {d, d, p});
  }

  void queries() {
    find_seen_keys();
    Reg end = end_, zero = w_.b32("mov.u32", {0});
    std::vector<Stream> fixed{stream(AttentionBlocks::Q, 2, first_, b_.depth), stream(AttentionBlocks::Grad, 1, first_, b_.width)};
    std::vector<Stream> moving{stream(AttentionBlocks::K, 3, zero, b_.depth), stream(AttentionBlocks::V, 4, zero, b_.width)};
    Reg q = fixed_descriptor(0), grad = fixed_descriptor(tile_bytes(rows_, b_.depth));
    Reg logs = statistics(5), deltas = statistics(6), log[2], delta[2];
    for (int r : {0, 1}) {
      log[r] = w_.f32("mul.f32", {statistic(logs, row_[r], row_inside_[r]), -kLog2e});
      delta[r] = statistic(deltas, row_[r], row_inside_[r]);
    }
    Regs grad_q = zero_sums(b_.depth), s = sums(n_), d = sums(n_), ds = w_.fresh(Kind::B32, n_ / 4);
    loop(zero, end, fixed, moving, {}, [&](Reg first_column, Reg column, Reg stage) {
      fence();
      multiply_rows(s, q, as_rows(stage, false), b_.depth);
      multiply_rows(d, grad, as_rows(stage, true), b_.width);
      wait(1);
      scale_scores(s, column);
      mask(s, first_column, column);
      for (size_t i = 0; i < s.size(); ++i) exponential(s[i], log[row_of(i)]);
      wait(0);
      for (size_t i = 0; i < s.size(); ++i) score_gradient(d[i], s[i], delta[row_of(i)]);
      pack(d, ds);
      fence();
      multiply_fragments(grad_q, ds, as_terms(stage, false));
      wait(0);
    });
    Head to = head(AttentionBlocks::Result, 0);
    for (int r : {0, 1}) store_row(r, to, grad_q, b_.depth, scale_);
  }

  const Form form_;
  const AttentionBlocks& b_;
  const int64_t n_, stages_, threads_, rows_, pass_;  // pass_: rows that all lanes copy at once
  const bool scaled_;                                 // scores are multiplied by their factor before the greatest is looked for
  ptx::Writer w_;
  Reg tid_, heads_, queries_, keys_, row_count_, column_count_, number_, first_, quad_, twice_quad_, team_, line_, chunk_, shared_, mine_;
  Reg batch_, head_, scale_, factor_, yes_, no_, row_[2], row_inside_[2], bias_, bias_row_, bias_column_;
  Reg all_see_, last_seen_[2], end_;
  std::vector<Stream> moving_;
  std::vector<Reg> statistics_;
  Reg next_, stage_to_;                               // column and place of the tile that is copied next
};

AttentionKernel::Shape shape_for(AttentionKernel::Kind kind, const AttentionBlocks& b) {
  const int64_t elements = std::max(b.depth, b.width);
  using K = AttentionKernel::Kind;
  const size_t size = elements <= 64 ? 0 : elements <= 128 ? 1 : 2;
  // The best of some, of 4096 causal queries and keys on an H200.
  constexpr AttentionKernel::Shape kForward[] = {{1, 128, 2, 3}, {1, 64, 2, 2}, {2, 64, 2, 1}};
  constexpr AttentionKernel::Shape kKeys[] = {{1, 64, 2, 2}, {1, 64, 2, 1}, {2, 32, 2, 1}};
  constexpr AttentionKernel::Shape kQueries[] = {{2, 64, 2, 2}, {2, 64, 2, 1}, {2, 32, 2, 1}};
  AttentionKernel::Shape s = (kind == K::Forward ? kForward : kind == K::Keys ? kKeys : kQueries)[size];
  if (b.has_bias) {  // its addresses take registers
    if (s.groups > 1) --s.groups;
    if (kind == K::Keys && size == 1) s.columns = 32;
  }
  return s;
}

}  // namespace

AttentionKernel::AttentionKernel(Kind kind, const AttentionBlocks& blocks)
    : AttentionKernel(kind, blocks, shape_for(kind, blocks)) {}

std::string AttentionKernel::name() const {
  constexpr const char* kKinds[] = {"attention", "attention_keys", "attention_queries"};
  std::string s = fmt::format("{}_{}_{}_{}", kKinds[static_cast<size_t>(kind_)], b_.depth, b_.width, ::tiny::info(b_.dtype).name);
  s += fmt::format("_b{}x{}x{}x{}", shape_.teams, shape_.columns, shape_.stages, shape_.groups);
  if (b_.causal) s += "_causal";
  if (b_.has_bias) s += "_bias";
  if (!(b_.scale > 0)) s += "_scaled";
  if (kind_ == Kind::Keys && !(b_.wants_k && b_.wants_v)) s += b_.wants_k ? "_k" : "_v";
  return s;
}

std::string AttentionKernel::text(const std::string& architecture, const std::string& version) const {
  KernelWriter w(kind_, b_, shape_);
  const bool dynamic = w.shared_bytes() > kStaticScratch;
  return w.run().kernel({name(), architecture, version, w.buffers(), kScalars, w.threads(), shape_.groups, w.shared_bytes(), dynamic});
}

ProgramInfo AttentionKernel::info() const {
  KernelWriter w(kind_, b_, shape_);
  ProgramInfo p;
  p.name = name();
  for (int64_t i = 0; i < w.buffers(); ++i) p.params.push_back({b_.dtype, 1, i < w.results(), i >= w.results()});
  p.scalars = kScalars;
  const int64_t rows = kind_ == Kind::Keys ? b_.keys : b_.queries, heads = b_.batch * b_.heads;
  p.groups = (rows + w.rows() - 1) / w.rows() * heads, p.lanes = w.threads(), p.scratch_bytes = w.shared_bytes();
  const double scores = static_cast<double>(heads * b_.queries) * static_cast<double>(b_.keys) * (b_.causal ? 0.5 : 1);
  int64_t terms = b_.depth + b_.width;
  if (kind_ == Kind::Queries) terms += b_.depth;
  if (kind_ == Kind::Keys) terms = b_.depth * (1 + b_.wants_k) + b_.width * (b_.wants_k + b_.wants_v);
  p.flops = 2 * scores * static_cast<double>(terms);
  p.bytes = 2.0 * static_cast<double>(heads * (b_.queries + b_.keys) * (b_.depth + b_.width));
  return p;
}

std::vector<uint64_t> AttentionKernel::scalars() const {
  std::vector<uint64_t> s;
  auto add = [&](int64_t n) { s.push_back(static_cast<uint64_t>(n)); };
  add(b_.heads), add(b_.queries), add(b_.keys), add(std::bit_cast<int32_t>(static_cast<float>(b_.scale)));
  for (const AttentionBlocks::Place& p : b_.places) add(p.offset), add(p.batch), add(p.head), add(p.row);
  for (int64_t step : b_.bias_steps) add(step);
  return s;
}

}  // namespace tiny
