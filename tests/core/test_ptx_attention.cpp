// The kernels of attention for tensor cores (renderer/ptx/attention.h): run by a machine that knows their instructions, against the
// definition in double; ptxas accepts them where it is installed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "graph_eval.h"
#include "ptx_machine.h"
#include "renderer/ptx/attention.h"
#include "tensor/attention.h"

namespace tiny::testing {
namespace {

using Kind = AttentionKernel::Kind;

struct Case {
  int64_t batch = 1, heads = 1, queries = 64, keys = 64, depth = 64, width = 64;
  bool causal = false, rows_first = false;
  DType dtype = DType::bf16;
  int64_t bias[4] = {0, 0, 0, 0};  // sizes, each 1 or that of the scores
  double scale = 0;                // 0: of the depth
  double masked = 0;               // part of the bias that is -infinity; the first query sees no key
  AttentionKernel::Shape shape = {0, 0, 0, 0};
};

class Trial {
 public:
  explicit Trial(const Case& given) : c(given) {
    b_.batch = c.batch, b_.heads = c.heads, b_.queries = c.queries, b_.keys = c.keys, b_.depth = c.depth, b_.width = c.width;
    b_.dtype = c.dtype, b_.causal = c.causal, b_.has_bias = c.bias[0] != 0;
    b_.scale = c.scale ? c.scale : 1 / std::sqrt(static_cast<double>(c.depth));
    using B = AttentionBlocks;
    const int64_t rows[] = {c.queries, c.keys}, elements[] = {c.depth, c.width};
    q = operand(B::Q, rows[0], elements[0]), k = operand(B::K, rows[1], elements[0]), v = operand(B::V, rows[1], elements[1]);
    grad = operand(B::Grad, rows[0], elements[1]);
    if (b_.has_bias) {
      bias.resize(static_cast<size_t>(c.bias[0] * c.bias[1] * c.bias[2] * c.bias[3]));
      int64_t step = 1;
      for (int d = 3; d >= 0; step *= c.bias[d], --d) b_.bias_steps[static_cast<size_t>(d)] = c.bias[d] > 1 ? step : 0;
      for (float& x : bias) x = uniform(random_) < c.masked ? -INFINITY : static_cast<float>(normal_(random_));
      for (int64_t j = 0; c.masked > 0 && j < c.bias[3]; ++j) bias[static_cast<size_t>(j)] = -INFINITY;
    }
    compute();
  }

  void check() {
    const size_t statistics = static_cast<size_t>(c.batch * c.heads * c.queries);
    std::vector<float> sums(statistics, NAN);
    {
      auto out = result(AttentionBlocks::Result, c.queries, c.width);
      run(Kind::Forward, {bytes(out), bytes(sums), bytes(q), bytes(k), bytes(v)});
      expect(out, want_out, AttentionBlocks::Result, c.queries, c.width, "out");
      for (size_t i = 0; i < statistics; ++i) {
        if (std::isinf(want_sums[i])) EXPECT_EQ(sums[i], INFINITY) << i;
        else EXPECT_NEAR(sums[i], want_sums[i], 2e-3) << i;
      }
    }
    std::vector<float> deltas(want_deltas.begin(), want_deltas.end());
    for (int both : {0, 1}) {
      if (both != (std::max(c.depth, c.width) <= AttentionBlocks::kBothGradients)) continue;
      for (int which : {1, 0}) {
        if (both && !which) continue;
        b_.wants_k = both || which, b_.wants_v = both || !which;
        auto gk = result(AttentionBlocks::Result, c.keys, c.depth), gv = result(AttentionBlocks::SecondResult, c.keys, c.width);
        std::vector<PtxMachine::Buffer> buffers;
        if (b_.wants_k) buffers.push_back(bytes(gk));
        if (b_.wants_v) buffers.push_back(bytes(gv));
        for (auto* x : {&grad, &q, &k, &v}) buffers.push_back(bytes(*x));
        buffers.push_back(bytes(sums)), buffers.push_back(bytes(deltas));
        run(Kind::Keys, buffers);
        if (b_.wants_k) expect(gk, want_k, AttentionBlocks::Result, c.keys, c.depth, "gradient of k");
        if (b_.wants_v) expect(gv, want_v, AttentionBlocks::SecondResult, c.keys, c.width, "gradient of v");
      }
    }
    auto gq = result(AttentionBlocks::Result, c.queries, c.depth);
    run(Kind::Queries, {bytes(gq), bytes(grad), bytes(q), bytes(k), bytes(v), bytes(sums), bytes(deltas)});
    expect(gq, want_q, AttentionBlocks::Result, c.queries, c.depth, "gradient of q");
  }

