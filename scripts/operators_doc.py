"""Writes docs/operators.md: for every operator of PyTorch's own database (torch.testing._internal, op_db), in which dtypes it runs natively
on the device, and what runs on the CPU with the reason that the tables csrc/aten_*.def give. Each line is found by running samples.

  operators_doc.py            all operators; takes about a quarter of an hour on two cores
  operators_doc.py --ops 'index*,fft.*'   prints the lines of these instead
"""
import argparse
import concurrent.futures
import fnmatch
import glob
import multiprocessing
import os
import re
import sys
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

import torch_tiny

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHORT = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.complex64: "c64",
         torch.int64: "i64", torch.int32: "i32", torch.uint8: "u8", torch.bool: "bool"}
DTYPES = tuple(SHORT)
TAKE_CPU_TENSORS = {"tensor_split"}  # its positions are on the CPU on every device
SAMPLES = 6


def reasons():
    """aten name -> why the tables leave it to the CPU."""
    found = {}
    for path in glob.glob(os.path.join(ROOT, "csrc", "aten_*.def")):
        with open(path) as f:
            for name, reason in re.findall(r'^CPU\("([^"]+)", "([^"]+)"\)', f.read(), re.M):
                found["aten::" + name] = reason
    return found


def spaced(samples, count):
    samples = list(samples)
    step = max(1, len(samples) // count)
    return samples[::step][:count]


def tensor_to_device(x):
    """With all of the memory that it is a view of: as_strided() looks beyond the view."""
    x = x.detach()
    if x.layout != torch.strided or x.untyped_storage().nbytes() == x.numel() * x.element_size():
        return x.to("tiny")
    memory = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
    return memory.to("tiny").as_strided(x.size(), x.stride(), x.storage_offset())


def to_device(tree):
    return tree_map(lambda x: tensor_to_device(x) if isinstance(x, torch.Tensor) else torch.device("tiny") if x == "cpu" else x, tree)


def tensors(tree):
    return [x for x in tree_flatten(tree)[0] if isinstance(x, torch.Tensor)]


def on_cpu(op, dtype):
    """The aten operators that ran on the CPU in samples of op; None if no sample runs on strided tensors."""
    ran, names = False, set()
    for sample in spaced(op.sample_inputs("cpu", dtype), SAMPLES):
        inputs = (sample.input, sample.args, sample.kwargs)
        if any(t.layout != torch.strided for t in tensors(inputs)):
            continue
        before = torch_tiny.fallback_counts()
        try:
            x, args, kwargs = to_device(inputs)
            if op.name in TAKE_CPU_TENSORS:
                args, kwargs = inputs[1:]
            results = tensors(op(x, *args, **kwargs))
            if any(t.layout != torch.strided for t in results):
                continue
        except (RuntimeError, ValueError, TypeError, AssertionError) as error:  # not every sample is good for every device
            try:
                op(*inputs[:1], *inputs[1], **inputs[2])
            except (RuntimeError, ValueError, TypeError, AssertionError):
                continue
            names.add(f"raises {type(error).__name__}")
        ran = True
        names |= {n for n, count in torch_tiny.fallback_counts().items() if count != before.get(n, 0)}
    return names if ran else None


def title(op):
    return op.name + (f" ({op.variant_test_name})" if op.variant_test_name else "")


def base(name):
    """aten::foo.out -> aten::foo"""
    return name.split(".")[0]


def line(number):
    """The row of op_db[number]; None for an operator without a sample on strided tensors."""
    warnings.filterwarnings("ignore")
    op, why = op_db[number], reasons()
    native, cpu, names = [], [], set()
    for dtype in DTYPES:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        found = on_cpu(op, dtype)
        if found is None:
            continue
        (cpu if found else native).append(SHORT[dtype])
        names |= found
    if not native and not cpu:
        return None
    by_base = {base(n): r for n, r in why.items()}
    text = sorted({f"`{base(n).removeprefix('aten::')}`" + (f": {by_base[base(n)]}" if base(n) in by_base else "") for n in names})
    return f"| {title(op)} | {' '.join(native) or '-'} | {' '.join(cpu) or '-'} | {'; '.join(text)} |"


def lines(patterns, jobs):
    """Rows of the operators whose names match, by name. The processes are new ones: they start without the device."""
    chosen = sorted((k for k, op in enumerate(op_db) if any(fnmatch.fnmatch(op.name, p) for p in patterns)), key=lambda k: title(op_db[k]))
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for done, row in enumerate(pool.map(line, chosen), 1):
            if sys.stderr.isatty():
                print(f"\r{done} of {len(chosen)}", end="", file=sys.stderr, flush=True)
            if row:
                yield row


HEAD = """# Operators

Which operators of PyTorch's database run natively on the device, by dtype, and which run on PyTorch's CPU kernels (counted by
`torch_tiny.fallback_count()`, listed by `torch.tiny.explain()`, refused with `TINY_FALLBACK=error`). Written by
`scripts/operators_doc.py`, which runs samples of every operator in {dtypes};
a dtype that PyTorch's CPU does not have for the operator is in no column. torch {version}.

{native} of {total} pairs of operator and dtype are native.

| operator | native | on the CPU | what runs there, and why |
|---|---|---|---|
"""
TAIL = """
## Rows of the tables that name the CPU

| aten operator | reason |
|---|---|
"""


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--ops", help="comma list of name patterns: print their lines and write nothing")
    ap.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at once")
    a = ap.parse_args()
    if a.ops:
        for row in lines(a.ops.split(","), a.jobs):
            print(row)
        return
    rows = list(lines(["*"], a.jobs))
    count = [sum(len(c.split()) for row in rows if (c := row.split(" | ")[k]) != "-") for k in (1, 2)]
    dtypes = ", ".join(str(d).removeprefix("torch.") for d in DTYPES)
    head = HEAD.format(dtypes=dtypes, version=torch.__version__.split("+")[0], native=count[0], total=sum(count))
    tail = "\n".join(f"| {name.removeprefix('aten::')} | {reason} |" for name, reason in sorted(reasons().items()))
    with open(os.path.join(ROOT, "docs", "operators.md"), "w") as f:
        f.write(head + "\n".join(rows) + "\n" + TAIL + tail + "\n")


if __name__ == "__main__":
    main()
