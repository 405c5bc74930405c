"""What the benchmarks and tests/torch/test_workloads.py run: plain PyTorch programs that need only torch.

WORKLOADS maps a name to a Workload. Workload.make(device, size) builds it and returns `step`: each call does one unit of work and returns a
scalar tensor (a loss or a checksum). size: "small" (two CPU cores) or "full" (a GPU). A workload with `trains` is an optimizer's step.
"""
import os
import sys
from dataclasses import dataclass
from typing import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples"))
from gpt import CharModel  # noqa: E402
from mnist import DigitNet  # noqa: E402
from resnet import ResNet18  # noqa: E402


@dataclass
class Workload:
    make: Callable
    trains: bool = False
    flops: Callable = None  # size -> floating point operations of one step, where that is the point


WORKLOADS: dict[str, Workload] = {}


def workload(trains=False, flops=None, name=None):
    def add(make):
        WORKLOADS[name or make.__name__] = Workload(make, trains, flops)
        return make
    return add


def pick(size, small, full):
    return small if size == "small" else full


def trainer(model, optimizer, loss_of, device, half=False):
    """One step of training; with `half` the forward pass runs under bfloat16 autocast."""
    kind = torch.device(device).type

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(kind, dtype=torch.bfloat16, enabled=half):
            loss = loss_of(model)
        loss.backward()
        optimizer.step()
        return loss.detach()
    step.optimizer = optimizer
    return step


def images(count, channels, side, device):
    return torch.randn(count, channels, side, side).to(device), torch.randint(10, (count,)).to(device)


# ---- training
@workload(trains=True)
def mlp(device, size):
    batch, width = pick(size, (128, 256), (4096, 4096))
    model = nn.Sequential(
    nn.Linear(
        64, width), nn.ReLU(), nn.Dropout(0.0), nn.Linear(
            width, width), nn.Tanh(), nn.Linear(
                width, 10)).to(device)
    x, y = torch.randn(batch, 64).to(device), torch.randint(10, (batch,)).to(device)
    return trainer(model, torch.optim.SGD(model.parameters(), 0.1), lambda m: F.cross_entropy(m(x), y), device)


@workload(trains=True)
def digits(device, size):
    model = DigitNet().to(device)
    x, y = images(pick(size, 96, 8192), 1, 8, device)
    return trainer(model, torch.optim.Adam(model.parameters(), 2e-3), lambda m: F.cross_entropy(m(x), y), device)


@workload(trains=True)
def resnet(device, size):
    width, batch, side = pick(size, (16, 8, 32), (64, 256, 128))
    model = ResNet18(width).to(device)
    x, y = images(batch, 1, side, device)
    optimizer = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9, weight_decay=1e-4)
    return trainer(model, optimizer, lambda m: F.cross_entropy(m(x), y), device, size == "full")


@workload(trains=True)
def gpt(device, size):
    symbols, width, heads, layers, context, batch = pick(size, (256, 128, 4, 3, 64, 4), (32768, 1024, 16, 12, 1024, 8))
    model = CharModel(symbols, width, heads, layers, context).to(device)
    ids = torch.randint(symbols, (batch, context + 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4)

    def loss_of(m):
        return F.cross_entropy(m(ids[:, :-1]).flatten(0, 1).float(), ids[:, 1:].flatten())
    return trainer(model, optimizer, loss_of, device, size == "full")


@workload(trains=True)
def recurrent(device, size):
    batch, length, width = pick(size, (8, 12, 64), (128, 128, 512))
    model = nn.ModuleList((nn.LSTM(width, width, num_layers=2, batch_first=True), nn.Linear(width, 10))).to(device)
    x, y = torch.randn(batch, length, width).to(device), torch.randint(10, (batch,)).to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), 1e-3)
    return trainer(model, optimizer, lambda m: F.cross_entropy(m[1](m[0](x)[0][:, -1]), y), device)


@workload(trains=True)
def recommender(device, size):
    """Two embedding tables with few of their rows touched in each step."""
    rows, width, batch = pick(size, (5000, 32, 256), (1_000_000, 128, 16384))
    users, items = nn.Embedding(rows, width), nn.Embedding(rows, width)
    model = nn.ModuleList((users, items)).to(device)
    u, i = (torch.randint(rows, (batch,)).to(device) for _ in range(2))
    liked = torch.rand(batch).to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), 0.05)
    return trainer(model, optimizer, lambda m: F.binary_cross_entropy_with_logits((m[0](u) * m[1](i)).sum(-1), liked), device)


