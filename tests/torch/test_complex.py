"""Complex numbers: arithmetic, functions, promotion, lazy conjugates, views of parts. All of it on the device: nothing falls back."""
import math
import random
import warnings

import pytest
import torch

import torch_tiny

D = "tiny"
C64, C128 = torch.complex64, torch.complex128
INF, NAN = math.inf, math.nan


@pytest.fixture(autouse=True)
def everything_is_native():
    before = dict(torch_tiny.fallback_counts())
    yield
    assert {k: v for k, v in torch_tiny.fallback_counts().items() if v != before.get(k, 0)} == {}


def moved(x):
    return x.to(D) if isinstance(x, torch.Tensor) else x


def agree(f, *arguments, **tolerance):
    """f on the device is f on the CPU."""
    want, got = f(*arguments), f(*map(moved, arguments))
    for w, g in zip(want if isinstance(want, tuple) else (want,), got if isinstance(got, tuple) else (got,)):
        assert g.device.type == D and g.dtype == w.dtype and g.is_conj() == w.is_conj() and g.is_neg() == w.is_neg()
        torch.testing.assert_close(g.cpu(), w, equal_nan=True, **tolerance)


def sample(*sizes, dtype=C64, seed=0):
    return torch.randn(*sizes, dtype=dtype, generator=torch.Generator().manual_seed(seed))


X, Y, R = sample(3, 4), sample(3, 4, seed=1), sample(3, 4, dtype=torch.float32, seed=2)

UNARY = """exp log log2 log10 log1p expm1 exp2 sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh abs angle sgn
           reciprocal square sigmoid sinc neg conj_physical isnan isinf isfinite isreal logical_not""".split()


@pytest.mark.parametrize("name", UNARY)
def test_functions(name):
    for dtype in (C64, C128):
        x = torch.cat([sample(40, dtype=dtype) * s for s in (1, 10, 1e-3)])
        agree(getattr(torch, name), x)


@pytest.mark.parametrize("op", [torch.add, torch.sub, torch.mul, torch.div, torch.pow, torch.eq, torch.ne, torch.logical_and, torch.rsub])
def test_promotion(op):
    """Tensors with and without dimensions, and numbers, of every kind beside complex ones."""
    others = [Y, Y.to(C128), R, R.double(), (R * 3).long(), R > 0, R.bfloat16().float(), torch.tensor(2 - 1j, dtype=C128), torch.tensor(3.5, dtype=torch.float64),
              2 - 0.5j, 3.5, 2]
    others += [1j, 2.5 - 3j]
    tensors_only, no_bool = op in (torch.logical_and, torch.rsub), op in (torch.sub, torch.rsub)
    for other in others:
        is_tensor = isinstance(other, torch.Tensor)
        if (tensors_only and not is_tensor) or (no_bool and is_tensor and other.dtype == torch.bool):
            continue
        agree(op, X, other)
        if is_tensor:
            agree(op, other, X)
    for real in (R, (R * 3).long(), R.double()):
        for number in (1j, 2.5 - 3j, torch.tensor(1j), torch.tensor(1 - 2j, dtype=C128)):
            if not tensors_only or isinstance(number, torch.Tensor):
                agree(op, real, number)


def test_default_dtype_decides():
    try:
        torch.set_default_dtype(torch.float64)
        assert (torch.arange(3, device=D) * 1j).dtype == C128
    finally:
        torch.set_default_dtype(torch.float32)
    assert (torch.arange(3, device=D) * 1j).dtype == C64


def test_factors_are_complex():
    agree(lambda x, y: torch.add(x, y, alpha=2 - 1j), X, Y)
    agree(lambda x, y: torch.sub(x, y, alpha=0.5j), X, R)
    agree(lambda x, y: torch.addcmul(x, y, x, value=1j), X, Y)
    agree(lambda x, y: torch.addcdiv(x, y, x, value=2 + 1j), X, Y)
    agree(lambda x, y: torch.addmm(x, y, y.mT @ y, beta=1j, alpha=2), X, Y)
    agree(lambda x, y: torch.lerp(x, y, 0.3), X, Y)