 private:
  using Halves = std::vector<uint16_t>;
  float number(uint16_t h) const { return c.dtype == DType::bf16 ? bf16_to_float(h) : half_to_float(h); }
  uint16_t half(double x) const {
    return c.dtype == DType::bf16 ? float_to_bf16(static_cast<float>(x)) : float_to_half(static_cast<float>(x));
  }
  template <class T> static PtxMachine::Buffer bytes(std::vector<T>& v) { return {v.data(), v.size() * sizeof(T)}; }

  /// With 8 elements before the first.
  void lay(int operand, int64_t rows, int64_t elements) {
    int64_t row = c.rows_first ? c.heads * elements : elements;
    b_.places[static_cast<size_t>(operand)] = {8, c.heads * rows * elements, c.rows_first ? elements : rows * elements, row};
  }
  Halves operand(int number, int64_t rows, int64_t elements) {
    lay(number, rows, elements);
    Halves x(static_cast<size_t>(8 + c.batch * c.heads * rows * elements));
    for (uint16_t& e : x) e = half(normal_(random_));
    return x;
  }
  Halves result(int number, int64_t rows, int64_t elements) {
    lay(number, rows, elements);
    return Halves(static_cast<size_t>(8 + c.batch * c.heads * rows * elements), 0x7FFF);
  }
  size_t index(int operand, int64_t head, int64_t row, int64_t e) const {
    const auto& p = b_.places[static_cast<size_t>(operand)];
    return static_cast<size_t>(p.offset + head / c.heads * p.batch + head % c.heads * p.head + row * p.row + e);
  }

  void compute() {
    using B = AttentionBlocks;
    const size_t n = static_cast<size_t>(c.queries), m = static_cast<size_t>(c.keys);
    for (int64_t h = 0; h < c.batch * c.heads; ++h) {
      std::vector<double> gk(m * static_cast<size_t>(c.depth)), gv(m * static_cast<size_t>(c.width));
      for (size_t i = 0; i < n; ++i) {
        std::vector<double> p(m);
        double most = -INFINITY, sum = 0, delta = 0;
        for (size_t j = 0; j < m; ++j) {
          double s = 0;
          for (int64_t e = 0; e < c.depth; ++e) s += number(q[index(B::Q, h, i, e)]) * number(k[index(B::K, h, j, e)]);
          p[j] = s * b_.scale;
          if (b_.has_bias) {
            const auto& t = b_.bias_steps;
            const int64_t of_head = h / c.heads * t[0] + h % c.heads * t[1];
            p[j] += bias[static_cast<size_t>(of_head + static_cast<int64_t>(i) * t[2] + static_cast<int64_t>(j) * t[3])];
          }
          if (c.causal && j > i) p[j] = -INFINITY;
          most = std::max(most, p[j]);
        }
        for (double& x : p) sum += x = most == -INFINITY ? 0 : std::exp(x - most);
        want_sums.push_back(sum == 0 ? INFINITY : most + std::log(sum));
        for (double& x : p) x = sum == 0 ? 0 : x / sum;
        for (int64_t e = 0; e < c.width; ++e) {
          double out = 0;
          for (size_t j = 0; j < m; ++j) out += p[j] * number(v[index(B::V, h, j, e)]);
          want_out.push_back(out);
          delta += out * number(grad[index(B::Grad, h, i, e)]);
        }
        want_deltas.push_back(delta);
        std::vector<double> gq(static_cast<size_t>(c.depth));
        for (size_t j = 0; j < m; ++j) {
          double d = 0;
          for (int64_t e = 0; e < c.width; ++e) {
            double g = number(grad[index(B::Grad, h, i, e)]);
            d += g * number(v[index(B::V, h, j, e)]);
            gv[j * static_cast<size_t>(c.width) + static_cast<size_t>(e)] += p[j] * g;
          }
          double ds = p[j] * (d - delta) * b_.scale;
          for (int64_t e = 0; e < c.depth; ++e) {
            gq[static_cast<size_t>(e)] += ds * number(k[index(B::K, h, j, e)]);
            gk[j * static_cast<size_t>(c.depth) + static_cast<size_t>(e)] += ds * number(q[index(B::Q, h, i, e)]);
          }
        }
        want_q.insert(want_q.end(), gq.begin(), gq.end());
      }
      want_k.insert(want_k.end(), gk.begin(), gk.end());
      want_v.insert(want_v.end(), gv.begin(), gv.end());
    }
  }

