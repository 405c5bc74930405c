"""Trains a small character model (a GPT) on this project's own documents, then lets it write. Plain PyTorch."""
import argparse
import glob
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout))

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        x = x + self.project(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class CharModel(nn.Module):
    def __init__(self, symbols, width=96, heads=4, layers=3, context=64, dropout=0.0):
        super().__init__()
        self.context = context
        self.symbol, self.place = nn.Embedding(symbols, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, symbols, bias=False)
        self.head.weight = self.symbol.weight
        nn.init.normal_(self.symbol.weight, std=0.02)

    def forward(self, ids):
        x = self.symbol(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x)))

    @torch.no_grad()
    def write(self, ids, count, temperature=0.8):
        """Appends `count` symbols to ids [1, n], each drawn from the model's distribution."""
        for _ in range(count):
            logits = self(ids[:, -self.context:])[:, -1] / temperature
            ids = torch.cat((ids, torch.multinomial(logits.softmax(-1), 1)), 1)
        return ids


def read_documents():
    names = sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))) + [os.path.join(ROOT, "README.md")]
    return "\n".join(open(name, encoding="utf-8").read() for name in names)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--device", default="tiny")
    ap.add_argument("--steps", type=int, default=400)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--losses", metavar="FILE", help="write the loss of every step, one a line")
    ap.add_argument("--characters", type=int, default=200, help="length of the sample")
    a = ap.parse_args()

    torch.manual_seed(a.seed)
    text = read_documents()
    alphabet = sorted(set(text))
    number = {c: i for i, c in enumerate(alphabet)}
    ids = torch.tensor([number[c] for c in text]).to(a.device)
    model = CharModel(len(alphabet)).to(a.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    pick = torch.Generator().manual_seed(a.seed)
    offsets = torch.arange(model.context + 1, device=a.device)

    losses, start = [], time.perf_counter()
    for step in range(a.steps):
        begin = torch.randint(len(text) - model.context - 1, (a.batch, 1), generator=pick).to(a.device)
        rows = ids[begin + offsets]
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
        if (step + 1) % 50 == 0 or step + 1 == a.steps:
            print(f"step {step + 1}: loss {loss.item():.4f}, {(time.perf_counter() - start) / (step + 1) * 1e3:.0f} ms a step", flush=True)

    if a.losses:
        with open(a.losses, "w") as f:
            f.writelines(f"{v:.9g}\n" for v in torch.stack(losses).tolist())
    if a.characters:
        model.eval()
        prompt = torch.tensor([[number["T"]]], device=a.device)
        print("".join(alphabet[i] for i in model.write(prompt, a.characters)[0].tolist()))


if __name__ == "__main__":
    main()
