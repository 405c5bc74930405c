"""Matrix products, convolutions, pooling, interpolation, recurrent cells: forward and backward against the CPU."""
import itertools
import math
import random

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from nn_compare import D, check, compare, raises_alike, to

pytestmark = pytest.mark.usefixtures("no_fallback")
FLOATS = [torch.float32, torch.bfloat16, torch.float16]


def rand(*sizes, dtype=torch.float32, grad=True):
    t = torch.randn(sizes)
    return t.to(dtype).requires_grad_(grad and dtype.is_floating_point)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


# ---- matrix products
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("m,k,n", [(1, 1, 1), (3, 5, 7), (17, 33, 65), (64, 128, 32), (5, 0, 4), (0, 3, 2)])
def test_mm(m, k, n, dtype):
    compare(torch.mm, rand(m, k, dtype=dtype), rand(k, n, dtype=dtype), reference=torch.float32)


@pytest.mark.parametrize("left,right", [((7, 5), (5,)), ((5,), (5, 3)), ((5,), (5,)),
                         ((2, 3, 4, 5), (5, 6)), ((2, 1, 4, 5), (3, 5, 2)), ((3, 4, 5), (5,))])
def test_matmul_shapes(left, right):
    compare(torch.matmul, rand(*left), rand(*right))


def test_mm_of_transposed_and_strided():
    compare(lambda a, b: a.t() @ b[::2, 1:], rand(6, 9), rand(12, 5))
    compare(lambda a, b: a.expand(4, 6) @ b.flip(0), rand(1, 6), rand(6, 3))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.int8])
def test_integer_products_wrap(dtype):
    a = torch.randint(-2**62, 2**62, (4, 6)).to(dtype)
    b = torch.randint(-2**62, 2**62, (6, 5)).to(dtype)
    compare(torch.mm, a, b)
    compare(lambda c, a, b: torch.addmm(c, a, b, beta=3, alpha=2), torch.ones(5, dtype=dtype), a, b)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("beta,alpha", [(1, 1), (0.3, 1.7), (0, 2), (1, 0)])
def test_products_with_addend(dtype, beta, alpha):
    kw = dict(beta=beta, alpha=alpha)
    two = rand(4, 6, dtype=dtype), rand(6, 5, dtype=dtype)
    batch = rand(3, 4, 6, dtype=dtype), rand(3, 6, 5, dtype=dtype)
    for addend in (rand(4, 5, dtype=dtype), rand(5, dtype=dtype), rand(4, 1, dtype=dtype)):
        compare(lambda c, a, b: torch.addmm(c, a, b, **kw), addend, *two, reference=torch.float32)
        compare(lambda c, a, b: torch.baddbmm(c, a, b, **kw), addend, *batch, reference=torch.float32)
    compare(lambda c, a, b: torch.addbmm(c, a, b, **kw), rand(4, 5, dtype=dtype), *batch, reference=torch.float32)
    compare(lambda c, a, b: torch.addmv(c, a, b, **kw), rand(4, dtype=dtype), two[0], rand(6, dtype=dtype), reference=torch.float32)
    compare(lambda c, a, b: torch.addr(c, a, b, **kw), rand(4, 5, dtype=dtype),
            rand(4, dtype=dtype), rand(5, dtype=dtype), reference=torch.float32)


def test_addbmm_rounds_after_every_batch():
    """Integers, whose sums 16 bits cannot hold: nothing but the order and number of roundings can differ."""
    for dtype in (torch.bfloat16, torch.float16):
        a, b, c = (torch.randint(-9, 10, size).to(dtype) for size in ((12, 4, 8), (12, 8, 5), (4, 5)))
        for scale in ({}, {"alpha": 2, "beta": 3}):
            compare(lambda c, a, b: torch.addbmm(c, a * 5, b * 7, **scale), c, a, b, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [(64, 48, 96), (33, 70, 65), (20, 100, 9), (5, 64, 300), (100, 2, 40)], ids=str)
