"""Tensors whose address is known: what the host and PyTorch's operators see through it, in the order in which the program does it."""
import ctypes
import threading

import numpy as np
import pytest
import torch

from torch_tiny import _C

D = "tiny"
on_host = pytest.mark.skipif(not _C.host_visible(0), reason="the host cannot read the device's memory")


def floats(t):
    return (ctypes.c_float * t.numel()).from_address(t.data_ptr())


def full(value):
    return torch.full((4,), float(value), device=D)


def test_host_copies_come_after_what_was_read():
    x = full(1)
    x.data_ptr()
    before, copy = x + 1, x.clone()
    x.copy_(torch.full((4,), 100.))
    assert before.tolist() == [2] * 4 and copy.tolist() == [1] * 4 and x.tolist() == [100] * 4
    before = x + 1
    x[1:3].copy_(torch.tensor([5., 6.]))
    assert before.tolist() == [101] * 4 and x.tolist() == [100, 5, 6, 100]


@on_host
def test_writes_by_address_reach_one_storage():
    x = full(1)
    values = floats(x)
    copies = [x.clone(), torch.empty(4, device=D).copy_(x), x.view(torch.int32).clone().view(torch.float32)]
    x.data_ptr()
    values[0] = 5
    assert x.tolist() == [5, 1, 1, 1]
    assert [c.tolist() for c in copies] == [[1] * 4] * 3


@on_host
def test_bits_of_a_tensor_that_is_written_in_the_same_flush():
    x = full(1)
    x.data_ptr()
    bits = x.view(torch.int32).clone()
    x.add_(1)
    assert bits.view(torch.float32).tolist() == [1] * 4 and x.tolist() == [2] * 4


@on_host
def test_the_address_is_current_each_time_it_is_asked_for():
    x, y = full(1), full(3)
    torch.tiny.synchronize()
    address = x.data_ptr()
    for write, want in ((lambda: x.add_(1), 2), (lambda: x.copy_(y), 3), (lambda: x.fill_(4), 4), (lambda: x[:].mul_(2), 8)):
        write()
        assert x.data_ptr() == address and list(floats(x)) == [want] * 4
    x.copy_(torch.empty(4, device=D))
    floats(x)[:] = [7.] * 4
    assert x.tolist() == [7] * 4 and y.tolist() == [3] * 4
    late = x + 1
    floats(x)[:] = [9.] * 4
    assert late.tolist() == [8] * 4


@on_host
def test_numpy_sees_and_writes_at_any_time():
    x = full(1)
    a = np.from_dlpack(x)
    x.add_(1)
    assert a.tolist() == [2] * 4
    y = x * 10
    a[0] = 7
    assert y.tolist() == [20] * 4 and x.tolist() == [7, 2, 2, 2]
    x[1:].zero_()
    assert a.tolist() == [7, 0, 0, 0]


def test_many_threads_ask_for_one_address():
    for _ in range(20):
        x = full(1)
        found, wrong = [], []

        def ask():
            try:
                found.append(x.data_ptr())
                wrong.extend(v for v in (x + 1).tolist() if v != 2)
            except Exception as error:  # noqa: BLE001 - shown by the assertion
                wrong.append(error)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert not wrong and len(set(found)) == 1


@pytest.mark.parametrize("write", [lambda v: v.fill_(1), lambda v: v.copy_(torch.tensor([1., 2.])), lambda v: v[1:].zero_(),
                                   lambda v: v.copy_(torch.arange(2., device=v.device))])
@pytest.mark.parametrize("settle", [False, True])
def test_storages_whose_size_is_no_multiple_of_an_element(write, settle):
    def run(device):
        bytes_ = torch.arange(10, dtype=torch.uint8, device=device)
        if settle:
            bytes_.cpu()
        view = bytes_[:8].view(torch.float32)
        write(view)
        read = view.tolist()
        bytes_.untyped_storage().resize_(14)
        return read, bytes_.tolist()

    assert run(D) == run("cpu")


def test_storages_that_became_too_small_are_refused():
    x = torch.ones(1000, device=D)
    x.untyped_storage().resize_(40)
    for use in (lambda: (x + 1).sum().item(), lambda: x.fill_(2), lambda: x.cpu()):
        with pytest.raises(RuntimeError, match="needs (1000 elements|4000 bytes) of its storage, which has (10|40)"):
            use()
    assert x[:10].tolist() == [1] * 10


def test_zero_tensors():
    zero, x = torch._efficientzerotensor((3,), device=D), torch.ones(3, device=D)
    assert x.copy_(zero).tolist() == [0] * 3 and zero.clone().tolist() == [0] * 3
    with pytest.raises(RuntimeError, match="ZeroTensors are immutable"):
        zero.copy_(x)

