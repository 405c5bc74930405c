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


def test_memory_format_is_kept():
    z = sample(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    for f in (torch.exp, lambda t: t * 2j, torch.abs, lambda t: t + t.conj()):
        assert f(z.to(D)).stride() == f(z).stride()
    assert (X.to(D).t() * X.to(D).t()).stride() == (X.t() * X.t()).stride()
