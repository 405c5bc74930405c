"""Operators without a kernel run on PyTorch's CPU: rightly for any arguments, and never unseen."""
import os
import subprocess
import sys

import pytest
import torch

import torch_tiny

D = "tiny"


def same(a, b):
    torch.testing.assert_close(a.cpu(), b, rtol=0, atol=0, equal_nan=True)
    assert a.stride() == b.stride() or a.numel() == 0


def test_counted_by_name():
    before = torch_tiny.fallback_counts().get("aten::linalg_eig", 0), torch_tiny.fallback_count()
    torch.linalg.eig(torch.eye(3, device=D))
    assert torch_tiny.fallback_counts()["aten::linalg_eig"] == before[0] + 1 and torch_tiny.fallback_count() == before[1] + 1
    assert "aten::linalg_eig" in torch.tiny.explain()


@pytest.mark.parametrize("policy,returns", [("error", 3), ("warn", 4), ("allow", 5), ("", 5)])
def test_policy(policy, returns):
    code = """
import sys, warnings, torch
x = torch.eye(3, device='tiny')
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter('always')
    try:
        torch.linalg.eig(x)
        torch.linalg.eig(x)
    except NotImplementedError as e:
        assert 'aten::linalg_eig' in str(e)
        sys.exit(3)
seen = [w for w in seen if 'aten::linalg_eig' in str(w.message)]
assert len(seen) <= 1
sys.exit(4 if seen else 5)
"""
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "TINY_FALLBACK": policy}, capture_output=True, text=True)
    assert done.returncode == returns, done.stderr


def test_another_policy_is_refused():
    code = """
import torch
x = torch.ones(3, device='tiny')
assert (x + 1).tolist() == [2, 2, 2]
try:
    torch.linalg.eig(torch.eye(3, device="tiny"))
except ValueError as e:
    print(e)
"""
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "TINY_FALLBACK": "cpu"}, capture_output=True, text=True)
    assert done.stdout.strip() == "TINY_FALLBACK=cpu is none of allow, warn, error", done.stderr


def test_a_line_at_exit():
    """On a terminal, and where no policy is set: operators that ran on the CPU are named once."""
    code = """
import sys, torch
sys.stderr.isatty = lambda: True
torch.linalg.eig(torch.eye(3, device="tiny"))
"""
    for policy, lines in (("", 1), ("allow", 0)):
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "TINY_FALLBACK": policy}, capture_output=True, text=True)
        assert done.stderr.count("ran on the CPU: aten::linalg_eig 1x") == lines, done.stderr


def test_strided_arguments():
    x = torch.randn(4, 4, 4)
    for view in (lambda t: t, lambda t: t[::2], lambda t: t.transpose(0, 2), lambda t: t[:, 1:, :3], lambda t: t[0].expand(5, 4, 4)):
        for got, want in zip(torch.linalg.eig(view(x.to(D))), torch.linalg.eig(view(x))):
            same(got, want)


def test_out_is_resized_and_written_through():
    x = torch.tensor([[2., 1., 0.], [1., 3., 1.], [0., 1., 4.]])
    expected = torch.linalg.eig(x)
    values, vectors = torch.empty(0, dtype=torch.complex64, device=D), torch.empty(0, dtype=torch.complex64, device=D)
    torch.linalg.eig(x.to(D), out=(values, vectors))
    same(values, expected.eigenvalues)
    same(vectors, expected.eigenvectors)
    base = torch.zeros(4, 3, dtype=torch.complex64, device=D)
    torch.linalg.eig(x.to(D), out=(base.t()[1, :3], vectors))
    want = torch.zeros(4, 3, dtype=torch.complex64)
    want[:3, 1] = expected.eigenvalues
    same(base, want)


def test_in_place():
    """Through a view, and complex: the elements beside it stay."""
    def double_in_place(x):
        x.copy_(x + x)

    library = torch.library.Library("tiny_test_in_place", "DEF")
    library.define("double_(Tensor(a!) x) -> ()")
    library.impl("double_", double_in_place, "CPU")
    x = torch.tensor([[4., 1j], [1., 3.]], dtype=torch.complex64, device=D)
    torch.ops.tiny_test_in_place.double_(x.t()[:1])
    assert x.tolist() == [[8, 1j], [2, 3]]


def test_lists_and_optional_tensors():
    a, b = torch.tensor([1, 2]), torch.tensor([3, 4, 5])
    same(torch.cartesian_prod(a.to(D), b.to(D)), torch.cartesian_prod(a, b))
    same(torch.block_diag(a.to(D), b.to(D)), torch.block_diag(a, b))
    z = torch.randn(3, 4, dtype=torch.complex64)
    same(z.to(D)[:, a.to(D)], z[:, a])


def test_linear_algebra():
    x = torch.randn(4, 4)
    for a in (x, x + 1j * x.t()):
        same(torch.linalg.eigvals(a.to(D)), torch.linalg.eigvals(a))
    u, s, v = torch.linalg.svd(x.to(D))
    assert torch.allclose((u @ torch.diag(s) @ v).cpu(), x, atol=1e-5)
    with pytest.raises(RuntimeError, match="singular"):
        torch.linalg.inv(torch.zeros(2, 2, device=D))


def test_gradients_flow_through():
    x = torch.randn(3, 3)
    grads = []
    for d in ("cpu", D):
        t = x.detach().to(d).requires_grad_()
        torch.linalg.det(t @ t.t() + torch.eye(3, device=d)).backward()
        grads.append(t.grad.cpu())
    assert torch.allclose(*grads, rtol=1e-4, atol=1e-5)


def test_generator_argument():
    x = torch.ones(5, device=D)
    draws = []
    for _ in range(2):
        g = torch.Generator(D).manual_seed(5)
        draws.append([torch.empty(8, device=D).geometric_(0.3, generator=g).cpu(),
                     torch.empty(8, device=D).geometric_(0.3, generator=g).cpu()])
    assert torch.equal(draws[0][0], draws[1][0]) and torch.equal(draws[0][1], draws[1][1]) and not torch.equal(*draws[0])
    assert torch.equal(torch.poisson(x * 0), torch.zeros(5, device=D))


def test_custom_operator_with_only_a_cpu_kernel():
    library = torch.library.Library("tiny_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    x = torch.arange(3.)
    same(torch.ops.tiny_test.twice(x.to(D)), x * 2)
