"""The benchmark's training programs: same losses as on CPU, nothing on the CPU, and a cache hit for every flush from the third step on."""
import pytest
import torch

import probe
from workloads import WORKLOADS

TRAINING = [name for name, w in WORKLOADS.items() if w.trains]
STEPS = 20


def build(name, device):
    torch.manual_seed(7)
    return WORKLOADS[name].make(device, "small")


def losses(name, device, steps=STEPS):
    step = build(name, device)
    return [step().item() for _ in range(steps)]


@pytest.mark.parametrize("name", TRAINING)
def test_losses_are_those_of_cpu(name, no_fallback):
    want, got = losses(name, "cpu"), losses(name, "tiny")
    for i, (a, b) in enumerate(zip(want, got)):
        assert abs(a - b) <= 1e-3 * max(1.0, abs(a)), f"step {i}: cpu {a}, tiny {b}"


@pytest.mark.parametrize("name", [name for name, w in WORKLOADS.items() if not w.trains])
def test_values_are_those_of_cpu(name, no_fallback):
    want, got = losses(name, "cpu", 4), losses(name, "tiny", 4)
    loose = name.endswith(("bf16", "f16"))
    for a, b in zip(want, got):
        assert b == pytest.approx(a, rel=2e-2 if loose else 1e-3, abs=0.1 if loose else 1e-2)


def flushes_of(name, read, change_rate, steps=8):
    """For each step, the flushes that it caused."""
    step = build(name, "tiny")
    out = []
    for i in range(steps):
        if change_rate:
            for group in step.optimizer.param_groups:
                group["lr"] *= 0.97
        mark = probe.flush_count()
        loss = step()
        if read:
            loss.item()
        out.append(probe.flushes_since(mark))
    torch.tiny.synchronize()
    return out


@pytest.mark.parametrize("change_rate", (False, True), ids=("fixed_rate", "changing_rate"))
@pytest.mark.parametrize("read", (True, False), ids=("read", "unread"))
@pytest.mark.parametrize("name", TRAINING)
def test_later_steps_hit_the_cache(name, read, change_rate):
    per_step = flushes_of(name, read, change_rate)
    misses = [f"step {i}: {f.cause}: {f.miss_reason}" for i, flushes in enumerate(per_step) if i >= 2 for f in flushes if not f.hit]
    assert not misses, misses
    assert any(per_step[2:]), "no flush at all: the test would pass without running anything"


def test_inference_hits_the_cache():
    step = build("decode", "tiny")
    for _ in range(3):
        step().item()  # unread steps would be one graph
    mark = probe.flush_count()
    for _ in range(4):
        step().item()
    assert all(f.hit for f in probe.flushes_since(mark)), [f.miss_reason for f in probe.flushes_since(mark)]


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_temporaries_take_hardly_more_than_what_is_alive(name):
    flushes = [f for step in flushes_of(name, read=True, change_rate=False, steps=3) for f in step]
    assert flushes
    for f in flushes:
        assert f.arena_bytes <= 1.05 * f.arena_bound, f"{f.cause}: {f.arena_bytes} bytes for {f.arena_bound} alive at once"
