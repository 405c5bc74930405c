"""scaled_dot_product_attention, fused: against the CPU in all types and with all masks, its gradients, strides and memory."""
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

pytestmark = pytest.mark.usefixtures("no_fallback")
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
HALVES = [torch.bfloat16, torch.float16]
ON_GPU = os.environ.get("TINY_DEVICE", "").startswith("CUDA")


def heads(*sizes, dtype=torch.float32, layout="heads"):
    b, h, n, d = sizes
    if layout == "heads":
        return torch.randn(b, h, n, d).to(dtype)
    if layout == "rows":
        return torch.randn(b, n, h, d).to(dtype).transpose(1, 2)
    return torch.randn(b, n, h, 2 * d).to(dtype)[..., d:].transpose(1, 2)


def has_kernel(q, v):
    """GPUs: tensor cores take halves, in rows of whole vectors."""
    return not ON_GPU or (q.dtype in HALVES and q.shape[3] % 8 == 0 and v.shape[3] % 8 == 0)


def is_fused(y):
    return "Overrideable" in type(y.grad_fn).__name__


def run(device, inputs, grad, fused, **options):
    on = [x.detach().to(device).requires_grad_() for x in inputs]
    y = F.scaled_dot_product_attention(*on, **{k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in options.items()})
    assert device == "cpu" or is_fused(y) == fused
    y.backward(grad.to(device))
    return y, [x.grad for x in on]


def compare(q, k, v, fused=True, strides=True, **options):
    """Against the CPU's definition in f32, or f64: its kernels for 16 bits round more than ours. A GPU rounds the probabilities too."""
    fused = fused and has_kernel(q, v)
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    grad = torch.randn(*q.shape[:3], v.shape[3]).to(q.dtype)
    wide_options = {n: x.to(wide) if isinstance(x, torch.Tensor) and x.dtype == q.dtype else x for n, x in options.items()}
    with sdpa_kernel(SDPBackend.MATH):
        want, grads = run("cpu", [x.to(wide) for x in (q, k, v)], grad.to(wide), fused, **wide_options)
    y, have = run("tiny", (q, k, v), grad, fused, **options)
    if strides and (fused or not ON_GPU):
        assert y.stride() == run("cpu", (q, k, v), grad, fused, **options)[0].stride()
    rounded = {torch.bfloat16: dict(rtol=1.6e-2, atol=4e-3), torch.float16: dict(rtol=1e-3, atol=5e-4)}.get(q.dtype, {}) if ON_GPU else {}
    torch.testing.assert_close(y.cpu(), want.to(q.dtype), **rounded)
    narrow = {torch.bfloat16: dict(rtol=2e-2, atol=2e-2), torch.float16: dict(rtol=2e-3, atol=2e-3)}.get(q.dtype, {})
    for a, b in zip(have, grads, strict=True):  # 16 bits: the gradients see a result that was rounded
        torch.testing.assert_close(a.cpu(), b.to(q.dtype), **narrow)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("kind", ["all", "causal", "bool", "added"])
def test_masks(kind, dtype):
    n, m = (70, 70) if kind == "causal" else (50, 133)
    mask = {"bool": torch.rand(2, 1, n, m) < 0.7, "added": torch.randn(3, n, m).to(dtype)}.get(kind)
    compare(heads(2, 3, n, 32, dtype=dtype), heads(2, 3, m, 32, dtype=dtype), heads(2, 3, m, 32, dtype=dtype), attn_mask=mask,
            is_causal=kind == "causal")


@pytest.mark.parametrize("width", [(32, 32), (64, 64), (128, 128), (40, 24), (17, 200)])
@pytest.mark.parametrize("causal", [False, True])
def test_widths(width, causal):
    d, e = width
    compare(heads(1, 2, 130, d), heads(1, 2, 130, d), heads(1, 2, 130, e), is_causal=causal, scale=0.2)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("width", [(64, 64), (128, 128), (40, 24), (96, 80), (256, 256)])
@pytest.mark.parametrize("sizes", [(130, 130), (70, 200)])
def test_halves(sizes, width, dtype):
    (n, m), (d, e) = sizes, width
    compare(heads(1, 2, n, d, dtype=dtype, layout="rows"), heads(1, 2, m, d, dtype=dtype), heads(1, 2, m, e, dtype=dtype, layout="part"),
            is_causal=n == m, strides=False)


@pytest.mark.parametrize("layout", ["heads", "rows", "part"])
def test_layouts(layout):
    q, k, v = (heads(2, 3, 40, 16, layout=layout) for _ in range(3))
    compare(q, k, v, is_causal=True, strides=layout != "part")
    compare(q, heads(2, 3, 40, 16), v, strides=layout != "part")


