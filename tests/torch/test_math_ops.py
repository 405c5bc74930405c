"""Pointwise operators, reductions, normalisation, losses and random numbers at their edges: special values, wrapping, rounding, promotion, empties,
errors. The bulk of ordinary inputs comes from PyTorch's own samples (test_opinfo_sample.py, tests/lower)."""
import itertools
import math

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from nn_compare import D, check, compare, raises_alike, to

pytestmark = pytest.mark.usefixtures("no_fallback")
# Without denormals: PyTorch's vectorised fmod gives NaN for a denormal divisor.
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 1e-7, 1e7, 88.0, -88.0, 1e30, -1e30, math.inf, -math.inf, math.nan]
INTS = [0, 1, -1, 2, -2, 3, -3, 7, -7, 100, 127, -128]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def special(dtype=torch.float32):
    return torch.tensor(SPECIAL, dtype=torch.float64).to(dtype)


def pairs(values, dtype):
    a, b = zip(*itertools.product(values, values))
    return torch.tensor(a, dtype=torch.float64).to(dtype), torch.tensor(b, dtype=torch.float64).to(dtype)


# ---- one tensor
UNARY = """abs neg sign sgn signbit ceil floor trunc round frac sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan
    sinh cosh tanh asinh acosh atanh erf erfc lgamma digamma sigmoid isnan isinf isposinf isneginf isfinite logical_not nan_to_num sinc erfinv logit
    relu square positive deg2rad""".split()
