"""Random numbers of torch.tiny. The generator is a counter: the same seed gives the same numbers on every device."""
import torch

from torch_tiny import _C
from torch_tiny.device import _get_device_index, device_count


def _generator(device):
    return _C.default_generator(_get_device_index(device))


def manual_seed(seed):
    """Seeds the current device."""
    _generator(None).manual_seed(int(seed))


def manual_seed_all(seed):
    for i in range(device_count()):
        _generator(i).manual_seed(int(seed))


def seed():
    """Seeds the current device from the system's entropy."""
    _generator(None).seed()


def seed_all():
    value = None
    for i in range(device_count()):
        if value is None:
            value = _generator(i).seed()
        else:
            _generator(i).manual_seed(value)


def initial_seed():
    return _generator(None).initial_seed()


def get_rng_state(device="tiny"):
    """State of a device's default generator, a CPU tensor of bytes."""
    return _generator(device).get_state()


def get_rng_state_all():
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state(new_state, device="tiny"):
    _generator(device).set_state(new_state.cpu() if isinstance(new_state, torch.Tensor) else new_state)


def set_rng_state_all(new_states):
    for i, state in enumerate(new_states):
        set_rng_state(state, i)
