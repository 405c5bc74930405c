"""What the device did and why: flushes, cache misses, operators that ran on the CPU."""
import types

from torch_tiny import _C
from torch_tiny.device import _get_device_index


def fallback_counts():
    """Runs on the CPU so far, by operator name ("aten::nonzero")."""
    return dict(_C.fallback_counts())


fallbacks = fallback_counts


def fallback_count():
    """Runs of operators on the CPU so far."""
    return _C.fallback_count()


def live_nodes():
    """Nodes of lazy graphs alive in this process."""
    return _C.live_nodes()


def stats(device=None):
    """Totals: flushes, hits, misses, kernels_run, kernels_compiled, nodes_scheduled."""
    return _C.engine_stats(_get_device_index(device))


def history(device=None):
    """The last flushes, oldest first. Each has: cause, where, hit, miss_reason, nodes, kernels, compiled, bytes, flops, schedule_ms,
    compile_ms, submit_ms, kernel_names; arena_bytes of memory for its temporaries, of which arena_bound are alive at once."""
    return [types.SimpleNamespace(**record) for record in _C.history(_get_device_index(device))]


def flush(cause="flush"):
    """Submits everything that is pending, without waiting. Never needed for correctness."""
    _C.flush(cause)


def set_flush_bound(nodes, device=None):
    """Pending nodes that force a flush; 0: no bound."""
    _C.set_node_bound(_get_device_index(device), nodes)


def explain(last=20, device=None, kernels=False):
    """A table of the last flushes: what caused each, the user's line, whether its program was cached and if not what differs, its kernels,
    bytes and milliseconds; then the operators that ran on the CPU. Returns the text; print it."""
    records = history(device)[-last:]
    lines = [f"{'#':>4} {'cause':<14} {'nodes':>6} {'kernels':>7} {'new':>4} {'MB':>9} {'ms':>9}  {'cache':<5} where"]
    first = stats(device)["flushes"] - len(records)
    for i, r in enumerate(records, 1):
        ms = r.schedule_ms + r.compile_ms + r.submit_ms
        cache = "hit" if r.hit else "miss"
        lines.append(f"{first + i:>4} {r.cause:<14} {r.nodes:>6} {r.kernels:>7} {r.compiled:>4} {r.bytes / 1e6:>9.2f} "
                     f"{ms:>9.2f}  {cache:<5} {r.where}")
        if not r.hit:
            lines.append(f"       missed: {r.miss_reason}")
        if kernels:
            lines += [f"       {name}" for name in r.kernel_names]
    counts = fallback_counts()
    if counts:
        lines.append("on the CPU:")
        lines += [f"  {n:>6} x {name}" for name, n in sorted(counts.items(), key=lambda item: -item[1])]
    else:
        lines.append("no operator ran on the CPU")
    return "\n".join(lines)