def test_making():
    for make in (lambda d: torch.full((2, 3), 1 + 2j, device=d), lambda d: torch.zeros(3, dtype=C64, device=d), lambda d: torch.ones(3, dtype=C128, device=d),
                 lambda d: torch.eye(3, dtype=C64, device=d), lambda d: torch.linspace(1j, 2, 7, device=d), lambda d: torch.logspace(0, 1j, 5, device=d),
                 lambda d: torch.tensor([1 + 2j, 3], device=d), lambda d: torch.scalar_tensor(2j, dtype=C64, device=d)):
        assert make(D).dtype == make("cpu").dtype
        torch.testing.assert_close(make(D).cpu(), make("cpu"))
    agree(torch.complex, R, R + 1)
    agree(lambda a: torch.polar(a.abs(), a + 1), R)
    with pytest.raises(RuntimeError, match="Expected both inputs to be Half, Float or Double tensors but got Long and Long"):
        torch.complex(torch.ones(2, dtype=torch.int64, device=D), torch.ones(2, dtype=torch.int64, device=D))


def test_views_share_memory():
    def program(z):
        z = z.clone()
        torch.view_as_real(z).mul_(2)
        z[1] += 1j
        z.real.fill_(7)
        z.imag[0] = 3
        z.conj().add_(2j)
        z.conj().imag.mul_(2)
        z.mT[2] = 4 - 1j
        pairs = torch.arange(8., device=z.device)
        torch.view_as_complex(pairs.view(4, 2))[1:] *= 1j
        return z, pairs
    agree(program, X)


def test_lazy_conjugates():
    agree(lambda z: z.conj(), X)
    agree(lambda z: z.conj().resolve_conj(), X)
    agree(lambda z: z.mH @ z, X)
    agree(lambda z: z.conj() @ z.mT.conj(), X)
    agree(lambda z, y: torch.vdot(z[0].conj(), y[0]), X, Y)
    agree(lambda z: z.conj().imag + 1, X)
    agree(lambda z: z.conj().imag.resolve_neg(), X)
    agree(lambda z: torch.cat([z.conj(), z]).conj().clone(), X)
    out = torch.zeros(4, 4, dtype=C64, device=D)
    torch.mm(X.to(D).mH, X.to(D), out=out.conj())
    torch.testing.assert_close(out.cpu(), (X.mH @ X).conj())
    assert X.to(D).conj()[0, 0].item() == X[0, 0].item().conjugate()


def test_outputs():
    agree(lambda x, y: torch.add(x, y, out=torch.empty(3, 4, dtype=C128, device=x.device)), X, Y)
    agree(lambda x, y: torch.add(x, y, out=torch.empty(3, 4, dtype=C64, device=x.device)), R, R)
    agree(lambda x: torch.abs(x, out=torch.empty(3, 4, dtype=C64, device=x.device)), X)
    agree(lambda x: torch.sum(x, 0, out=torch.empty(4, dtype=C64, device=x.device)), R)
    for call in (lambda x: torch.add(x, x, out=torch.empty(3, 4, device=x.device)), lambda x: torch.ones(3, 4, device=x.device).add_(x),
                 lambda x: torch.ones(3, 4, device=x.device).mul_(1j)):
        with pytest.raises(RuntimeError, match="result type ComplexFloat can't be cast to the desired output type Float"):
            call(X.to(D))


def test_casts():
    agree(lambda z: z.to(torch.bool), torch.tensor([0, 1j, 1, NAN + 0j, -0.0j]))
    agree(lambda z: z.to(C128).to(C64), X)
    agree(lambda r: r.to(C64), (R * 3).long())
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.set_warn_always(True)
        try:
            assert torch.equal(X.to(D).to(torch.float32).cpu(), X.real)
        finally:
            torch.set_warn_always(False)
    assert any("Casting complex values to real discards the imaginary part" in str(w.message) for w in seen)


