"""Indexing, scattering, sorting, scans, embeddings: forward and backward against the CPU, with ties, NaN, repeated and wrong indices."""
import math

import pytest
import torch
import torch.nn.functional as F

from nn_compare import D, compare, raises_alike

pytestmark = pytest.mark.usefixtures("no_fallback")
DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool]


def values(*sizes, dtype=torch.float32, grad=True):
    t = torch.randint(-3, 4, sizes)
    return t.to(dtype).requires_grad_(grad and dtype.is_floating_point)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


INDEXINGS = {
    "row": lambda x: x[torch.tensor([3, 0, 3], device=x.device)],
    "negative": lambda x: x[torch.tensor([-1, 0], device=x.device)],
    "two": lambda x: x[torch.tensor([1, 2], device=x.device), torch.tensor([0, 3], device=x.device)],
    "broadcast": lambda x: x[torch.tensor([[1], [2]], device=x.device), torch.tensor([0, 3, 1], device=x.device)],
    "last": lambda x: x[..., torch.tensor([2, 2, 0], device=x.device)],
    "apart": lambda x: x[torch.tensor([1, 2], device=x.device), :, torch.tensor([0, 3], device=x.device)],
    "middle": lambda x: x[:, torch.tensor([[0, 1], [2, 3]], device=x.device)],
    "int32": lambda x: x[torch.tensor([1, 2], dtype=torch.int32, device=x.device)],
    "scalar": lambda x: x[torch.tensor(2, device=x.device)],
    "mask": lambda x: x[x > 0],
    "row mask": lambda x: x[torch.arange(4, device=x.device) % 2 == 0],
    "empty": lambda x: x[torch.zeros(0, dtype=torch.int64, device=x.device)],
    "slice and index": lambda x: x[1:3, torch.tensor([0, 2], device=x.device), 1],
}


@pytest.mark.parametrize("name", INDEXINGS)
def test_index(name):
    compare(INDEXINGS[name], values(4, 4, 4))
    compare(INDEXINGS[name], torch.randn(4, 8, 4).permute(0, 2, 1)[:, :, ::2].requires_grad_())


