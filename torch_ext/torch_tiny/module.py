"""The module torch.tiny."""
from torch_tiny import _C
from torch_tiny.amp import get_amp_supported_dtype, is_bf16_supported  # noqa: F401
from torch_tiny.device import (  # noqa: F401
    _DeviceGuard, _get_device_index, _utils, current_device, device, device_count, device_of, get_device_capability, get_device_name,
    get_device_properties, init, is_available, is_initialized, set_device, synchronize, _exchange_device, _maybe_exchange_device,
    _is_in_bad_fork,
    _lazy_call, _lazy_init)
from torch_tiny.explain import explain, fallback_count, fallbacks, flush, history, live_nodes, set_flush_bound, stats  # noqa: F401
from torch_tiny.memory import (  # noqa: F401
    empty_cache, max_memory_allocated, max_memory_reserved, mem_get_info, memory_allocated, memory_reserved, memory_stats, memory_summary,
    reset_accumulated_memory_stats, reset_max_memory_allocated, reset_peak_memory_stats, set_per_process_memory_fraction)
from torch_tiny.random import (  # noqa: F401
    get_rng_state, get_rng_state_all, initial_seed, manual_seed, manual_seed_all, seed, seed_all, set_rng_state, set_rng_state_all)
from torch_tiny.streams import Event, Stream, StreamContext, current_stream, default_stream, set_stream, stream  # noqa: F401

# torch.utils.checkpoint saves the device's random state only where this is true.
_initialized = True


def __getattr__(name):
    if name == "default_generators":
        return tuple(_C.default_generator(i) for i in range(device_count()))
    raise AttributeError(f"module 'torch.tiny' has no attribute '{name}'")
