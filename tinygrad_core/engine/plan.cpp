#include "engine/plan.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/builtin/builtin.h"

namespace tiny {
namespace {

constexpr int64_t kAlign = 64;

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

/// Numbers of the batches: an item joins the batch before it if it touches nothing that the batch writes, and writes nothing that it reads.
std::vector<int> find_batches(const std::vector<Uses>& uses, const Schedule& s) {
  std::vector<int> batch(uses.size()), written(s.buffers.size(), -1), read(s.buffers.size(), -1);
  int now = 0;
  for (size_t i = 0; i < uses.size(); ++i) {
    bool free = true;
    for (int b : uses[i].reads) free = free && written[b] != now;
    for (int b : uses[i].writes) free = free && (s.buffers[b].kind == ScheduledBuffer::Error || (written[b] != now && read[b] != now));
    if (!free) ++now;
    batch[i] = now;
    for (int b : uses[i].reads) read[b] = now;
    for (int b : uses[i].writes) written[b] = now;
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
  size_t k = 0;
  for (const ScheduledItem& item : s.items)
    uses.push_back(uses_of(item, item.kind == ScheduledItem::Kernel ? kernels[k++].executable.get() : nullptr));
  std::vector<int> batch = find_batches(uses, s);

  std::vector<int> first(s.buffers.size(), -1), last(s.buffers.size(), -1);
  for (size_t i = 0; i < uses.size(); ++i)
    for (const auto* list : {&uses[i].writes, &uses[i].reads})
      for (int b : *list) {
        if (first[b] < 0) first[b] = batch[i];
        last[b] = batch[i];
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
  plan->arena_bound = live_bound(temps, batch.empty() ? 0 : batch.back() + 1);
  plan->arena_bytes = place_temps(temps);
  for (const Lifetime& t : temps) plan->places[t.buffer] = {Plan::Home::Arena, t.offset};

  std::vector<std::string> names;
  k = 0;
  size_t builtin = 0;
  auto launch = [&](Launch& l, const CompiledKernel& kernel) {
    for (uint64_t number : kernel.numbers) {
      plan->scalar_args.push_back(~static_cast<int>(plan->constants.size()));
      plan->constants.push_back(number);
    }
    l.kernel = kernel.executable.get();
    plan->flops += l.kernel->info.flops, plan->bytes += l.kernel->info.bytes;
  };
  plan->ints.reserve(s.items.size());
  for (size_t i = 0; i < s.items.size(); ++i) {
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
      case ScheduledItem::Kernel: launch(l, kernels[k++]); break;
      case ScheduledItem::Copy: l.bytes = static_cast<size_t>(item.ints[0]); plan->bytes += 2.0 * static_cast<double>(item.ints[0]); break;
      case ScheduledItem::Builtin:
        if (const CompiledKernel& kernel = builtins[builtin++]; kernel.executable) {
          launch(l, kernel);
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
