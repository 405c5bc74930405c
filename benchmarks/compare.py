"""Compares this device with its peers on one machine, now: each peer runs each workload in a process of its own, the peers taking turns
so that a slow minute of the machine hits all of them; of several rounds the best counts. Ends with the table of ratios tiny / peer
(below 1: tiny is faster). Absolute times vary from run to run; compare only within one.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CACHES = ("TINY_CACHE_DIR", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def peers_for(base):
    return {"eager": [base], "inductor": [base, "--compile", "inductor"], "tiny": ["tiny"], "tiny_compiled": ["tiny", "--compile", "tiny"]}


def measure(peer_args, workload, a):
    """One process: the row that bench.py prints, or {"error": ...}."""
    command = [sys.executable, os.path.join(HERE, "bench.py"), *peer_args, "--names", workload,
                                            "--size", a.size, "--seconds", str(a.seconds)]
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | (dict.fromkeys(CACHES, folder) if a.cold else {})
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=a.timeout)
        except subprocess.TimeoutExpired:
            return {"error": f"still running after {a.timeout:.0f} s"}
    lines = done.stdout.strip().splitlines()
    return json.loads(lines[-1]) if lines else {"error": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1][:160]}


def better(a, b):
    """Of two rows of one peer the faster one, with the shorter first step of both."""
    rows = [r for r in (a, b) if r and "error" not in r]
    if not rows:
        return b
    return min(rows, key=lambda r: r["best"]) | {"first": min(r["first"] for r in rows)}


def cell(row):
    return row["error"][:34] if "error" in row else f"{row['best']:.3f} ms, first {row['first']:.2f} s"


def ratio_table(results, peers):
    others = [p for p in peers if p != "tiny"]
    lines, logs = [], {p: [] for p in others}
    for name, rows in results.items():
        cells = []
        for p in others:
            if "error" in rows["tiny"] or "error" in rows[p]:
                cells.append("-")
                continue
            steady, first = (rows["tiny"][k] / rows[p][k] for k in ("best", "first"))
            logs[p].append(math.log(steady))
            cells.append(f"{steady:.3f} ({first:.2f})")
        lines.append((name, *cells))
    lines.append(("geometric mean", *(f"{math.exp(sum(v) / len(v)):.3f}" if v else "-" for v in logs.values())))
    return [("tiny / peer: steady (first)", *others), *lines]


def show(table):
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    for row in table:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())


def main():
    from workloads import WORKLOADS
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--base", default="cpu", help="the device of the peers eager and inductor")
    ap.add_argument("--peers", default="eager,inductor,tiny")
    ap.add_argument("--names", help="comma-separated workloads; all when left out")
    ap.add_argument("--size", choices=("small", "full"), default="small")
    ap.add_argument("--rounds", type=int, default=2)
    ap.add_argument("--seconds", type=float, default=1.0)
    ap.add_argument("--timeout", type=float, default=600)
    ap.add_argument("--cold", action="store_true", help="give every process empty compilation caches")
    ap.add_argument("--json", metavar="FILE")
    a = ap.parse_args()

    known = peers_for(a.base)
    peers = {p: known[p] for p in a.peers.split(",")}
    results = {}
    for name in a.names.split(",") if a.names else WORKLOADS:
        rows = dict.fromkeys(peers)
        for _ in range(a.rounds):
            for p, args in peers.items():
                rows[p] = better(rows[p], measure(args, name, a))
        results[name] = rows
        print(f"{name:18s}", *(f"{p}: {cell(r)}" for p, r in rows.items()), sep="  ", flush=True)
    if "tiny" in peers:
        print()
        show(ratio_table(results, peers))
    if a.json:
        with open(a.json, "w") as f:
            json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
