"""Streams and events of torch.tiny. A device has one in-order queue: every stream is a name for it, and events are marks in it."""
import torch

from torch_tiny.device import _get_device_index


def _device(device):
    return torch.device("tiny", _get_device_index(device))


class Stream(torch.Stream):
    """A stream of a tiny device."""

    def __new__(cls, device=None, priority=0, **kwargs):
        if kwargs:
            return super().__new__(cls, **kwargs)
        return super().__new__(cls, device=_device(device), priority=priority)


class _IsTinyEvent(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, torch.Event) and instance.device.type == "tiny"


class Event(metaclass=_IsTinyEvent):
    """A mark in a device's queue; knows when the queue passed it. Makes a plain torch.Event, whose methods take no subclass."""

    def __new__(cls, enable_timing=False, blocking=False, interprocess=False):
        return torch.Event(device="tiny", enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)


def current_stream(device=None):
    return torch.accelerator.current_stream(_device(device))


def default_stream(device=None):
    return torch.Stream(stream_id=0, device_index=_get_device_index(device), device_type=torch._C._autograd.DeviceType.PrivateUse1.value)


def set_stream(stream):
    if stream is not None:
        torch.accelerator.set_stream(stream)


class StreamContext:
    """Context manager: makes a stream the current one of its device."""

    def __init__(self, stream):
        self.stream, self.previous = stream, None

    def __enter__(self):
        if self.stream is not None:
            self.previous = torch.accelerator.current_stream(self.stream.device)
            torch.accelerator.set_stream(self.stream)
        return self.stream

    def __exit__(self, kind, value, traceback):
        if self.previous is not None:
            torch.accelerator.set_stream(self.previous)


def stream(stream):
    return StreamContext(stream)
