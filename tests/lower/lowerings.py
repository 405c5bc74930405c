"""Calls lowerings by the name of their row, on CPU tensors, through shim.cpp. Comparer checks every aten call of a program against them."""
import ctypes
import os
import struct

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# In the order of tinygrad_core/uop/dtype.def and csrc/lower/args.h.
DTYPES = [None, torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64,
          torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16, torch.float32, torch.float64]
KINDS = ["None", "Tensor", "Int", "Double", "Complex", "Bool", "Ints", "Doubles", "Bools", "Tensors", "Text", "DType", "Generator", "Other"]
DIMENSIONED, ZERO_DIM, NUMBER = range(3)
# Default values of dtype arguments are numbers of c10::ScalarType in a schema.
SCALAR_TYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64]
# Rows whose result 1 is where result 0 was found along a dimension: of equal elements, which one is not determined.
POSITIONS = {"mode", "kthvalue.values", "topk.values"}


class Unsupported(Exception):
    """The call has arguments that no lowering sees (complex numbers, masks as indices): the glue handles it."""


class Raised(Exception):
    """The lowering threw, or a CHECK in its graph failed."""


def i64(*numbers):
    return struct.pack(f"<{len(numbers)}q", *numbers)


def kind(name):
    return i64(KINDS.index(name))


def encode_tensor(t):
    if t.dtype not in DTYPES or t.layout != torch.strided:
        raise Unsupported(f"dtype {t.dtype}")
    t = t.detach().resolve_neg().clone(memory_format=torch.contiguous_format)
    raw = t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""
    return i64(DTYPES.index(t.dtype), t.dim(), *t.shape) + raw


def encode_number(v):
    if isinstance(v, bool):
        return kind("Bool") + i64(int(v))
    if isinstance(v, int):
        return kind("Int") + i64(v)
    if isinstance(v, float):
        return kind("Double") + struct.pack("<d", v)
    raise Unsupported(f"number {v!r}")


def encode(v, argument):
    type_text = str(argument.type)
    if v is None:
        return kind("None")
    if "ScalarType" in str(argument.real_type) and isinstance(v, int):
        v = SCALAR_TYPES[v]
    if type_text.startswith(("Tensor[]", "List[Tensor]", "List[Optional[Tensor]]")):
        if any(t is not None and t.dtype in (torch.bool, torch.uint8) for t in v) and "Optional" in type_text:
            raise Unsupported("masks become indices before a lowering")
        return kind("Tensors") + i64(len(v)) + b"".join(i64(0) if t is None else i64(1) + encode_tensor(t) for t in v)
    if isinstance(v, torch.Tensor):
        return kind("Tensor") + i64(DIMENSIONED if v.dim() else ZERO_DIM) + encode_tensor(v)
    if "Tensor" in type_text:  # a Python number in place of a tensor
        if isinstance(v, complex):
            raise Unsupported("complex")
        wide = torch.bool if isinstance(v, bool) else torch.int64 if isinstance(v, int) else torch.float64
        return kind("Tensor") + i64(NUMBER) + encode_tensor(torch.tensor(v, dtype=wide))
    if isinstance(v, torch.dtype):
        if v not in DTYPES:
            raise Unsupported(f"dtype {v}")
        return kind("DType") + i64(DTYPES.index(v))
    if "float" in type_text and "[" not in type_text:
        return kind("Double") + struct.pack("<d", float(v))
    if isinstance(v, (list, tuple)):
        if v and isinstance(v[0], float):
            return kind("Doubles") + i64(len(v)) + struct.pack(f"<{len(v)}d", *v)
        return kind("Bools" if v and isinstance(v[0], bool) else "Ints") + i64(len(v), *(int(x) for x in v))
    if isinstance(v, str):
        return kind("Text") + i64(len(v)) + v.encode()
    if isinstance(v, (bool, int, float, complex)):
        return encode_number(v)
    return kind("Other")


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def int(self):
        (v,) = struct.unpack_from("<q", self.data, self.at)
        self.at += 8
        return v

    def text(self):
        n = self.int()
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def tensor(self):
        dtype = DTYPES[self.int()]
        shape = [self.int() for _ in range(self.int())]
        t = torch.empty(shape, dtype=dtype)
        n = t.numel() * t.element_size()
        if n:
            t.view(-1).view(torch.uint8).copy_(torch.frombuffer(bytearray(self.data[self.at:self.at + n]), dtype=torch.uint8))
        self.at += n
        return t