# ---- inference
class CachedLayer(nn.Module):
    """A decoder layer that keeps keys and values of earlier tokens in a buffer, written in place."""

    def __init__(self, width, heads, context):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query, self.key, self.value, self.project = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up, self.down = nn.Linear(width, 3 * width, bias=False), nn.Linear(width,
                                                  3 * width, bias=False), nn.Linear(3 * width, width, bias=False)
        self.register_buffer("keys", torch.zeros(1, heads, context, width // heads))
        self.register_buffer("values", torch.zeros(1, heads, context, width // heads))

    def forward(self, x, place, visible):
        y = self.norm1(x)
        q, k, v = (f(y).view(1, 1, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        self.keys.index_copy_(2, place, k)
        self.values.index_copy_(2, place, v)
        attended = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=visible)
        x = x + self.project(attended.transpose(1, 2).reshape(x.shape))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


@workload()
def decode(device, size):
    """Greedy decoding, one token a step."""
    width, heads, layers, context, symbols = pick(size, (256, 4, 4, 96, 512), (4096, 32, 12, 2048, 32768))
    dtype = pick(size, torch.float32, torch.bfloat16)
    embed, head = nn.Embedding(symbols, width), nn.Linear(width, symbols, bias=False)
    stack = nn.ModuleList(CachedLayer(width, heads, context) for _ in range(layers))
    for module in (embed, head, stack):
        module.to(device, dtype)
    places = torch.arange(context, device=device)
    state = {"token": torch.zeros(1, 1, dtype=torch.long, device=device), "place": torch.zeros(1, dtype=torch.long, device=device)}

    @torch.no_grad()
    def step():
        x, visible = embed(state["token"]), (places <= state["place"]).view(1, 1, 1, context)
        for layer in stack:
            x = layer(x, state["place"], visible)
        state["token"] = head(x)[:, -1].argmax(-1, keepdim=True)
        state["place"] = (state["place"] + 1) % context
        return state["token"].sum()
    return step


def forward_only(name, **kw):
    """A workload whose maker returns (inputs on the CPU, function of them)."""
    def add(define):
        def make(device, size):
            inputs, fn = define(size)
            inputs = [t.to(device) for t in inputs]

            @torch.no_grad()
            def step():
                return fn(*inputs)
            return step
        workload(name=name, **kw)(make)
        return define
    return add


@forward_only("pointwise")
def _(size):
    """Twenty elementwise operators over one large array."""
    def fn(x, y):
        z = x
        for _ in range(5):
            z = torch.sigmoid(z + y) * torch.tanh(z) - 0.5 * y
        return z.abs().sum()
    return [torch.randn(pick(size, 1 << 21, 1 << 26)) for _ in range(2)], fn


@forward_only("rows")
def _(size):
    """Softmax, layer norm and variance of the same rows."""
    rows, columns = pick(size, (512, 2048), (16384, 8192))
    return ([torch.randn(rows, columns), torch.randn(columns)],
            lambda x, w: F.layer_norm(F.softmax(x, -1), (columns,), w).var(-1).sum())


@forward_only("column_sums")
def _(size):
    """Reductions along the strided axis."""
    rows, columns = pick(size, (2048, 1024), (65536, 4096))
    return [torch.randn(rows, columns)], lambda x: (x.sum(0) * x.amax(0)).sum()


@forward_only("small_ops")
def _(size):
    """Two hundred dependent operators on a small array: the cost of an operator as such."""
    def fn(x, y):
        for _ in range(100):
            x = (x - y) * 0.25
        return x.sum()
    return [torch.randn(16, 16) for _ in range(2)], fn


@forward_only("scatter")
def _(size):
    """Adding updates into a large table, and gathering from it."""
    rows, updates = pick(size, (50_000, 20_000), (5_000_000, 2_000_000))
    return ([torch.zeros(rows, 8), torch.randint(rows, (updates,)), torch.randn(updates, 8)],
            lambda table, index, source: table.index_add(0, index, source)[index].sum())


def matmul(name, small, full, dtype):
    @forward_only(name, flops=lambda size: 2 * pick(size, small, full) ** 3)
    def _(size):
        n = pick(size, small, full)
        return [torch.randn(n, n).to(dtype) for _ in range(2)], lambda a, b: (a @ b)[0, 0]


matmul("matmul_f32", 512, 4096, torch.float32)
matmul("matmul_f32_large", 1024, 8192, torch.float32)
matmul("matmul_bf16", 512, 4096, torch.bfloat16)
matmul("matmul_f16", 512, 4096, torch.float16)


@forward_only("matvec")
def _(size):
    """A vector times a matrix, bound by memory."""
    n, dtype = pick(size, (3072, torch.float32), (16384, torch.bfloat16))
    return [torch.randn(1, n).to(dtype), torch.randn(n, n).to(dtype)], lambda a, b: (a @ b).sum()


@workload()
def attention(device, size):
    """Causal attention and its gradient."""
    batch, heads, length, width = pick(size, (2, 4, 192, 32), (8, 16, 4096, 64))
    dtype = pick(size, torch.float32, torch.bfloat16)
    inputs = [torch.randn(batch, heads, length, width).to(device, dtype).requires_grad_() for _ in range(3)]

    def step():
        loss = F.scaled_dot_product_attention(*inputs, is_causal=True).float().pow(2).mean()
        grads = torch.autograd.grad(loss, inputs)
        return loss.detach() + sum(g.float().sum() for g in grads)
    return step
