"""Copies: every direction, dtype, stride and broadcast; conjugate and negative bits; pinned memory; .item() and printing."""
import itertools

import numpy as np
import pytest
import torch

D = "tiny"
DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64,
          torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128]


def sample(dtype, shape=(3, 4)):
    g = torch.Generator().manual_seed(1)
    if dtype == torch.bool:
        return torch.rand(shape, generator=g) > 0.5
    if dtype.is_complex:
        return torch.randn(shape, generator=g, dtype=dtype)
    if dtype.is_floating_point:
        return (torch.randn(shape, generator=g) * 3).to(dtype)
    return torch.randint(0, 100, shape, generator=g).to(dtype)


def same(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape
    assert a.cpu().numpy().tobytes() == b.numpy().tobytes() if a.dtype != torch.bfloat16 else torch.equal(a.cpu(), b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_round_trip(dtype):
    x = sample(dtype)
    same(x.to(D), x)
    same(x.t().to(D).t(), x)
    same(x.to(D).t().contiguous(), x.t().contiguous())
    same(x[:, ::2].to(D), x[:, ::2].contiguous())
    same(x.to(D)[1:, 1], x[1:, 1].contiguous())


@pytest.mark.parametrize("source,target", [(a, b) for a, b in itertools.product(DTYPES, DTYPES) if not (a.is_complex and not b.is_complex)])
def test_conversion(source, target):
    x = sample(source)
    if source.is_floating_point and target in (torch.uint8, torch.uint16, torch.uint32, torch.uint64):
        x = x.abs()  # a negative float to an unsigned integer is undefined in C
    same(x.to(D).to(target), x.to(target))
    y = torch.zeros(3, 4, dtype=target, device=D)
    y.copy_(x)
    same(y, x.to(target))


def test_odd_dtypes_are_carried():
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz):
        x = torch.randn(4, 4).to(dtype)
        y = x.to(D)
        assert torch.equal(y.cpu().view(torch.uint8), x.view(torch.uint8))
        assert torch.equal(y.t().contiguous().cpu().view(torch.uint8), x.t().contiguous().view(torch.uint8))
        assert torch.equal(y.float().cpu(), x.float())


def test_special_values():
    x = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-45, 3e38])
    same(x.to(D), x)
    assert torch.equal(torch.signbit(x.to(D).cpu()), torch.signbit(x))
    same(x.to(D).to(torch.float64), x.to(torch.float64))
    assert torch.equal(x[:4].to(D).to(torch.bool).cpu(), x[:4].to(torch.bool)) and x.to(D).to(torch.bool)[4].item() is True


@pytest.mark.parametrize("target_device,source_device", [(D, D), (D, "cpu"), ("cpu", D)])
def test_strides_and_broadcast(target_device, source_device):
    for shape, view in [((3, 4), lambda x: x), ((4, 3), lambda x: x.t()), ((6, 8), lambda x: x[::2, 1::2]), ((2, 3, 4), lambda x: x[1])]:
        for source in (torch.arange(12.).reshape(3, 4), torch.arange(4.), torch.tensor(5.),
                       torch.arange(3.).reshape(3, 1), torch.arange(12).reshape(4, 3).t()):
            a, b = torch.full(shape, -1.0), torch.full(shape, -1.0, device=target_device)
            view(a).copy_(source)
            view(b).copy_(source.to(source_device))
            assert torch.equal(a, b.cpu())


def test_shapes_that_do_not_fit():
    for a, b in [((2,), (3,)), ((3,), (2, 3)), ((2, 3), (4, 3))]:
        errors = []
        for d in ("cpu", D):
            with pytest.raises(RuntimeError) as e:
                torch.zeros(a, device=d).copy_(torch.zeros(b, device=d))
            errors.append(str(e.value))
        assert errors[0] == errors[1]


def test_conjugate_and_negative_bits():
    z = sample(torch.complex64)
    t = z.to(D)
    same(t.conj().resolve_conj(), z.conj().resolve_conj())
    assert t.conj().is_conj() and torch.equal(t.conj().cpu(), z.conj())
    assert torch.equal(z.conj().to(D).cpu(), z.conj())
    same(t.conj().imag.contiguous().resolve_neg(), z.conj().imag.resolve_neg().contiguous())
    out = torch.zeros(3, 4, dtype=torch.complex64, device=D)
    out.conj().copy_(t)
    assert torch.equal(out.cpu(), z.conj().resolve_conj())


def test_complex_to_real_and_bool():
    z = torch.tensor([1 + 2j, 0j, 3j])
    assert z.to(D).to(torch.bool).tolist() == [True, False, True]
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        assert z.to(D).to(torch.float32).tolist() == [1, 0, 0]


def test_pinned_and_non_blocking():
    x = torch.arange(1000.).pin_memory()
    assert x.is_pinned() and x[10:].is_pinned() and not torch.arange(3.).is_pinned()
    y = x.to(D, non_blocking=True)
    x.fill_(-1)  # the copy has read its source
    assert torch.equal(y.cpu(), torch.arange(1000.))
    z = torch.empty(1000, pin_memory=True)
    z.copy_(y, non_blocking=True)
    torch.tiny.synchronize()
    assert torch.equal(z, torch.arange(1000.))
    assert torch.equal(y.to("cpu", non_blocking=True), torch.arange(1000.))


def test_source_may_change_after_the_copy():
    x = torch.ones(5)
    y = x.to(D)
    view = torch.zeros(2, 5, device=D)
    view[1] = x
    x.zero_()
    assert y.tolist() == [1] * 5 and view[1].tolist() == [1] * 5