ACTIVATIONS = [F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.silu, F.mish, F.hardswish, F.hardsigmoid, F.hardtanh, F.leaky_relu, F.elu, F.celu, F.selu,
               F.softplus, F.logsigmoid, F.softshrink, F.hardshrink, F.tanhshrink, F.relu6, F.softsign, lambda x: F.threshold(x, 0.3, -7.0),
               lambda x: F.prelu(x, torch.tensor([0.2], device=x.device, dtype=x.dtype))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", UNARY)
def test_unary_special_values(name, dtype):
    x = special(dtype)
    if name == "digamma":
        x = x[(x.abs() < 1e20) & (x != 0) | x.isnan()]  # great negative arguments are poles after rounding
    if name == "lgamma" and dtype != torch.float64:
        x = x[x.abs() < 1e20]
    # Half precision on the CPU rounds in between for some of them: the reference is the rounded f32 result.
    compare(
    getattr(
        torch,
        name),
        x,
        backward=False,
        reference=torch.float32 if dtype.itemsize == 2 and name not in (
            "nan_to_num",
             "signbit") else None)


@pytest.mark.parametrize("f", ACTIVATIONS)
def test_activation_special_values(f):
    x = torch.tensor([v for v in SPECIAL if math.isfinite(v) and abs(v) < 1e20]).requires_grad_()
    compare(f, x)
    # with AVX-512, PyTorch's CPU kernel of gelu makes NaN of infinity
    y = torch.tensor([v for v in SPECIAL if v != math.inf]) if f is F.gelu else special()
    compare(f, y, backward=False)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("name", ["abs", "neg", "sign", "square", "bitwise_not", "ceil",
                         "floor", "round", "sqrt", "exp", "sigmoid", "logical_not", "relu"])
def test_unary_integers(name, dtype):
    compare(getattr(torch, name), torch.tensor(INTS).to(dtype), backward=False)


def test_signed_zero_and_rounding_keep_their_bits():
    for name in ("floor", "ceil", "trunc", "round", "neg", "abs", "sqrt", "relu"):
        x = torch.tensor([-0.0, 0.0, -0.3, 0.3, -2.5, 2.5, 3.5])
        a, b = getattr(torch, name)(x), getattr(torch, name)(x.to(D)).cpu()
        same = torch.signbit(a) == torch.signbit(b)
        assert (same | a.isnan() | (a == 0) if name in ("relu", "sqrt") else same | a.isnan()).all(), name
        check(b, a, rtol=0, atol=0)
    compare(lambda x: torch.round(x, decimals=2), torch.randn(50), backward=False)
    compare(lambda x: torch.round(x, decimals=-1), torch.randn(50) * 100, backward=False)


# ---- two tensors
BINARY = """add sub mul div pow atan2 maximum minimum fmax fmin fmod remainder copysign nextafter logaddexp logaddexp2 xlogy hypot heaviside eq ne lt le
    gt ge logical_and logical_or logical_xor""".split()


@pytest.mark.parametrize("name", BINARY)
def test_binary_special_values(name):
    a, b = pairs(SPECIAL, torch.float32)
    compare(getattr(torch, name), a, b, backward=False)


@pytest.mark.parametrize("mode", [None, "floor", "trunc"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64])
def test_division_modes(mode, dtype):
    a, b = pairs(SPECIAL if dtype.is_floating_point else INTS, dtype)
    if not dtype.is_floating_point:
        a, b = a[b != 0], b[b != 0]
    compare(lambda a, b: torch.div(a, b, rounding_mode=mode), a, b, backward=False)
    if mode == "floor":
        compare(torch.floor_divide, a, b, backward=False)
        compare(torch.remainder, a, b, backward=False)
        compare(torch.fmod, a, b, backward=False)


@pytest.mark.parametrize("f", [lambda a, b: a // b, lambda a, b: a % b, torch.fmod, lambda a, b: torch.div(a, b, rounding_mode="trunc")])
def test_integer_division_by_zero_raises(f):
    a, b = torch.tensor([1, 2, 3], device=D), torch.tensor([1, 0, 1], device=D)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        f(a, b).cpu()


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_integers_wrap(dtype):
    a, b = pairs(INTS, dtype)
    for f in (torch.add, torch.sub, torch.mul, torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor, torch.maximum, torch.minimum):
        compare(f, a, b, backward=False)
    e = b.abs() % 9
    compare(torch.pow, a, e, backward=False)
    compare(lambda a: a ** 5, a, backward=False)
    compare(torch.bitwise_left_shift, a, e, backward=False)
    compare(torch.bitwise_right_shift, a, e, backward=False)
    compare(lambda a, b: torch.add(a, b, alpha=3), a, b, backward=False)


@pytest.mark.parametrize("e", [0, 1, 2, 3, 0.5, -0.5, -1, -2, 1.7, -3, 4])
def test_powers_with_a_number(e):
    compare(lambda x: x ** e, (torch.rand(20) + 0.1).requires_grad_())
    compare(lambda x: x ** e, special(), backward=False)
    compare(lambda x: e ** x, torch.randn(20).requires_grad_())


PROMOTED = [torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("left", PROMOTED)
@pytest.mark.parametrize("right", PROMOTED)
def test_promotion(left, right):
    a, b = torch.tensor([0, 1, 2, 3]).to(left), torch.tensor([1, 1, 0, 3]).to(right)
    for f in (torch.add, torch.mul, torch.div, torch.maximum, torch.eq, torch.lt, torch.atan2):
        for x, y in ((a, b), (a, b[3]), (a[3], b), (a[3], b[3])):
            compare(f, x, y, backward=False)


@pytest.mark.parametrize("dtype", PROMOTED)
@pytest.mark.parametrize("number", [True, 2, 0.3])
def test_promotion_with_numbers(dtype, number):
    a = torch.tensor([0, 1, 2, 3]).to(dtype)
    for f in (torch.add, torch.mul, torch.div, torch.eq, torch.gt, lambda x, n: n - x if x.dtype != torch.bool and n is not True else x):
        compare(lambda x: f(x, number), a, backward=False)
    compare(lambda x: torch.where(x > 1, x, number), a, backward=False)


def test_three_operands():
    a, b, c = (torch.randn(3, 4).requires_grad_() for _ in range(3))
    compare(lambda a, b, c: torch.addcmul(a, b, c, value=0.3), a, b, c)
    compare(lambda a, b, c: torch.addcdiv(a, b, c.abs() + 1, value=-0.7), a, b, c)
    for w in (0.0, 0.2, 0.5, 0.8, 1.0):
        compare(lambda a, b: torch.lerp(a, b, w), a, b)
    compare(torch.lerp, a, b, torch.rand(3, 4))
    compare(lambda a: a.clamp(-0.5, 0.5), a)
    compare(lambda a, b, c: a.clamp(b, c), a, b, c)
    compare(lambda a: a.clamp(max=torch.tensor(math.nan, device=a.device)), a, backward=False)
    compare(lambda a: a.masked_fill(a > 0, -math.inf), a)
    compare(lambda a, b: torch.where(a > b, a, b), a, b)


def test_in_place_and_out():
    def run(x, y):
        z = torch.empty(0, device=x.device)
        torch.add(x, y, alpha=2, out=z)
        x.mul_(3).add_(y, alpha=0.5).clamp_(min=0).sub_(1)
        x[1:] += 5
        x.t()[0].neg_()
        return x, z
    compare(run, torch.randn(4, 4), torch.randn(4, 4), backward=False)
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.ones(3, dtype=torch.int64, device=D).add_(0.5)


@pytest.mark.parametrize("f", [lambda x: x - (x > 0), lambda x: -(x > 0), lambda x: F.gelu(x.long()),
                               lambda x: x.int() ** -1, lambda x: x + torch.ones(7, device=x.device), lambda x: x.sum(5), lambda x: x.sum((0, 0)),
                               lambda x: x[:0].amax(), lambda x: x[:0].argmax(), lambda x: torch.softmax(x.long(), 0), lambda x: x & x,
                               lambda x: F.layer_norm(x, (7,)), lambda x: torch.cat([x, x[:, :1]], 0), lambda x: x.long().mean()])
def test_errors_are_raised_at_the_call(f):
    x = torch.randn(3, 4)
    with pytest.raises(Exception) as cpu:
        f(x)
    with pytest.raises(type(cpu.value)):
        f(x.to(D))


# ---- reductions
REDUCTIONS = "sum mean prod amax amin argmax argmin all any logsumexp std var nansum count_nonzero median".split()[:-1]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool])
def test_reductions(name, dtype):
    if dtype in (torch.int32, torch.bool) and name in ("mean", "std", "var"):
        return
    if dtype == torch.bool and name in ("argmax", "argmin", "logsumexp"):
        return
    x = (torch.randn(3, 4, 5) * 3).to(dtype)
    f = getattr(torch, name)
    reference = torch.float32 if dtype == torch.bfloat16 else None
    for dim in (0, 1, 2, -1) + (() if name in ("argmax", "argmin", "prod") else ((0, 2), (0, 1, 2))):
        if isinstance(dim, tuple) and name in ("count_nonzero", "nansum", "all", "any"):
            compare(lambda x: f(x, dim=dim), x, backward=False, reference=reference)
        elif name == "count_nonzero":
            compare(lambda x: f(x, dim=dim), x, backward=False)
        else:
            for keep in (False, True):
                compare(lambda x: f(x, dim=dim, keepdim=keep), x, backward=False, reference=reference)
    if name != "logsumexp":
        compare(f, x, backward=False, reference=reference)
        compare(f, x.permute(2, 0, 1)[::2], backward=False, reference=reference)
    if dtype.is_floating_point and name not in ("argmax", "argmin", "all", "any", "count_nonzero"):
        compare(lambda x: f(x, dim=1), x.requires_grad_(), reference=reference)


def test_reductions_of_nothing_and_nan():
    e = torch.empty(3, 0)
    for f in (torch.sum, torch.mean, torch.prod, torch.all, torch.any, torch.nansum, torch.var):
        compare(lambda x: f(x, dim=1), e, backward=False)
        compare(lambda x: f(x, dim=0), e, backward=False)
        compare(f, e, backward=False)
    x = torch.tensor([[1.0, math.nan, 3.0], [-math.inf, 2.0, math.inf], [0.0, -0.0, 0.0]])
    for f in (torch.amax, torch.amin, torch.argmax, torch.argmin, torch.sum, torch.nansum, torch.logsumexp):
        compare(lambda x: f(x, dim=1), x, backward=False)
    for f in (torch.max, torch.min):
        compare(lambda x: tuple(f(x, dim=0)), x, backward=False)
        compare(f, x, backward=False)
    compare(lambda x: tuple(torch.aminmax(x, dim=1)), x, backward=False)


def test_ties_take_the_first():
    x = torch.tensor([[2, 5, 5, 1], [7, 7, 7, 7], [0, 1, 0, 1]])
    for d in (torch.int64, torch.float32, torch.uint8, torch.bfloat16):
        for f in (torch.argmax, torch.argmin):
            compare(lambda x: f(x, dim=1), x.to(d), backward=False)
            compare(f, x.to(d), backward=False)


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, math.inf, -math.inf])
def test_norms(p):
    x = torch.randn(4, 5).requires_grad_()
    compare(lambda x: torch.linalg.vector_norm(x, p), x)
    compare(lambda x: torch.linalg.vector_norm(x, p, dim=1, keepdim=True), x)
    compare(lambda x: x.norm(p, dim=0), x)


