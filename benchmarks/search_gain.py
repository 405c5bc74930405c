"""How far the heuristics' kernels are from the best that a search by timing finds (TINY_BEAM), over the kernels of the workloads.

usage: search_gain.py [--ways N] [--only mlp,gpt,...] [--worst K]
Each workload runs once in a process of its own, with an empty compile cache, so that every kernel is searched. Prints, by workload, how
many kernels were searched, the geometric mean of the heuristics' time over the best found, and the same weighted by time (all of the
heuristics' over all of the best); then the kernels with most to gain. 1 means that nothing better was found.
"""
import argparse
import math
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
DEFAULT = "mlp,digits,gpt,recurrent,decode,pointwise,rows,column_sums,small_ops,matmul_f32,matmul_bf16,matvec,attention"
LINE = re.compile(r"tiny kernel: (\S+): way (\d+) of (\d+) takes ([\d.]+) us, the heuristics' ([\d.]+) us")


def searched(workload, ways, timeout):
    """[(kernel, best us, heuristics' us)] of a workload's kernels."""
    with tempfile.TemporaryDirectory() as cache:
        env = dict(os.environ, TINY_BEAM=str(ways), TINY_DEBUG="kernel=1", TINY_CACHE_DIR=cache)
        command = [sys.executable, os.path.join(HERE, "bench.py"), "tiny", "--names", workload, "--seconds", "0.1"]
        out = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout)
    if out.returncode or '"error"' in out.stdout:
        raise SystemExit(f"{workload}: {out.stdout[-400:]}{out.stderr[-400:]}")
    return [(m[1], float(m[4]), float(m[5])) for m in LINE.finditer(out.stderr)]


def mean_ratio(kernels):
    return math.exp(sum(math.log(h / b) for _, b, h in kernels) / len(kernels))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", type=int, default=24)
    parser.add_argument("--only", default=DEFAULT)
    parser.add_argument("--worst", type=int, default=15, help="kernels to list")
    parser.add_argument("--timeout", type=float, default=1200, help="seconds for a workload")
    a = parser.parse_args()
    every = []
    print(f"{'workload':14s} {'kernels':>7s} {'mean':>6s} {'by time':>8s}")
    for workload in a.only.split(","):
        kernels = searched(workload, a.ways, a.timeout)
        if not kernels:
            print(f"{workload:14s} {'none':>7s}")
            continue
        by_time = sum(h for _, _, h in kernels) / sum(b for _, b, _ in kernels)
        print(f"{workload:14s} {len(kernels):7d} {mean_ratio(kernels):6.3f} {by_time:8.3f}", flush=True)
        every += [(workload, *k) for k in kernels]
    if every:
        print(f"{'all':14s} {len(every):7d} {mean_ratio([k[1:] for k in every]):6.3f}")
        for workload, kernel, best, heuristic in sorted(every, key=lambda k: k[2] - k[3])[:a.worst]:
            print(f"  {workload}: {kernel} {heuristic:.1f} us, best {best:.1f} us ({heuristic / best:.2f})")


if __name__ == "__main__":
    main()
