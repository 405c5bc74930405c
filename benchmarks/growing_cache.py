"""Milliseconds a token of a transformer whose cache grows by a row with every token, from an empty compile cache: new sizes at each step.

    python benchmarks/growing_cache.py [--tokens N] [--peers cpu,fixed,symbolic]

fixed: TINY_SYMBOLIC=0, each size compiled by itself; symbolic: kernels take their sizes as arguments once they have changed often enough.
"""
import argparse
import os
import subprocess
import sys
import tempfile

PROGRAM = """
import sys, time, torch, torch.nn as nn, torch.nn.functional as F
device, tokens = sys.argv[1], int(sys.argv[2])
torch.manual_seed(0)
D, HEADS, LAYERS = 256, 8, 4
layers = [dict(qkv=torch.randn(D, 3 * D) / 16, out=torch.randn(D, D) / 16, up=torch.randn(D, 4 * D) / 16, down=torch.randn(4 * D, D) / 32)
          for _ in range(LAYERS)]
layers = [{k: w.to(device) for k, w in layer.items()} for layer in layers]
keys, values = [[torch.zeros(1, HEADS, 0, D // HEADS, device=device) for _ in layers] for _ in range(2)]
x, times = torch.randn(1, 1, D).to(device), []
for token in range(tokens):
    start = time.perf_counter()
    h = x
    for i, w in enumerate(layers):
        q, k, v = (F.layer_norm(h, (D,)) @ w["qkv"]).view(1, 1, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4)
        keys[i], values[i] = torch.cat([keys[i], k], 2), torch.cat([values[i], v], 2)
        a = F.scaled_dot_product_attention(q, keys[i], values[i])
        h = h + a.transpose(1, 2).reshape(1, 1, D) @ w["out"]
        h = h + F.gelu(F.layer_norm(h, (D,)) @ w["up"]) @ w["down"]
    x = F.layer_norm(h, (D,))
    checksum = x.abs().sum().item()
    times.append((time.perf_counter() - start) * 1e3)
last = sorted(times[tokens // 2:])
print(f"{sum(times) / 1e3:.2f} s in all, {last[len(last) // 2]:.2f} ms a token in the second half (median), last value {checksum:.4f}")
"""


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--tokens", type=int, default=100)
    ap.add_argument("--peers", default="cpu,fixed,symbolic")
    a = ap.parse_args()
    for peer in a.peers.split(","):
        with tempfile.TemporaryDirectory() as cache:
            env = dict(os.environ, TINY_CACHE_DIR=cache, TINY_SYMBOLIC="0" if peer == "fixed" else "3")
            done = subprocess.run([sys.executable, "-c", PROGRAM, "cpu" if peer == "cpu" else "tiny", str(a.tokens)], env=env, text=True,
                                  capture_output=True)
        print(f"{peer:9} {done.stdout.strip() or done.stderr.strip()[-500:]}", flush=True)


if __name__ == "__main__":
    main()
