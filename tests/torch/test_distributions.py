"""Random numbers by rejection follow their distributions: counts against exact probabilities, gamma numbers against the distribution function."""
import math

import pytest
import torch
from torch import distributions as dist

from nn_compare import D, raises_alike

pytestmark = pytest.mark.usefixtures("no_fallback")
N = 100_000


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(1)


def fits(sample, law, support):
    """Pearson's chi-square of counts; cells with few expected elements are left out."""
    expected = law.log_prob(support).exp() * sample.numel()
    cells = expected > 20
    counts = torch.bincount(sample.long(), minlength=len(support))[:len(support)][cells]
    chi = ((counts - expected[cells]) ** 2 / expected[cells]).sum().item()
    n = int(cells.sum())
    assert n > 0 and chi < n + 5 * math.sqrt(2 * n), (chi, n)


@pytest.mark.parametrize("rate", [0.01, 0.7, 4.0, 9.9, 10.0, 30.0, 500.0])
def test_poisson(rate):
    sample = torch.poisson(torch.full((N,), rate, device=D)).cpu()
    fits(sample, dist.Poisson(torch.tensor(rate, dtype=torch.float64)), torch.arange(0, int(rate * 2) + 20, dtype=torch.float64))


@pytest.mark.parametrize("count, p", [(1, 0.3), (7, 0.5), (20, 0.9), (50, 0.1), (40, 0.3), (300, 0.5), (400, 0.97)])
def test_binomial(count, p):
    sample = torch.binomial(torch.full((N,), float(count), device=D), torch.full((N,), p, device=D)).cpu()
    fits(sample, dist.Binomial(count, torch.tensor(p, dtype=torch.float64)), torch.arange(0, count + 1, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [0.2, 0.5, 1.0, 2.5, 40.0, 1e4])
def test_gamma(shape, dtype):
    sample = torch._standard_gamma(torch.full((N,), shape, dtype=dtype, device=D)).cpu().double().sort().values
    assert sample[0] > 0
    law = torch.special.gammainc(torch.tensor(shape, dtype=torch.float64), sample)
    steps = torch.arange(N, dtype=torch.float64) / N
    distance = torch.maximum((law - steps).abs(), (law - steps - 1 / N).abs()).max().item()  # Kolmogorov's and Smirnov's
    assert distance < 2.0 / math.sqrt(N), distance


def test_dirichlet():
    alpha = torch.tensor([0.5, 2.0, 4.0])
    sample = torch._sample_dirichlet(alpha.to(D).expand(N, 3)).cpu()
    assert torch.allclose(sample.sum(1), torch.ones(N))
    law = dist.Dirichlet(alpha)
    assert ((sample.mean(0) - law.mean).abs() < 6 * (law.variance / N).sqrt()).all()
    assert torch.allclose(sample.var(0), law.variance, rtol=0.05)


def test_edges():
    nan = math.nan
    assert torch.poisson(torch.zeros(5, device=D)).cpu().tolist() == [0] * 5
    count, p = torch.tensor([0.0, 5, 5, 5, nan], device=D), torch.tensor([0.5, 0.0, 1.0, nan, 0.5], device=D)
    drawn = torch.binomial(count, p).cpu()
    assert drawn[:3].tolist() == [0, 0, 5] and drawn[3:].isnan().all()
    assert torch.poisson(torch.empty(0, 3, device=D)).shape == (0, 3)
    assert raises_alike(torch.poisson, torch.tensor([1.0, -1.0]))
    torch.manual_seed(3)
    first = torch.poisson(torch.full((9,), 20.0, device=D)).cpu()
    torch.manual_seed(3)
    assert torch.equal(first, torch.poisson(torch.full((9,), 20.0, device=D)).cpu())


def test_in_half_precision():
    for dtype in (torch.float16, torch.bfloat16):
        sample = torch._standard_gamma(torch.full((1000,), 2.0, dtype=dtype, device=D))
        assert sample.dtype == dtype and abs(sample.float().mean().item() - 2) < 0.2
