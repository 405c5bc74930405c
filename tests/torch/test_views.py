"""Storages and views: sharing, strides, writes through views, set_, resize_, addresses."""
import copy

import pytest
import torch
import torch.nn.functional as F

import torch_tiny

D = "tiny"


def both(program):
    """Runs program(device) on CPU and on the device; what it returns must be equal, geometry included."""
    expected, actual = program("cpu"), program(D)
    for e, a in zip(expected, actual, strict=True):
        assert a.shape == e.shape and a.stride() == e.stride() and a.storage_offset() == e.storage_offset()
        assert torch.equal(a.cpu(), e)


VIEWS = [
    lambda x: x.t(), lambda x: x[1:], lambda x: x[:, 1], lambda x: x[::2, 1:], lambda x: x.view(-1), lambda x: x.unsqueeze(1),
    lambda x: x.expand(3, 4, 6), lambda x: x.as_strided((3, 2), (2, 5), 1), lambda x: x.unfold(1, 2, 2), lambda x: x.flatten(),
    lambda x: x.diagonal(), lambda x: x.narrow(0, 1, 2), lambda x: x.chunk(2, 1)[1], lambda x: x.view(2, 2, 6).permute(2, 0, 1),
    lambda x: x.reshape(6, 4), lambda x: x.select(0, 3), lambda x: x.squeeze(), lambda x: x.detach(), lambda x: x.view_as(x),
    lambda x: x.unflatten(1, (2, 3)), lambda x: x.movedim(0, 1), lambda x: x.split([1, 5], 1)[1], lambda x: x.unbind(0)[2],
]


@pytest.mark.parametrize("view", VIEWS)
def test_reading(view):
    both(lambda d: [view(torch.arange(24.).reshape(4, 6).to(d))])


@pytest.mark.parametrize("view", [v for k, v in enumerate(VIEWS) if k != 6])  # not expand: its elements share memory
def test_writing_through_a_view(view):
    def program(d):
        x = torch.arange(24.).reshape(4, 6).to(d)
        v, whole = view(x), x.view(4, 6)
        v.fill_(-1)
        v.add_(torch.ones(v.shape).to(d))
        v.mul_(5)
        v.sub_(2)
        return [x, v, whole]

    both(program)


def test_chains_of_writes():
    def program(d):
        x = torch.zeros(4, 4).to(d)
        rows, column = x[1:3], x[:, 2]
        rows[0] = 1
        column.copy_(torch.arange(4.).to(d))
        rows.t()[2] += 10
        y = x.clone()
        x[0, 0] = 7
        return [x, y, rows, column]

    both(program)


def test_a_view_reads_before_a_later_write():
    def program(d):
        x = torch.arange(6.).to(d)
        before = x[2:] * 1
        x[3:] = 0
        return [x, before]

    both(program)


def test_overlapping_copy():
    def program(d):
        x = torch.arange(8.).to(d)
        y = x[:6].clone()
        x[2:].copy_(y)
        return [x]

    both(program)


def test_write_to_expanded_memory_is_refused():
    x = torch.zeros(3, device=D).expand(2, 3)
    with pytest.raises(RuntimeError, match="single memory location"):
        x.add_(1)


def test_channels_last_is_kept():
    def program(d):
        x = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0)).to(d).to(memory_format=torch.channels_last)
        return [x, x + 1, x.relu(), x.clone(), x.contiguous(), x * x.new_ones(5), torch.empty_like(x).zero_(), x.to(torch.float64),
                x.abs(), x.logical_not(), x.flip(1), F.pad(x, (1, 2)), F.pad(x[0], (1, 2)),
                F.group_norm(torch.zeros_like(x), 3)]

    both(program)


def test_convolutions_follow_channels_last():
    def program(d):
        x = (torch.arange(120.) % 7 - 3).reshape(2, 3, 4, 5).to(d)  # small integers: sums are exact in any order
        w = (torch.arange(36.) % 5 - 2).reshape(3, 3, 2, 2).to(d)
        last = [t.to(memory_format=torch.channels_last) for t in (x, w)]
        return [f(a, b) for a in (x, last[0]) for b in (w, last[1]) for f in (F.conv2d, F.conv_transpose2d)]

    both(program)


def test_results_into_empty_tensors_keep_the_order_of_dimensions():
    def program(d):
        x = torch.arange(6., device=d).reshape(2, 3).t()
        return [x.abs(), x.logical_not(), torch.neg(x, out=torch.empty(0, device=d)), x.flip(0), x.sgn(), x[::2].abs()]

    both(program)


def test_dtype_views():
    def program(d):
        x = torch.arange(8, dtype=torch.int32).to(d)
        return [x.view(torch.float32).view(torch.int32), x.view(torch.int16), x.view(torch.uint8)[4:8], x.view(torch.int64)]

    both(program)


def test_write_through_a_dtype_view():
    def program(d):
        x = torch.zeros(4, dtype=torch.int32).to(d)
        x.view(torch.int16)[1::2] = 1
        return [x]

    both(program)


def test_complex_views():
    def program(d):
        x = torch.arange(8.).reshape(4, 2).to(d)
        z = torch.view_as_complex(x)
        r = torch.view_as_real(z)
        r[1] = 9
        return [z, r, x, z.conj().resolve_conj(), z.imag, z.real.contiguous()]

    both(program)


