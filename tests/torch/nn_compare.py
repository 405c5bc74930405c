"""Runs a function on the CPU and on the device, and compares results and gradients."""
import torch
import torch_tiny  # noqa: F401
from torch.utils._pytree import tree_flatten, tree_map

D = "tiny"
TOLERANCE = {torch.float32: (1e-4, 1e-5), torch.bfloat16: (2e-2, 2e-2), torch.float16: (4e-3, 4e-3)}


def tensors(tree):
    return [t for t in tree_flatten(tree)[0] if isinstance(t, torch.Tensor)]


def to(tree, device):
    """The same tensors on `device`: leaves of their own, with the strides they had, gaps included."""
    def move(t):
        if not isinstance(t, torch.Tensor):
            return t
        memory = t.detach().as_strided((t.untyped_storage().nbytes() // t.itemsize,), (1,), 0)
        return memory.to(device, copy=True).as_strided(t.shape, t.stride(), t.storage_offset()).requires_grad_(t.requires_grad)
    return tree_map(move, tree)


def check(actual, expected, **tolerance):
    if not tolerance and expected.dtype in TOLERANCE:
        tolerance = dict(zip(("rtol", "atol"), TOLERANCE[expected.dtype]))
    torch.testing.assert_close(actual.detach().cpu(), expected.detach(), equal_nan=True, check_stride=False, **tolerance)


def compare(function, *args, backward=True, reference=None, **tolerance):
    """function(*args) on both; args may hold tensors anywhere. With `reference` the CPU runs in that dtype and is rounded, where
    PyTorch's own kernel rounds in between."""
    here, there = to(args, "cpu"), to(args, D)
    if reference is not None:
        here = tree_map(lambda t: t.detach().to(reference).requires_grad_(t.requires_grad)
                        if isinstance(t, torch.Tensor) and t.is_floating_point() else t, here)
    expected, actual = tensors(function(*here)), tensors(function(*there))
    assert len(expected) == len(actual)
    for a, e in zip(actual, expected):
        assert a.device.type == D
        check(a, e.to(a.dtype) if reference else e, **tolerance)
    if not backward:
        return
    torch.manual_seed(11)
    pairs = [(a, e, torch.randn(e.shape).to(a.dtype)) for a, e in zip(actual, expected) if e.requires_grad]
    if not pairs:
        return
    torch.autograd.backward([e for _, e, _ in pairs], [g.to(e.dtype) for _, e, g in pairs])
    torch.autograd.backward([a for a, _, _ in pairs], [g.to(D) for _, _, g in pairs])
    for a, e in zip(tensors(there), tensors(here)):
        assert (a.grad is None) == (e.grad is None)
        if e.grad is not None:
            check(a.grad, e.grad.to(a.dtype) if reference else e.grad, **tolerance)


def raises_alike(function, *args):
    """(CPU's words, the device's words) of an error that both raise; reading the result brings up what the device finds while running:
    an index out of bounds is then an IndexError, where some CPU kernels raise RuntimeError."""
    try:
        function(*to(args, "cpu"))
    except Exception as e:
        expected = e
    else:
        raise AssertionError("the CPU raises nothing")
    try:
        for t in tensors(function(*to(args, D))):
            t.cpu()
    except (type(expected), IndexError) as e:
        return str(expected), str(e)
    raise AssertionError(f"the device does not raise {expected!r}")