@pytest.mark.parametrize("sizes", [(1, 1, 1, 60), (2, 1, 1, 60), (1, 3, 45, 1), (45, 60)])
def test_masks_that_broadcast(sizes):
    compare(heads(2, 3, 45, 16), heads(2, 3, 60, 16), heads(2, 3, 60, 16), attn_mask=torch.randn(sizes))
    expanded = torch.randn(1, 1, 1, 60).expand(2, 3, 45, 60)
    compare(heads(2, 3, 45, 16), heads(2, 3, 60, 16), heads(2, 3, 60, 16), attn_mask=expanded)


def test_a_query_that_sees_no_key_is_zero():
    mask = torch.rand(20, 40) < 0.5
    mask[3] = False
    compare(heads(1, 2, 20, 16), heads(1, 2, 40, 16), heads(1, 2, 40, 16), attn_mask=mask)


def test_what_the_general_path_does():
    q, k, v = (heads(1, 2, 20, 16) for _ in range(3))
    compare(q[:, :, :1], k, v, fused=False, strides=False)
    compare(q, k[:, :1], v[:, :1], fused=False, strides=False)
    mask = torch.randn(20, 20, device="tiny", requires_grad=True)
    a, b, c = (x.to("tiny").requires_grad_() for x in (q, k, v))
    F.scaled_dot_product_attention(a, b, c, attn_mask=mask).sum().backward()
    assert mask.grad is not None and not is_fused(F.scaled_dot_product_attention(a, b, c, dropout_p=0.5))
    with torch.autograd.forward_ad.dual_level():  # no forward derivative has been written for the fused one
        dual = torch.autograd.forward_ad.make_dual(mask.detach(), torch.ones_like(mask))
        assert torch.autograd.forward_ad.unpack_dual(F.scaled_dot_product_attention(a, b, c, attn_mask=dual)).tangent is not None
    with sdpa_kernel(SDPBackend.MATH):
        assert not is_fused(F.scaled_dot_product_attention(a, b, c))


@pytest.mark.parametrize("causal, mask", [(False, False), (True, False), (False, True)])
def test_a_gradient_of_gradients(causal, mask):
    """Against the definition, written out: the CPU's own fused form has no second derivative."""
    q, k, v = (heads(1, 2, n, 8).double() for n in (20, 24, 24))
    bias = torch.randn(20, 24, dtype=torch.float64) if mask else None

    def plain(q, k, v):
        scores = q @ k.transpose(-1, -2) / 8 ** 0.5
        if mask:
            scores = scores + bias
        if causal:
            scores = scores.masked_fill(~torch.ones(20, 24, dtype=torch.bool).tril(), -torch.inf)
        return torch.softmax(scores, -1) @ v

    def fused(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.device) if mask else None, is_causal=causal)

    results = []
    for f, device in ((plain, "cpu"), (fused, "tiny")):
        leaves = [x.to(device).requires_grad_() for x in (q, k, v)]
        first = torch.autograd.grad(f(*leaves).pow(2).sum(), leaves, create_graph=True)
        second = torch.autograd.grad(sum(g.pow(2).sum() for g in first), leaves)
        results.append([t.detach().cpu() for t in (*first, *second)])
    for want, got in zip(*results, strict=True):
        torch.testing.assert_close(got, want)


def test_kernels_of_tensor_cores():
    """What a GPU would run: attention is three kernels, and the heads of one projection are not copied for it."""
    program = """
import torch, torch.nn.functional as F, torch_tiny
x = torch.randn(2, 64, 3 * 4 * 32, device="tiny", dtype=torch.bfloat16, requires_grad=True)
torch.tiny.synchronize()
q, k, v = x.view(2, 64, 3, 4, 32).permute(2, 0, 3, 1, 4).unbind(0)
F.scaled_dot_product_attention(q, k, v, is_causal=True).backward(torch.ones(2, 4, 64, 32, device="tiny", dtype=torch.bfloat16))
torch.tiny.synchronize()
print([name for record in torch_tiny.history()[1:] for name in record.kernel_names])
"""
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "TINY_DEVICE": "NULL:90"}, capture_output=True, text=True)
    if "built without LLVM" in done.stderr:
        pytest.skip("no NVPTX")
    names = done.stdout.splitlines()[-1]
    for kernel in ("attention_blocks'", "attention_blocks_keys'", "attention_blocks_queries'"):
        assert names.count(kernel) == 1, done.stdout + done.stderr


def test_scores_are_never_stored():
    n, dtype = 2048, torch.bfloat16 if ON_GPU else torch.float32
    q, k, v = (torch.randn(1, 8, n, 32, device="tiny", dtype=dtype, requires_grad=True) for _ in range(3))
    torch.tiny.synchronize()
    torch.tiny.reset_peak_memory_stats()
    before = torch.tiny.memory_allocated()
    F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
    torch.tiny.synchronize()
    assert torch.tiny.max_memory_allocated() - before < 8 * n * n  # a quarter of the scores in f32
