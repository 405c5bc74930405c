"""Long graphs and long runs: no overflow, no growth. Memory is measured in processes of their own."""
import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
PRELUDE = "import gc, sys; sys.path[:0] = sys.argv[1:3]; import torch, probe\n"


def run(program, **env):
    """Output of a Python program run with the flush bound off or as given."""
    folders = [HERE, os.path.join(os.path.dirname(os.path.dirname(HERE)), "benchmarks")]
    done = subprocess.run([sys.executable, "-c", PRELUDE + program, *folders],
                          env=os.environ | env, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stderr[-3000:]}"
    return done.stdout.split()


def test_a_million_chained_additions():
    """Nothing recurses over the graph, and a node stays below 1 KB with all that hangs on it."""
    per_node, left = run("""
x, y = torch.zeros(4, device="tiny"), torch.ones(4, device="tiny")
torch.tiny.synchronize(); gc.collect()
nodes, before = probe.live_nodes(), probe.resident_bytes()
z = x
for _ in range(1_000_000): z = z + y
print((probe.resident_bytes() - before) / 1_000_000)
del z
print(probe.live_nodes() - nodes)
""", TINY_FLUSH_NODES="0")
    assert float(per_node) <= 1024
    assert int(left) <= 16


def test_a_long_chain_is_computed():
    value, = run("""
x, y = torch.zeros(4, device="tiny"), torch.ones(4, device="tiny")
for _ in range(20_000): x = x + y
print(x.sum().item())
""", TINY_FLUSH_NODES="0")
    assert float(value) == 80_000


def test_the_bound_flushes_a_loop_that_never_reads(full):
    """10,000 additions in place: pending nodes stay bounded, memory flat, the result right."""
    rounds = 4 if full else 2
    value, nodes, grown = run(f"""
x = torch.zeros(1000, device="tiny")
most = 0
for k in range({rounds}):
    for _ in range(10_000 // {rounds}):
        x.add_(1)
        most = max(most, probe.live_nodes())
    if k == 0: torch.tiny.synchronize(); before = probe.resident_bytes()
torch.tiny.synchronize()
print(x[17].item(), most, probe.resident_bytes() - before)
""")
    assert float(value) == 10_000
    assert int(nodes) < 60_000
    assert int(grown) < 32 << 20


def test_training_does_not_grow(full):
    steps = 2000 if full else 200
    nodes, device_bytes, grown = run(f"""
import workloads
torch.manual_seed(0)
step = workloads.WORKLOADS["mlp"].make("tiny", "small")
def state():
    torch.tiny.synchronize(); gc.collect()
    return probe.live_nodes(), torch.tiny.memory_allocated(), probe.resident_bytes()
for _ in range({steps} // 4): step()
before = state()
for i in range({steps} * 3 // 4):
    loss = step()
    if i % 10 == 0: loss.item()
after = state()
print(*(b - a for a, b in zip(before, after)))
""")
    assert abs(int(nodes)) <= 64
    assert abs(int(device_bytes)) <= 1 << 16
    assert int(grown) <= 24 << 20


def test_an_exception_in_the_middle_leaves_nothing_behind():
    nodes, = run("""
def attempt():
    x = torch.ones(64, 64, device="tiny", requires_grad=True)
    try: ((x @ x).relu() + torch.ones(3, device="tiny")).sum().backward()
    except RuntimeError: pass
attempt(); gc.collect(); before = probe.live_nodes()
for _ in range(100): attempt()
gc.collect()
print(probe.live_nodes() - before)
""")
    assert abs(int(nodes)) <= 16
