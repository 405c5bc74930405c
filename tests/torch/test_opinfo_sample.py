"""A sample of PyTorch's own operator database, run on the device and compared with CPU: results and gradients.

The sample is drawn by a hash of the operator's name, so it stays the same from run to run; --full takes all of it.
TINY_OPINFO_PART=k (0..PARTS-1) picks another part.
"""
import itertools
import os
import zlib

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

D, PARTS, SAMPLES = "tiny", 12, 4
PART = int(os.environ.get("TINY_OPINFO_PART", 0))
DTYPES = (torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.complex64)
# Results that are random, uninitialised, or not determined by the inputs: only their geometry is compared.
UNDETERMINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "rand_like", "randn", "randn_like", "randint",
                "randint_like", "bernoulli", "multinomial", "normal", "uniform", "cauchy", "exponential", "geometric", "log_normal", "rrelu",
                "nn.functional.rrelu", "svd", "linalg.svd", "linalg.eig", "linalg.eigh", "linalg.qr", "qr", "geqrf", "pca_lowrank", "svd_lowrank",
                "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d", "nn.functional.multi_head_attention_forward"}


def chosen(op):
    return zlib.crc32(f"{op.name}.{op.variant_test_name}".encode()) % PARTS == PART


def is_random(op):
    return op.name in UNDETERMINED or "dropout" in op.name


def cases():
    out = []
    for op in op_db:
        for dtype in DTYPES:
            if dtype in op.supported_dtypes("cpu"):
                name = f"{op.name}{'.' * bool(op.variant_test_name)}{op.variant_test_name}-{str(dtype).split('.')[1]}"
                out.append(pytest.param(op, dtype, id=name, marks=[] if chosen(op) else pytest.mark.slow))
    return out


def is_tensor(x):
    return isinstance(x, torch.Tensor)


def to_device(tree, device=D):
    """A copy on the device; gradients are asked for where the original does."""
    def move(x):
        if is_tensor(x):
            return x.detach().to(device).requires_grad_(x.requires_grad)
        return torch.device(device) if isinstance(x, torch.device) or x == "cpu" else x
    return tree_map(move, tree)


def cast(tree, source, target):
    return tree_map(lambda x: x.to(target) if is_tensor(x) and x.dtype == source else x, tree)


def run(op, sample_input, args, kwargs):
    torch.manual_seed(0)
    return op(sample_input, *args, **kwargs)


def tensors_of(tree):
    return [x for x in tree_flatten(tree)[0] if is_tensor(x)]


def compare(want, got, dtype, values=True):
    want, got = tensors_of(want), tensors_of(got)
    assert len(want) == len(got)
    for a, b in zip(want, got):
        assert b.device.type == D
        assert a.dtype == b.dtype and a.shape == b.shape
        if values and a.layout == torch.strided:
            bound = {torch.bfloat16: 2e-2, torch.float32: 2e-5, torch.complex64: 2e-5}.get(dtype)
            loose = {"rtol": bound, "atol": bound} if bound else {}
            torch.testing.assert_close(b.cpu(), a, equal_nan=True, **loose)


def gradients(op, sample_input, args, kwargs, output_process):
    """Gradients of a fixed linear function of all differentiable results with respect to all inputs that ask for one."""
    leaves = [t for t in tensors_of((sample_input, args, kwargs)) if t.requires_grad]
    results = output_process(run(op, sample_input, args, kwargs))
    results = [t for t in tensors_of(results) if t.requires_grad]
    if not leaves or not results:
        return None
    weights = [torch.linspace(0.5, 1.5, max(t.numel(), 1))[:t.numel()].reshape(t.shape).to(t.device, t.dtype) for t in results]
    return torch.autograd.grad(results, leaves, weights, allow_unused=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op, dtype", cases())
def test_forward(op, dtype):
    done = 0
    for sample in itertools.islice(op.sample_inputs("cpu", dtype), SAMPLES):
        inputs = (sample.input, sample.args, sample.kwargs)
        moved = to_device(inputs)
        try:
            want = run(op, *inputs)
        except (RuntimeError, AssertionError):  # CPU cannot run it
            continue
        if any(t.layout != torch.strided for t in tensors_of((inputs, want))):
            continue
        got = run(op, *moved)
        try:
            compare(want, got, dtype, values=not is_random(op))
        except AssertionError:
            if dtype != torch.bfloat16:
                raise
            # The CPU rounds inside some operators (a sampling position has then 8 bits): float64 is the judge, within the same bounds.
            exact = run(op, *cast(inputs, torch.bfloat16, torch.float64))
            compare(cast(exact, torch.float64, torch.bfloat16), got, dtype)
        done += 1
    if not done:
        pytest.skip("no sample that CPU runs with strided tensors")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", [pytest.param(p.values[0], id=p.id, marks=p.marks) for p in cases()
                                if p.values[1] == torch.float32 and p.values[0].supports_autograd and not is_random(p.values[0])])
def test_gradient(op):
    done = 0
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float32, requires_grad=True), SAMPLES):
        inputs = (sample.input, sample.args, sample.kwargs)
        process = sample.output_process_fn_grad
        try:
            want = gradients(op, *inputs, process)
        except (RuntimeError, AssertionError):  # CPU cannot run it
            continue
        if want is None or any(t.layout != torch.strided for t in tensors_of((inputs, want))):
            continue
        got = gradients(op, *to_device(inputs), process)
        for a, b in zip(want, got, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(b.cpu(), a, rtol=1e-4, atol=1e-4, equal_nan=True)
        done += 1
    if not done:
        pytest.skip("no differentiable sample that CPU runs")
