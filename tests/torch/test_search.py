"""TINY_BEAM: kernels found by timing give the results of the heuristics' own, and what was found is kept on disk."""
import os
import re
import subprocess
import sys

import torch

PROGRAM = """
import torch
torch.manual_seed(0)
a, b, c = torch.randn(70, 90), torch.randn(90, 50), torch.randint(0, 70, (40,))
def f(a, b, c):
    y = torch.tanh(a @ b)
    return y.softmax(-1)[c], y.cumsum(0), (y > 0).sum(1), y.t().contiguous().sum(0), y.bfloat16() @ y.bfloat16().t()
for _ in range(2):
    for x, y in zip(f(a.to("tiny"), b.to("tiny"), c.to("tiny")), f(a, b, c)):
        torch.testing.assert_close(x.cpu(), y, rtol=2e-2 if y.dtype == torch.bfloat16 else 1e-4, atol=2e-2 if y.dtype == torch.bfloat16 else 1e-5)
print("right", torch.tiny.fallback_count())
"""


def run(folder, **env):
    """What the program says on stderr."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("TINY_")} | {"TINY_CACHE_DIR": str(folder), "TINY_DEBUG": "kernel=1"} | env
    done = subprocess.run([sys.executable, "-c", "import torch_tiny" + PROGRAM], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["right", "0"]
    return done.stderr


def test_a_search_finds_right_kernels_and_keeps_them(tmp_path):
    plain = run(tmp_path / "plain")
    assert "way" not in plain
    first = run(tmp_path / "cache", TINY_BEAM="6")
    searched = re.findall(r"tiny kernel: (\S+): way (\d+) of (\d+) takes", first)
    assert len(searched) >= 5 and any(int(tried) > 1 for _, _, tried in searched), first
    assert all(int(way) < 100 and int(tried) <= 6 for _, way, tried in searched)
    assert re.search(r"tiny kernel", run(tmp_path / "cache", TINY_BEAM="6")) is None, "what was found is not searched or compiled again"
    assert "way" in run(tmp_path / "cache", TINY_BEAM="3"), "another width is another search"


def test_without_a_disk_cache(tmp_path):
    assert " takes " in run(tmp_path, TINY_BEAM="3", TINY_CACHE_MB="0")


def test_a_search_that_has_no_memory_leaves_none_taken(tmp_path):
    """Two tensors of 8 MiB and their sum fit into 28 MiB; a second copy of all three does not."""
    program = """
import torch, torch_tiny
x, y = torch.ones(2 << 20, device="tiny"), torch.ones(2 << 20, device="tiny")
torch.tiny.synchronize()
for k in range(3):
    z = x * (2.0 + k) + y.abs() * k
    assert z[5].item() == 2 + 2 * k
    del z
print(torch.tiny.memory_allocated() >> 20)
"""
    env = os.environ | {"TINY_BEAM": "4", "TINY_CACHE_DIR": str(tmp_path), "TINY_MEMORY_MB": "28"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) <= 17


def test_a_value_that_is_no_number(tmp_path):
    env = os.environ | {"TINY_BEAM": "many", "TINY_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", "import torch_tiny, torch; (torch.ones(3, device='tiny') + 1).sum().item()"],
                          env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode != 0 and "TINY_BEAM" in done.stderr
    assert torch.tiny.device_count() >= 1