  AttentionKernel kernel(Kind kind) const { return c.shape.teams ? AttentionKernel(kind, b_, c.shape) : AttentionKernel(kind, b_); }
  void run(Kind kind, std::vector<PtxMachine::Buffer> buffers) {
    if (b_.has_bias) buffers.push_back(bytes(bias));
    AttentionKernel made = kernel(kind);
    ProgramInfo info = made.info();
    ASSERT_EQ(info.params.size(), buffers.size());
    PtxMachine(made.text("sm_90a", "8.3"), info.lanes, info.scratch_bytes).run(info.groups, buffers, made.scalars());
  }
  void expect(const Halves& have, const std::vector<double>& want, int place, int64_t rows, int64_t elements, const char* what) {
    const double allowed = c.dtype == DType::bf16 ? 2e-2 : 3e-3;
    size_t at = 0;
    for (int64_t h = 0; h < c.batch * c.heads; ++h)
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t e = 0; e < elements; ++e, ++at)
          ASSERT_NEAR(number(have[index(place, h, row, e)]), want[at], allowed * std::max(1.0, std::fabs(want[at])))
              << what << " of head " << h << " at " << row << ", " << e;
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(have[i], 0x7FFF) << "before the first element";
  }

  const Case c;
  AttentionBlocks b_;
  Halves q, k, v, grad;
  std::vector<float> bias;
  std::vector<double> want_out, want_sums, want_deltas, want_q, want_k, want_v;
  std::mt19937 random_{7};
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform;
};

void check(const Case& c) {
  SCOPED_TRACE(::testing::Message() << c.queries << " queries, " << c.keys << " keys, " << c.depth << ", " << c.width
                                    << " elements, causal " << c.causal << " bias " << c.bias[0]);
  try {
    Trial(c).check();
  } catch (const std::exception& e) {
    ADD_FAILURE() << e.what();
  }
}

TEST(PtxAttention, WholeTiles) {
  check({});
  check({1, 2, 192, 128, 64, 64, false, true, DType::f16});
}

TEST(PtxAttention, AnyShapeOfTheWork) {
  for (AttentionKernel::Shape shape : {AttentionKernel::Shape{3, 64, 3, 1}, {2, 32, 2, 1}, {1, 48, 4, 1}}) {
    Case c{1, 1, 150, 130, 64, 32, true};
    c.shape = shape;
    check(c);
  }
}

TEST(PtxAttention, AnySizes) {
  check({1, 2, 70, 133, 64, 64});
  check({2, 1, 200, 1, 64, 64, false, true});
  check({1, 1, 1, 90, 32, 32});
  check({1, 1, 130, 257, 64, 64, false, false, DType::f16});
}

TEST(PtxAttention, Causal) {
  check({1, 2, 200, 200, 64, 64, true});
  check({1, 1, 150, 60, 64, 64, true, true});
  check({1, 1, 40, 300, 64, 64, true});
}

TEST(PtxAttention, Widths) {
  check({1, 1, 70, 80, 40, 24, true});
  check({1, 1, 70, 80, 128, 128, false, true});
  check({1, 1, 66, 70, 96, 80, true});
  check({1, 1, 66, 40, 256, 256});
  check({1, 1, 40, 66, 136, 200, true, false, DType::f16});
}

TEST(PtxAttention, Biases) {
  Case c{2, 2, 70, 75, 64, 64};
  for (auto [b, h, i, j] : {std::tuple{2, 2, 70, 75}, {1, 1, 70, 75}, {2, 1, 1, 75}, {1, 2, 70, 1}, {1, 1, 1, 1}}) {
    c.bias[0] = b, c.bias[1] = h, c.bias[2] = i, c.bias[3] = j;
    c.causal = b == 2;
    check(c);
  }
  Case blind{1, 2, 30, 75, 32, 32};
  blind.bias[0] = blind.bias[1] = 1, blind.bias[2] = 30, blind.bias[3] = 75, blind.masked = 0.5;
  check(blind);
}

TEST(PtxAttention, ScalesOfAnySign) {
  for (double scale : {1.0, -0.3}) {
    Case c{1, 1, 66, 90, 32, 32, true};
    c.scale = scale, c.dtype = DType::f16;
    check(c);
  }
}

/// What a GPU would not always show.
TEST(PtxAttention, MissingInstructionsAreFound) {
  AttentionBlocks b;
  b.queries = 64, b.keys = 192, b.depth = b.width = 64;
  for (size_t i : {AttentionBlocks::Result, AttentionBlocks::Q, AttentionBlocks::K, AttentionBlocks::V}) b.places[i].row = 64;
  AttentionKernel k(Kind::Forward, b, {1, 64, 2, 1});
  std::vector<uint16_t> out(64 * 64), q(64 * 64), keys(192 * 64), values(192 * 64);
  std::vector<float> sums(64);
  auto run = [&](const std::string& text, const AttentionKernel& of) {
    auto bytes = [](auto& v) { return PtxMachine::Buffer{v.data(), v.size() * sizeof v[0]}; };
    PtxMachine machine(text, of.info().lanes, of.info().scratch_bytes);
    machine.run(1, {bytes(out), bytes(sums), bytes(q), bytes(keys), bytes(values)}, of.scalars());
  };
  const std::string text = k.text("sm_90a", "8.3");
  EXPECT_NO_THROW(run(text, k));
  for (std::string line : {"bar.sync 0;", "fence.proxy.async.shared::cta;", "wgmma.fence.sync.aligned;", "wgmma.wait_group.sync.aligned 0;",
                           "cp.async.wait_group 0;"}) {
    std::string without = text;
    for (size_t at; (at = without.find("  " + line + "\n")) != std::string::npos;) without.erase(at, line.size() + 3);
    ASSERT_NE(without, text) << line;
    EXPECT_THROW(run(without, k), std::runtime_error) << "without " << line;
  }
  b.keys = 250;  // more than there are
  EXPECT_THROW(run(text, AttentionKernel(Kind::Forward, b, {1, 64, 2, 1})), std::runtime_error) << "reads behind the keys";
}

/// Operands in one projection's memory, as transformers have them, and behind a copy where rows do not begin at 16 bytes.
TEST(PtxAttention, OperandsAreTakenFromWhereTheyLie) {
  GraphLock lock;
  GraphEval e;
  constexpr int64_t batch = 2, rows = 24, heads = 3, width = 16;
  auto parts = [&](int64_t more) {
    std::vector<Tensor> three;
    const int64_t row = 3 * heads * width + more;
    Tensor all = e.leaf(Value(DType::bf16, batch * rows * row), {batch, rows, row});
    for (int64_t i = 0; i < 3; ++i) {
      Tensor part = all.slice(2, i * heads * width + more, (i + 1) * heads * width + more);
      three.push_back(part.reshape({batch, rows, heads, width}).transpose(1, 2));
    }
    return three;
  };
  for (int64_t more : {0, 4}) {
    auto x = parts(more);
    Attention made = attention_on_cores(x[0], x[1], x[2], {{}, true}, 0.25);
    UOp* result = made.out.node();
    while (result->is(Op::VIEW)) result = result->src[0];
    const UOp* call = result->src[0];
    AttentionBlocks b = AttentionBlocks::unpack(call->arg.rec->a.data());
    EXPECT_TRUE(b.batch == batch && b.heads == heads && b.queries == rows && b.keys == rows && b.causal);
    EXPECT_TRUE(b.depth == width && b.width == width);
    const AttentionBlocks::Place &k = b.places[AttentionBlocks::K], &out = b.places[AttentionBlocks::Result];
    if (more) {
      EXPECT_TRUE(call->src[1]->is(Op::VIEW) && k.offset == 0 && k.row == width);
      continue;
    }
    EXPECT_TRUE(call->src[0]->is(Op::BUFFER) && call->src[0] == call->src[1] && call->src[1] == call->src[2]);
    EXPECT_TRUE(k.offset == heads * width && k.batch == rows * 3 * heads * width && k.head == width && k.row == 3 * heads * width);
    EXPECT_TRUE(out.offset == 0 && out.batch == rows * heads * width) << "as the queries lie";
    EXPECT_TRUE(out.head == width && out.row == heads * width);
  }
  for (int64_t wide : {width, 2 * width, int64_t{256}}) {
    Tensor q = e.leaf(Value(DType::bf16, rows * width), {1, 1, rows, width});
    Tensor v = e.leaf(Value(DType::bf16, rows * wide), {1, 1, rows, wide});
    Attention made = attention_on_cores(q, q, v, {}, 1);
    EXPECT_EQ(made.out.sizes(), v.sizes());
    AttentionGradients g = attention_gradients_on_cores(v, q, q, v, made, {}, 1);
    EXPECT_TRUE(g.q.sizes() == q.sizes() && g.k.sizes() == q.sizes() && g.v.sizes() == v.sizes());
  }
}

/// Kernels of every form, as ptxas sees them: accepted, without spills, and with products that run while the program goes on.
TEST(PtxAttention, Assembles) {
  if (std::system("command -v ptxas >/dev/null 2>&1") != 0) GTEST_SKIP() << "no ptxas on this machine";
  for (Kind kind : {Kind::Forward, Kind::Keys, Kind::Queries})
    for (int64_t elements : {40, 64, 128, 256})
      for (bool plain : {true, false}) {
        AttentionBlocks b;
        b.queries = b.keys = 1, b.depth = b.width = elements, b.causal = b.has_bias = !plain;
        b.dtype = plain ? DType::bf16 : DType::f16;
        b.wants_v = elements <= 128;
        AttentionKernel k(kind, b);
        std::filesystem::path file = std::filesystem::temp_directory_path() / (k.name() + ".ptx"), log = file.string() + ".log";
        std::ofstream(file) << k.text("sm_90a", "8.3");
        EXPECT_EQ(std::system(("ptxas -v -arch=sm_90a -o /dev/null " + file.string() + " > " + log.string() + " 2>&1").c_str()), 0);
        std::ifstream in(log);
        std::string said((std::istreambuf_iterator<char>(in)), {});
        EXPECT_NE(said.find(" 0 bytes spill stores"), std::string::npos) << k.name() << "\n" << said;
        EXPECT_EQ(said.find("serialized"), std::string::npos) << k.name() << "\n" << said;
        std::filesystem::remove(file), std::filesystem::remove(log);
      }
}

}  // namespace
}  // namespace tiny::testing
