#include "engine/plan.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "runtime/builtin/builtin.h"

namespace tiny {
namespace {

constexpr int64_t kAlign = 64;
constexpr int64_t kSmallResult = 16384;  // bytes

/// Buffers that an item writes (first) and reads, as item.kind and the kernels' parameters say.
struct Uses {
  std::vector<int> writes, reads;
};

Uses uses_of(const ScheduledItem& item, const Executable* kernel) {
  Uses u;
  if (item.kind != ScheduledItem::Kernel) {
    u.writes.assign(item.buffers.begin(), item.buffers.begin() + item.results);
    u.reads.assign(item.buffers.begin() + item.results, item.buffers.end());
    return u;
  }
  for (size_t i = 0; i < item.buffers.size(); ++i) {
    const ParamInfo& p = kernel->info.params[i];
    if (p.written) u.writes.push_back(item.buffers[i]);
    if (p.read || !p.written) u.reads.push_back(item.buffers[i]);
  }
  return u;
}

/// Whether a kernel may run before others that stand in front of it: what it makes takes little room, and no fault is to be found in order.
bool may_hurry(const ScheduledItem& item, const Uses& uses, const Schedule& s) {
  int64_t bytes = 0;
  for (int b : uses.writes) bytes += s.buffers[b].kind == ScheduledBuffer::Error ? kSmallResult + 1 : s.buffers[b].nbytes;
  return item.kind == ScheduledItem::Kernel && bytes <= kSmallResult;
}

/// Numbers of the batches, whose items do not depend on each other: an item joins the last batch if it touches nothing that this writes
/// and writes nothing that it reads, else it begins a new one. Those that may hurry join the earliest batch that they can, so that short
/// kernels run side by side.
std::vector<int> find_batches(const std::vector<Uses>& uses, const Schedule& s) {
  std::vector<int> batch(uses.size()), written(s.buffers.size(), -1), read(s.buffers.size(), -1);
  int now = 0;
  for (size_t i = 0; i < uses.size(); ++i) {
    int earliest = 0;
    for (int b : uses[i].reads) earliest = std::max(earliest, written[b] + 1);
    for (int b : uses[i].writes)
      if (s.buffers[b].kind != ScheduledBuffer::Error) earliest = std::max({earliest, written[b] + 1, read[b] + 1});
    batch[i] = may_hurry(s.items[i], uses[i], s) ? earliest : std::max(earliest, now);
    now = std::max(now, batch[i]);
    for (int b : uses[i].reads) read[b] = std::max(read[b], batch[i]);
    for (int b : uses[i].writes) written[b] = std::max(written[b], batch[i]);
  }
  return batch;
}

struct Lifetime {
  int buffer, first, last;
  int64_t bytes, offset;
};

/// Offsets in one arena: largest first, each at the lowest place that is free while it lives.
int64_t place_temps(std::vector<Lifetime>& temps) {
  std::stable_sort(temps.begin(), temps.end(), [](const Lifetime& a, const Lifetime& b) { return a.bytes > b.bytes; });
  int64_t end = 0;
  std::vector<const Lifetime*> placed;  // by offset
  for (Lifetime& t : temps) {
    int64_t at = 0, best = -1, best_room = INT64_MAX;
    for (const Lifetime* p : placed) {
      if (p->last < t.first || p->first > t.last) continue;
      if (p->offset - at >= t.bytes && p->offset - at < best_room) best = at, best_room = p->offset - at;
      at = std::max(at, p->offset + p->bytes);
    }
    t.offset = best >= 0 ? best : at;
    end = std::max(end, t.offset + t.bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), &t, [](const Lifetime* a, const Lifetime* b) { return a->offset < b->offset; }), &t);
  }
  return end;
}

int64_t live_bound(const std::vector<Lifetime>& temps, int batches) {
  std::vector<int64_t> change(static_cast<size_t>(batches) + 2, 0);
  for (const Lifetime& t : temps) change[t.first] += t.bytes, change[t.last + 1] -= t.bytes;
  int64_t now = 0, most = 0;
  for (int64_t c : change) most = std::max(most, now += c);
  return most;
}

}  // namespace

