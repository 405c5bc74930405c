"""Errors: the same exceptions and words as on the CPU, at the call for shapes and dtypes, at the next read for values."""
import os
import re
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

D = "tiny"


def raises_like_cpu(program, same_text=True):
    errors = []
    for d in ("cpu", D):
        with pytest.raises(Exception) as e:  # noqa: PT011, B017
            program(d)
        errors.append(e.value)
    assert type(errors[0]) is type(errors[1]), errors
    if same_text:
        assert str(errors[0]).split("\n")[0] == str(errors[1]).split("\n")[0]


ONE = lambda d, *shape: torch.ones(shape, device=d)  # noqa: E731
PROGRAMS = {
    "add": lambda d: ONE(d, 2) + ONE(d, 3),
    "add_": lambda d: ONE(d, 3).add_(ONE(d, 2, 3)),
    "add_dtype": lambda d: torch.ones(2, dtype=torch.int64, device=d).add_(ONE(d, 2)),
    "mm": lambda d: torch.mm(ONE(d, 2, 3), ONE(d, 2, 3)),
    "matmul": lambda d: ONE(d, 2, 3) @ ONE(d, 4, 2),
    "cat": lambda d: torch.cat([ONE(d, 2, 3), ONE(d, 2, 4)]),
    "sum_dim": lambda d: ONE(d, 2).sum(3),
    "view": lambda d: ONE(d, 2, 3).view(4),
    "reshape": lambda d: ONE(d, 2, 3).reshape(4, -1),
    "expand": lambda d: ONE(d, 2, 3).expand(3, 3),
    "softmax": lambda d: ONE(d, 2).softmax(2),
    "gather": lambda d: ONE(d, 2, 2).gather(0, torch.zeros(2, dtype=torch.int64, device=d)),
    "index_dtype": lambda d: ONE(d, 2)[ONE(d, 2)],
    "index_many": lambda d: ONE(d, 2)[0, 0],
    "mask_shape": lambda d: ONE(d, 2, 3)[torch.ones(3, 2, dtype=torch.bool, device=d)],
    "negative_size": lambda d: torch.empty(-1, device=d),
    "fill_overflow": lambda d: torch.zeros(2, dtype=torch.uint8, device=d).fill_(300),
    "out_dtype": lambda d: torch.add(ONE(d, 2), ONE(d, 2), out=torch.empty(2, dtype=torch.int64, device=d)),
    "out_dtype_mm": lambda d: torch.mm(ONE(d, 2, 2), ONE(d, 2, 2), out=torch.empty(2, 2, dtype=torch.float64, device=d)),
    "bool_sub": lambda d: torch.ones(2, dtype=torch.bool, device=d) - torch.ones(2, dtype=torch.bool, device=d),
    "linear": lambda d: F.linear(ONE(d, 2, 3), ONE(d, 4, 5)),
    "layer_norm": lambda d: F.layer_norm(ONE(d, 2, 3), (4,)),
    "backward_shape": lambda d: (ONE(d, 3).requires_grad_() * 2).backward(),
    "split": lambda d: ONE(d, 5).split([2, 2]),
    "item": lambda d: ONE(d, 2).item(),
    "integer_power": lambda d: torch.ones(2, dtype=torch.int64, device=d) ** -1,
    "leaf": lambda d: ONE(d, 2).requires_grad_().add_(1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_at_the_call(name):
    raises_like_cpu(PROGRAMS[name], same_text=name not in ("add_dtype",))


VALUES = {
    "index": (lambda d: torch.arange(5., device=d)[torch.tensor([0, 7], device=d)], "7 is out of bounds"),
    "negative index": (lambda d: torch.arange(5., device=d)[torch.tensor([-6], device=d)], "-6 is out of bounds"),
    "embedding": (lambda d: F.embedding(torch.tensor([9], device=d), torch.ones(4, 2, device=d)), "out of"),
    "gather": (lambda d: torch.ones(2, 2, device=d).gather(0, torch.full((2, 2), 5, device=d)), "5 is out of bounds"),
    "index_select": (lambda d: torch.arange(3., device=d).index_select(0, torch.tensor([3], device=d)), "out of"),
    "index_select of ones": (lambda d: torch.ones(3, device=d).index_select(0, torch.tensor([7], device=d)), "7 is out of bounds"),
    "index into zeros": (lambda d: torch.zeros(3, device=d)[torch.tensor([0, 4], device=d)].sum(), "4 is out of bounds"),
    "division": (lambda d: torch.ones(3, dtype=torch.int64, device=d) // torch.tensor([1, 0, 1], device=d), "ZeroDivisionError"),
}


@pytest.mark.parametrize("name", VALUES)
def test_at_the_next_read(name):
    program, words = VALUES[name]
    with pytest.raises((IndexError, RuntimeError)):
        program("cpu")
    result = program(D)  # no error yet
    with pytest.raises((IndexError, RuntimeError), match=words):
        result.cpu()
    assert (torch.ones(2, device=D) + 1).tolist() == [2, 2], "the device works on"


T = lambda d, *v: torch.tensor(list(v), device=d)  # noqa: E731
LATE = {  # what the CPU raises, the device raises at the next read: the same class, the CPU's words within its own
    "index": lambda d: ONE(d, 3, 4)[T(d, -9)],
    "index_put_": lambda d: ONE(d, 3).index_put_((T(d, 7),), ONE(d, 1)),
    "index_select": lambda d: ONE(d, 3).index_select(0, T(d, 5)),
    "gather": lambda d: ONE(d, 3, 4).gather(1, T(d, 9).reshape(1, 1)),
    "scatter": lambda d: ONE(d, 3, 4).scatter(0, T(d, 5).reshape(1, 1), 1.0),
    "scatter_add": lambda d: ONE(d, 3, 4).scatter_add(1, T(d, -3).reshape(1, 1), ONE(d, 3, 4)),
    "scatter_reduce": lambda d: ONE(d, 3, 4).scatter_reduce(1, T(d, 9).reshape(1, 1), ONE(d, 3, 4), "sum"),
    "index_add": lambda d: ONE(d, 3, 4).index_add(0, T(d, 5), ONE(d, 1, 4)),
    "index_add of a vector": lambda d: ONE(d, 3).index_add(0, T(d, 5), ONE(d, 1)),
    "index_copy": lambda d: ONE(d, 3, 4).index_copy(1, T(d, 9), ONE(d, 3, 1)),
    "index_fill": lambda d: ONE(d, 3, 4).index_fill(1, T(d, -9), 0.0),
    "index_reduce": lambda d: ONE(d, 3, 4).index_reduce(0, T(d, 5), ONE(d, 1, 4), "prod"),
    "take": lambda d: ONE(d, 3, 4).take(T(d, 99)),
    "put_": lambda d: ONE(d, 3, 4).put_(T(d, -99), ONE(d, 1)),
    "embedding": lambda d: F.embedding(T(d, -1), ONE(d, 3, 4)),
    "embedding_bag": lambda d: F.embedding_bag(T(d, 5), ONE(d, 3, 4), T(d, 0), mode="max"),
    "nll_loss": lambda d: F.nll_loss(ONE(d, 3, 4), T(d, 0, 4, 1)),
    "one_hot": lambda d: F.one_hot(T(d, 3), 2),
    "one_hot below": lambda d: F.one_hot(T(d, 1, -3), 2),
    "masked_scatter_": lambda d: ONE(d, 3).masked_scatter_(ONE(d, 3) > 0, ONE(d, 2)),
    "searchsorted": lambda d: torch.searchsorted(T(d, 1, 2, 3), T(d, 2), sorter=T(d, 0, 1, 9)),
    "max_unpool2d": lambda d: F.max_unpool2d(ONE(d, 1, 1, 2, 2), T(d, 99, 0, 0, 0).reshape(1, 1, 2, 2), 2),
    "multinomial": lambda d: torch.multinomial(T(d, -1.0, 2.0), 1),
    "multinomial, often": lambda d: torch.multinomial(T(d, -1.0, 2.0), 5, replacement=True),
    "multinomial of infinity": lambda d: torch.multinomial(T(d, float("inf"), 2.0), 5, replacement=True),
    "multinomial of nothing": lambda d: torch.multinomial(T(d, 0.0, 0.0), 1),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LATE)
def test_late_errors_are_the_cpus(name):
    with pytest.raises((IndexError, RuntimeError)) as expected:
        LATE[name]("cpu")
    result = LATE[name](D)  # no error yet
    with pytest.raises(expected.type) as actual:
        result.cpu()
    words = str(expected.value).split("\n")[0].removeprefix("index_copy_(): ")
    assert type(actual.value) is expected.type and words in str(actual.value)


NOW = {
    "one_hot's least class": lambda d: F.one_hot(T(d, 1, -3)),
    "one_hot of no class": lambda d: F.one_hot(T(d, 1), 0),
    "one_hot of floats": lambda d: F.one_hot(T(d, 1.0)),
    "one_hot of nothing": lambda d: F.one_hot(torch.zeros(0, dtype=torch.int64, device=d)),
    "roll of a number": lambda d: torch.roll(torch.tensor(1.0, device=d), 1, 0),
    "arange in no steps": lambda d: torch.arange(0, 5, 0, device=d),
    "arange in steps that an integer cannot hold": lambda d: torch.arange(0, 64, 0.5, out=torch.zeros(0, dtype=torch.int64, device=d)),
    "multinomial's out": lambda d: torch.multinomial(ONE(d, 3), 1, out=ONE(d, 1)),
}


@pytest.mark.parametrize("name", NOW)
def test_errors_of_values_at_the_call(name):
    raises_like_cpu(NOW[name])


def test_synchronize_raises_too():
    torch.ones(3, device=D)
    kept = torch.arange(5., device=D)[torch.tensor([9], device=D)]
    with pytest.raises((IndexError, RuntimeError), match="9 is out of bounds"):
        torch.tiny.synchronize()
    del kept
    torch.tiny.synchronize()


def test_two_devices():
    for program in (lambda: torch.ones(2, device=D) + torch.ones(2), lambda: torch.ones(2).add_(torch.ones(2, device=D)),
                    lambda: torch.mm(torch.ones(2, 2, device=D), torch.ones(2, 2)),
                    lambda: F.embedding(torch.tensor([0], device=D), torch.ones(2, 2))):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device, but found at least two .*tiny:0.*cpu"):
            program()
    assert (torch.ones(2, device=D) + torch.tensor(1.5)).tolist() == [2.5, 2.5], "a 0-d CPU tensor stands for a number"


def test_resizing_an_output_warns():
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        torch.add(torch.ones(3, device=D), 1, out=torch.empty(2, device=D))


def test_pinned_on_the_device_is_refused():
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        torch.empty(2, device=D, pin_memory=True)


def run(code, **env):
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("too_large", ["(torch.ones(1 << 24, device='tiny') + 1).cpu()", "torch.ones(1 << 24).to('tiny')",
                                       "torch.empty(1 << 24, device='tiny').data_ptr()"])
def test_out_of_memory(too_large):
    """The text tells what is in use, cached and pending; every read of what was lost tells it again, and the program goes on."""
    text = run(f"""
import torch
kept = torch.ones(1 << 20, device='tiny') + 1
kept.sum().item()
pending = kept * 3
try:
    {too_large}
except torch.OutOfMemoryError as e:
    print(str(e).splitlines()[0])
assert pending.sum().item() == 6 << 20
assert (kept + 1).sum().item() == 3 << 20
lost = torch.ones(1 << 24, device='tiny') + 1
for _ in range(2):
    try:
        lost.cpu()
        raise SystemExit('no error')
    except torch.OutOfMemoryError:
        pass
lost = None
assert (torch.ones(8, device='tiny') + 1).sum().item() == 16
""", TINY_MEMORY_MB="32")
    assert re.match(r"tiny:0 \(.*\) is out of memory: tried to allocate 64\.00 MiB; [\d.]+ [KM]iB in use, [\d.]+ [KM]iB cached, limit 32\.00 MiB, "
                    r".*; pending results need (\d+)\.\d\d MiB", text), text
    assert int(text.split("pending results need ")[1].split(".")[0]) >= 4


def test_a_failing_compiler(tmp_path):
    """The error names the kernel and leaves its source; what was lost tells it at every read."""
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\ncase "$*" in *-shared*) exit 1;; esac\nexec c++ "$@"\n')
    compiler.chmod(0o755)
    out = run("""
import torch
x = torch.arange(3., device='tiny')
y = x * 2 + 1
texts = []
for _ in range(2):
    try:
        y.cpu()
        raise SystemExit('no error')
    except RuntimeError as e:
        texts.append(str(e).splitlines()[0])
assert texts[0] == texts[1], texts
print(texts[0])
""", TINY_RENDERER="C", TINY_CC=str(compiler), TINY_CACHE_DIR=str(tmp_path / "cache"), TMPDIR=str(tmp_path))
    kernel, path = re.fullmatch(r"kernel (\S+) does not compile; its source is in (\S+)", out.strip()).groups()
    with open(path) as f:
        assert kernel in f.read()


def test_a_fault_spoils_only_what_depends_on_it():
    """What was computed after the fault, but not from its result, stays readable, however often and late it is read."""
    from torch_tiny import _C

    x, bad = torch.arange(5., device=D), torch.tensor([9], device=D)
    y = x[bad]
    _C.flush("test")
    w = torch.full((5,), 7.5, device=D) + x
    z = y + 1
    with pytest.raises(IndexError, match="out of bounds"):
        y.tolist()
    assert w.tolist() == [7.5, 8.5, 9.5, 10.5, 11.5]
    for lost in (z, y, z):
        with pytest.raises(IndexError, match="out of bounds"):
            lost.tolist()
    y.fill_(1)
    assert y.tolist() == [1.0] and (x + 1).tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_an_unknown_device_is_named():
    out = run("""
import torch
try:
    torch.ones(2, device='tiny')
except RuntimeError as e:
    print(e)
""", TINY_DEVICE="CUPS")
    assert "TINY_DEVICE=CUPS: there is no device 'CUPS'" in out, out
