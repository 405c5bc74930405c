"""Memory of torch.tiny. Values that are not computed yet hold no memory: statistics count realized buffers."""
from torch_tiny import _C
from torch_tiny.device import _get_device_index


def _stats(device):
    return _C.memory_stats(_get_device_index(device))


def memory_allocated(device=None):
    return _stats(device)["allocated"]


def max_memory_allocated(device=None):
    return _stats(device)["peak_allocated"]


def memory_reserved(device=None):
    return _stats(device)["reserved"]


def max_memory_reserved(device=None):
    return _stats(device)["peak_reserved"]


def memory_stats(device=None):
    """The names of torch.cuda.memory_stats that have a meaning here."""
    s = _stats(device)
    active = s["allocations"] - s["frees"]
    out = {
        "num_alloc_retries": s["retries"], "num_ooms": s["ooms"],
        "allocation.all.current": active, "allocation.all.allocated": s["allocations"], "allocation.all.freed": s["frees"],
        "allocated_bytes.all.current": s["allocated"], "allocated_bytes.all.peak": s["peak_allocated"],
        "allocated_bytes.all.allocated": s["total_allocated"], "allocated_bytes.all.freed": s["total_freed"],
        "reserved_bytes.all.current": s["reserved"], "reserved_bytes.all.peak": s["peak_reserved"],
        "active_bytes.all.current": s["allocated"], "active_bytes.all.peak": s["peak_allocated"],
    }
    return dict(sorted(out.items()))


def memory_summary(device=None, abbreviated=False):
    """A short table for people."""
    s = _stats(device)
    free, total = mem_get_info(device)
    rows = [("allocated", s["allocated"], s["peak_allocated"]), ("reserved", s["reserved"], s["peak_reserved"])]
    lines = [f"tiny:{_get_device_index(device)} ({_C.device_name(_get_device_index(device))}): {_size(free)} free of {_size(total)}"]
    lines += [f"  {name:<10}{_size(now):>12}   peak {_size(peak):>12}" for name, now, peak in rows]
    if not abbreviated:
        lines.append(f"  {s['allocations']} allocations, {s['frees']} freed, {s['retries']} retried, {s['ooms']} failed")
    return "\n".join(lines)


def _size(n):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024


def reset_peak_memory_stats(device=None):
    _C.reset_peak_stats(_get_device_index(device))


def reset_max_memory_allocated(device=None):
    reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device=None):
    reset_peak_memory_stats(device)


def mem_get_info(device=None):
    """Free and total bytes of the device."""
    return tuple(_C.memory_info(_get_device_index(device)))


def empty_cache():
    """Gives cached blocks of all opened devices back to the system."""
    for i in range(_C.device_count()):
        if _C.device_opened(i):
            _C.empty_cache(i)


def set_per_process_memory_fraction(fraction, device=None):
    """Allocations beyond this part of the device's memory raise torch.OutOfMemoryError; 1.0 takes the limit away."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    index = _get_device_index(device)
    _C.set_memory_limit(index, 0 if fraction == 1 else max(1, int(fraction * _C.memory_info(index)[1])))