def test_products_of_short_floats_are_exact(dtype, size):
    """Small integers, so that nothing but the last rounding can differ: whole, transposed, and beginning at odd elements."""
    rows, depth, columns = size
    for form in range(8):
        a, b = (torch.randint(-6, 7, s).to(dtype) for s in ((rows, depth + 2), (depth + 2, columns)))
        a, b = a.t().contiguous().t() if form & 1 else a, b.t().contiguous().t() if form & 2 else b
        if form & 4:
            compare(lambda a, b: a[:, 1:-1] @ b[1:-1], a, b, reference=torch.float64, rtol=0, atol=0)
        else:
            compare(torch.mm, a, b, reference=torch.float64, rtol=0, atol=0)
    compare(torch.bmm, torch.randint(-6, 7, (3, rows, depth)).to(dtype), torch.randint(-6, 7, (3, depth, columns)).to(dtype),
            reference=torch.float64, rtol=0, atol=0)


def test_beta_of_zero_ignores_nan():
    nan = torch.full((2, 3), math.nan)
    compare(lambda c, a, b: torch.addmm(c, a, b, beta=0), nan, rand(2, 4), rand(4, 3))
    compare(lambda c, a, b: c.addmm_(a, b, beta=0), nan, rand(2, 4, grad=False), rand(4, 3, grad=False))


def test_dot():
    for f in (torch.dot, torch.vdot):
        compare(f, rand(37), rand(37))
    compare(torch.dot, torch.arange(5), torch.arange(5))


def test_product_errors():
    for f, args in [(torch.mm, (rand(2, 3), rand(4, 5))), (torch.bmm, (rand(2, 3, 4), rand(3, 4, 5))),
                    (torch.mm, (rand(2, 3), rand(3, 4, dtype=torch.bfloat16))),
                    (torch.dot, (rand(3), rand(4))), (torch.mm, (rand(2), rand(2, 2)))]:
        expected, actual = raises_alike(f, *args)
        assert actual.splitlines()[0] == expected.splitlines()[0]


# ---- convolutions
def convolution_cases(count, seed):
    rng = random.Random(seed)
    for _ in range(count):
        n, groups, transposed = rng.choice([1, 2, 2, 3]), rng.choice([1, 1, 2, 3]), rng.random() < 0.5
        def some(low, high):
            return [rng.randint(low, high) for _ in range(n)]
        size, kernel, stride, padding, dilation = some(2, 7), some(1, 4), some(1, 3), some(0, 2), some(1, 3)
        extra = [rng.randint(0, max(s, d) - 1) for s, d in zip(stride, dilation)] if transposed else [0] * n
        if not transposed and any(d * (k - 1) + 1 > s + 2 * p for d, k, s, p in zip(dilation, kernel, size, padding)):
            continue
        if transposed and any((s - 1) * st - 2 * p + d * (k - 1) + o < 0 for s, st, p, d,
                              k, o in zip(size, stride, padding, dilation, kernel, extra)):
            continue
        yield n, groups, transposed, size, kernel, stride, padding, dilation, extra, rng.random() < 0.5