class Lowerings:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.rows.restype = ctypes.c_char_p
        self.names = self.lib.rows().decode().split()
        self.served = served_by(self.names)

    def call(self, row, schema, values, outs=()):
        """Results of the lowering of `row` for arguments in the order of `schema`; outs: (dtype, sizes) of what it is written to."""
        data = i64(len(values)) + b"".join(encode(v, a) for v, a in zip(values, schema))
        data += i64(len(outs)) + b"".join(i64(DTYPES.index(d), len(s), *s) for d, s in outs)
        out, n = ctypes.c_void_p(), ctypes.c_int64()
        status = self.lib.call(row.encode(), data, ctypes.byref(out), ctypes.byref(n))
        r = Reader(ctypes.string_at(out, n.value))
        self.lib.release(out)
        if status == 2:
            raise KeyError(row)
        if status == 1:
            r.int()
            raise Raised(r.text())
        results = [r.tensor() if r.int() else None for _ in range(r.int())]
        faults = [r.text() for _ in range(r.int())]
        if faults:
            raise Raised(faults[0])
        return results


def is_written(a):
    return a.alias_info is not None and a.alias_info.is_write


def split(schema):
    """Arguments without out= ones, and the out= ones."""
    outs = [a for a in schema.arguments if is_written(a) and a.kwarg_only]
    return [a for a in schema.arguments if a not in outs], outs


def signature(arguments):
    skipped = ("dtype", "layout", "device", "pin_memory")
    return [(a.name, str(a.type)) for a in arguments], [(a.name, str(a.type)) for a in arguments if a.name not in skipped]


def find(name):
    base, _, overload = name.partition(".")
    return torch._C._get_schema("aten::" + base, overload)


def served_by(names):
    """From every overload that follows from a row (functional and in-place forms of an out= row) to (row, through out=)."""
    served = {}
    for name in names:
        base = name.partition(".")[0]
        schema = find(name)
        arguments, outs = split(schema)
        served[name] = (name, bool(outs))
        packets = [base, base + "_"]
        for packet in packets:
            if not hasattr(torch.ops.aten, packet):
                continue
            for overload in getattr(torch.ops.aten, packet).overloads():
                other = getattr(getattr(torch.ops.aten, packet), overload)._schema
                key = packet if overload == "default" else f"{packet}.{overload}"
                theirs, their_outs = split(other)
                if their_outs or key in names or key in served:
                    continue
                if signature(arguments)[0] == signature(theirs)[0] or (outs and signature(arguments)[1] == signature(theirs)[1]):
                    served[key] = (name, bool(outs))
    return served


def copy(v):
    if isinstance(v, torch.Tensor):
        return v.detach().clone()
    return [copy(x) for x in v] if isinstance(v, (list, tuple)) else v


def found(arguments, values, positions):
    """The elements of the first argument at `positions` along the argument dim."""
    named = {a.name: v for a, v in zip(arguments, values)}
    x, dim = values[0], named["dim"]
    dropped = positions.dim() < x.dim()
    elements = x.gather(dim, positions.unsqueeze(dim) if dropped else positions)
    return elements.squeeze(dim) if dropped else elements


