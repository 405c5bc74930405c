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


try:
    _import_torch()
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
    if _error is not None:
        warnings.warn(f"torch_tiny could not be loaded, the device 'tiny' is missing: {_error}", stacklevel=2)