@pytest.mark.parametrize("rows,cols", [(1, 16), (3, 65), (8, 2048)])
def test_rows_kept_in_two_types(rows, cols):
    """What a row's kernel keeps from loop to loop is of several sizes: exponentials in float32, quotients in float64."""
    x = torch.randn(rows, cols)
    compare(lambda x: F.softmax(x, -1).double().var(-1), x)
    compare(lambda x: F.softmax(x.double(), -1).float().var(-1), x)
    compare(lambda x: F.layer_norm(F.softmax(x, -1).double().exp().float().exp().double(), (cols,)).float().var(-1), x)


@pytest.mark.parametrize("shape, dim", [((100000, 64), 0), ((100000, 3), 0), ((3000, 100, 7), (0, 1)), ((5, 333333), 1), ((1000003,), 0)], ids=str)
def test_rounding_errors_of_sums_do_not_grow_with_their_length(shape, dim):
    x = torch.rand(shape)
    check(x.to(D).sum(dim), x.double().sum(dim).float(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("n", [600, 2000, 9000])
def test_sums_over_a_middle_dimension_are_as_exact_as_the_cpu_s(n):
    x = torch.randn(64, n, 4)
    exact = x.double().sum(1)
    def error(y):
        return (y.double() - exact).square().mean().sqrt().item()
    assert error(x.to(D).sum(1).cpu()) <= 2 * error(x.sum(1))


def test_sums_of_many_stay_exact():
    x = torch.ones(3, 100003)
    compare(lambda x: x.sum(1), x, backward=False, rtol=0, atol=0)
    compare(lambda x: x.to(torch.bfloat16).sum(1), x, backward=False)
    compare(lambda x: (x > 0).sum(1), x, backward=False)
    y = torch.rand(2, 50000) + 1000
    check(y.to(D).var(1), y.double().var(1).float(), rtol=1e-3, atol=0)


# ---- softmax, normalisation
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("f", [torch.softmax, torch.log_softmax])
def test_softmax(f, dtype):
    for shape, dim in (((3, 7), 1), ((3, 7), 0), ((2, 3, 5), 1), ((), 0), ((1,), 0), ((0, 3), 1), ((3, 0), 1)):
        compare(lambda x: f(x, dim), (torch.randn(shape) * 4).to(dtype).requires_grad_(),
                reference=torch.float32 if dtype != torch.float32 else None)
    compare(lambda x: f(x, 1), torch.tensor([[1e4, -1e4, 0], [-math.inf, 0, 1], [-math.inf] * 3, [math.inf, 1, 2]]), backward=False)
    compare(lambda x: f(x, 0, dtype=torch.float32), torch.randn(5).to(torch.bfloat16), backward=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layer_and_rms_norm(dtype):
    reference = torch.float32 if dtype != torch.float32 else None
    x, w, b = (torch.randn(s).to(dtype).requires_grad_() for s in ((4, 3, 8), (8,), (8,)))
    compare(lambda x, w, b: F.layer_norm(x, (8,), w, b), x, w, b, reference=reference)
    compare(lambda x: F.layer_norm(x, (3, 8)), x, reference=reference)
    compare(lambda x, w: F.layer_norm(x, (8,), w), x, w, reference=reference)
    compare(lambda x, w: F.rms_norm(x, (8,), w, 1e-5), x, w, reference=reference)
    compare(lambda x: F.rms_norm(x, (3, 8)), x, reference=reference)
    compare(lambda x: F.layer_norm(x, (8,)), torch.randn(0, 8))


@pytest.mark.parametrize("shape", [(4, 6, 5), (2, 6, 3, 4), (2, 6)])
def test_group_norm(shape):
    x, w, b = torch.randn(shape).requires_grad_(), torch.randn(6).requires_grad_(), torch.randn(6).requires_grad_()
    compare(lambda x, w, b: F.group_norm(x, 3, w, b), x, w, b)
    compare(lambda x: F.group_norm(x, 2), x)
    if len(shape) > 2:
        compare(lambda x, w, b: F.instance_norm(x, weight=w, bias=b), x, w, b)


@pytest.mark.parametrize("make,shape", [(nn.BatchNorm1d, (5, 4)), (nn.BatchNorm1d, (5, 4, 3)), (nn.BatchNorm2d, (3, 4, 5, 2)),
                                        (nn.BatchNorm3d, (2, 4, 2, 3, 2))])
@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm_keeps_running_statistics(make, shape, momentum):
    a = make(4, momentum=momentum)
    nn.init.normal_(a.weight), nn.init.normal_(a.bias)
    b = make(4, momentum=momentum).to(D)
    b.load_state_dict(a.state_dict())
    for training in (True, True, False):
        a.train(training), b.train(training)
        x = torch.randn(shape)
        y = x.to(D).requires_grad_()
        x.requires_grad_()
        p, q = a(x), b(y)
        g = torch.randn(shape)
        p.backward(g), q.backward(g.to(D))
        check(q, p), check(y.grad, x.grad)
        for (name, s), t in zip(a.state_dict().items(), b.state_dict().values()):
            check(t, s), name
        for s, t in zip(a.parameters(), b.parameters()):
            check(t.grad, s.grad)


# ---- losses
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses(reduction):
    x, y = torch.randn(4, 5).requires_grad_(), torch.randn(4, 5).requires_grad_()
    for f in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss):
        compare(lambda x, y: f(x, y, reduction=reduction), x, y)
    compare(lambda x, y: F.smooth_l1_loss(x, y, reduction=reduction, beta=0.0), x, y)
    p, t, w = torch.rand(4, 5).requires_grad_(), torch.rand(4, 5), torch.rand(4, 5)
    compare(lambda p, t, w: F.binary_cross_entropy(p, t, w, reduction=reduction), p, t, w)
    compare(lambda x, t, w: F.binary_cross_entropy_with_logits(x, t, w, pos_weight=w[0], reduction=reduction), x, t, w)
    compare(lambda x, t: F.kl_div(x.log_softmax(1), t, reduction=reduction), x, t)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cross_entropy(reduction, dtype):
    reference = torch.float32 if dtype != torch.float32 else None
    x, t, w = torch.randn(6, 5).to(dtype).requires_grad_(), torch.tensor([0, 4, 2, -100, 1, 2]), torch.rand(5).to(dtype)
    compare(lambda x, t: F.cross_entropy(x, t, reduction=reduction), x, t, reference=reference)
    compare(lambda x, t, w: F.cross_entropy(x, t, w, reduction=reduction, ignore_index=2), x, t.clamp(min=0), w, reference=reference)
    compare(lambda x, t: F.cross_entropy(x, t, reduction=reduction, label_smoothing=0.1), x, t, reference=reference)
    images, labels = torch.randn(2, 5, 3, 4).to(dtype).requires_grad_(), torch.randint(0, 5, (2, 3, 4))
    compare(lambda x, t: F.cross_entropy(x, t, reduction=reduction), images, labels, reference=reference)
    compare(lambda x, t: F.nll_loss(x, t, reduction=reduction), x[0], torch.tensor(3), reference=reference)


def test_a_wrong_target_raises_at_the_read():
    loss = F.cross_entropy(torch.randn(3, 4, device=D), torch.tensor([0, 4, 1], device=D))
    with pytest.raises(IndexError, match="Target 4 is out of bounds"):
        loss.item()


# ---- padding
@pytest.mark.parametrize("mode", ["reflect", "replicate", "constant", "circular"])
@pytest.mark.parametrize("shape,pad", [
    ((2, 3, 6), (2, 1)), ((2, 3, 5, 6), (1, 2, 3, 0)), ((1, 2, 4, 3, 5), (1, 1, 2, 0, 0, 3)), ((2, 5), (1, 1)), ((3, 5, 6), (1, 2, 3, 0))])
def test_padding(mode, shape, pad):
    if mode == "circular" and len(shape) <= len(pad) // 2 + 1:
        return
    if mode == "constant":
        compare(lambda x: F.pad(x, pad, mode, 1.5), torch.randn(shape).requires_grad_())
        compare(lambda x: F.pad(x, (-1, 2)), torch.randn(shape).requires_grad_())
    compare(lambda x: F.pad(x, pad, mode), torch.randn(shape).requires_grad_())


# ---- sequences and shapes
def test_sequences():
    for args in ((5,), (2, 9), (1, 10, 3), (10, 0, -3), (0.0, 1.0, 0.1), (3, 3), (-2.5, 2.5)):
        check(torch.arange(*args, device=D), torch.arange(*args), rtol=0, atol=0)
    for args in ((0, 1, 11), (-3, 7, 1), (5, 5, 3), (2, -2, 8), (0, 1, 0)):
        check(torch.linspace(*args, device=D), torch.linspace(*args), rtol=1e-6, atol=1e-6)
        check(torch.logspace(*args, device=D), torch.logspace(*args), rtol=1e-5, atol=1e-6)
    for n, m in ((3, 3), (2, 5), (0, 2)):
        check(torch.eye(n, m, device=D), torch.eye(n, m))
    for d in (torch.int32, torch.bfloat16, torch.float64):
        check(torch.arange(7, dtype=d, device=D), torch.arange(7, dtype=d), rtol=0, atol=0)


def test_joining_and_moving():
    x, y = torch.randn(3, 4).requires_grad_(), torch.randn(2, 4).requires_grad_()
    compare(lambda x, y: torch.cat([x, y]), x, y)
    compare(lambda x, y: torch.cat([x, y, x, y, x, y]), x, y)
    compare(lambda x, y: torch.cat([x[:2], y], 1), x, y)
    compare(lambda x, y: torch.cat([x, y[:0], y.long()]), x, y, backward=False)
    compare(lambda x: torch.cat([torch.empty(0, device=x.device), x]), x)
    compare(lambda x: torch.stack([x, x * 2], 1), x)
    for f in (lambda x: x.flip(0, 1), lambda x: x.roll(3), lambda x: x.roll((1, -1), (0, 1)), torch.tril, lambda x: x.triu(1), lambda x: x.tril(-1),
              lambda x: x.repeat(2, 1, 3), lambda x: torch.rot90(x), lambda x: x.diag(), lambda x: torch.diag_embed(x), torch.trace):
        compare(f, x)
    compare(lambda x: F.pixel_shuffle(x, 2), torch.randn(2, 8, 3, 3).requires_grad_())
    compare(lambda x: F.pixel_unshuffle(x, 2), torch.randn(2, 3, 4, 6).requires_grad_())
    compare(lambda x: F.channel_shuffle(x, 2), torch.randn(2, 4, 3, 3))
    compare(lambda x: x.unfold(1, 3, 2), torch.randn(2, 9, 2).requires_grad_())


# ---- random numbers: moments of each distribution within five standard errors
N = 40000
DISTRIBUTIONS = [
    (lambda t: t.uniform_(-1, 3), 1.0, 4 / math.sqrt(12)),
    (lambda t: t.normal_(2, 3), 2.0, 3.0),
    (lambda t: t.exponential_(2.0), 0.5, 0.5),
    (lambda t: t.bernoulli_(0.3), 0.3, math.sqrt(0.21)),
    (lambda t: t.geometric_(0.25), 4.0, math.sqrt(12)),
    (lambda t: t.log_normal_(0.0, 0.5), math.exp(0.125), math.sqrt((math.exp(0.25) - 1) * math.exp(0.25))),
    (lambda t: t.random_(0, 10), 4.5, math.sqrt(99 / 12)),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("draw,mean,std", DISTRIBUTIONS)
def test_distributions(draw, mean, std, dtype):
    x = draw(torch.empty(N, dtype=dtype, device=D)).cpu().double()
    rounding = 0.01 if dtype == torch.bfloat16 else 0
    assert abs(x.mean().item() - mean) < 5 * std / math.sqrt(N) + rounding * abs(mean)
    assert abs(x.std().item() / std - 1) < 0.06


def test_ranges_of_random_integers():
    for d in (torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool):
        x = torch.empty(2000, dtype=d, device=D).random_().cpu()
        assert x.min() >= 0 and (d == torch.bool or x.double().max() > 0.9 * torch.iinfo(d).max)
    x = torch.randint(-5, 5, (5000,), device=D).cpu()
    assert x.min() == -5 and x.max() == 4
    p = torch.randperm(500, device=D).cpu()
    assert torch.equal(p.sort().values, torch.arange(500))
    u = torch.rand(100000, device=D).cpu()
    assert u.min() >= 0 and u.max() < 1


def test_dropout():
    x = torch.ones(N, device=D, requires_grad=True)
    y = F.dropout(x, 0.25)
    y.sum().backward()
    kept = (y != 0).float().mean().item()
    assert abs(kept - 0.75) < 0.02
    assert torch.equal(x.grad.cpu(), y.detach().cpu())
    assert torch.equal(F.dropout(x, 0.25, training=False).cpu(), x.detach().cpu())
    assert F.dropout(x, 1.0).sum().item() == 0


def test_multinomial():
    p = torch.tensor([0.1, 0.0, 0.6, 0.3], device=D)
    x = torch.multinomial(p, N, replacement=True).cpu()
    check(torch.bincount(x, minlength=4) / N, p.cpu(), rtol=0, atol=0.02)
    y = torch.multinomial(p.expand(50, 4), 3).cpu()
    assert (y.sort(1).values == torch.tensor([0, 2, 3])).all()
    assert not (torch.multinomial(p.expand(500, 4), 1).cpu() == 1).any()


def test_a_sum_of_negative_zeros_is_zero():
    for d in ("cpu", D):
        z = torch.tensor([[-0.0, -0.0]], device=d)
        results = z.sum(), z.sum(0), z.sum(1), z[0, 0].sum(), z[0, 0].sum(0), z.nansum(), z.mean(), z.mean(0)
        assert not any(r.signbit().any().item() for r in results)