def test_set_and_resize():
    def program(d):
        x = torch.arange(6.).to(d)
        y = torch.empty(0).to(d)
        y.set_(x)
        z = torch.empty(0).to(d)
        z.set_(x.untyped_storage(), 2, (2, 2), (1, 2))
        y[0] = 100
        x.resize_(2, 2)
        w = torch.arange(3.).to(d)
        w.resize_(5)[3:] = 0
        return [x, y, z, w]

    both(program)


def test_resize_through_the_storage():
    x = torch.arange(4., device=D)
    x.untyped_storage().resize_(32)
    assert x.untyped_storage().nbytes() == 32 and x.tolist() == [0, 1, 2, 3]
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().nbytes() == 0


def test_data_assignment_across_devices():
    x = torch.nn.Parameter(torch.ones(3))
    x.data = torch.zeros(2, device=D)
    assert x.device.type == D and x.tolist() == [0, 0]


def test_tied_weights_and_parameters_survive_to():
    m = torch.nn.ModuleDict({"a": torch.nn.Linear(3, 3, bias=False), "b": torch.nn.Linear(3, 3, bias=False)})
    m["b"].weight = m["a"].weight
    p = m["a"].weight
    m.to(D)
    assert m["a"].weight is p and m["b"].weight is p and p.device.type == D


def test_deepcopy_keeps_sharing():
    x = torch.arange(6., device=D)
    pair = [x, x[2:]]
    copied = copy.deepcopy(pair)
    copied[0][3] = 50
    assert copied[1][1].item() == 50 and x[3].item() == 3


def test_versions_count_writes():
    x = torch.zeros(3, device=D)
    v = x._version
    x.add_(1)
    x[0] = 2
    assert x._version == v + 2
    w = torch.ones(3, device=D, requires_grad=True)
    y = w * w
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_addresses():
    import ctypes

    x = torch.arange(4., device=D) + 1
    y = torch.arange(4., device=D)
    assert x.data_ptr() != y.data_ptr() and x[1:].data_ptr() == x.data_ptr() + 4
    if torch_tiny._C.host_visible(0):
        values = (ctypes.c_float * 4).from_address(x.data_ptr())
        assert list(values) == [1, 2, 3, 4]
        values[2] = 30
        assert x.tolist() == [1, 2, 30, 4]
        x.add_(1)
        torch.tiny.synchronize()
        assert list(values) == [2, 3, 31, 5], "the address stays after a write"
    assert torch.empty(0, device=D).data_ptr() == 0


def test_empty_tensors():
    for shape in [(0,), (2, 0, 3), (0, 5)]:
        x = torch.empty(shape, device=D)
        assert (x + 1).shape == shape and x.cpu().shape == shape and x.sum().item() == 0
        assert x.clone().fill_(2).shape == shape


def test_inference_mode():
    with torch.inference_mode():
        x = torch.zeros(3, device=D)
        x[1:].add_(2)
        y = x.view(3, 1).t()
    assert y.tolist() == [[0, 2, 2]]


def test_strides_that_sizes_do_not_settle():
    """Sizes of 0 and 1 leave strides open; results have the CPU's."""
    def program(d):
        x = torch.arange(24., device=d).reshape(2, 3, 4)
        odd = [x.permute(2, 0, 1)[:, :1], x[:, :, :1].permute(1, 2, 0), x[:, 1:2].transpose(0, 1), x.narrow(1, 0, 0), x.narrow(0, 0, 0).mT,
               x[0, :, :1].t().unsqueeze(0), torch.arange(5., device=d).reshape(1, 5, 1).permute(1, 2, 0), x.permute(2, 1, 0)]
        return [r for o in odd for r in (o + 1, o * o, o.relu(), o - o.clone(), o / 2, o + torch.ones(1, device=d), o.clamp(min=0), o > 1)]

    both(program)


def test_running_sums_in_place():
    def program(d):
        x = torch.arange(1., 7., device=d).reshape(2, 3)
        y = x.clone()
        return [x.clone().cumsum_(1), x.clone().cumprod_(0), torch.cumsum(x, 0, out=x), torch.cumprod(y.t(), 1, out=y.t())]

    both(program)


@pytest.mark.parametrize("n", [4, 100, 1000])
def test_a_result_takes_the_memory_of_a_dead_tensor_of_the_same_bytes(n):
    """Elements of one size only: half of an int16 tensor has as many bytes, as float32, as all of it."""
    def last_use(dtype, f, want):
        x = torch.arange(2 * n, dtype=dtype).to(D)
        torch.tiny.synchronize()
        y = f(x)
        del x
        assert torch.equal(y.cpu(), want)

    count = torch.arange(n)
    last_use(torch.int16, lambda x: x[:n].float() + 1, count.float() + 1)
    last_use(torch.int16, lambda x: (x[:n] < 7).float(), (count < 7).float())
    last_use(torch.float32, lambda x: x[:n].double() * 2, count.double() * 2)
    last_use(torch.int32, lambda x: x.float() + 1, torch.arange(2 * n).float() + 1)