KEYS = {
    "row": lambda d: (torch.tensor([3, 0], device=d),),
    "negative": lambda d: (torch.tensor([-1, 0], device=d),),
    "two": lambda d: (torch.tensor([1, 2], device=d), torch.tensor([0, 3], device=d)),
    "broadcast": lambda d: (torch.tensor([[1], [2]], device=d), torch.tensor([0, 3, 1], device=d)),
    "last": lambda d: (..., torch.tensor([2, 0], device=d)),
    "apart": lambda d: (torch.tensor([1, 2], device=d), slice(None), torch.tensor([0, 3], device=d)),
    "middle": lambda d: (slice(None), torch.tensor([[0, 1], [2, 3]], device=d)),
}


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_assign_by_index(name, dtype):
    def assign(x):
        x = x.clone()
        x[KEYS[name](x.device)] = 1
        y = x.clone()
        y[KEYS[name](x.device)] += x[KEYS[name](x.device)]
        return x, y
    compare(assign, values(4, 4, 4, dtype=dtype, grad=False))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_accumulating_index_put(dtype):
    rows, columns = torch.tensor([1, 2, 1, 1]), torch.tensor([0, 3, 0, 1])
    compare(lambda x, i, j, v: x.index_put((i, j), v, accumulate=True), values(4, 4, dtype=dtype), rows, columns, values(4, dtype=dtype))
    compare(lambda x, i, v: x.index_put((i,), v, accumulate=True), values(4, 4, dtype=dtype), rows, values(4, 4, dtype=dtype))
    compare(lambda x, i, v: torch.ops.aten.index_put(x, [None, i], v, True),
            values(3, 4, 2, dtype=dtype), rows, values(3, 1, 2, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_along_a_dimension(dim, dtype):
    x, source = values(4, 4, 4, dtype=dtype), values(4, 3, 4, dtype=dtype).movedim(1, dim)
    index = torch.tensor([2, 0, 2])
    unique = torch.tensor([2, 0, 3])
    compare(lambda x, i: x.index_select(dim, i), x, index)
    compare(lambda x, i, s: x.index_copy(dim, i, s), x, unique, source)
    compare(lambda x, i: x.index_fill(dim, i, 1), x, index)
    if dtype != torch.bool:
        compare(lambda x, i, s: x.index_add(dim, i, s, alpha=2), x, index, source)
    compare(lambda x, i: x.gather(dim, i), x, torch.randint(0, 4, (2, 3, 4)))
    compare(lambda x, i: x.take_along_dim(i, dim), x, torch.randint(0, 4, (4, 4, 4)))
    where = torch.stack([torch.randperm(4)[:3] for _ in range(16)]).reshape(4, 4, 3).movedim(2, dim)
    compare(lambda x, i, s: x.scatter(dim, i, s), x, where, source)
    compare(lambda x, i, s: x.scatter(dim, i, s), x, where, values(4, 4, 4, dtype=dtype, grad=False))
    compare(lambda x, i: x.scatter(dim, i, 1), x, where)
    repeated = torch.randint(0, 4, (3, 3, 3))
    compare(lambda x, i, s: x.scatter_add(dim, i, s), x, repeated, values(3, 3, 3, dtype=dtype))


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_scatter_reduce(reduce, include_self, dtype):
    x, index, source = values(4, 5, dtype=dtype), torch.randint(0, 4, (6, 5)), values(6, 5, dtype=dtype)
    compare(lambda x, i, s: x.scatter_reduce(0, i, s, reduce, include_self=include_self), x, index, source)
    if reduce != "sum":
        compare(lambda x, i, s: x.index_reduce(0, i, s, reduce, include_self=include_self), x, torch.tensor([0, 3, 3, 0, 0, 3]), source,
                backward=False)


def test_take_put_and_masked_scatter():
    x, index = values(3, 4), torch.tensor([[0, -1], [5, 5]])
    compare(torch.take, x, index)
    compare(lambda x, i, s: x.put(i, s), x, torch.tensor([0, 3, -1]), values(3))
    compare(lambda x, i, s: x.put(i, s, accumulate=True), x, torch.tensor([2, 2, -1]), values(3))
    compare(lambda x, m, s: x.masked_scatter(m, s), x, torch.rand(3, 4) < 0.5, values(12))


def test_one_element_and_no_dimension():
    x = values()
    compare(lambda x: (x.sort()[0], x.cumsum(0), x.cummax(0)[0], x.topk(1)[0], x.median(), x.index_select(0, torch.zeros(1, dtype=torch.long, device=x.device)),
                       x.gather(0, torch.zeros((), dtype=torch.long, device=x.device))), x)


# ---- embeddings
@pytest.mark.parametrize("padding,by_frequency", [(None, False), (1, False), (None, True), (2, True)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_embedding(padding, by_frequency, dtype):
    compare(
    lambda w, i: F.embedding(
        i, w, padding_idx=padding, scale_grad_by_freq=by_frequency), values(
            7, 5, dtype=dtype), torch.randint(
                0, 7, (3, 4)))


# ---- errors
@pytest.mark.parametrize("function", [
    lambda x: x[torch.tensor([4], device=x.device)], lambda x: x[torch.tensor([-5], device=x.device)],
    lambda x: x.index_select(0, torch.tensor([4], device=x.device)), lambda x: F.embedding(torch.tensor([4], device=x.device), x),
    lambda x: x.gather(0, torch.full((1, 4), 4, device=x.device)), lambda x: x.take(torch.tensor([16], device=x.device)),
])
def test_index_out_of_bounds(function):
    expected, actual = raises_alike(function, torch.zeros(4, 4))
    assert "out of " in actual and ("4" in actual or "16" in actual or "-5" in actual)


def test_index_errors_at_the_call():
    for function in (lambda x: x[torch.tensor([0.5], device=x.device)], lambda x: x[:, :, None].gather(0, torch.zeros(1, 1, dtype=torch.long, device=x.device)),
                     lambda x: x[torch.zeros(2, dtype=torch.long, device=x.device), torch.zeros(3, dtype=torch.long, device=x.device)],
                     lambda x: x.index_select(3, torch.tensor([0], device=x.device)), lambda x: x.topk(5), lambda x: x.kthvalue(9)):
        raises_alike(function, torch.zeros(4, 4))


# ---- sorting and order statistics
def with_nan(dtype=torch.float32):
    x = torch.randint(-2, 3, (5, 9)).to(dtype)
    if dtype.is_floating_point:
        x[torch.rand(5, 9) < 0.15] = math.nan
        x[torch.rand(5, 9) < 0.1] = -math.inf
    return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int16, torch.uint8, torch.bool])
@pytest.mark.parametrize("dim", [0, 1])
def test_sort(dtype, dim):
    x = with_nan(dtype)
    for descending in (False, True):
        compare(lambda x: torch.sort(x, dim=dim, stable=True, descending=descending), x)
        compare(lambda x: torch.argsort(x, dim=dim, stable=True, descending=descending), x)
        if dtype != torch.bool:
            compare(lambda x: torch.topk(x, 3, dim, descending)[0], x)
    if dtype not in (torch.bool,):
        compare(lambda x: torch.kthvalue(x, 2, dim)[0], x)
        compare(lambda x: (torch.median(x, dim)[0], torch.nanmedian(x, dim)[0], torch.median(x), torch.nanmedian(x)), x)


def test_gradients_of_sorts():
    x = torch.randperm(45).reshape(5, 9).float().requires_grad_()
    for f in (lambda x: torch.sort(x)[0], lambda x: torch.topk(x, 4)[0],
              lambda x: torch.median(x, 0)[0], lambda x: torch.kthvalue(x, 3)[0], torch.msort):
        compare(f, x)


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(right):
    rows, wanted = torch.randint(-5, 6, (3, 7)).sort(-1)[0].float(), torch.randint(-6, 7, (3, 5)).float()
    wanted[0, 0] = math.nan
    compare(lambda r, v: torch.searchsorted(r, v, right=right), rows, wanted)
    compare(lambda r, v: torch.searchsorted(r[0], v, right=right, out_int32=True), rows, wanted)
    compare(lambda r, v: torch.bucketize(v, r[0], right=right), rows, wanted)
    order = torch.stack([torch.randperm(7) for _ in range(3)])
    compare(lambda r, o, v: torch.searchsorted(r, v, right=right, sorter=o), torch.zeros(3, 7).scatter(1, order, rows), order, wanted)


# ---- scans
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool])
@pytest.mark.parametrize("dim", [0, 1])
def test_scans(dtype, dim):
    x = values(4, 6, dtype=dtype)
    compare(lambda x: torch.cumsum(x, dim), x)
    compare(lambda x: torch.cumprod(x, dim), x)
    if dtype != torch.bool:
        compare(lambda x: torch.cummax(x, dim), with_nan(dtype))
        compare(lambda x: torch.cummin(x, dim), with_nan(dtype))
    if dtype.is_floating_point:
        compare(lambda x: torch.logcumsumexp(x, dim), x)
        compare(lambda x: torch.logcumsumexp(x, dim), with_nan(dtype))
        compare(lambda x: torch.cumsum(x, dim, dtype=torch.float64), x)


