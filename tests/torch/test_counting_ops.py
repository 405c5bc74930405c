"""Operators that count or whose result's size depends on data, and order statistics: against the CPU."""
import math

import pytest
import torch

from nn_compare import D, compare, raises_alike

pytestmark = pytest.mark.usefixtures("no_fallback")
NAN = math.nan
T = torch.tensor


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def exact(f, *args):
    compare(f, *args, backward=False, rtol=0, atol=0)


SETS = {"integers": lambda: torch.randint(0, 4, (30,)), "matrix": lambda: torch.randint(0, 4, (5, 6)).float(), "empty": lambda: torch.randn(0),
        "scalar": lambda: T(3), "nan": lambda: T([NAN, 1.0, NAN, 1.0, 0.0, -0.0]), "bool": lambda: torch.rand(3, 4) > 0.5,
        "bfloat16": lambda: torch.randint(0, 3, (4, 6)).bfloat16(), "strided": lambda: torch.randint(0, 3, (6, 5)).t()[::2]}


@pytest.mark.parametrize("name", SETS)
def test_unique(name):
    x = SETS[name]()
    for f in (torch.unique, torch.unique_consecutive):
        exact(f, x)
        exact(lambda x: f(x, return_inverse=True, return_counts=True), x)
        if x.dim() and name != "nan":
            exact(lambda x: f(x, dim=-1, return_inverse=True, return_counts=True), x)
            exact(lambda x: f(x, dim=0, return_inverse=True), x)


def test_unique_rows():
    exact(lambda x: torch.unique(x, dim=0, return_inverse=True, return_counts=True), torch.randint(0, 2, (40, 3)))
    exact(lambda x: torch.unique(x, dim=1, return_inverse=True, return_counts=True), torch.randint(0, 2, (3, 40, 2)))
    exact(lambda x: torch.unique(x, dim=0, return_inverse=True, return_counts=True), torch.zeros(0, 2))
    assert raises_alike(lambda x: torch.unique(x, dim=0), torch.zeros(2, 0))
    assert raises_alike(lambda x: torch.unique(x, dim=0), torch.zeros(0, 0))


def test_bincount():
    exact(torch.bincount, T([1, 2, 2, 7]))
    exact(torch.bincount, T([1, 2, 2, 7]), T([0.5, 1, 2, 3]))
    exact(torch.bincount, T([1, 2, 2, 7]), T([1, 2, 3, 4]))
    exact(torch.bincount, T([1, 2, 2, 7]), T([1.0, 2, 3, 4]).half())
    exact(lambda x: torch.bincount(x, minlength=12), T([5, 1, 2, 3], dtype=torch.uint8))
    exact(lambda x: torch.bincount(x, minlength=3), torch.zeros(0, dtype=torch.int64))
    for wrong in ((T([-1]),), (torch.zeros(2, 2, dtype=torch.int64),), (T([1.0]),), (T([True]),), (T([1, 2]), T([1.0])), (T([1]), None, -1)):
        assert raises_alike(torch.bincount, *wrong)


def test_repeat_interleave():
    for repeats in (T([1, 0, 2]), T([1, 0, 2], dtype=torch.int32), T([0]), torch.zeros(0, dtype=torch.int64)):
        exact(torch.repeat_interleave, repeats)
    compare(lambda x, r: torch.repeat_interleave(x, r, dim=0), torch.randn(3, 4).requires_grad_(), T([1, 0, 2]))
    for wrong in (T([1, -1]), T([1.0]), T([[1]])):
        assert raises_alike(torch.repeat_interleave, wrong)
    assert raises_alike(lambda r: torch.repeat_interleave(r, output_size=4), T([1, 0, 2]))


@pytest.mark.parametrize("size", [0, 2, 5])
def test_nonzero_static(size):
    for x in (T([[1, 0, 1], [0, 0, 1]]), T(1), torch.zeros(0, 2), T([False, True])):
        exact(lambda x: torch.nonzero_static(x, size=size, fill_value=-2), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.uint8])
@pytest.mark.parametrize("sizes", [(7,), (4, 5), (3, 4, 5)])
def test_mode(sizes, dtype):
    x = torch.randint(0, 3, sizes).to(dtype)
    for dim in range(-len(sizes), len(sizes)):
        exact(lambda x: torch.mode(x, dim).values, x)
        found = torch.mode(x.to(D), dim, keepdim=True)
        assert torch.equal(x.gather(dim, found.indices.cpu()), found.values.cpu())  # the CPU's index is any of equal elements'


