"""What writing a few rows of a large table costs: milliseconds on tiny and on CPU, for a small table and one ten times as large.

The work of a scatter is that of the rows it writes: the last column is the larger table's time over the smaller one's.
"""
import argparse
import time
import warnings

import torch

warnings.filterwarnings("ignore", message=".*index_reduce.*beta")
SCATTERS = {
    "index_add_": lambda t, i, x: t.index_add_(0, i, x),
    "scatter_add_": lambda t, i, x: t.scatter_add_(0, i[:, None].expand_as(x), x),
    "index_put_, accumulate": lambda t, i, x: t.index_put_((i,), x, accumulate=True),
    "t[i] = x": lambda t, i, x: t.__setitem__(i, x),
    "index_copy_": lambda t, i, x: t.index_copy_(0, i, x),
    "index_fill_": lambda t, i, x: t.index_fill_(0, i, 1.0),
    "index_reduce_, amax": lambda t, i, x: t.index_reduce_(0, i, x, "amax"),
}


def milliseconds(fn, device, rounds):
    wait = torch.get_device_module(device).synchronize if device != "cpu" else lambda: None
    best = float("inf")
    for k in range(rounds + 3):
        start = time.perf_counter()
        fn()
        wait()
        if k >= 3:
            best = min(best, time.perf_counter() - start)
    return best * 1e3


def scatters(device, rows, a):
    torch.manual_seed(0)
    table, index, source = torch.zeros(rows, a.width), torch.randint(rows, (a.updates,)), torch.randn(a.updates, a.width)
    table, index, source = (t.to(device) for t in (table, index, source))
    return {name: milliseconds(lambda f=f: f(table, index, source), device, a.rounds) for name, f in SCATTERS.items()}


def embedding_backward(device, a):
    torch.manual_seed(0)
    layer = torch.nn.Embedding(a.vocabulary, 768).to(device)
    tokens, grad = torch.randint(a.vocabulary, (8, 1024)).to(device), torch.randn(8, 1024, 768).to(device)

    def step():
        layer.weight.grad = None
        layer(tokens).backward(grad)

    return milliseconds(step, device, a.rounds)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--device", default="tiny")
    ap.add_argument("--rows", type=int, default=100_000, help="of the smaller table")
    ap.add_argument("--updates", type=int, default=10_000, help="rows written")
    ap.add_argument("--width", type=int, default=64)
    ap.add_argument("--vocabulary", type=int, default=50_304)
    ap.add_argument("--rounds", type=int, default=7)
    a = ap.parse_args()
    small, large = ({d: scatters(d, rows, a) for d in ("cpu", a.device)} for rows in (a.rows, 10 * a.rows))
    print(f"{'ms':24s}{'cpu':>9s}{a.device:>9s}{'x10: cpu':>10s}{a.device:>9s}   {a.device}/cpu   x10/x1")
    for name in SCATTERS:
        row = [t[d][name] for t in (small, large) for d in ("cpu", a.device)]
        print(f"{name:24s}{row[0]:9.3f}{row[1]:9.3f}{row[2]:10.3f}{row[3]:9.3f}   {row[1] / row[0]:8.2f}   {row[3] / row[1]:6.2f}")
    cpu, device = (embedding_backward(d, a) for d in ("cpu", a.device))
    print(f"{'embedding backward':24s}{cpu:9.3f}{device:9.3f}{'':19s}   {device / cpu:8.2f}")


if __name__ == "__main__":
    main()