@pytest.mark.parametrize("case", list(convolution_cases(40, 5)), ids=str)
def test_convolution(case):
    n, groups, transposed, size, kernel, stride, padding, dilation, extra, bias = case
    x = rand(2, 2 * groups, *size)
    w = rand(2 * groups, 3, *kernel) if transposed else rand(3 * groups, 2, *kernel)
    b = rand(3 * groups) if bias else None
    compare(lambda x, w, b: torch.convolution(x, w, b, stride, padding, dilation, transposed, extra, groups), x, w, b, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_convolution_dtypes(dtype):
    compare(lambda x, w, b: F.conv2d(x, w, b, padding=1, stride=2), rand(2, 3, 9, 8, dtype=dtype), rand(4, 3, 3, 3, dtype=dtype), rand(4, dtype=dtype),
            reference=torch.float64)
    compare(lambda x, w: F.conv2d(x, w), torch.randint(-9, 9, (1, 2, 5, 5)), torch.randint(-9, 9, (3, 2, 2, 2)))


def test_convolution_without_batch_and_of_nothing():
    compare(lambda x, w: F.conv2d(x, w, padding="same"), rand(3, 6, 6), rand(4, 3, 3, 3))
    compare(lambda x, w: F.conv1d(x, w), rand(0, 3, 6), rand(4, 3, 3))


def test_convolution_of_channels_last():
    x = torch.randn(2, 4, 6, 5).to(memory_format=torch.channels_last).requires_grad_()
    compare(lambda x, w: F.conv2d(x, w, padding=1), x, rand(6, 4, 3, 3))


def test_convolution_errors():
    for args in [(rand(1, 3, 5, 5), rand(4, 2, 3, 3)), (rand(1, 2, 2, 2), rand(4, 2, 3, 3))]:
        expected, actual = raises_alike(F.conv2d, *args)
        assert actual == expected


# ---- pooling
def pool_cases(count, seed):
    rng = random.Random(seed)
    for _ in range(count):
        n = rng.choice([1, 2, 2, 3])
        kernel = [rng.randint(1, 3) for _ in range(n)]
        yield (n, [rng.randint(4, 9) for _ in range(n)], kernel, [rng.randint(1, 4) for _ in range(n)], [rng.randint(0, k // 2) for k in kernel],
               [rng.randint(1, 2) for _ in range(n)], rng.random() < 0.5, rng.random() < 0.5)


@pytest.mark.parametrize("case", list(pool_cases(20, 1)), ids=str)
@pytest.mark.parametrize("kind", ["random", "ties", "nan"])
def test_max_pool(case, kind):
    n, size, kernel, stride, padding, dilation, ceil, _ = case
    if any(d * (k - 1) + 1 > s + 2 * p for d, k, s, p in zip(dilation, kernel, size, padding)):
        pytest.skip("kernel larger than the input")
    x = torch.randn(2, 3, *size) if kind == "random" else torch.randint(-2, 3, [2, 3, *size]).float()
    if kind == "nan":
        x[torch.rand_like(x) < 0.1] = math.nan
        x[torch.rand_like(x) < 0.3] = -math.inf
    pool = [F.max_pool1d, F.max_pool2d, F.max_pool3d][n - 1]
    compare(lambda x: pool(x, kernel, stride, padding, dilation, ceil, return_indices=True), x.requires_grad_())


@pytest.mark.parametrize("case", list(pool_cases(20, 2)), ids=str)
def test_avg_pool(case):
    n, size, kernel, stride, padding, _, ceil, include = case
    pool = [F.avg_pool1d, F.avg_pool2d, F.avg_pool3d][n - 1]
    compare(lambda x: pool(x, kernel, stride, padding, ceil, include), rand(2, 3, *size))
    if n > 1:
        compare(lambda x: pool(x, kernel, stride, padding, ceil, include, 7), rand(2, 3, *size))


def test_windows_of_strided_memory():
    """Rows of a padded view that merge in memory: their number is a remainder, with a gate."""
    x = torch.randn(487).as_strided((1, 3, 9, 9), (486, 162, 18, 2), 1)
    compare(lambda x: F.avg_pool2d(x, 3, 1, 1), x)
    compare(lambda x, w: F.conv2d(x, w, padding=1), x, rand(4, 3, 3, 3, grad=False))
    compare(lambda x: F.pad(x, (1, 1, 1, 1)), x)


@pytest.mark.parametrize("size,out", [((8, 6), (4, 3)), ((7, 5), (3, 4)), ((3, 4), (7, 8)),
                         ((5, 5), (1, 1)), ((6, 6), (6, 6)), ((4, 5, 6), (2, 3, 4)), ((4, 4, 2), (3, 6, 1))])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_adaptive_pool(size, out, dtype):
    average, greatest = (F.adaptive_avg_pool2d, F.adaptive_max_pool2d) if len(size) == 2 else (F.adaptive_avg_pool3d, F.adaptive_max_pool3d)
    compare(lambda x: average(x, out), rand(2, 3, *size, dtype=dtype))
    compare(lambda x: greatest(x, out, return_indices=True), rand(2, 3, *size, dtype=dtype))


# ---- interpolation, unfold
@pytest.mark.parametrize("mode,n", [("nearest", 1), ("nearest", 2), ("nearest", 3), ("nearest-exact", 2),
                         ("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3)])
@pytest.mark.parametrize("target", [dict(scale_factor=2), dict(scale_factor=0.6), dict(scale_factor=1.7),
                         dict(size=5), dict(scale_factor=1.7, recompute_scale_factor=True)], ids=str)
def test_interpolate(mode, n, target):
    for align in ([None] if "nearest" in mode else [False, True]):
        compare(lambda x: F.interpolate(x, mode=mode, align_corners=align, **target), rand(2, 3, *[4, 6, 5][:n]))


def test_unfold_and_fold():
    for kernel, dilation, padding, stride in itertools.product([2, (3, 2)], [1, 2], [0, 1], [1, 2]):
        compare(lambda x: F.unfold(x, kernel, dilation, padding, stride), rand(2, 3, 6, 7))
        columns = F.unfold(torch.randn(2, 3, 6, 7), kernel, dilation, padding, stride).requires_grad_()
        compare(lambda x: F.fold(x, (6, 7), kernel, dilation, padding, stride), columns)
    compare(lambda x: F.pixel_unshuffle(F.pixel_shuffle(x, 2), 3), rand(2, 4, 6, 9))


# ---- recurrent networks
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("bias,bidirectional,layers", [(True, False, 1), (False, True, 2), (True, True, 1)])
def test_recurrent(kind, bias, bidirectional, layers):
    here = kind(5, 7, layers, bias=bias, bidirectional=bidirectional, batch_first=True)
    there = kind(5, 7, layers, bias=bias, bidirectional=bidirectional, batch_first=True)
    there.load_state_dict(here.state_dict())
    there.to(D)
    x = rand(3, 4, 5)
    y = to(x, D)
    a, b = here(x), there(y)
    check(b[0], a[0])
    (a[0] * a[0]).sum().backward()
    (b[0] * b[0]).sum().backward()
    check(y.grad, x.grad)
    for p, q in zip(here.parameters(), there.parameters(), strict=True):
        check(q.grad, p.grad)


def test_cells():
    for kind, state in ((nn.LSTMCell, 2), (nn.GRUCell, 1)):
        here = kind(5, 7)
        there = kind(5, 7)
        there.load_state_dict(here.state_dict())
        there.to(D)
        x, h = rand(3, 5), [rand(3, 7) for _ in range(state)]
        a = here(x, tuple(h) if state == 2 else h[0])
        b = there(to(x, D), tuple(to(h, D)) if state == 2 else to(h[0], D))
        for p, q in zip(a if state == 2 else [a], b if state == 2 else [b], strict=True):
            check(q, p)


# ---- attention
@pytest.mark.parametrize("causal,mask", [(False, False), (True, False), (False, True)])
def test_attention(causal, mask):
    q, k, v = rand(2, 3, 6, 8), rand(2, 3, 6 if causal else 5, 8), rand(2, 3, 6 if causal else 5, 8)
    m = torch.rand(6, 5) < 0.7 if mask else None
    compare(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m, is_causal=causal), q, k, v, m)


# ---- optimizers
@pytest.mark.parametrize("make", [
    lambda p: torch.optim.Adam(p, lr=0.02, fused=True), lambda p: torch.optim.Adam(p, lr=0.02, weight_decay=0.1, amsgrad=True, fused=True),
    lambda p: torch.optim.AdamW(
    p, lr=0.02, weight_decay=0.1, fused=True), lambda p: torch.optim.AdamW(
        p, lr=torch.tensor(0.02), fused=True),
    lambda p: torch.optim.SGD(p, lr=0.1, fused=True), lambda p: torch.optim.SGD(
        p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1, fused=True),
    lambda p: torch.optim.Adagrad(
    p, lr=0.1, lr_decay=0.1, weight_decay=0.1, fused=True), lambda p: torch.optim.Adam(
        p, lr=0.02, maximize=True, fused=True),
], ids=["adam", "adam_amsgrad", "adamw", "adamw_tensor_lr", "sgd", "sgd_nesterov", "adagrad", "adam_maximize"])
def test_fused_optimizers(make):
    data, target = torch.randn(16, 6), torch.randn(16, 2)

    def train(device):
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)).to(device)
        optimizer, x, y = make(model.parameters()), data.to(device), target.to(device)
        for _ in range(5):
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()
        return list(model.parameters())

    for p, q in zip(train("cpu"), train(D), strict=True):
        check(q, p)


def test_gradient_scaling():
    parameter = torch.nn.Parameter(torch.ones(3, device=D))
    optimizer, scaler = torch.optim.SGD([parameter], lr=1.0), torch.amp.GradScaler(D, init_scale=8.0, growth_interval=2)
    for factor in (1.0, math.inf, 2.0, 3.0):
        optimizer.zero_grad()
        scaler.scale((parameter * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert parameter.tolist() == [1 - 1 - 2 - 3] * 3
    assert scaler.get_scale() == 8.0  # halved once, doubled once
