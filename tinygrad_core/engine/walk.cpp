#include "engine/walk.h"

namespace tiny {

/// Adds u's structure to the key: everything but the values of SCALARs and the addresses of buffers.
void Walk::finish(UOp* u) {
  u->slot = static_cast<uint32_t>(nodes.size());
  nodes.push_back(u);
  uint64_t arg = u->arg.bits;
  switch (u->op) {
    case Op::BUFFER: {
      Buffer* b = u->arg.buf;
      uint64_t tag = static_cast<uint64_t>(epoch_) << 32;
      if ((b->walk & ~0xffffffffull) != tag) {
        b->walk = tag | leaves.size();
        leaves.push_back({b});
      }
      uint32_t number = static_cast<uint32_t>(b->walk);
      Leaf& leaf = leaves[number];
      leaf.owners += u->refs;
      ++leaf.nodes;
      arg = mix(number, b->nbytes);
      break;
    }
    case Op::SCALAR:
      scalars.push_back(arg);
      arg = 0;
      break;
    default:
      if (info(u->op).arg == ArgKind::Rec) arg = u->arg.rec->hash;
  }
  uint64_t h = mix(static_cast<uint64_t>(u->op) | static_cast<uint64_t>(u->dtype) << 8 | static_cast<uint64_t>(u->nsrc) << 16, arg);
  h = mix(h, static_cast<uint64_t>(u->numel));
  for (UOp* s : u->sources()) h = mix(h, s->slot);
  key.lo = mix(key.lo, h);
  key.hi = (key.hi << 29 | key.hi >> 35) + h * 0x9FB21C651E98DF25ull;
}

void Walk::run(std::span<UOp* const> root_nodes) {
  nodes.clear(), leaves.clear(), scalars.clear(), roots.clear(), donated.clear(), stack_.clear();
  key = {};
  epoch_ = new_epoch();
  for (UOp* root : root_nodes) {
    if (root->mark != epoch_) {
      root->mark = epoch_;
      stack_.push_back({root, 0});
      while (!stack_.empty()) {
        Frame& f = stack_.back();
        if (f.next == f.u->nsrc) {
          UOp* done = f.u;
          stack_.pop_back();
          finish(done);
          continue;
        }
        UOp* s = f.u->src[f.next++];
        if (s->mark != epoch_) {
          s->mark = epoch_;
          if (s->nsrc == 0) finish(s);
          else stack_.push_back({s, 0});
        }
        if (s->op == Op::BUFFER) ++leaves[static_cast<uint32_t>(s->arg.buf->walk)].uses;
      }
    }
    roots.push_back(static_cast<int>(root->slot));
    key.lo = mix(key.lo, root->slot ^ 0x5bd1e995u);
  }
  for (const Leaf& l : leaves) {
    bool mine = l.owners == l.uses && l.buffer->refs.load(std::memory_order_relaxed) == l.nodes;
    donated.push_back(mine);
    key.lo = mix(key.lo, mine);
  }
}

}  // namespace tiny