def test_long_scan():
    compare(lambda x: x.cumsum(-1), torch.rand(3, 5000), rtol=1e-4, atol=1e-3)
    compare(lambda x: x.logcumsumexp(-1), torch.tensor([[-200.0, 5.0, 100.0, -300.0] * 50]))


@pytest.mark.parametrize("name", ["index_put_", "scatter_add_", "index_add_"])
def test_positions_of_rows_are_not_stored(name):
    """Rows are found by their indices: nothing as large as what is written is made."""
    table, source = torch.zeros(20_000, 256, device=D), torch.ones(8192, 256, device=D)
    index = torch.randint(20_000, (8192,)).to(D)
    write = {"index_put_": lambda: table.index_put_((index,), source, accumulate=True), "index_add_": lambda: table.index_add_(0, index, source),
             "scatter_add_": lambda: table.scatter_add_(0, index[:, None].expand_as(source), source)}[name]
    torch.tiny.synchronize()
    torch.tiny.reset_peak_memory_stats()
    before = torch.tiny.max_memory_allocated()
    write()
    torch.tiny.synchronize()
    assert torch.tiny.max_memory_allocated() - before < source.numel() * 4


def test_one_hot(no_fallback):
    for x in (torch.tensor([0, 2, 1]), torch.tensor(1), torch.randint(0, 5, (3, 2, 4)), torch.zeros(0, 3, dtype=torch.int64)):
        if x.numel():
            compare(lambda x: F.one_hot(x), x, backward=False)
        compare(lambda x: F.one_hot(x, 7), x, backward=False)
        assert F.one_hot(x.to(D), 7).dtype == torch.int64


def test_searchsorted_with_a_sorter():
    x, v = torch.randn(3, 8), torch.randn(3, 5)
    compare(lambda x, s, v: torch.searchsorted(x, v, sorter=s), x, x.argsort(-1), v, backward=False)
    compare(lambda x, s, v: torch.searchsorted(x, v, sorter=s), x[:, :0], x[:, :0].argsort(-1), v, backward=False)


def test_index_fill_takes_negative_indices():
    compare(lambda x, i: x.index_fill(1, i, 5.0), torch.zeros(3, 4), torch.tensor([-1, 0]), backward=False)


def test_roll_keeps_the_memory_format():
    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    for shifts, dims in ((1, 2), ((1, -2), (1, 3)), (3, None)):
        a, b = torch.roll(x, shifts, dims), torch.roll(x.to(D), shifts, dims)
        assert torch.equal(a, b.cpu()) and a.stride() == b.stride()
