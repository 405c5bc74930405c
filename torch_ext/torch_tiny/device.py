"""Devices of torch.tiny: counting, choosing, waiting. Only using a device opens it."""
import types

import torch

from torch_tiny import _C


def device_count():
    """Number of tiny devices, as TINY_DEVICE says. Opens none."""
    return _C.device_count()


def is_available():
    return device_count() > 0


def init():
    """Nothing to do: a device is opened by its first use."""


def is_initialized():
    return True


def _lazy_init():
    pass


def _lazy_call(f, **kwargs):
    f()


def _is_in_bad_fork():
    """Devices of a forked child are fresh ones."""
    return False


def _get_device_index(device=None, optional=False, allow_cpu=False):
    """Index of a device given as None (the current one), an int, a string or a torch.device."""
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type == "cpu" and allow_cpu:
            return -1
        if device.type != "tiny":
            raise ValueError(f"Expected a tiny device, but got: {device}")
        device = device.index
    if device is None:
        return _C.current_device()
    if isinstance(device, int):
        return device
    raise ValueError(f"Expected a torch.device with a specified index or an integer, but got: {device}")


_utils = types.SimpleNamespace(_get_device_index=_get_device_index)


def current_device():
    return _C.current_device()


def set_device(device):
    index = _get_device_index(device)
    if index >= 0:
        _C.set_device(index)


def _exchange_device(index):
    return _C.exchange_device(index)


def _maybe_exchange_device(index):
    return _C.exchange_device(index)


class device:  # noqa: N801 - the name that torch.cuda.device has
    """Context manager: makes a device the current one."""

    def __init__(self, device):
        self.idx = _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self):
        self.prev_idx = _C.exchange_device(self.idx)
        return self

    def __exit__(self, kind, value, traceback):
        self.idx = _C.exchange_device(self.prev_idx)
        return False


_DeviceGuard = device


class device_of(device):  # noqa: N801
    """Context manager: makes the device of a tensor the current one; does nothing for tensors elsewhere."""

    def __init__(self, obj):
        super().__init__(obj.device.index if obj.device.type == "tiny" else None)


def synchronize(device=None):
    """Submits what is pending, waits until it is done, and raises errors found while running."""
    _C.synchronize(_get_device_index(device))


def get_device_name(device=None):
    """What the device is: "CPU", ... Opens it."""
    return _C.device_name(_get_device_index(device))


def get_device_capability(device=None):
    return torch.accelerator.get_device_capability(torch.device("tiny", _get_device_index(device)))


def get_device_properties(device=None):
    """name, index, total_memory (bytes)."""
    index = _get_device_index(device)
    return types.SimpleNamespace(name=_C.device_name(index), index=index, type="tiny", total_memory=_C.memory_info(index)[1])
