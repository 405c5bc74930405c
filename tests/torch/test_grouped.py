"""Grouped matrix products (mixtures of experts): values and gradients as on the CPU, whatever the groups, without a look at where they end."""
import pytest
import torch

import probe
from nn_compare import D, check, compare, raises_alike, to

pytestmark = pytest.mark.usefixtures("no_fallback")
ENDS = [[3, 5, 12], [0, 12, 12], [12, 12, 12], [0, 0, 12]]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def ends(values):
    return torch.tensor(values, dtype=torch.int32)


def leaf(*sizes, dtype=torch.float32):
    return torch.randn(sizes).to(dtype).requires_grad_()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("values", ENDS)
def test_rows_times_matrices_of_their_group(values, dtype):
    f = lambda a, b, e: torch._grouped_mm(a, b, offs=e)  # noqa: E731
    compare(f, leaf(12, 8, dtype=dtype), leaf(3, 8, 16, dtype=dtype), ends(values))
    compare(lambda a, b, e: torch._grouped_mm(a, b.transpose(1, 2), offs=e), leaf(12, 8, dtype=dtype), leaf(3, 16, 8, dtype=dtype), ends(values))


@pytest.mark.parametrize("values", ENDS)
def test_matrices_of_a_group_times_columns(values):
    f = lambda a, b, e: torch._grouped_mm(a, b, offs=e)  # noqa: E731
    compare(f, leaf(3, 8, 16), leaf(16, 12), ends(values))
    compare(f, leaf(8, 12), leaf(12, 16), ends(values), backward=False)


def test_batches_without_groups():
    compare(torch._grouped_mm, leaf(3, 4, 8), leaf(3, 8, 16))


def test_rows_start_at_every_16_bytes():
    a, b = torch.randn(5, 8), torch.randn(2, 8, 8)[..., :6]
    for x, y, e in ((a, b, ends([2, 5])), (torch.randn(4, 4), torch.randn(4, 8)[:, :6], ends([1, 4])), (torch.randn(2, 5, 8), b, None)):
        want, got = torch._grouped_mm(x, y, offs=e), torch._grouped_mm(*to((x, y), D), offs=to(e, D))
        assert got.stride() == want.stride() == (*want.stride()[:-2], 8, 1)
        check(got, want)


@pytest.mark.parametrize("wrong", [
    lambda: (torch.randn(5, 8), torch.randn(2, 8, 6), None),
    lambda: (torch.randn(5, 8), torch.randn(2, 4, 8), ends([2, 5])),
    lambda: (torch.randn(5, 8), torch.randn(3, 8, 8), ends([2, 5])),
    lambda: (torch.randn(5, 8), torch.randn(2, 8, 8), torch.tensor([2, 5])),
    lambda: (torch.randn(5, 8), torch.randn(2, 8, 8).double(), ends([2, 5])),
    lambda: (torch.randn(5, 6), torch.randn(2, 6, 8), ends([2, 5])),
    lambda: (torch.randn(8), torch.randn(2, 8, 8), ends([2, 5])),
])
def test_wrong_calls(wrong):
    a, b, e = wrong()
    here, there = raises_alike(lambda a, b: torch._grouped_mm(a, b, offs=to(e, a.device)), a, b)
    assert here == there


def test_other_groups_need_no_other_program():
    a, b = leaf(12, 8).detach().to(D).requires_grad_(), leaf(3, 8, 16).detach().to(D).requires_grad_()
    sums = []
    for step, values in enumerate(ENDS + [[1, 2, 3]]):
        a.grad = b.grad = None
        mark = probe.flush_count()
        torch._grouped_mm(a, b, offs=ends(values).to(D)).square().sum().backward()
        sums.append(a.grad.sum().item() + b.grad.sum().item())
        assert step < 2 or all(f.hit for f in probe.flushes_since(mark)), step
    assert len(set(sums)) == len(sums)
