"""A sample of PyTorch's own operator database in the forms beside the plain call: out=, in place, on non-contiguous inputs, and wrong calls.

Drawn by a hash of the operator's name, as in test_opinfo_sample.py; --full takes all of it.
"""
import itertools

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map

from test_opinfo_sample import D, chosen, compare, is_random, is_tensor, run, tensors_of, to_device

SAMPLES = 3
# PyTorch's CPU kernel writes out of bounds for a strided out= of two batch dimensions.
NO_STRIDED_OUT = {"tril", "triu", "lu_unpack", "linalg.lu"}
# out= receives positions among equal values, which no kernel has to agree on.
TIES = {"sort", "topk", "kthvalue", "median", "nanmedian", "mode", "msort"}


# Wrong calls whose class differs, by number: PyTorch's CPU raises an internal assert where an IndexError says it; out= of another complex
# type is cast to, as other operators' is.
DIFFERENT = {("narrow_copy", 1), ("complex", 2)}


def cases(dtypes, holds):
    out = []
    for op in op_db:
        if not holds(op) or is_random(op):
            continue
        for dtype in dtypes:
            if dtype in op.supported_dtypes("cpu"):
                name = f"{op.name}{'.' * bool(op.variant_test_name)}{op.variant_test_name}-{str(dtype).split('.')[1]}"
                out.append(pytest.param(op, dtype, id=name, marks=[] if chosen(op) else pytest.mark.slow))
    return out


def strided(*trees):
    return all(t.layout == torch.strided for t in tensors_of(trees))


def copied(tree):
    return tree_map(lambda x: x.detach().clone() if is_tensor(x) else x, tree)


def samples(op, dtype):
    """(inputs, what CPU makes of them) of samples that CPU runs on strided tensors."""
    for sample in itertools.islice(op.sample_inputs("cpu", dtype), SAMPLES):
        if sample.broadcasts_input:  # not in place
            continue
        inputs = (sample.input, sample.args, sample.kwargs)
        try:
            want = run(op, *copied(inputs))
        except (RuntimeError, AssertionError):
            continue
        if strided(inputs, want):
            yield inputs, want


def empty_like(results, device, layout):
    """Output tensors: of the results' sizes ("right"), not contiguous ("strided"), or of no elements ("empty")."""
    def make(x):
        if layout == "empty":
            return torch.empty(0, dtype=x.dtype, device=device)
        if layout == "strided" and x.dim() > 0:
            return torch.zeros([*x.shape[:-1], 2 * x.shape[-1]], dtype=x.dtype, device=device)[..., ::2]
        return torch.zeros(x.shape, dtype=x.dtype, device=device)
    return tree_map(lambda x: make(x) if is_tensor(x) else x, results)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op, dtype", cases((torch.float32, torch.int64), lambda op: op.supports_out and op.name not in TIES))
def test_out(op, dtype):
    done = 0
    for inputs, want in samples(op, dtype):
        if not (is_tensor(want) or isinstance(want, tuple)):
            continue
        for layout in ("right", "strided", "empty"):
            if layout == "strided" and op.name in NO_STRIDED_OUT:
                continue
            x, args, kwargs = to_device(inputs)
            out = empty_like(tuple(want) if isinstance(want, tuple) else want, D, layout)
            got = run(op, x, args, {**kwargs, "out": out})
            compare(want, got, dtype)
            compare(want, out, dtype)
        done += 1
    if not done:
        pytest.skip("no sample that CPU runs with strided tensors")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op, dtype", cases((torch.float32, torch.int64, torch.bool), lambda op: op.inplace_variant is not None))
def test_in_place(op, dtype):
    done = 0
    for inputs, _ in samples(op, dtype):
        x, args, kwargs = copied(inputs)
        try:
            want = run(op.inplace_variant, x, args, kwargs)
        except (RuntimeError, AssertionError):  # CPU refuses this one in place
            continue
        y, args, kwargs = to_device(inputs)
        got = run(op.inplace_variant, y, args, kwargs)
        assert got is y
        compare((want, x), (got, y), dtype)
        done += 1
    if not done:
        pytest.skip("no sample that CPU runs in place with strided tensors")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op, dtype", cases((torch.float32,), lambda op: True))
def test_not_contiguous(op, dtype):
    """Every tensor transposed in memory and every second element of something larger."""
    def loosen(x):
        if not is_tensor(x) or x.dim() == 0 or x.numel() == 0:
            return x
        return x.repeat_interleave(2, -1)[..., ::2]
    done = 0
    for inputs, _ in samples(op, dtype):
        loose = tree_map(loosen, inputs)
        try:
            want = run(op, *loose)
        except (RuntimeError, AssertionError):
            continue
        if not strided(want):
            continue
        compare(want, run(op, *tree_map(loosen, to_device(inputs))), dtype)
        done += 1
    if not done:
        pytest.skip("no sample that CPU runs with strided tensors")


def shares_memory(tensors):
    """True if two of them, or two elements of one, are the same memory."""
    storages = [t.untyped_storage()._cdata for t in tensors]
    return len(set(storages)) < len(storages) or any(0 in t.stride() and t.numel() > 1 for t in tensors)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", [p.values[0] for p in cases((torch.float32,), lambda op: op.error_inputs_func is not None)],
                         ids=lambda op: op.name)
def test_wrong_calls(op):
    """The exception's class is CPU's. What is wrong with an index's value shows when the result is read."""
    done = 0
    for number, wrong in enumerate(op.error_inputs("cpu")):
        if (op.name, number) in DIFFERENT:
            continue
        s = wrong.sample_input
        given = tensors_of((s.input, s.args, s.kwargs))
        if not strided(given) or shares_memory(given) or any(t.is_meta for t in given):
            continue  # copies on the device share no memory; test_wrong_calls.py has calls whose tensors do
        try:
            run(op, s.input, s.args, s.kwargs)
            continue  # CPU lets it pass
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what the device has to raise
            kind = type(error)
        with pytest.raises(kind) as seen:
            for t in tensors_of(run(op, *to_device((s.input, s.args, s.kwargs)))):
                t.cpu()
        assert type(seen.value) is kind
        done += 1
    if not done:
        pytest.skip("no wrong call that CPU refuses")