def test_scalars():
    for value in (True, 7, -3, 2.5, float("inf"), 1 + 2j):
        x = torch.tensor(value).to(D)
        assert x.item() == value and type(x.item()) is type(value)
    assert torch.tensor([[1, 2], [3, 4]], device=D)[1, 0].item() == 3
    assert bool(torch.tensor(1.5, device=D)) and int(torch.tensor(3, device=D)) == 3
    with pytest.raises(RuntimeError):
        torch.ones(2, device=D).item()


@pytest.mark.parametrize("dtype", DTYPES)
def test_fill_and_zero(dtype):
    value = 3 if dtype != torch.bool else True
    for view in (lambda x: x, lambda x: x[1:, ::2], lambda x: x.t()):
        a, b = sample(dtype), sample(dtype).to(D)
        view(a).fill_(value)
        view(b).fill_(value)
        same(b, a)
        view(a).zero_()
        view(b).zero_()
        same(b, a)
    if dtype.is_complex:
        same(torch.zeros(2, dtype=dtype, device=D).fill_(1 - 2j), torch.zeros(2, dtype=dtype).fill_(1 - 2j))
    same(torch.zeros(2, dtype=dtype, device=D).fill_(torch.tensor(value)), torch.zeros(2, dtype=dtype).fill_(torch.tensor(value)))


def test_printing():
    x = torch.arange(6.).reshape(2, 3)
    assert repr(x.to(D)) == repr(x)[:-1] + ", device='tiny:0')"
    flushes = torch.tiny.stats()["flushes"]
    y = x.to(D) * 1.5
    repr(y)
    assert torch.tiny.stats()["flushes"] <= flushes + 1
    assert "requires_grad=True" in repr(x.to(D).requires_grad_())


def test_numpy_and_lists():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert torch.tensor(x, device=D).tolist() == x.tolist()
    assert np.array_equal(torch.from_numpy(x).to(D).cpu().numpy(), x)
    with pytest.raises(TypeError):
        torch.ones(2, device=D).numpy()


def test_dlpack():
    x = torch.arange(6., device=D).reshape(2, 3) + 1
    y = torch.from_dlpack(x)
    assert y.device == x.device and y.data_ptr() == x.data_ptr()
    if torch.tiny.get_device_name() == "CPU":
        a = np.from_dlpack(x)
        assert a.tolist() == x.tolist()
        z = np.from_dlpack(x.t())
        assert z.shape == (3, 2) and z.tolist() == x.t().tolist()
    with pytest.raises(BufferError):
        x.clone().requires_grad_().__dlpack__()


def test_filling_repeated_elements():
    """fill_ and zero_ write tensors whose elements share memory, as on the CPU; other operators refuse them."""
    for view in (lambda t: t[:1].expand(3, 4), lambda t: t[:, :1].expand(3, 4)[1:], lambda t: t.as_strided((3, 3), (1, 1), 2),
                 lambda t: t[0, 0].expand(2, 2)):
        for write in (lambda v: v.fill_(7), lambda v: v.zero_()):
            a, b = torch.arange(12.).reshape(3, 4), torch.arange(12.).reshape(3, 4).to(D)
            write(view(a))
            write(view(b))
            assert torch.equal(a, b.cpu()) and a._version == b._version
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.ones(3, device=D).expand(2, 3).add_(1)


def test_overlaps_are_found_without_an_address():
    """Partly overlapping operands are refused, disjoint and equal ones are not; and finding out leaves the memory free to move."""
    x = torch.arange(8., device=D)
    x[:4].copy_(x[4:])
    x[:4].add_(x[4:])
    torch.mul(x[:4], 2, out=x[:4])
    for wrong in (lambda: x[:-1].copy_(x[1:]), lambda: x[:-1].add_(x[1:]), lambda: torch.mul(x[1:], 2, out=x[:-1]),
                  lambda: torch.cat((x[:4], x[4:]), out=x), lambda: torch.cumsum(x[1:], 0, out=x[:-1])):
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a single memory"):
            wrong()
    assert x.tolist() == [16, 20, 24, 28, 4, 5, 6, 7]
    torch.tiny.synchronize()
    before = torch.tiny.memory_allocated()
    for _ in range(3):
        x.add_(1)
        torch.tiny.synchronize()
    assert torch.tiny.memory_allocated() == before


def test_dtype_of_the_output():
    """Where no dtype is given, some operators compute in the dtype of out=; cat casts to it."""
    x = torch.tensor([[1.5, 2.5], [3.5, -4.5]])
    for dtype in (torch.float64, torch.int64, torch.float16):
        for program in (lambda t, out: torch.sum(t, 0, out=out), lambda t, out: torch.prod(t, 0, out=out),
                        lambda t, out: torch.cumsum(t[0], 0, out=out)):
            want, got = torch.empty(2, dtype=dtype), torch.empty(2, dtype=dtype, device=D)
            program(x, want)
            program(x.to(D), got)
            assert torch.equal(got.cpu(), want)
    want, got = torch.empty(4, 2, dtype=torch.float64), torch.empty(4, 2, dtype=torch.float64, device=D)
    torch.cat((x, x), out=want)
    torch.cat((x.to(D), x.to(D)), out=got)
    assert torch.equal(got.cpu(), want)
    means = torch.empty(2, dtype=torch.float64, device=D)
    torch.mean(x.to(D), 0, out=means)
    assert means.tolist() == [2.5, -1]