def test_numbers_are_run_time_arguments():
    """Another complex factor is no other program."""
    x = X.to(D)
    (x * (1.25 + 0.75j)).cpu()
    compiled = torch.tiny.stats()["kernels_compiled"]
    for k in range(3):
        torch.testing.assert_close((x * (1.5 + k + 0.3j)).cpu(), X * (1.5 + k + 0.3j))
    assert torch.tiny.stats()["kernels_compiled"] == compiled


def kernels_of(f, *arguments):
    torch.tiny.synchronize()
    result = f(*arguments)
    torch.tiny.synchronize()
    return torch.tiny.history()[-1].kernels, result


@pytest.mark.parametrize("function, most", [(lambda x, y: torch.where(x.real > 0, x, y).mul(1j), 1), (lambda x, y: (x * y).real + x.imag, 1),
                                            (lambda x, y: x * y, 2), (lambda x, y: (x * y + 2j) * x.conj(), 3)])
def test_parts_take_no_kernels_of_their_own(function, most):
    """They are taken from their pairs where they are loaded, and joined where they are stored."""
    kernels, got = kernels_of(function, X.to(D), Y.to(D))
    assert kernels <= most
    torch.testing.assert_close(got.cpu(), function(X, Y))


@pytest.mark.parametrize("make", [torch.complex, torch.polar])
def test_out_has_the_complex_type_of_the_parts(make):
    for parts in (torch.float32, torch.float64):
        for out in (torch.complex64, torch.complex128, torch.float32):
            def words(d, parts=parts, out=out):
                a = torch.ones(3, dtype=parts, device=d)
                try:
                    return make(a, a, out=torch.empty(3, dtype=out, device=d)).cpu()
                except RuntimeError as e:
                    return str(e)
            want, got = words("cpu"), words(D)
            assert want == got if isinstance(want, str) else torch.allclose(got, want)