std::shared_ptr<Plan> make_plan(const Schedule& s, const std::vector<CompiledKernel>& kernels,
                                const std::vector<CompiledKernel>& builtins) {
  auto plan = std::make_shared<Plan>();
  plan->outputs = s.outputs;
  plan->checked = s.checked;
  plan->places.resize(s.buffers.size());

  std::vector<Uses> uses;
  std::vector<const CompiledKernel*> code;  // by item
  size_t k = 0, builtin = 0;
  for (const ScheduledItem& item : s.items) {
    const bool is_kernel = item.kind == ScheduledItem::Kernel;
    code.push_back(is_kernel ? &kernels[k++] : item.kind == ScheduledItem::Builtin ? &builtins[builtin++] : nullptr);
    uses.push_back(uses_of(item, is_kernel ? code.back()->executable.get() : nullptr));
  }
  std::vector<int> batch = find_batches(uses, s);
  std::vector<size_t> order(s.items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return batch[a] < batch[b]; });

  std::vector<int> first(s.buffers.size(), -1), last(s.buffers.size(), -1);
  for (size_t i = 0; i < uses.size(); ++i)
    for (const auto* list : {&uses[i].writes, &uses[i].reads})
      for (int b : *list) {
        if (first[b] < 0 || batch[i] < first[b]) first[b] = batch[i];
        last[b] = std::max(last[b], batch[i]);
      }
  std::vector<bool> needed(s.buffers.size(), false);
  for (int b : s.outputs) needed[b] = true;
  std::vector<Lifetime> temps;
  for (size_t b = 0; b < s.buffers.size(); ++b) {
    const ScheduledBuffer& buffer = s.buffers[b];
    Plan::Place& p = plan->places[b];
    switch (buffer.kind) {
      case ScheduledBuffer::Leaf: p = {Plan::Home::Leaf, buffer.number}; break;
      case ScheduledBuffer::Error: p = {Plan::Home::Error, 0}; plan->has_check = true; break;
      default:
        if (needed[b]) {
          p = {Plan::Home::Output, static_cast<int64_t>(plan->output_bytes.size())};
          plan->output_bytes.push_back(buffer.nbytes);
        } else if (first[b] >= 0) {
          temps.push_back({static_cast<int>(b), first[b], last[b], (buffer.nbytes + kAlign - 1) / kAlign * kAlign, 0});
        }
    }
  }
  plan->arena_bound = live_bound(temps, order.empty() ? 0 : batch[order.back()] + 1);
  plan->arena_bytes = place_temps(temps);
  for (const Lifetime& t : temps) plan->places[t.buffer] = {Plan::Home::Arena, t.offset};

  std::vector<std::string> names;
  auto launch = [&](Launch& l, const CompiledKernel& kernel) {
    for (uint64_t number : kernel.numbers) {
      plan->scalar_args.push_back(~static_cast<int>(plan->constants.size()));
      plan->constants.push_back(number);
    }
    l.kernel = kernel.executable.get();
    plan->flops += l.kernel->info.flops, plan->bytes += l.kernel->info.bytes;
  };
  plan->ints.reserve(s.items.size());
  for (size_t i : order) {
    const ScheduledItem& item = s.items[i];
    Launch l;
    l.batch = batch[i];
    l.first_buffer = static_cast<int>(plan->buffer_args.size());
    l.first_scalar = static_cast<int>(plan->scalar_args.size());
    plan->buffer_args.insert(plan->buffer_args.end(), item.buffers.begin(), item.buffers.end());
    plan->scalar_args.insert(plan->scalar_args.end(), item.scalars.begin(), item.scalars.end());
    plan->ints.push_back(item.ints);
    plan->nbytes.push_back(item.nbytes);
    l.ints = plan->ints.back().data();
    switch (item.kind) {
      case ScheduledItem::Kernel: launch(l, *code[i]); break;
      case ScheduledItem::Copy: l.bytes = static_cast<size_t>(item.ints[0]); plan->bytes += 2.0 * static_cast<double>(item.ints[0]); break;
      case ScheduledItem::Builtin:
        if (code[i]->executable) {
          launch(l, *code[i]);
          break;
        }
        l.builtin = builtin_function(item.builtin);
        l.nbytes = plan->nbytes.back();
        l.results = item.results;
        break;
    }
    names.push_back(item.name);
    plan->launches.push_back(l);
  }
  plan->names = std::make_shared<const std::vector<std::string>>(std::move(names));
  plan->kernel_count = static_cast<int>(s.items.size());
  for (const auto* list : {&kernels, &builtins})
    for (const CompiledKernel& c : *list)
      if (c.executable) plan->kernels.push_back(c.executable);
  return plan;
}

}  // namespace tiny
