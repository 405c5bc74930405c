"""Random numbers: seeds, states, generators; the same seed gives the same numbers on every device and whatever is fused."""
import math
import os
import subprocess
import sys

import pytest
import torch
from torch.utils.checkpoint import checkpoint

D = "tiny"


def draw(n=64):
    return torch.cat([torch.rand(n, device=D), torch.randn(n, device=D), torch.empty(n, device=D).uniform_(-1, 1),
                      torch.randint(100, (n,), device=D).float(), torch.bernoulli(torch.full((n,), 0.5, device=D)),
                      torch.randperm(n, device=D).float(), torch.empty(n, device=D).exponential_()]).cpu()


def test_manual_seed():
    torch.manual_seed(3)
    a = draw()
    b = draw()
    torch.manual_seed(3)
    assert torch.equal(draw(), a) and not torch.equal(a, b)
    torch.tiny.manual_seed_all(3)
    assert torch.equal(draw(), a)
    torch.manual_seed(4)
    assert not torch.equal(draw(), a)
    assert torch.tiny.initial_seed() == 4


def test_state():
    torch.manual_seed(0)
    draw()
    state = torch.tiny.get_rng_state()
    assert state.dtype == torch.uint8 and state.device.type == "cpu"
    a = draw()
    torch.tiny.set_rng_state(state)
    assert torch.equal(draw(), a)
    torch.tiny.set_rng_state(state, "tiny:0")
    with torch.random.fork_rng(device_type=D):
        draw()
    assert torch.equal(draw(), a)
    with pytest.raises(RuntimeError):
        torch.tiny.set_rng_state(torch.zeros(3, dtype=torch.uint8))


def test_generators():
    g, h = torch.Generator(D), torch.Generator("tiny:0")
    g.manual_seed(9), h.manual_seed(9)
    a = torch.rand(5, device=D, generator=g)
    assert torch.equal(a.cpu(), torch.rand(5, device=D, generator=h).cpu())
    before = torch.tiny.get_rng_state()
    torch.rand(5, device=D, generator=g)
    assert torch.equal(torch.tiny.get_rng_state(), before), "a generator of one's own leaves the default one alone"
    c = g.clone_state()
    assert torch.equal(torch.rand(5, device=D, generator=g).cpu(), torch.rand(5, device=D, generator=c).cpu())
    assert len(torch.tiny.default_generators) == torch.tiny.device_count()
    with pytest.raises(RuntimeError):
        torch.rand(5, device=D, generator=torch.Generator())


def test_fusion_does_not_change_numbers():
    torch.manual_seed(1)
    a = torch.rand(1000, device=D)
    plain = a.cpu()
    torch.manual_seed(1)
    fused = (torch.rand(1000, device=D) * 2 + 1).cpu()
    assert torch.equal(fused, plain * 2 + 1)
    torch.manual_seed(1)
    first = torch.rand(400, device=D)
    assert torch.equal(first.cpu(), plain[:400])


def test_same_numbers_on_every_device():
    code = """
import torch
torch.manual_seed(5)
print((torch.rand(8, device='tiny') * 2).tolist(), torch.randint(50, (8,), device='tiny').tolist())
"""
    options = {"capture_output": True, "text": True, "check": True}
    texts = {subprocess.run([sys.executable, "-c", code], env={**os.environ, "TINY_DEVICE": d}, **options).stdout
             for d in ("CPU", "REF")}
    assert len(texts) == 1


def test_distributions():
    torch.manual_seed(0)
    n = 200000
    u, z = torch.rand(n, device=D).cpu(), torch.randn(n, device=D).cpu()
    assert 0 <= u.min() and u.max() < 1 and abs(u.mean() - 0.5) < 0.005 and abs(u.var() - 1 / 12) < 0.002
    assert abs(z.mean()) < 0.01 and abs(z.std() - 1) < 0.01 and abs((z.abs() < 1).float().mean() - math.erf(1 / math.sqrt(2))) < 0.005
    k = torch.randint(3, 9, (n,), device=D).cpu()
    assert k.min() == 3 and k.max() == 8 and (torch.bincount(k)[3:] / n - 1 / 6).abs().max() < 0.005
    assert abs(torch.bernoulli(torch.full((n,), 0.3, device=D)).mean().item() - 0.3) < 0.005
    p = torch.randperm(1000, device=D).cpu()
    assert torch.equal(p.sort().values, torch.arange(1000)) and not torch.equal(p, torch.arange(1000))
    m = torch.multinomial(torch.tensor([0.1, 0.0, 0.9], device=D), 10000, replacement=True).cpu()
    assert (m == 1).sum() == 0 and abs((m == 2).float().mean() - 0.9) < 0.02


def test_dropout():
    torch.manual_seed(0)
    x = torch.ones(10000, device=D, requires_grad=True)
    y = torch.nn.functional.dropout(x, 0.25)
    y.sum().backward()
    kept = y.detach().cpu() != 0
    assert abs(kept.float().mean() - 0.75) < 0.03
    assert torch.allclose(y.detach().cpu()[kept], torch.tensor(1 / 0.75)) and torch.equal(x.grad.cpu() != 0, kept)


def test_checkpoint_repeats_the_dropout():
    layer = torch.nn.Linear(16, 16).to(D)
    x = torch.randn(4, 16, device=D)

    def block(t):
        return torch.nn.functional.dropout(layer(t), 0.5)

    grads = []
    for use in (False, True):
        torch.manual_seed(7)
        t = x.clone().requires_grad_()
        (checkpoint(block, t, use_reentrant=False) if use else block(t)).pow(2).sum().backward()
        grads.append(t.grad.cpu())
    assert torch.allclose(*grads)


def test_data_loader_shuffles_with_a_default_device():
    data = torch.utils.data.TensorDataset(torch.arange(10.))
    torch.set_default_device(D)
    try:
        loader = torch.utils.data.DataLoader(data, batch_size=5, shuffle=True, generator=torch.Generator(D))
        seen = torch.cat([x for (x,) in loader])
    finally:
        torch.set_default_device(None)
    assert sorted(seen.tolist()) == list(range(10))
