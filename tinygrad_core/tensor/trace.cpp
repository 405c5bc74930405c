#include "tensor/trace.h"

#include <algorithm>
#include <unordered_dense/unordered_dense.h>

#include "base/error.h"
#include "base/hash.h"

namespace tiny {

Trace::Trace(std::span<const Ref> inputs, std::span<const Ref> numbers, std::span<const Ref> results) : inputs_(inputs.size()) {
  ankerl::unordered_dense::map<const UOp*, uint32_t> value;   // input: its number; others: found below
  ankerl::unordered_dense::map<const UOp*, int32_t> number;
  for (const Ref& r : inputs) value.emplace(r.get(), static_cast<uint32_t>(value.size()));
  TINY_ASSERT(value.size() == inputs.size(), "every input has a node of its own");
  for (const Ref& r : numbers) number.emplace(r.get(), static_cast<int32_t>(number.size()));

  std::vector<UOp*> order;  // sources first
  struct Frame {
    UOp* u;
    uint32_t next;
  };
  std::vector<Frame> stack;
  const uint32_t epoch = new_epoch();
  for (const Ref& r : inputs) r->mark = epoch;
  auto push = [&](UOp* u) {
    if (u->mark == epoch) return;
    u->mark = epoch;
    stack.push_back({u, 0});
  };
  for (const Ref& r : results) {
    push(r.get());
    while (!stack.empty()) {
      Frame& f = stack.back();
      if (f.next < f.u->nsrc) {
        push(f.u->src[f.next++]);
        continue;
      }
      order.push_back(f.u);
      stack.pop_back();
    }
  }
  for (UOp* u : order)
    if (u->is(Op::BUFFER)) {
      value.emplace(u, static_cast<uint32_t>(inputs_ + kept_.size()));
      kept_.push_back(Ref::share(u));
    }
  const auto steps_from = static_cast<uint32_t>(inputs_ + kept_.size());
  ankerl::unordered_dense::map<uint64_t, uint32_t> equal;  // by hash: a step; what is computed twice is computed once
  for (UOp* u : order) {
    if (u->is(Op::BUFFER)) continue;
    auto n = number.find(u);
    Step s{u->op, u->dtype, n == number.end() ? -1 : n->second, static_cast<uint32_t>(sources_.size()), u->nsrc, u->numel, u->arg};
    for (UOp* source : u->sources()) sources_.push_back(value.at(source));
    auto [found, is_new] = equal.try_emplace(hash_of(s), static_cast<uint32_t>(steps_.size()));
    if (!is_new && !s.is_memory() && same(s, steps_[found->second])) {
      sources_.resize(s.first);
      value.emplace(u, steps_from + found->second);
      continue;
    }
    value.emplace(u, static_cast<uint32_t>(steps_from + steps_.size()));
    steps_.push_back(s);
  }
  for (const Ref& r : results) results_.push_back(value.at(r.get()));
}

uint64_t Trace::hash_of(const Step& s) const {
  uint64_t h = mix(static_cast<uint64_t>(s.op) | static_cast<uint64_t>(s.dtype) << 8, s.arg.bits);
  h = mix(h, static_cast<uint64_t>(s.numel) << 20 ^ static_cast<uint32_t>(s.number));
  for (uint32_t k = 0; k < s.count; ++k) h = mix(h, sources_[s.first + k]);
  return h;
}

bool Trace::same(const Step& a, const Step& b) const {
  const auto sources = sources_.begin();
  return a.op == b.op && a.dtype == b.dtype && a.number == b.number && a.numel == b.numel && a.arg.bits == b.arg.bits &&
         a.count == b.count && std::equal(sources + a.first, sources + a.first + a.count, sources + b.first);
}

std::vector<Ref> Trace::replay(std::span<UOp* const> inputs, std::span<const uint64_t> numbers) const {
  TINY_ASSERT(inputs.size() == inputs_, "one value for each input");
  std::vector<UOp*> value(inputs.begin(), inputs.end());
  value.reserve(inputs.size() + kept_.size() + steps_.size());
  for (const Ref& r : kept_) value.push_back(r.get());
  const size_t made_from = value.size();
  SmallVec<UOp*, 8> src;
  for (const Step& s : steps_) {
    src.clear();
    for (uint32_t k = 0; k < s.count; ++k) src.push_back(value[sources_[s.first + k]]);
    const Arg arg = s.number < 0 ? s.arg : Arg(static_cast<int64_t>(numbers[static_cast<size_t>(s.number)]));
    value.push_back(make_node(s.op, s.dtype, s.numel, arg, {src.data(), src.size()}).release());
  }
  std::vector<Ref> results;
  for (uint32_t r : results_) results.push_back(Ref::share(value[r]));
  for (size_t k = made_from; k < value.size(); ++k) Ref::adopt(value[k]);  // from now on only their readers own them
  return results;
}

}  // namespace tiny