class Comparer(TorchDispatchMode):
    """Runs the program on the CPU as ever; each aten call that a row serves is also computed by the lowering, and compared."""

    RANDOM = ("bernoulli", "cauchy_", "exponential_", "geometric_", "log_normal_", "multinomial", "native_dropout", "normal", "random_",
              "randperm", "rrelu_with_noise", "uniform_")

    def __init__(self, lowerings, report):
        super().__init__()
        self.lowerings, self.report = lowerings, report

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func._schema.name.partition("::")[2] + ("." + func._schema.overload_name if func._schema.overload_name else "")
        if name not in self.lowerings.served:
            return func(*args, **kwargs)
        row, through_out = self.lowerings.served[name]
        arguments = split(func._schema)[0]
        given = [args[k] if k < len(args) else kwargs.get(a.name, a.default_value if a.has_default_value() else None)
                 for k, a in enumerate(arguments)]
        before = [copy(v) for v in given]
        try:
            expected = func(*args, **kwargs)
        except Exception as e:
            self.compare_error(row, name, e, arguments, before)
            raise
        self.func = func
        self.compare(row, name, through_out, func._schema, arguments, before, given, expected)
        return expected

    def in_wider_precision(self, arguments, before, fresh):
        """The call's results computed in f64: PyTorch's CPU kernels of some operators round half precision in between, and sum f32 in f32."""
        narrow = (torch.bfloat16, torch.float16, torch.float32)

        def wide(v):
            if isinstance(v, (list, tuple)):
                return [wide(x) for x in v]
            if isinstance(v, torch.Tensor):
                return v.double() if v.dtype in narrow else v.clone()
            return torch.float64 if isinstance(v, torch.dtype) and v in narrow else v
        values = [wide(v) for v in before]
        positional = [v for v, a in zip(values, arguments) if not a.kwarg_only]
        result = self.func(*positional, **{a.name: v for v, a in zip(values, arguments) if a.kwarg_only})
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        return results[:fresh] + [v for v, a in zip(values, arguments) if is_written(a)]

    def compare_error(self, row, name, error, arguments, before):
        try:
            self.lowerings.call(row, arguments, before)
        except Exception:
            return
        # Shape and dtype checks of structured operators run before the lowering.
        self.report.error(row, name, f"accepted what PyTorch refuses: {error}", before)

    def compare(self, row, name, through_out, schema, arguments, before, given, expected):
        fresh = list(expected) if isinstance(expected, (tuple, list)) else [expected]
        if any(is_written(r) for r in schema.returns):
            fresh = []
        written = [v for v, a in zip(given, arguments) if is_written(a)]
        written = [t for v in written for t in (v if isinstance(v, (list, tuple)) else [v])]
        wanted = list(fresh) + written
        wanted = [w if isinstance(w, torch.Tensor) else None for w in wanted]
        if any(w is not None and w.dtype not in DTYPES for w in wanted):
            return
        outs = [(w.dtype, tuple(w.shape)) for w in wanted] if through_out and all(w is not None for w in wanted) else ()
        try:
            got = self.lowerings.call(row, arguments, before, outs)
        except Unsupported:
            return
        except Raised as e:
            return self.report.error(row, name, f"raised: {e}", before)
        if len(got) < len(wanted):
            return self.report.error(row, name, f"{len(got)} results for {len(wanted)}", before)
        for k, (g, w) in enumerate(zip(got, wanted)):
            if g is None or w is None:
                if g is None and w is not None and w.numel() and k < len(fresh):
                    self.report.error(row, name, f"result {k} is missing", before)
                continue
            if through_out or k >= len(fresh):
                g = g.to(w.dtype)
            if row in POSITIONS and k == 1 and g.shape == w.shape and g.dtype == w.dtype and before[0].dim():
                g, w = (found(arguments, before, positions) for positions in (g, w))
            self.compare_tensors(row, name, k, g, w, before, lambda: self.in_wider_precision(arguments, before, len(fresh))[k])

    def compare_tensors(self, row, name, k, g, w, before, wider):
        if row.startswith(self.RANDOM):
            if g.shape != w.shape or g.dtype != w.dtype:
                self.report.error(row, name, f"result {k}: {g.dtype}{list(g.shape)}, PyTorch has {w.dtype}{list(w.shape)}", before)
            return self.report.good(row)
        def check(expected):
            torch.testing.assert_close(g, expected.detach().contiguous(), equal_nan=True, check_stride=False, check_device=False)
        try:
            try:
                check(w)
            except AssertionError:
                if not w.is_floating_point() or g.dtype != w.dtype:
                    raise
                check(wider().to(w.dtype))
        except (AssertionError, RuntimeError) as e:
            return self.report.error(row, name, f"result {k}: {e}", before)
        self.report.good(row)


class Report:
    def __init__(self):
        self.faults, self.passed = {}, {}

    def good(self, row):
        self.passed[row] = self.passed.get(row, 0) + 1

    def error(self, row, name, text, values):
        shown = ", ".join(f"{v.dtype}{list(v.shape)}" if isinstance(v, torch.Tensor) else repr(v)[:60] for v in values)
        self.faults.setdefault(row, []).append(f"{name}({shown}): {text}")


def library():
    """The shim's path: TINY_LOWER_SHIM, else in the build folder."""
    here = os.path.dirname(os.path.abspath(__file__))
    return os.environ.get("TINY_LOWER_SHIM", os.path.join(here, "..", "..", "build", "tests", "liblower_shim.so"))
