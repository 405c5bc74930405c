"""Every lowering against PyTorch's CPU kernel, on the samples of PyTorch's own operator tests: forward, and backward where there is one."""
import os
import warnings

import mpmath  # a dependency of torch
import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

import lowerings

SAMPLES = int(os.environ.get("TINY_LOWER_SAMPLES", "12"))
BIG = 4000  # elements: the interpreter is slow
torch.set_num_threads(1)  # with several the CPU adds up rows in another order, each sum rounded
DTYPES = [torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.float64, torch.uint8]
# Operators without any call that a lowering serves, and those that ask much of an interpreter.
SLOW = ("linalg", "svd", "pinverse", "nn.functional.ctc", "lu", "eig", "cholesky", "geqrf", "ormqr", "fft", "stft", "istft", "masked.",
        "jiterator", "ops.nvprims", "to_sparse")

# Where a lowering differs from the CPU's kernel on purpose: row, part of the message, why.
KNOWN = [
    ("native_layer_norm", "float32 != torch.bfloat16", "statistics of half precision are f32, as on CUDA"),
    ("native_group_norm", "float32 != torch.bfloat16", "the same"),
    ("native_batch_norm", "float32 != torch.bfloat16", "the same"),
    ("_native_batch_norm_legit", "float32 != torch.bfloat16", "the same"),
    ("_batch_norm_with_update", "float32 != torch.bfloat16", "the same"),
    ("native_layer_norm_backward", "float32[1], torch.float32[1], [1]", "of one element the gradient is 0; the CPU's has rounding errors"),
    ("log_sigmoid_forward", "result 1", "the buffer is the CPU kernel's own; CUDA's has no elements either"),
    ("upsample_bilinear2d.out", "uint8", "the CPU interpolates bytes with 16-bit weights"),
    ("upsample_bicubic2d.out", "uint8", "the same"),
    ("_upsample_bilinear2d_aa.out", "uint8", "the same, and rounds to bytes between the two dimensions"),
    ("_embedding_bag", "result 1: The values for attribute 'shape'", "what only the backward needs is always computed here, as on CUDA; the "
     "CPU's fast paths leave it out"),
    ("_embedding_bag", "result 2", "the same"),
    ("_embedding_bag", "result 3: The values for attribute 'shape'", "the same"),
    ("_linalg_svd.U", "result 0", "singular vectors of either sign are right, and all of them that complete a basis: tests/torch/test_spectral.py"),
    ("_linalg_svd.U", "result 2", "the same"),
    ("special_bessel_j0.out", "float64", "the CPU's values are 4e-7 off for arguments over 5: test_bessel knows the exact ones"),
    ("special_bessel_j1.out", "float64", "the same"),
    ("special_bessel_y0.out", "float64", "the same"),
    ("special_bessel_y1.out", "float64", "the same"),
]

report = lowerings.Report()


def unexpected(faults):
    """Faults without those that KNOWN explains."""
    left = {row: [f for f in texts if not any(row.partition(".")[0] == r.partition(".")[0] and part in f for r, part, _ in KNOWN)] for row, texts in faults.items()}
    return {row: texts for row, texts in left.items() if texts}


@pytest.fixture(scope="session")
def shim():
    path = lowerings.library()
    if not os.path.exists(path):
        cache = os.path.join(os.path.dirname(path), "..", "CMakeCache.txt")
        options = open(cache).read() if os.path.exists(cache) else ""
        if "TINY_TORCH:BOOL=ON" in options and "TINY_TESTS:BOOL=ON" in options:
            pytest.fail(f"{path} is missing: the build is not complete (target lower_shim)")
        pytest.skip("there is no build with TINY_TORCH and TINY_TESTS, which has the library that these tests call")
    return lowerings.Lowerings(path)


def elements(sample):
    tensors = [t for t in torch.utils._pytree.tree_leaves((sample.input, sample.args, sample.kwargs)) if isinstance(t, torch.Tensor)]
    return sum(t.numel() for t in tensors)


def run(op, dtype, comparer):
    grad = dtype.is_floating_point and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    for k, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=grad)):
        if k >= SAMPLES:
            break
        if elements(sample) > BIG:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with comparer:
                out = op.op(sample.input, *sample.args, **sample.kwargs)
                outs = [t for t in torch.utils._pytree.tree_leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
                if grad and outs:
                    torch.autograd.backward(outs, [torch.randn_like(t) for t in outs])


CASES = [(op, d) for op in op_db for d in DTYPES if d in op.supported_dtypes("cpu") and not op.name.startswith(SLOW)]


@pytest.mark.parametrize("op,dtype", CASES, ids=[f"{op.formatted_name}-{str(d)[6:]}" for op, d in CASES])
def test_samples(op, dtype, shim):
    torch.manual_seed(0)
    mine = lowerings.Report()
    run(op, dtype, lowerings.Comparer(shim, mine))
    for row, n in mine.passed.items():
        report.passed[row] = report.passed.get(row, 0) + n
    faults = unexpected(mine.faults)
    assert not faults, "\n".join(f"{row}: {texts[0]}" for row, texts in faults.items())


@pytest.mark.parametrize("name,order", [("bessel_j0", 0), ("bessel_j1", 1), ("bessel_y0", 0), ("bessel_y1", 1)])
def test_bessel(name, order, shim):
    exact = mpmath.besselj if "_j" in name else mpmath.bessely
    x = torch.linspace(0.05, 40, 200, dtype=torch.float64)
    expected = torch.tensor([float(exact(order, float(v))) for v in x], dtype=torch.float64)
    row = f"special_{name}.out"
    got, = shim.call(row, lowerings.split(lowerings.find(row))[0], [x], [(x.dtype, tuple(x.shape))])
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-14)


if __name__ == "__main__":  # a summary by row: python test_lowerings.py [part of an operator's name]
    import sys
    low = lowerings.Lowerings(lowerings.library())
    comparer = lowerings.Comparer(low, report)
    for op, dtype in CASES:
        if len(sys.argv) > 1 and sys.argv[1] not in op.formatted_name:
            continue
        torch.manual_seed(0)
        try:
            run(op, dtype, comparer)
        except Exception as e:
            print(f"-- {op.formatted_name} {dtype}: {type(e).__name__}: {str(e)[:200]}")
    for row, faults in sorted(unexpected(report.faults).items()):
        print(f"{row}: {len(faults)} of {len(faults) + report.passed.get(row, 0)}\n    {faults[0][:500]}\n    {faults[-1][:300]}")
    print("never called:", " ".join(n for n in low.names if n not in report.passed and n not in report.faults))
