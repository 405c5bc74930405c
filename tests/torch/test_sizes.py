"""Sizes that change from step to step: the results are right at every size, and after a few sizes hardly a kernel is compiled any more."""
import os
import subprocess
import sys

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_tiny

D = "tiny"
SIZES = [9, 12, 15, 11, 14, 10, 13, 17, 24, 29, 32, 31, 18, 22]


def compiled():
    torch.tiny.synchronize()
    return torch_tiny._C.engine_stats(0)["kernels_compiled"]


def run_sizes(f, make, sizes=SIZES):
    """Kernels that each size compiled; every result is compared with the CPU's."""
    counts = []
    for n in sizes:
        args = make(n)
        before = compiled()
        got = f(*(a.to(D) for a in args))
        got = [t.cpu() for t in (got if isinstance(got, (tuple, list)) else [got])]
        counts.append(compiled() - before)
        want = f(*args)
        for g, w in zip(got, want if isinstance(want, (tuple, list)) else [want], strict=True):
            torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-4)
    return counts


W = torch.randn(24, 24, generator=torch.Generator().manual_seed(1))

PROGRAMS = {
    "pointwise": (lambda x: (x * 2 + 1).sigmoid() * x, lambda n: [torch.randn(3, n)]),
    "softmax": (lambda x: torch.softmax(x, -1), lambda n: [torch.randn(5, n)]),
    "mean and variance": (lambda x: (x.mean(-1), x.var(-1), x.mean()), lambda n: [torch.randn(6, n)]),
    "rows of a product": (lambda x, w: F.gelu(x @ w), lambda n: [torch.randn(n, 24), W]),
    "columns of a product": (lambda x, w: w @ x, lambda n: [torch.randn(24, n), W]),
    "depth of a product": (lambda x, y: x @ y, lambda n: [torch.randn(20, n), torch.randn(n, 20)]),
    "attention": (lambda q: torch.softmax(q @ q.transpose(-1, -2) / 5, -1) @ q, lambda n: [torch.randn(2, n, 24)]),
    "prefix sums": (lambda x: x.cumsum(1), lambda n: [torch.randn(4, n)]),
    "joining": (lambda x, y: torch.cat([x, y], 1).flip(1), lambda n: [torch.randn(3, n), torch.randn(3, 7)]),
    "padding and views": (lambda x: F.pad(x, (2, 3))[:, 1:-1].transpose(0, 1).contiguous(), lambda n: [torch.randn(4, n)]),
    "integers": (lambda x: (x // 3 % 5, x.sum(), x.argmax()), lambda n: [torch.randperm(n * 7)]),
    "convolution": (lambda x, w: F.conv1d(x, w, padding=1), lambda n: [torch.randn(2, 6, n), torch.randn(8, 6, 3)]),
    "half floats": (lambda x: (x * x).sum(-1).float(), lambda n: [torch.randn(7, n).bfloat16()]),
    "embedding": (lambda i, w: F.embedding(i, w).sum(0), lambda n: [torch.randint(0, 24, (n, 3)), W]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    f, make = PROGRAMS[name]
    counts = run_sizes(f, make)
    # Three sizes teach what changes, below 16 and again above, where other vectors and blocks pay. Some kernels are left even then: where a
    # size divides another, a kernel has another form.
    assert sum(counts) <= len(SIZES) * max(counts) / 2, f"kernels compiled by size: {dict(zip(SIZES, counts))}"


def test_a_number_that_folds_away_is_still_an_argument():
    """Two kernels of one form, one called with a number that it does not use."""
    for n in (2, 3, 5, 6, 7):
        a, b = torch.arange(n, device=D), torch.arange(n, device=D)
        a.masked_fill_(a > 0, -4)
        a.sub_(a)
        b.sub_(b)
        assert a.cpu().tolist() == b.cpu().tolist() == [0] * n


def test_far_sizes():
    """Each doubling may compile anew, a size in between may not."""
    f, make = PROGRAMS["attention"]
    run_sizes(f, make, [3, 5, 6])
    for size in (1, 2, 7, 64, 100, 260, 1000):
        run_sizes(f, make, [size])


def test_gradients():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 5))
    twin = nn.Sequential(*[type(m)(*a) for m, a in zip(model, [(24, 32), (), (32,), (32, 5)])])
    twin.load_state_dict(model.state_dict())
    twin = twin.to(D)
    for n in SIZES:
        x, y = torch.randn(n, 24), torch.randint(0, 5, (n,))
        for m, d in ((model, "cpu"), (twin, D)):
            m.zero_grad()
            F.cross_entropy(m(x.to(d)), y.to(d)).backward()
        for p, q in zip(model.parameters(), twin.parameters()):
            torch.testing.assert_close(q.grad.cpu(), p.grad, rtol=1e-4, atol=1e-5)


def test_a_cache_that_grows():
    """What a language model does, token by token: few kernels for forty lengths."""
    keys = {d: torch.zeros(2, 0, 16, device=d) for d in ("cpu", D)}
    start, counts = compiled(), []
    for step in range(40):
        x, out = torch.randn(2, 1, 16), {}
        for d in keys:
            keys[d] = torch.cat([keys[d], x.to(d)], 1)
            out[d] = torch.softmax(x.to(d) @ keys[d].transpose(1, 2) / 4, -1) @ keys[d]
        torch.testing.assert_close(out[D].cpu(), out["cpu"], rtol=1e-5, atol=1e-5)
        counts.append(compiled() - start)
    assert counts[-1] - counts[20] <= counts[20] / 2, counts


@pytest.mark.parametrize("after", ["0", "1"])
def test_switch(after):
    """Never, and at once; the results are the same."""
    program = ("import torch\nfor n in (3, 17, 40, 65):\n    x = torch.arange(float(n * 5)).reshape(5, n) / n\n"
               "    f = lambda x: torch.softmax(x, -1).cumsum(0).sum(1) + x.amax(-1)\n"
               "    torch.testing.assert_close(f(x.to('tiny')).cpu(), f(x))\n"
               # its gradient checks positions that it counts up itself: those of elements that there are, not of a whole vector
               "y = torch.ones(3, 4, device='tiny', requires_grad=True)\ntorch.trace(y).backward()\nassert y.grad.sum() == 3\nprint('equal')")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300,
                          env=dict(os.environ, TINY_SYMBOLIC=after, TINY_CACHE_MB="0"))
    assert done.stdout == "equal\n", done.stderr[-2000:]
