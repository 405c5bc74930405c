"""Special functions, integer arithmetic and bits of floats, against the CPU over the whole line and at their edges."""
import math

import pytest
import torch
import torch.special as S

from nn_compare import D, compare, raises_alike

pytestmark = pytest.mark.usefixtures("no_fallback")
INF, NAN = math.inf, math.nan
FLOATS = [torch.float32, torch.float64]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def close(dtype):
    """assert_close's own tolerances for the dtype."""
    return {"rtol": 1.3e-6, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-7, "atol": 1e-7}


def line(dtype):
    return torch.cat([torch.linspace(-20, 20, 401), torch.tensor([0.0, -0.0, 1e-8, 50, 100, 700, INF, -INF, NAN]), torch.rand(50)]).to(dtype)


def noncontiguous(x):
    return torch.stack([x, x], 1)[:, 0]


UNARY = """i0 i0e i1 i1e log_ndtr modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0
    scaled_modified_bessel_k1 spherical_bessel_j0""".split()
# In float64 PyTorch's Bessel and Airy functions are wrong by up to 1e-6 between 5 and 6 (Ai: -2 and -3): tested below by known values.
UNARY_F32 = ["airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    compare(getattr(S, name), noncontiguous(line(dtype)), backward=False, **close(dtype))


@pytest.mark.parametrize("name", UNARY_F32)
def test_bessel(name):
    compare(getattr(S, name), line(torch.float32), backward=False, **close(torch.float32))


@pytest.mark.parametrize("name", UNARY + UNARY_F32 + ["erfcx", "ndtri"])
def test_shapes_and_integers(name):
    f = getattr(S, name)
    compare(f, torch.tensor(0.75), backward=False)
    compare(f, torch.empty(0, 3), backward=False)
    compare(f, torch.arange(-4, 9).reshape(1, 13), backward=False, rtol=1e-5, atol=1e-5)


# Source: DLMF, chapters 9 and 10, and Abramowitz and Stegun, tables 9.1 and 10.11: values to ten places.
KNOWN = [("bessel_j0", 5.5, -0.0068438694), ("bessel_j0", 2.0, 0.2238907791), ("bessel_j0", 10.0, -0.2459357645), ("bessel_j1", 5.2, -0.3432230059),
         ("bessel_j1", 2.0, 0.5767248078), ("bessel_y0", 2.0, 0.5103756726), ("bessel_y1", 2.0, -0.1070324315), ("airy_ai", 0.0, 0.3550280539),
         ("airy_ai", 1.0, 0.1352924163), ("airy_ai", -1.0, 0.5355608833)]


@pytest.mark.parametrize("name, x, value", KNOWN)
def test_known_values(name, x, value):
    assert abs(getattr(S, name)(torch.tensor([x], dtype=torch.float64, device=D)).item() - value) < 1e-10


@pytest.mark.parametrize("dtype", FLOATS)
def test_erfcx_and_ndtri(dtype):
    # PyTorch's float32 erfcx squares in float32, which costs digits where the result is great.
    compare(S.erfcx, line(dtype), backward=False, rtol=1e-7 if dtype == torch.float64 else 1e-4, atol=1e-5)
    p = torch.cat([torch.rand(300) * 1.02 - 0.01, torch.tensor([0.0, 1.0, 1e-30, NAN])]).to(dtype)
    compare(S.ndtri, p, backward=False, **close(dtype))


@pytest.mark.parametrize("name", ["i0", "i0e", "i1", "i1e", "erfcx", "ndtri", "log_ndtr"])
def test_gradients(name):
    x = (torch.rand(30) * 0.9 + 0.05).requires_grad_()
    compare(getattr(S, name), x)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", range(6))
def test_polygamma(n, dtype):
    x = torch.cat([torch.linspace(-5.2, 20, 99), torch.tensor([0.0, 1e-3, 100, 1e5])]).to(dtype)
    # trigamma's series in PyTorch ends early, and its reflection multiplies a sine's rounding.
    bound = {"rtol": 1e-4 if dtype == torch.float32 else 1e-5, "atol": 1e-5} if n < 2 else {"rtol": 2e-6 if dtype == torch.float32 else 1e-7, "atol": 1e-5}
    compare(lambda x: torch.polygamma(n, x), x, backward=False, **bound)
    compare(lambda x: torch.polygamma(n, x), torch.arange(-3, 9), backward=False, rtol=1e-4, atol=1e-5)
    assert raises_alike(lambda x: torch.polygamma(-1, x), torch.ones(2))


@pytest.mark.parametrize("dtype", FLOATS)
def test_zeta(dtype):
    s = torch.tensor([0.5, 1, 1.5, 2, 3, 4, 7.5, 40, NAN], dtype=dtype)
    q = torch.tensor([-7.3, -3, -0.5, 0, 1e-3, 0.5, 1, 3, 9, 20, 1e3, NAN], dtype=dtype)
    compare(S.zeta, s.unsqueeze(1), q, backward=False, **close(dtype))


@pytest.mark.parametrize("name", ["igamma", "igammac"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_incomplete_gamma(name, dtype):
    a = torch.tensor([-1, 0, 1e-3, 0.1, 0.5, 1, 2, 5.5, 10, 19, 21, 50, 150, 199, 201, 400, 1000, 1e4, 1e6, INF, NAN], dtype=dtype)
    x = torch.tensor([-1, 0, 1e-4, 0.01, 0.3, 0.9, 1.2, 2, 5, 9, 15, 25, 60, 140, 190, 200, 210, 300, 900, 1100, 1e4, 1.02e4, 1e6, INF, NAN], dtype=dtype)
    compare(getattr(torch, name), a.unsqueeze(1), x, backward=False, **close(dtype))
    assert raises_alike(getattr(torch, name), torch.tensor([1]), torch.tensor([2]))


@pytest.mark.parametrize("shifted", ["", "shifted_"])
@pytest.mark.parametrize("kind", "tuvw")
def test_chebyshev(kind, shifted):
    f = getattr(S, f"{shifted}chebyshev_polynomial_{kind}")
    x = torch.cat([torch.linspace(-2, 2, 41), torch.tensor([1.0, -1.0, 0.0, 0.5])])
    for n in range(-1, 12):
        compare(lambda x: f(x, n), x.double(), backward=False)
    compare(f, torch.randn(50), torch.randint(0, 9, (50,)).float(), backward=False)
    compare(f, torch.randint(-5, 5, (50,)), torch.randint(0, 9, (50,)), backward=False)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"])
def test_polynomials_of_a_degree_that_is_data(name, dtype):
    f = getattr(S, name)
    x = torch.cat([torch.linspace(-2, 2, 41), torch.tensor([1.0, -1.0, 0.0, -0.0, 0.5, INF, -INF])]).to(dtype)
    tolerance = {"rtol": 0, "atol": 0}
    n = torch.tensor([-3, -0.5, 0, 0.9, 1, 2, 3.7, 7, 12, 40], dtype=dtype)
    compare(f, x, n[:, None], backward=False, **tolerance)
    compare(f, x, torch.tensor([INF, -INF, NAN, 1e20, 600, 5000], dtype=dtype)[:, None], backward=False, **tolerance)
    compare(f, noncontiguous(x), n[7], backward=False, **tolerance)
    compare(f, torch.tensor(0.3, dtype=dtype), n, backward=False, **tolerance)
    compare(lambda x: f(x, 5), x, backward=False, **tolerance)
    compare(lambda n: f(0.25, n), n, backward=False, **tolerance)
    compare(f, x[:0], n[:0], backward=False)
    compare(f, torch.arange(-4, 5), torch.arange(9), backward=False)
    compare(f, torch.tensor([True, False]), torch.tensor([2, 3], dtype=torch.uint8), backward=False)
    assert raises_alike(f, x.half(), n[0].half())


def test_a_polynomial_in_a_kernel_of_others():
    x, n = torch.linspace(-0.9, 0.9, 3000, dtype=torch.float64), torch.arange(3000) % 50
    compare(lambda x, n: S.legendre_polynomial_p(x * x, n.double() + 1) * 2 + S.hermite_polynomial_he(x, n // 10), x, n, backward=False)


@pytest.mark.parametrize("dtype", FLOATS)
def test_gradients_of_samples(dtype):
    alpha = torch.cat([torch.rand(200) * 12, torch.tensor([0.01, 0.1, 1, 7.9, 8, 8.1, 50, 400])]).to(dtype)[:, None]
    spread = torch.tensor([1e-6, 0.05, 0.5, 0.8, 0.89, 0.95, 1, 1.05, 1.11, 1.5, 3])
    compare(torch._standard_gamma_grad, alpha.expand(-1, 11).contiguous(), (alpha * spread).to(dtype), backward=False, **close(dtype))
    x = torch.cat([torch.rand(40), torch.tensor([0.001, 0.01, 0.3, 0.5, 0.7, 0.99, 0.999])]).to(dtype)
    a, b = (t.to(dtype).reshape(-1, 1) for t in torch.meshgrid(*[torch.tensor([0.2, 1, 5.9, 6.1, 7, 40])] * 2, indexing="ij"))
    # the CPU's series in float32 lose digits
    compare(lambda x, a, t: torch._dirichlet_grad(x, a, t), x.expand(36, -1).contiguous(), a.expand(-1, 47).contiguous(),
            (a + b).expand(-1, 47).contiguous(), backward=False, reference=torch.float64, **close(dtype))
    assert raises_alike(torch._standard_gamma_grad, torch.ones(2), torch.ones(2, dtype=torch.float64))
    assert raises_alike(torch._standard_gamma_grad, torch.ones(2).half(), torch.ones(2).half())
    assert raises_alike(torch._dirichlet_grad, *[torch.ones(2, dtype=torch.int64)] * 3)


# ---- integers and bits
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
@pytest.mark.parametrize("name", ["gcd", "lcm"])
def test_gcd_and_lcm(name, dtype):
    a, b = torch.randint(-128, 127, (2, 300)).to(dtype)
    compare(getattr(torch, name), a, b, backward=False)
    compare(getattr(torch, name), a[:0], b[:0], backward=False)
    assert raises_alike(getattr(torch, name), torch.ones(2), torch.ones(2))


def test_gcd_of_neighbours_in_fibonaccis_sequence():
    a = torch.tensor([7540113804746346429, 2**62, 0, 0, 1 - 2**63, 6])
    b = torch.tensor([4660046610375530309, 2**61, 0, 5, -(2**62), -4])
    compare(torch.gcd, a, b, backward=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_frexp(dtype):
    edges = torch.tensor([0.0, -0.0, 1, -1, INF, -INF, NAN, 1e-42, 1e-45, 3e-39, 0.5, 2.0**-126, 2.0**-127], dtype=torch.float64)
    compare(torch.frexp, torch.cat([torch.randn(100, dtype=torch.float64) * 1e3, edges]).to(dtype), backward=False, rtol=0, atol=0)


@pytest.mark.parametrize("f", [torch.tril_indices, torch.triu_indices])
def test_triangle_indices(f):
    for rows in (0, 1, 3, 5, 7):
        for columns in (0, 1, 4, 6):
            for offset in (-8, -3, -1, 0, 1, 2, 5, 9):
                assert torch.equal(f(rows, columns, offset), f(rows, columns, offset, device=D).cpu()), (rows, columns, offset)
    assert torch.equal(f(1500, 1200, -7), f(1500, 1200, -7, device=D).cpu())
    assert f(3, 3, device=D, dtype=torch.int32).dtype == torch.int32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_hash(dtype):
    x = (torch.randn(3, 5, 4) * 9).to(dtype)
    for dims in ((), (0,), (1, 2), (-1,)):
        for keepdim in (False, True):
            a, b = torch.hash_tensor(x, dims, keepdim=keepdim), torch.hash_tensor(noncontiguous(x).to(D), dims, keepdim=keepdim).cpu()
            assert a.shape == b.shape and torch.equal(a.view(torch.int64), b.view(torch.int64))
    assert torch.hash_tensor(x[0, 0, 0].to(D)).item() == torch.hash_tensor(x[0, 0, 0]).item()
