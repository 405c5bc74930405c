"""Times workloads on one device, in this process: bench.py DEVICE [options]. One JSON object a line:
name, first (seconds, with all compilation), best and median (milliseconds a step), steps, value, and tflops or peak memory where known.
"""
import argparse
import json
import resource
import statistics
import time

import torch
from workloads import WORKLOADS


def time_steps(step, seconds, warm_up=4, most=4000):
    """(seconds of the first step, milliseconds of each later one, last value). Every step is read back."""
    start = time.perf_counter()
    value = step().item()
    first = time.perf_counter() - start
    for _ in range(warm_up):
        step().item()
    spent, stop = [], time.perf_counter() + seconds
    while len(spent) < most and (time.perf_counter() < stop or not spent):
        start = time.perf_counter()
        value = step().item()
        spent.append((time.perf_counter() - start) * 1e3)
    return first, spent, value


def run(name, device, size, compiler=None, seconds=2.0):
    torch.manual_seed(1)
    work = WORKLOADS[name]
    step = work.make(device, size)
    first, spent, value = time_steps(torch.compile(step, backend=compiler) if compiler else step, seconds)
    row = {"name": name, "first": first, "best": min(spent), "median": statistics.median(spent), "steps": len(spent), "value": value,
           "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}
    if work.flops:
        row["tflops"] = work.flops(size) / min(spent) / 1e9
    return row


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("device")
    ap.add_argument("--compile", dest="compiler", metavar="BACKEND", help="wrap every step in torch.compile with this backend")
    ap.add_argument("--size", choices=("small", "full"), default="small")
    ap.add_argument("--names", help="comma-separated workloads; all when left out")
    ap.add_argument("--seconds", type=float, default=2.0, help="time for steady steps of each workload")
    ap.add_argument("--threads", type=int, help="torch.set_num_threads")
    a = ap.parse_args()
    if a.threads:
        torch.set_num_threads(a.threads)
    for name in a.names.split(",") if a.names else WORKLOADS:
        try:
            row = run(name, a.device, a.size, a.compiler, a.seconds)
        except Exception as e:  # that a peer cannot run a workload is a result as well
            row = {"name": name, "error": f"{type(e).__name__}: {e}".splitlines()[0][:160]}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
