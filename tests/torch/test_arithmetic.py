"""add, sub, mul, div over every pair of dtypes and kinds of operand: values, dtypes, strides and errors are the CPU's."""
import itertools

import pytest
import torch

DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
NUMBERS = [True, 3, -2, 0.75, float("inf")]
OPERATORS = ["add", "sub", "mul", "div"]


def operands(dtype, sizes):
    x = torch.arange(1, 1 + torch.Size(sizes).numel()).reshape(sizes) % 7 + 1
    return x.to(dtype)


def outcome(f):
    try:
        return f()
    except (RuntimeError, TypeError, IndexError, ValueError) as e:
        return type(e), str(e)


def compare(f, *arguments):
    """f(*arguments) on the CPU and on tiny; f may write to its first argument."""
    on = {d: outcome(lambda: f(*(a.to(d, copy=True) if isinstance(a, torch.Tensor) else a for a in arguments))) for d in ("cpu", "tiny")}
    if isinstance(on["cpu"], tuple):
        assert on["tiny"] == on["cpu"]
        return
    assert isinstance(on["tiny"], torch.Tensor), on["tiny"]
    assert on["tiny"].dtype == on["cpu"].dtype and on["tiny"].stride() == on["cpu"].stride()
    torch.testing.assert_close(on["tiny"].cpu(), on["cpu"], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("in_place", [False, True])
def test_two_tensors(name, in_place):
    f = getattr(torch.Tensor, name + "_" * in_place)
    for a, b in itertools.product(DTYPES, DTYPES):
        for left, right in (((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 3), ()), ((), (2, 3)), ((), ()), ((0, 3), (3,)), ((2, 3), (2, 4))):
            compare(f, operands(a, left), operands(b, right))


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("in_place", [False, True])
def test_tensor_and_number(name, in_place):
    f = getattr(torch.Tensor, name + "_" * in_place)
    for dtype, number in itertools.product(DTYPES, NUMBERS):
        for sizes in ((2, 3), ()):
            compare(lambda x: f(x, number), operands(dtype, sizes))


@pytest.mark.parametrize("name", ["add", "sub"])
def test_alpha(name):
    for dtype, alpha in itertools.product(DTYPES, [1, 1.0, True, 2, 0.5]):
        compare(lambda x, y: getattr(torch, name)(x, y, alpha=alpha), operands(dtype, (3,)), operands(dtype, (3,)))


@pytest.mark.parametrize("name", OPERATORS)
def test_order_of_dimensions(name):
    f = getattr(torch, name)
    x, y = operands(torch.float32, (2, 3, 4)), operands(torch.float32, (4, 3, 2))
    compare(lambda a, b: f(a.permute(2, 1, 0), b), x, y)
    compare(lambda a, b: f(b, a.permute(2, 1, 0)), x, y)
    compare(lambda a, b: f(a.permute(2, 1, 0), 2.5), x, y)
    compare(lambda a, b: f(a[0, 0, :1], b.permute(2, 1, 0)), x, y)
    image = operands(torch.float32, (2, 3, 4, 5)).to(memory_format=torch.channels_last)
    compare(lambda a, b: f(a, b), image, image)


def test_memory_that_overlaps():
    compare(lambda x: x[1:].add_(x[:-1]), operands(torch.float32, (6,)))  # refused
    compare(lambda x: x.add_(x), operands(torch.float32, (6,)))
    compare(lambda x: x[::2].mul_(x[1::2]), operands(torch.float32, (6,)))
    compare(lambda x: x.expand(3, 6).add_(1.0), operands(torch.float32, (6,)))  # refused
    compare(lambda x: x.t().add_(x), operands(torch.float32, (3, 3)))  # refused


def test_derivatives_and_version():
    for device in ("cpu", "tiny"):
        x = torch.ones(3, device=device, requires_grad=True)
        y = x * 2 + x / 4 - x
        y.sum().backward()
        torch.testing.assert_close(x.grad.cpu(), torch.full((3,), 1.25))
        with torch.no_grad():
            version = x._version
            x.add_(1).mul_(2)
            assert x._version == version + 2


def test_two_devices():
    x = torch.ones(2, device="tiny")
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x + torch.ones(2)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x.mul_(torch.ones(2))
    assert (x + torch.tensor(2.0)).device == x.device


@pytest.mark.parametrize("default", [torch.float64, torch.float16, torch.bfloat16])
def test_the_default_dtype_is_that_of_numbers_and_of_functions_of_integers(default):
    cases = [lambda n, b: n + 0.1, lambda n, b: b * 1.5, lambda n, b: n / 2, lambda n, b: n.sqrt(), lambda n, b: b.sin(),
             lambda n, b: torch.atan2(n, n), lambda n, b: n.clamp(0.5), lambda n, b: n ** 0.5, lambda n, b: torch.xlogy(n, 2),
             lambda n, b: torch.arange(0, 1, 0.25, device=n.device), lambda n, b: torch.eye(2, device=n.device),
             lambda n, b: torch.where(b, n, 0.1), lambda n, b: torch.copysign(n, -1.0)]
    torch.set_default_dtype(default)
    try:
        for case in cases:
            want, got = [case(torch.tensor([1, 2, 3], device=d), torch.tensor([True, False, True], device=d)) for d in ("cpu", "tiny")]
            torch.testing.assert_close(got.cpu(), want)
    finally:
        torch.set_default_dtype(torch.float32)
