"""What an operator costs on the host: nanoseconds of one Python-level call on tiny and on CPU, for small arrays.

On tiny a call only notes what is to be computed; the results are dropped, so this is the cost of dispatch and of building the graph.
The last line tells what a read costs that replays a known program.
"""
import argparse
import time

import torch
import torch.nn.functional as F

OPERATORS = {
    "x + y": lambda x, y: x + y,
    "x * 2.0": lambda x, y: x * 2.0,
    "x.add_(y)": lambda x, y: x.add_(y),
    "x.relu()": lambda x, y: x.relu(),
    "x @ y": lambda x, y: x @ y,
    "x.sum()": lambda x, y: x.sum(),
    "x.softmax(-1)": lambda x, y: x.softmax(-1),
    "x.t()": lambda x, y: x.t(),
    "x[1]": lambda x, y: x[1],
    "torch.cat((x, y))": lambda x, y: torch.cat((x, y)),
    "torch.empty_like(x)": lambda x, y: torch.empty_like(x),
    "torch.arange(9)": lambda x, y: torch.arange(9, device=x.device),
    "F.linear(x, y)": lambda x, y: F.linear(x, y),
    "F.rms_norm(x)": lambda x, y: F.rms_norm(x, x.shape[-1:]),
    "attention": lambda x, y: F.scaled_dot_product_attention(x[None], y[None], y[None]),
}


def nanoseconds(fn, x, y, calls=500, rounds=15):
    """The best round's mean."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter_ns()
        for _ in range(calls):
            fn(x, y)
        best = min(best, (time.perf_counter_ns() - start) / calls)
        x.zero_()
        if x.device.type != "cpu":
            x.sum().item()  # ends the pending work of this round outside the timed part
    return best


def replay_micros(device, kernels, rounds=300):
    """The least time of a read that replays a program of so many dependent products of small matrices."""
    x, best = torch.rand(4, 4).to(device), float("inf")
    for _ in range(rounds):
        y = x
        for _ in range(kernels):
            y = y @ x
        start = time.perf_counter_ns()
        y[0, 0].item()
        best = min(best, (time.perf_counter_ns() - start) / 1e3)
    return best


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--device", default="tiny")
    ap.add_argument("--side", type=int, default=4, help="the arrays are side x side")
    a = ap.parse_args()
    print(f"{'':22s}{'cpu':>9s}{a.device:>9s}   ratio")
    with torch.no_grad():
        for name, fn in OPERATORS.items():
            cost = {d: nanoseconds(fn, *(torch.ones(a.side, a.side, device=d) for _ in range(2))) for d in ("cpu", a.device)}
            print(f"{name:22s}{cost['cpu']:9.0f}{cost[a.device]:9.0f}   {cost[a.device] / cost['cpu']:.2f}")
        few, many = (replay_micros(a.device, n) for n in (1, 201))
        print(f"a read: {few:.1f} us with one kernel, {(many - few) / 200:.2f} us for each more, their work included")


if __name__ == "__main__":
    main()
