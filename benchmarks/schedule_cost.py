"""What a node of a new program costs to schedule and to compile, as programs grow.

usage: schedule_cost.py [--nodes 1000,3000,10000,30000,100000] [--rounds R]
Programs of one block repeated: products, layer norm, activations, views, sums and writes into slices, as models have them. The kernels of
all blocks are the same, so that compilation is finding them again, as in a deep model. Each size is timed in a process of its own, the
least of R rounds is kept; prints microseconds a node and the ratio to the smallest program: 1 everywhere is linear.
"""
import argparse
import json
import os
import subprocess
import sys


def measure(nodes):
    """[schedule, find kernels] in microseconds a node, and the number of nodes, of one flush of about `nodes` nodes."""
    import torch

    torch.tiny.set_flush_bound(0)
    x, w = torch.randn(8, 32, device="tiny"), torch.randn(32, 32, device="tiny")
    cache = torch.zeros(16, 32, device="tiny")

    def block(x, k):
        y = torch.nn.functional.layer_norm(x, (32,)) @ w
        y = torch.nn.functional.gelu(y, approximate="tanh") * y.softmax(-1)
        cache[k % 16:k % 16 + 1] = y[:1]
        return x + y.view(8, 4, 8).transpose(0, 1).reshape(4, 64).sum(0).view(8, 8).repeat(1, 4)

    with torch.no_grad():
        before = torch.tiny.live_nodes()
        y = block(x, 0)
        blocks = max(2, nodes // max(1, torch.tiny.live_nodes() - before))
        del y
        for count in (blocks - 1, blocks):  # the first compiles the kernels
            for k in range(count):
                x = block(x, k)
            x.sum().item()
    flush = torch.tiny.history()[-1]
    assert not flush.hit
    return [flush.schedule_ms * 1e3 / flush.nodes, flush.compile_ms * 1e3 / flush.nodes, flush.nodes]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="1000,3000,10000,30000,100000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.one:
        print(json.dumps(measure(a.one)))
        return
    first = None
    print(f"{'nodes':>8s} {'schedule':>9s} {'kernels':>8s} {'both':>7s}  us a node, and the ratio to the first row")
    for n in a.nodes.split(","):
        runs = []
        for _ in range(a.rounds):
            out = subprocess.run([sys.executable, os.path.abspath(__file__), "--one", n], capture_output=True, text=True)
            if out.returncode:
                raise SystemExit(out.stderr[-2000:])
            runs.append(json.loads(out.stdout.splitlines()[-1]))
        schedule, kernels = (min(r[i] for r in runs) for i in (0, 1))
        both = min(r[0] + r[1] for r in runs)
        first = first or both
        print(f"{runs[0][2]:8d} {schedule:9.3f} {kernels:8.3f} {both:7.3f}  {both / first:.2f}", flush=True)


if __name__ == "__main__":
    main()
