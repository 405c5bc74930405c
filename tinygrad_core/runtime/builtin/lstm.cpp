// A layer of an LSTM in one direction: its loop over time. Rows of the batch do not depend on each other, so parts of them go to the
// threads for all steps at once; where a step is much work, its units do, step by step, and each thread reads a part of the weights.
#include "runtime/builtin/lstm.h"

#include <algorithm>

#include "runtime/builtin/builtin.h"
#include "runtime/builtin/matrix.h"
#include "runtime/builtin/packing.h"

namespace tiny {
namespace {

constexpr int64_t kKeepBytes = int64_t{16} << 20;
constexpr int64_t kPartOps = 500'000;     // multiplications that are worth a thread
constexpr int64_t kLeastRows = 4;         // of a part: fewer do not pay for reading the weights
constexpr int64_t kPanelGroups = 4;       // the most; parts of a backward step begin where a panel does

/// The integers of both builtins.
struct Shape {
  int64_t steps, rows, width;
  bool reverse, has_out, has_h, has_c;

  Shape(const int64_t* i, bool backward)
      : steps(i[0]), rows(i[1]), width(i[2]), reverse(i[4] != 0), has_out(backward && i[5] != 0), has_h(backward && i[6] != 0),
        has_c(backward && i[7] != 0) {}
  int64_t states() const { return rows * width; }
  int64_t ops() const { return 4 * width * width * rows; }  // of a step
  /// Where in time the k-th step lies.
  int64_t at(int64_t k) const { return reverse ? steps - 1 - k : k; }
};

/// Calls step(k, part) for k = 0 .. steps-1, all parts of one before the next where they depend on each other.
template <class F>
void over_time(Device& device, const Shape& s, int64_t steps, int64_t groups, F step) {
  if (s.ops() >= 4 * kPartOps && groups > kPanelGroups) {
    const int64_t parts = (groups + kPanelGroups - 1) / kPanelGroups;
    for (int64_t k = 0; k < steps; ++k)
      in_parallel(device, parts, [&](int64_t p) {
        step(k, LstmPart{0, s.rows, p * kPanelGroups, std::min(groups, (p + 1) * kPanelGroups)});
      });
    return;
  }
  const int64_t parts = std::clamp<int64_t>(s.ops() * steps / kPartOps, 1, std::max<int64_t>(1, s.rows / kLeastRows));
  in_parallel(device, parts, [&](int64_t p) {
    for (int64_t k = 0; k < steps; ++k) step(k, LstmPart{s.rows * p / parts, s.rows * (p + 1) / parts, 0, groups});
  });
}

template <class T>
void forward(const LstmKernels<T>& kernels, const Shape& s, T* out, T* kept, const T* inputs, const T* weights, const T* h, const T* c,
             Device& device) {
  const int64_t lanes = kernels.lanes, groups = (s.width + lanes - 1) / lanes, panel = s.width * 4 * lanes;
  Memory large;
  T* packed = scratch<T>(groups * panel, kKeepBytes, large);
  in_parallel(device, s.ops() / s.rows < kPartOps ? 1 : groups, [&](int64_t part) {
    const bool all = s.ops() / s.rows < kPartOps;
    for (int64_t group = all ? 0 : part; group < (all ? groups : part + 1); ++group)
      for (int64_t gate = 0; gate < 4; ++gate)
        for (int64_t lane = 0; lane < lanes; ++lane) {
          const int64_t unit = group * lanes + lane;
          T* to = packed + group * panel + gate * lanes + lane;
          const T* from = weights + (gate * s.width + unit) * s.width;
          for (int64_t p = 0; p < s.width; ++p) to[p * 4 * lanes] = unit < s.width ? from[p] : T(0);
        }
  });
  T *gates = kept, *cells = kept + s.steps * 4 * s.states();
  over_time(device, s, s.steps, groups, [&](int64_t k, LstmPart part) {
    const int64_t t = s.at(k), before = k ? s.at(k - 1) : 0;
    LstmStep<T> step{};
    step.width = s.width, step.weights = packed, step.inputs = inputs + t * 4 * s.states();
    step.h_before = k ? out + before * s.states() : h, step.c_before = k ? cells + before * s.states() : c;
    step.gates = gates + t * 4 * s.states(), step.h = out + t * s.states(), step.c = cells + t * s.states();
    kernels.forward(step, part);
  });
}

template <class T>
struct Gradients {
  T *inputs, *h, *c;
  const T *weights, *first_c, *kept, *out, *last_h, *last_c;
};

template <class T>
void backward(const LstmKernels<T>& kernels, const Shape& s, const Gradients<T>& g, Device& device) {
  const int64_t lanes = kernels.lanes, groups = (s.width + lanes - 1) / lanes, of_group = 4 * s.width * lanes;
  Memory large;
  T* packed = scratch<T>(groups * of_group, kKeepBytes, large);
  for (int64_t group = 0; group < groups; group += kernels.panel(groups - group)) {
    const int64_t wide = kernels.panel(groups - group) * lanes, unit = group * lanes, here = std::min(wide, s.width - unit);
    T* to = packed + group * of_group;
    for (int64_t gate = 0; gate < 4 * s.width; ++gate, to += wide) {
      std::copy_n(g.weights + gate * s.width + unit, here, to);
      std::fill(to + here, to + wide, T(0));
    }
  }
  if (g.last_c) std::copy_n(g.last_c, s.states(), g.c);
  else std::fill_n(g.c, s.states(), T(0));
  const T *gates = g.kept, *cells = g.kept + s.steps * 4 * s.states();
  over_time(device, s, s.steps + 1, groups, [&](int64_t back, LstmPart part) {
    const int64_t k = s.steps - 1 - back, t = s.at(k);
    LstmBackStep<T> step{};
    step.width = s.width, step.weights = packed;
    step.grads_after = back ? g.inputs + s.at(k + 1) * 4 * s.states() : nullptr;
    step.grad_h = back ? nullptr : g.last_h;
    if (k >= 0) {
      step.grad_out = g.out ? g.out + t * s.states() : nullptr;
      step.gates = gates + t * 4 * s.states(), step.c = cells + t * s.states();
      step.c_before = k ? cells + s.at(k - 1) * s.states() : g.first_c;
      step.grad_c = g.c, step.grads = g.inputs + t * 4 * s.states();
    } else {
      step.grad_h_before = g.h;
    }
    kernels.backward(step, part);
  });
}

template <class T>
void run(const LstmKernels<T>& kernels, void* const* buffers, const int64_t* ints, Device& device) {
  auto at = [&](int i) { return static_cast<T*>(buffers[i]); };
  forward<T>(kernels, Shape(ints, false), at(0), at(1), at(2), at(3), at(4), at(5), device);
}

template <class T>
void run_backward(const LstmKernels<T>& kernels, void* const* buffers, const int64_t* ints, Device& device) {
  const Shape s(ints, true);
  int next = 6;
  auto at = [&](int i) { return static_cast<T*>(buffers[i]); };
  auto given = [&](bool is) { return is ? at(next++) : nullptr; };
  const T *out = given(s.has_out), *h = given(s.has_h), *c = given(s.has_c);
  backward<T>(kernels, s, {at(0), at(1), at(2), at(3), at(4), at(5), out, h, c}, device);
}

}  // namespace

void lstm(const LstmKernels<float>& k, void* const* buffers, const int64_t* ints, Device& device) { run(k, buffers, ints, device); }
void lstm(const LstmKernels<double>& k, void* const* buffers, const int64_t* ints, Device& device) { run(k, buffers, ints, device); }
void lstm_backward(const LstmKernels<float>& k, void* const* buffers, const int64_t* ints, Device& device) {
  run_backward(k, buffers, ints, device);
}
void lstm_backward(const LstmKernels<double>& k, void* const* buffers, const int64_t* ints, Device& device) {
  run_backward(k, buffers, ints, device);
}

void builtin_lstm(void* const* buffers, const uint64_t*, const int64_t* ints, Device& device) {
  with_real_element(ints[3], [&](auto type) { lstm(lstm_kernels<decltype(type)>(), buffers, ints, device); });
}

void builtin_lstm_backward(void* const* buffers, const uint64_t*, const int64_t* ints, Device& device) {
  with_real_element(ints[3], [&](auto type) { lstm_backward(lstm_kernels<decltype(type)>(), buffers, ints, device); });
}

}  // namespace tiny
