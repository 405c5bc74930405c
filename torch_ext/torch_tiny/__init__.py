"""torch_tiny: the device "tiny" for PyTorch. Importing torch is enough: torch finds this package by its entry point.

Importing never opens a device and never fails `import torch`: if something is wrong, torch warns and goes on without the device.
"""
import os
import sys
import warnings

_error = None
# True while torch looks for backends at the end of its own import; an error must not break that.
_torch_is_loading = getattr(getattr(sys.modules.get("torch"), "__spec__", None), "_initializing", False)


def _import_torch():
    """Torch without its search for backends: that would come back here half-way."""
    before = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD")
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    try:
        import torch  # noqa: F401
    finally:
        if before is None:
            del os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]
        else:
            os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = before


def _would_take_torchs_gpu():
    """PyTorch knows one accelerator a process. Registered, tiny is it, and autograd on CUDA or ROCm tensors then fails with an internal
    assert; so a torch that has a GPU of its own gets tiny only from who asks: `import torch_tiny`, or TINY_DEVICE in the environment."""
    import torch

    own = (torch.version.cuda and os.path.exists("/dev/nvidiactl")) or (torch.version.hip and os.path.exists("/dev/kfd"))
    return bool(own) and "TINY_DEVICE" not in os.environ


_left_out = False
try:
    _import_torch()
    _left_out = _torch_is_loading and _would_take_torchs_gpu()
    if not _left_out:
        from torch_tiny import setup as _setup

        _setup.register()
        from torch_tiny.explain import explain, fallback_count, fallback_counts, fallbacks, history, live_nodes, stats  # noqa: F401
except Exception as error:  # noqa: BLE001 - whatever it is, `import torch` must go on
    if not _torch_is_loading:
        raise
    _error = error


def __getattr__(name):
    if _error is not None and not name.startswith("__"):
        raise ImportError(f"torch_tiny could not be loaded: {_error}") from _error
    raise AttributeError(f"module 'torch_tiny' has no attribute '{name}'")


def _autoload():
    """Entry point of the group torch.backends."""
    if _left_out:
        sys.modules.pop("torch_tiny", None)  # so that a later import starts from the beginning
    if _error is not None:
        warnings.warn(f"torch_tiny could not be loaded, the device 'tiny' is missing: {_error}", stacklevel=2)
