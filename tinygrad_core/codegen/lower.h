// Passes between the options and the linear list. Each takes and returns a SINK.
#pragma once
#include "renderer/caps.h"
#include "uop/ir.h"

namespace tiny {

/// FOLD and PREFIX become ACC, UPDATE and AFTER (not yet END); ORDERED becomes a read, an operation and a STORE.
UOp* lower_folds(UOp* sink, const Caps& caps);

/// CHECK(value, ok) becomes `value` where `ok` holds, else 0, and STOREs of the fault into the error record: PARAM number `record`.
UOp* lower_checks(UOp* sink, int64_t record);

/// Accesses to elements from the last to the first become accesses from the first to the last, and a shuffle.
UOp* turn_forwards(UOp* sink);
/// Gathers that together read a block become vector loads and shuffles; scatters that together write one, shuffles and vector stores.
UOp* transpose_loads(UOp* sink);
UOp* transpose_stores(UOp* sink);

/// Vector indices that are consecutive become the scalar index of their first lane; a scalar index with a vector gate or value becomes a
/// vector.
UOp* lower_vector_indices(UOp* sink);

/// Vector arithmetic on indices in i32 where bounds prove that it fits: twice the lanes a register, and multiplications that exist.
UOp* narrow_indices(UOp* sink);

/// `u` with other sources: elementwise nodes simplified, lanes as the sources have them.
UOp* with_sources(UOp* u, std::span<UOp* const> src);

/// Rebuilds a graph from the sources up: f(node, new sources) gives the replacement, or nullptr to keep the node's operator.
template <class F>
UOp* rebuild(UOp* root, F f) {
  std::vector<UOp*> order = toposort({&root, 1}), made(current_arena().size()), src;
  for (UOp* u : order) {
    src.clear();
    bool changed = false;
    for (UOp* s : u->sources()) src.push_back(made[s->slot]), changed |= made[s->slot] != s;
    UOp* r = f(u, std::span<UOp* const>(src));
    made[u->slot] = r ? r : changed ? with_sources(u, src) : u;
  }
  return made[root->slot];
}

}  // namespace tiny