def test_memory_format_is_kept():
    z = sample(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    for f in (torch.exp, lambda t: t * 2j, torch.abs, lambda t: t + t.conj()):
        assert f(z.to(D)).stride() == f(z).stride()
    assert (X.to(D).t() * X.to(D).t()).stride() == (X.t() * X.t()).stride()


SPECIAL = [0., -0., 1., -1., 2.5, INF, -INF, NAN, 1e30, -1e-30]
# log1p and expm1 of infinities are NaN on the CPU, whose formulas are its own; C99 says what these are, and so does this device.
OWN_FORMULA = {"log1p", "expm1", "sgn"}


@pytest.mark.parametrize("name", [n for n in UNARY if n not in OWN_FORMULA])
def test_special_values(name):
    """Infinities, NaN and zeros with signs in both parts. A zero's sign counts unless the other part is NaN."""
    z = torch.tensor([complex(a, b) for a in SPECIAL for b in SPECIAL], dtype=C64)
    want, got = getattr(torch, name)(z), getattr(torch, name)(z.to(D)).cpu()
    torch.testing.assert_close(got, want, rtol=1e-5, atol=0, equal_nan=True)
    if want.is_complex() and name not in ("sinc", "neg"):  # of which the CPU is not of one mind
        clear = ~(want.real.isnan() | want.imag.isnan())
        for part in ("real", "imag"):
            g, w = getattr(got, part)[clear], getattr(want, part)[clear]
            assert torch.equal(g.signbit(), w.signbit())


def test_great_and_small():
    """Sizes whose squares overflow or vanish: division, absolute values, roots."""
    for dtype, big in ((C64, 1e30), (C128, 1e300)):
        z = sample(20, dtype=dtype)
        for s in (big, 1 / big):
            for f in (lambda t: t.abs(), lambda t: t / t.flip(0), lambda t: t.sqrt(), lambda t: t.sgn(), lambda t: t.log(), lambda t: t.reciprocal()):
                want, got = f(z * s), f((z * s).to(D)).cpu()
                torch.testing.assert_close(got / want, torch.ones_like(want), rtol=1e-5, atol=1e-5)


REDUCTIONS = [lambda z: z.sum(1), lambda z: z.mean(0), lambda z: z.prod(1), lambda z: z.prod(), lambda z: z.cumsum(1), lambda z: z.cumprod(1), lambda z: z.var(1),
              lambda z: z.std(), lambda z: torch.var_mean(z, 0)[1], lambda z: torch.logsumexp(z, 1), lambda z: torch.logcumsumexp(z * 4, 1), lambda z: z.norm(),
              lambda z: torch.linalg.vector_norm(z, 3, dim=1), lambda z: torch.linalg.vector_norm(z, INF), lambda z: z.all(1), lambda z: z.any(),
              lambda z: (z * (z.real > 0)).count_nonzero(0), lambda z: z.trace(), lambda z: torch.sum(z.real, 1, dtype=C64), lambda z: z.renorm(2, 0, 1.5)]


@pytest.mark.parametrize("f", REDUCTIONS)
def test_reductions(f):
    agree(f, sample(4, 9), rtol=1e-5, atol=1e-5)


I = torch.tensor([[0, 2, 1, 0], [1, 1, 0, 2]])
INDEXED = [lambda z: z[I[0].to(z.device)], lambda z: z.gather(0, I.to(z.device)), lambda z: z.take(I.to(z.device)), lambda z: z.index_select(1, I[0].to(z.device)),
           lambda z: z.scatter(0, I.to(z.device), z * 2), lambda z: z.scatter(0, I.to(z.device), 1 + 2j), lambda z: z.scatter_add(0, I.to(z.device), z * 2),
           lambda z: z.scatter(0, I.to(z.device), z, reduce="multiply"), lambda z: z.scatter_reduce(0, I.to(z.device), z * 2, "prod", include_self=False),
           lambda z: z.index_add(0, I[0, :3].to(z.device), z, alpha=2j), lambda z: z.index_fill(0, I[0].to(z.device), 3 - 1j), lambda z: z.masked_fill(z.real > 0, 1j),
           lambda z: z.masked_fill(z.real > 0, 2), lambda z: torch.where(z.real > 0, z, z.imag), lambda z: torch.where(z.imag > 0, z, 1j), lambda z: z[z.real > 0],
           lambda z: z.clone().index_put_((I[0].to(z.device),), z[0], accumulate=True), lambda z: z.nonzero(), lambda z: z.tril(), lambda z: z.roll(1, 0),
           lambda z: torch.cat([z, z.real, (z.real > 0)]), lambda z: torch.nn.functional.pad(z, (1, 2), value=2.5), lambda z: z.flip(0), lambda z: z.put(I[0, :2].to(z.device), z[0, :2])]


@pytest.mark.filterwarnings("ignore:The reduce argument")
@pytest.mark.parametrize("f", INDEXED)
def test_indices_and_movement(f):
    agree(f, X)
    agree(f, X.mT.contiguous().mT)
    agree(lambda z: f(z.conj()), X)


def test_products():
    a, b, v = sample(2, 3, 4), sample(2, 4, 5, seed=1), sample(4, seed=2)
    for f in (lambda a, b, v: a @ b, lambda a, b, v: a[0] @ b[1], lambda a, b, v: a[0] @ v, lambda a, b, v: v.dot(b[0, :, 1]), lambda a, b, v: torch.vdot(v, b[0, :, 1]),
              lambda a, b, v: torch.outer(v, v.conj()), lambda a, b, v: torch.addbmm(a[0, :, :1].expand(3, 5), a, b, beta=2j), lambda a, b, v: torch.kron(a[0], b[0]),
              lambda a, b, v: torch.linalg.cross(a[..., :3], b[:, :3, :3]), lambda a, b, v: torch.einsum("bij,bjk,j->ik", a, b, v),
              lambda a, b, v: torch.nn.functional.conv1d(a, b[:, :3, :2], v[:2], padding=1), lambda a, b, v: a[:, :0] @ b, lambda a, b, v: a[..., :0] @ b[:, :0]):
        agree(f, a, b, v)
    with pytest.raises(RuntimeError, match="dot : expected both vectors to have same dtype"):
        torch.dot(v.real.to(D).contiguous(), v.real.to(D).double())


GRADIENTS = [lambda z: (z * z.conj()).real.sum(), lambda z: z.abs().sum(), lambda z: z.exp().imag.sum(), lambda z: (z.mH @ z).abs().sum(), lambda z: z.angle().sum(),
             lambda z: torch.view_as_real(z.sqrt()).sum(), lambda z: (z.real * z.tanh().imag).sum(), lambda z: z.prod().real, lambda z: (z ** 3).real.std(), lambda z: z.sgn().imag.sum(),
             lambda z: (z / z.flip(0)).abs().pow(2).mean(), lambda z: z[:, 1:].cumsum(1).abs().sum(), lambda z: torch.complex(z.real, z.real * 2).abs().sum()]


@pytest.mark.parametrize("loss", GRADIENTS)
def test_gradients(loss):
    grads = []
    for d in ("cpu", D):
        z = X.to(d).detach().requires_grad_()
        loss(z).backward()
        grads.append(z.grad.cpu())
    torch.testing.assert_close(*grads, rtol=1e-5, atol=1e-5)


def test_random_numbers():
    torch.manual_seed(3)
    z = torch.randn(20000, dtype=C64, device=D)
    for part in (z.real, z.imag):
        assert abs(part.mean().item()) < 0.03 and abs(part.std().item() - math.sqrt(0.5)) < 0.02
    assert abs((z.real * z.imag).mean().item()) < 0.02
    u = torch.rand(20000, dtype=C128, device=D)
    assert u.real.min().item() >= 0 and u.imag.max().item() < 1 and abs(u.mean().item() - (0.5 + 0.5j)) < 0.02
    n = torch.normal(torch.full((20000,), 1j, device=D), 2.0)
    assert abs(n.mean().item() - 1j) < 0.05 and abs(n.std().item() - 2) < 0.05


VIEWS = ["{}.mT", "{}[1:]", "{}[:, ::2]", "{}.conj()", "{}.unsqueeze(0)[0]", "{}.flip(0)", "{}.real + 0j", "{}.expand(2, *{}.shape)[1]"]
WRITES = ["{}.mul_(2j)", "{}.add_({})", "{}.real.copy_({}.imag)", "{}.imag.neg_()", "{}.copy_({})", "{}[0] = 1 - 1j", "{}.fill_(2j)",
          "torch.view_as_real({}.resolve_conj())[..., 1] = 3", "{}.exp_()"]


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    """Views of views and writes through them: every tensor is what it is on the CPU."""
    rng = random.Random(seed)
    environments = [{"torch": torch, "t0": torch.view_as_complex(torch.linspace(-1, 1, 24).view(3, 4, 2)).to(d).clone()} for d in ("cpu", D)]
    lines, names = [], ["t0"]
    for _ in range(14):
        if rng.random() < 0.5:
            name = rng.choice(names)
            line, made = f"t{len(names)} = " + rng.choice(VIEWS).replace("{}", name), True
        else:
            line, made = rng.choice(WRITES).format(rng.choice(names), rng.choice(names)), False
        try:
            exec(line, environments[0])
        except (RuntimeError, IndexError):
            continue
        names += [f"t{len(names)}"] * made
        lines.append(line)
        exec(line, environments[1])
        want, got = environments[0][names[-1]], environments[1][names[-1]]
        assert want.stride() == got.stride() and want.is_conj() == got.is_conj(), lines
    for name in names:
        torch.testing.assert_close(environments[1][name].cpu(), environments[0][name], equal_nan=True, msg=lambda m: m + "\n" + "\n".join(lines))
