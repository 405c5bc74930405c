"""Memory that is written and memory that is read: what PyTorch refuses is refused, what it allows gives the same."""
import warnings

import pytest
import torch
from nn_compare import D

pytestmark = pytest.mark.filterwarnings("ignore")


def ones(d, *shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype, device=d)


OUT = {  # operator(out, x [4], index [4])
    "index_select": lambda o, x, i: torch.index_select(x, 0, i, out=o),
    "take": lambda o, x, i: torch.take(x, i, out=o),
    "gather": lambda o, x, i: torch.gather(x, 0, i, out=o),
    "index": lambda o, x, i: torch.ops.aten.index.Tensor_out(x, [i], out=o),
    "masked_select": lambda o, x, i: torch.masked_select(x, x > 0, out=o),
    "scatter": lambda o, x, i: torch.scatter(x, 0, i, x, out=o),
    "scatter_add": lambda o, x, i: torch.scatter_add(x, 0, i, x, out=o),
    "scatter_reduce": lambda o, x, i: torch.scatter_reduce(x, 0, i, x, "sum", out=o),
    "index_add": lambda o, x, i: torch.index_add(x, 0, i, x, out=o),
    "index_copy": lambda o, x, i: torch.index_copy(x, 0, i, x, out=o),
    "index_reduce": lambda o, x, i: torch.index_reduce(x, 0, i, x, "prod", out=o),
    "cat": lambda o, x, i: torch.cat([x], out=o),
    "add": lambda o, x, i: torch.add(x, x, out=o),
    "cumsum": lambda o, x, i: torch.cumsum(x, 0, out=o),
    "logcumsumexp": lambda o, x, i: torch.logcumsumexp(x, 0, out=o),
    "sum": lambda o, x, i: torch.sum(x, 0, keepdim=True, out=o),
    "where": lambda o, x, i: torch.where(x > 0, x, x, out=o),
}
PLACES = {  # (out, x)
    "expanded, to be resized": lambda d: (ones(d, 1).expand(7), ones(d, 4)),
    "expanded": lambda d: (ones(d, 1).expand(4), ones(d, 4)),
    "the input": lambda d: (lambda x: (x, x))(ones(d, 4)),
    "part of the input": lambda d: (lambda y: (y[2:6], y[:4]))(ones(d, 8)),
}


def outcome(function):
    try:
        function()
    except Exception as e:
        return type(e).__name__, str(e).split("\n")[0]
    return "nothing"


@pytest.mark.parametrize("name", OUT)
def test_out_that_overlaps(name):
    for place, make in PLACES.items():
        seen = []
        for d in ("cpu", D):
            out, x = make(d)
            seen.append(outcome(lambda out=out, x=x, d=d: OUT[name](out, x, torch.arange(4, device=d))))
        assert seen[0] == seen[1], place


SELF = {  # x [4] is also index, mask or source
    "index_put_": lambda x, i: x.index_put_((i,), x), "index_put_ of an index": lambda x, i: i.index_put_((i,), i[:1].clone()),
    "index_add_": lambda x, i: x.index_add_(0, i, x), "index_copy_": lambda x, i: x.index_copy_(0, i, x), "scatter_": lambda x, i: x.scatter_(0, i, x),
    "put_": lambda x, i: x.put_(i, x), "put_ of an index": lambda x, i: i.put_(i, i.clone()), "index_fill_": lambda x, i: i.index_fill_(0, i, 5),
    "scatter_ of an index": lambda x, i: i.scatter_(0, i, 5), "masked_scatter_": lambda x, i: x.masked_scatter_(x > 0, x),
    "add_": lambda x, i: x[1:].add_(x[:3]), "copy_": lambda x, i: x[1:].copy_(x[:3]),
}


@pytest.mark.parametrize("name", SELF)
def test_in_place_with_itself(name):
    a, b = (outcome(lambda d=d: SELF[name](ones(d, 4), torch.arange(4, device=d))) for d in ("cpu", D))
    assert a == b


def expanded(d):
    return torch.zeros(2, 1, 3, device=d).expand(2, 4, 3)


FILLS = {
    "masked_fill_": lambda x, d: x.masked_fill_(torch.tensor([[True], [False], [False], [False]], device=d), 5.0),
    "masked_fill_ in one place": lambda x, d: x.masked_fill_((torch.arange(24, device=d) == 17).reshape(2, 4, 3), 5.0),
    "masked_fill_ with a tensor": lambda x, d: x.masked_fill_(x == 0, torch.tensor(5.0, device=d)),
    "index_fill_ of the shared dimension": lambda x, d: x.index_fill_(1, torch.tensor([2], device=d), 5.0),
    "index_fill_ of another": lambda x, d: x.index_fill_(2, torch.tensor([-1, 0], device=d), 5.0),
    "index_fill_ of nothing": lambda x, d: x.index_fill_(1, torch.zeros(0, dtype=torch.int64, device=d), 5.0),
    "index_put_": lambda x, d: x.index_put_((torch.tensor([1], device=d), torch.tensor([3], device=d)), torch.tensor(5.0, device=d)),
    "a list": lambda x, d: x.__setitem__((slice(None), [0, 1]), 5.0),
    "a mask": lambda x, d: x.__setitem__(x[:, :, 0] == 0, 5.0),
    "a column": lambda x, d: x.__setitem__((slice(None), slice(None), torch.tensor([0, 2], device=d)), 5.0),
}


@pytest.mark.parametrize("name", FILLS)
def test_filling_expanded_tensors(name):
    """PyTorch allows it, with a warning: what is filled in one place appears in all that share it."""
    results = []
    for d in ("cpu", D):
        x = expanded(d)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            FILLS[name](x, d)
        results.append(x.cpu())
        assert any("on expanded tensors is deprecated" in str(w.message) for w in caught) or "nothing" in name
    assert torch.equal(*results)


@pytest.mark.parametrize("name", ["add_", "relu_", "copy_", "index_add_", "scatter_", "masked_scatter_", "put_", "cumsum_", "uniform_"])
def test_other_writes_to_expanded_tensors_are_refused(name):
    writes = {"add_": lambda x, d: x.add_(1), "relu_": lambda x, d: x.relu_(), "copy_": lambda x, d: x.copy_(torch.ones(2, 4, 3, device=d)),
              "index_add_": lambda x, d: x.index_add_(0, torch.tensor([1], device=d), ones(d, 1, 4, 3)), "cumsum_": lambda x, d: x.cumsum_(0),
              "scatter_": lambda x, d: x.scatter_(0, torch.zeros(1, 1, 1, dtype=torch.int64, device=d), 1.0), "uniform_": lambda x, d: x.uniform_(),
              "masked_scatter_": lambda x, d: x.masked_scatter_(x == 0, torch.ones(24, device=d)),
              "put_": lambda x, d: x.put_(torch.tensor([1], device=d), ones(d, 1))}
    a, b = (outcome(lambda d=d: writes[name](expanded(d), d)) for d in ("cpu", D))
    assert a == b and a != "nothing"
