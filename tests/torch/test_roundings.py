"""float16, bfloat16 and bytes: where the CPU rounds inside an operator, in a way that does not depend on the size or the place of the data, so
does the device. Sums of any number of elements are the exception: they are accumulated in float32 (docs/support.md)."""
import pytest
import torch
import torch.nn.functional as F
from nn_compare import D, compare

HALVES = (torch.float16, torch.bfloat16)
pytestmark = pytest.mark.filterwarnings("ignore")


def random(*shape, dtype):
    return (torch.randn(shape) * 2).to(dtype)


def equal(function, *args, **options):
    """The same bits on both devices."""
    want = function(*args, **options)
    got = function(*(a.to(D) if isinstance(a, torch.Tensor) else a for a in args), **options)
    for a, b in zip(*(r if isinstance(r, (tuple, list)) else (r,) for r in (want, got)), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert torch.equal(a, b.cpu()), (a.double() - b.cpu().double()).abs().max()


@pytest.mark.parametrize("dtype", HALVES)
def test_products_of_vectors(dtype):
    a, b = random(40, 3, dtype=dtype), random(40, 3, dtype=dtype)
    equal(torch.linalg.cross, a, b)
    s, u, v = random(30, 70, dtype=dtype), random(30, dtype=dtype), random(70, dtype=dtype)
    for options in ({}, {"alpha": 0.6, "beta": 0.3}, {"alpha": 1.3, "beta": 0}):
        equal(torch.addr, s, u, v, **options)


@pytest.mark.parametrize("dtype", HALVES)
def test_steps_of_linspace(dtype):
    for start, end, n in ((0, 1, 50), (-3, 10, 50), (0.3, 5.7, 13), (-2, 7, 301)):
        assert torch.equal(torch.linspace(start, end, n, dtype=dtype, device=D).cpu(), torch.linspace(start, end, n, dtype=dtype))


@pytest.mark.parametrize("dtype", HALVES)
def test_log_softmax(dtype):
    for shape in ((5, 5), (20, 40), (3, 4, 300)):
        for dim in (-1, 0):
            compare(lambda x, d: torch.log_softmax(x, d), random(*shape, dtype=dtype), dim, backward=False)


@pytest.mark.parametrize("dtype", HALVES)
def test_steps_of_binary_cross_entropy(dtype):
    x, t = torch.rand(500).to(dtype), torch.rand(500).to(dtype)
    equal(lambda x, t: F.binary_cross_entropy(x, t, reduction="none"), x, t)
    equal(lambda x, t: F.binary_cross_entropy(x, t, weight=t, reduction="none"), x, t)


def close(function, *args):
    """Results of the same dtypes and shapes, equal within PyTorch's default tolerances; None stays None."""
    want, got = function(*args), function(*(a.to(D) if isinstance(a, torch.Tensor) else a for a in args))
    for a, b in zip(want, got, strict=True):
        assert a.shape == b.shape
        torch.testing.assert_close(b.cpu(), a)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("parameters", ["none", "same", "float32"])
def test_statistics_have_the_type_of_the_parameters(dtype, parameters):
    torch.manual_seed(0)
    kept = torch.float32 if parameters == "float32" else dtype
    x = random(4, 3, 5, 2, dtype=dtype)
    w, b, mean, var = [None] * 4 if parameters == "none" else [random(3, dtype=kept) for _ in range(4)]
    wide = None if w is None else random(2, dtype=kept)

    def batch_norm(x, w, b, mean, var, train):
        mean, var = (None if t is None else t.abs() for t in (mean, var))  # new tensors: training writes them
        results = torch.native_batch_norm(x, w, b, mean, var, train, 0.1, 1e-5)
        return results if mean is None else (*results, mean, var)
    assert batch_norm(x, w, b, mean, var, True)[1].dtype == kept
    close(batch_norm, x, w, b, mean, var, True)
    if w is not None:
        close(batch_norm, x, w, b, mean, var, False)
    close(lambda x, w: torch.native_layer_norm(x, (2,), w, w, 1e-5), x, wide)
    close(lambda x, w: torch.native_group_norm(x, w, w, 4, 3, 10, 3, 1e-5), x, w)
    close(lambda x, w: (F.instance_norm(x, weight=w, bias=w),), x, w)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("strided", ["x", "w", "var", "channels last"])
def test_batch_norm_of_memory_with_gaps_rounds_at_every_step(dtype, train, strided):
    torch.manual_seed(0)
    x, w, b, mean, var = random(8, 3, 5, 6, dtype=dtype), *(random(3, dtype=dtype) for _ in range(3)), torch.rand(3).to(dtype) + 0.1

    def batch_norm(*given):
        x, w, b, mean, var = (t.clone() for t in given)
        gaps = {"x": lambda: torch.stack([x, x], -1)[..., 0], "w": lambda: torch.stack([w, w], -1)[..., 0],
                "var": lambda: torch.stack([var, var], -1)[..., 0], "channels last": lambda: x.contiguous(memory_format=torch.channels_last)}[strided]()
        x, w, var = (gaps if name == strided else t for name, t in (("x", x), ("w", w), ("var", var)))
        results = torch.native_batch_norm(gaps if strided == "channels last" else x, w, b, mean, var, train, 0.1, 1e-5)
        return (results[0] if strided == "channels last" else results[:3]), mean, var
    if train:
        close(lambda *given: [t for r in batch_norm(*given) for t in (r if isinstance(r, tuple) else (r,))], x, w, b, mean, var)
    equal(lambda *given: batch_norm(*given)[0], x, w, b, mean, var)


@pytest.mark.parametrize("dtype", HALVES)
def test_a_mean_divides_a_rounded_sum(dtype):
    torch.manual_seed(0)
    x, source, index = random(5, 40, dtype=dtype), random(30, 40, dtype=dtype), torch.randint(0, 5, (30,))
    equal(lambda x, i, s: x.scatter_reduce(0, i[:, None].expand(30, 40), s, "mean"), x, index, source)
    close(lambda i, w, o: (F.embedding_bag(i, w, o, mode="mean"),), torch.randint(0, 30, (12,)), source, torch.tensor([0, 3, 4, 9]))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("mode, size", [("linear", (7,)), ("linear", (13,)), ("bilinear", (9, 7)), ("bilinear", (90, 70)), ("bicubic", (9, 7)),
                                        ("trilinear", (5, 9, 7))])
def test_weights_of_interpolation(dtype, mode, size):
    torch.manual_seed(0)
    for align in (False, True):
        compare(lambda x: F.interpolate(x, size=size, mode=mode, align_corners=align), random(2, 3, *[4] * len(size), dtype=dtype), backward=False)


BYTES = [(mode, antialias) for mode in ("bilinear", "bicubic", "lanczos") for antialias in (False, True) if antialias or mode != "lanczos"]


@pytest.mark.parametrize("mode, antialias", BYTES)
def test_interpolation_of_bytes_is_exact(mode, antialias):
    torch.manual_seed(0)
    for shape, size in (((2, 3, 13, 17), (29, 11)), ((1, 5, 40, 40), (7, 9)), ((1, 1, 6, 9), (6, 31)), ((1, 3, 5, 1), (9, 4)), ((1, 2, 3, 3), (50, 2))):
        x = torch.randint(0, 256, shape, dtype=torch.uint8)
        for align in (False, True) if mode != "lanczos" else (False,):
            equal(lambda x: F.interpolate(x, size=size, mode=mode, align_corners=align, antialias=antialias), x)
        equal(lambda x: F.interpolate(x, scale_factor=1.7, mode=mode, antialias=antialias), x)
        equal(lambda x: F.interpolate(x, scale_factor=0.6, mode=mode, antialias=antialias), torch.cat([x] * 4, 2).repeat(1, 1, 1, 3))


def test_interpolation_to_the_same_size_is_a_copy():
    x = torch.arange(9.).reshape(1, 1, 3, 3)
    for mode, y in (("linear", x[0]), ("bilinear", x)):
        equal(lambda y: F.interpolate(y, scale_factor=1.2, mode=mode), y)


def test_integers_are_not_interpolated():
    for dtype in (torch.int64, torch.int8, torch.bool):
        for mode, shape in (("nearest", (1, 1, 4)), ("linear", (1, 1, 4)), ("bilinear", (1, 1, 4, 4)), ("bicubic", (1, 1, 4, 4))):
            for d in ("cpu", D):
                with pytest.raises(NotImplementedError, match="not implemented for"):
                    F.interpolate(torch.ones(shape, device=d).to(dtype), scale_factor=2, mode=mode)