def test_mode_edges():
    exact(lambda x: torch.mode(x).values, T([1.0, NAN, NAN, 2, 2]))
    exact(torch.mode, T(3.0))
    exact(lambda x: torch.mode(x, 0), torch.zeros(2, 0))
    assert raises_alike(torch.mode, torch.zeros(2, 0))
    x = torch.randint(0, 3, (5, 4)).float().requires_grad_()
    compare(lambda x: torch.mode(x.sort().values).values, x)


HISTC = [{}, {"bins": 10}, {"bins": 7, "min": -1, "max": 1}, {"bins": 4, "min": 2, "max": 2}]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("how", HISTC)
def test_histc(how, dtype):
    x = torch.randn(200).to(dtype)
    exact(lambda x: torch.histc(x, **how), x)
    exact(lambda x: torch.histc(x, 5, -1, 1), torch.cat([x, T([NAN, 1.0, -1.0]).to(dtype)]))
    exact(lambda x: torch.histc(x, 5), x[:0])
    exact(lambda x: torch.histc(x, 5), x[:1].expand(5))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.int8])
@pytest.mark.parametrize("how", [{}, {"bins": 8, "min": 0, "max": 7}, {"bins": 3, "min": 2, "max": 11}, {"bins": 5, "min": 4, "max": 4}])
def test_histc_of_integers(how, dtype):
    """As on CUDA: PyTorch's CPU has none. Floats hold these numbers, but not the quotients, so bins are counted here."""
    x = torch.randint(0, 12, (300,)).to(dtype)
    bins, low, high = how.get("bins", 100), how.get("min", 0), how.get("max", 0)
    if low == high:
        low, high = int(x.min()), int(x.max())
    want = torch.zeros(bins, dtype=dtype)
    for v in x.tolist():
        if low <= v <= high:
            want[min((v - low) * bins // (high - low), bins - 1)] += 1
    got = torch.histc(x.to(D), **how)
    assert got.dtype == dtype and torch.equal(got.cpu(), want)


def test_histc_of_equal_or_no_integers():
    assert torch.histc(torch.tensor([3, 3], device=D), 4).tolist() == [0, 0, 2, 0]
    assert torch.histc(torch.tensor([], dtype=torch.int64, device=D), 3).tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="max must be larger than min"):
        torch.histc(torch.tensor([3], device=D), 4, 2, 1)


def test_histc_errors():
    x = torch.randn(9)
    for wrong in ({"bins": 0}, {"bins": 3, "min": 2, "max": 1}, {"min": 0, "max": NAN}):
        assert raises_alike(lambda x: torch.histc(x, **wrong), x)
    assert raises_alike(torch.histc, T([1.0, math.inf]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_histogram(dtype):
    x, w = torch.randn(300).to(dtype), torch.rand(300).to(dtype)
    for how in ({"bins": 10}, {"bins": 7, "range": (-1.0, 1.0)}, {"bins": 5, "density": True}):
        compare(lambda x: torch.histogram(x, **how), x, backward=False)
        compare(lambda x, w: torch.histogram(x, weight=w, **how), x, w, backward=False)
    compare(lambda x: torch.histogram(x, 3), x[:1].expand(4), backward=False)
    compare(lambda x: torch.histogram(x, 3), x[:0], backward=False)
    compare(lambda x: torch.histogram(x, 2, range=(1.0, 1.0)), x, backward=False)
    edges = T([-1.0, -0.5, 0, 0.1, 2], dtype=dtype)
    compare(torch.histogram, x, edges, backward=False)
    compare(lambda x, b, w: torch.histogram(x, b, weight=w, density=True), x, edges, w, backward=False)


def test_histogram_in_two_dimensions():
    def flat(h):
        return (h.hist, *h.bin_edges)
    x = torch.randn(100, 2)
    compare(lambda x: flat(torch.histogramdd(x, bins=[3, 4])), x, backward=False)
    compare(lambda x: flat(torch.histogramdd(x, bins=[3, 4], range=[-1.0, 1, -2, 2], density=True)), x, backward=False)
    compare(lambda x, a, b: flat(torch.histogramdd(x, bins=[a, b])), x, T([-1.0, 0, 2]), T([-1.0, 0, 0.5, 2]), backward=False)
