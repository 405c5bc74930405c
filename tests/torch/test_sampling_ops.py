"""Sampling, unpooling, antialiasing, bags of embeddings, margin losses, segments, distances, weight norm: values and gradients against the CPU."""
import math

import pytest
import torch
import torch.nn.functional as F

from nn_compare import D, compare, raises_alike

pytestmark = pytest.mark.usefixtures("no_fallback")
T, NAN, INF = torch.tensor, math.nan, math.inf


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def randn(*sizes):
    return torch.randn(*sizes).requires_grad_()


# ---- grids
@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("n, mode", [(2, "bilinear"), (2, "nearest"), (2, "bicubic"), (3, "bilinear"), (3, "nearest")])
def test_grid_sample(n, mode, padding, align):
    grid = (torch.randn(2, *(3, 6, 2)[:n], n) * 1.3).requires_grad_()
    compare(lambda x, g: F.grid_sample(x, g, mode, padding, align), randn(2, 3, *(4, 5, 3)[:n]), grid)
    compare(lambda x, g: F.grid_sample(x, g, mode, padding, align), randn(2, 3, 8, 5, 3)[:, :, ::2, 0] if n == 2 else randn(2, 3, 1, 1, 1), grid)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_with_nan_and_infinity(padding):
    grid = torch.randn(1, 3, 3, 2)
    grid[0, 0, 0, 0], grid[0, 1, 1, 1], grid[0, 1, 2, 0] = NAN, INF, -1e30
    compare(lambda x, g: F.grid_sample(x, g, padding_mode=padding, align_corners=False), torch.randn(1, 1, 4, 4), grid, backward=False)


def test_grid_dtypes_and_errors():
    def sample(x, g):
        return F.grid_sample(x, g, align_corners=False)
    x, g = torch.randn(1, 2, 4, 4), torch.randn(1, 3, 3, 2)
    compare(sample, x.double(), g.double(), backward=False)
    compare(sample, x.bfloat16(), g.bfloat16(), backward=False)
    compare(sample, x[:0], g[:0], backward=False)
    assert raises_alike(sample, x, g.double())
    assert raises_alike(sample, x[..., :0], g)


# ---- pooling and interpolation
@pytest.mark.parametrize("n", [1, 2, 3])
def test_max_unpool(n):
    pool, unpool = getattr(F, f"max_pool{n}d"), getattr(F, f"max_unpool{n}d")
    values, indices = pool(torch.randn(2, 3, *[6] * n), 2, 2, return_indices=True)
    values.requires_grad_()
    compare(lambda v, i: unpool(v, i, 2, 2), values, indices)
    compare(lambda v, i: unpool(v[0], i[0], 2, 2), values, indices)
    wrong = indices.clone()
    wrong.view(-1)[0] = 10**6
    assert raises_alike(lambda v, i: unpool(v, i, 2, 2), values, wrong)
    assert raises_alike(lambda v, i: unpool(v, i.int(), 2, 2), values, indices)


@pytest.mark.parametrize("n", [2, 3])
def test_fractional_max_pool(n):
    f = getattr(F, f"fractional_max_pool{n}d")
    x, u = randn(2, 3, *(7, 9, 8)[:n]), torch.rand(2, 3, n)
    compare(lambda x, u: f(x, 2, output_size=(3, 4, 5)[:n], _random_samples=u), x, u)
    compare(lambda x, u: f(x, (2, 3, 2)[:n], output_size=(3, 1, 5)[:n], _random_samples=u, return_indices=True), x, u)
    compare(lambda x, u: f(x[0], 2, output_size=(3, 4, 5)[:n], _random_samples=u[:1]), x, u)


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiased_interpolation(mode, align):
    for out in ((3, 4), (9, 11), (5, 2), (7, 7), (1, 1)):
        compare(lambda x: F.interpolate(x, out, mode=mode, align_corners=align, antialias=True), randn(2, 3, 7, 7))
    compare(lambda x: F.interpolate(x, scale_factor=(0.4, 0.7), mode=mode, antialias=True), randn(2, 3, 7, 8).transpose(2, 3))
    compare(lambda x: F.interpolate(x, (3, 5), mode=mode, antialias=True), torch.randn(1, 2, 7, 8, dtype=torch.float64).requires_grad_())


# ---- embeddings
@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("padding", [None, 2, -1])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode, padding, ends):
    offsets = T([0, 3, 3, 7, 12] if ends else [0, 3, 3, 7])
    def bag(w, i, o):
        return F.embedding_bag(i, w, o, mode=mode, padding_idx=padding, include_last_offset=ends)
    for index_dtype in (torch.int64, torch.int32):
        compare(bag, randn(10, 4), torch.randint(0, 10, (12,), dtype=index_dtype), offsets.to(index_dtype))
    compare(bag, torch.randn(10, 4).bfloat16().requires_grad_(), torch.randint(0, 10, (12,)), offsets)
    compare(bag, randn(10, 4), torch.zeros(0, dtype=torch.int64), T([0, 0]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_embedding_bag_rounds_each_row_of_its_gradient(dtype):
    """Of rows that are read twice: the CPU adds up more in the order of an unstable sort."""
    w, p, i, o = torch.randn(30, 8).to(dtype), torch.randn(60).to(dtype), torch.arange(60) % 30, torch.arange(0, 60, 4)
    g = torch.randn(15, 8).to(dtype)
    for mode, weights in (("sum", None), ("sum", p), ("mean", None)):
        cpu, tiny = (torch.autograd.grad(F.embedding_bag(i.to(d), t, o.to(d), mode=mode, per_sample_weights=None if weights is None else weights.to(d)), t, g.to(d))[0]
                     for d, t in (("cpu", w.clone().requires_grad_()), (D, w.to(D).requires_grad_())))
        assert torch.equal(tiny.cpu(), cpu)


def test_embedding_bag_with_weights_and_frequencies():
    i, o = T([1, 2, 9, 0, 2, 2]), T([0, 2])
    for padding in (None, 2):
        compare(lambda w, p, i, o: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=p, padding_idx=padding), randn(10, 4), randn(6), i, o)
    # PyTorch's CPU kernel divides by another row's frequency; what is meant is what embedding does.
    w = randn(10, 4)
    bag = F.embedding_bag(i.reshape(2, 3).to(D), w.to(D), mode="sum", scale_grad_by_freq=True)
    assert torch.equal(bag.cpu(), F.embedding_bag(i.reshape(2, 3), w, mode="sum"))
    bag.sum().backward()
    plain = torch.zeros(10, 1)
    plain[T([0, 1, 2, 9])] = 1
    assert torch.equal(w.grad, plain.expand(10, 4))


@pytest.mark.parametrize("indices, offsets", [([1, 10], [0, 1]), ([1, -1], [0]), ([1, 2], [1]), ([1, 2], [0, 3])])
def test_embedding_bag_errors(indices, offsets):
    assert raises_alike(lambda w, i, o: F.embedding_bag(i, w, o), torch.randn(10, 4), T(indices), T(offsets))


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, INF])
def test_embedding_with_a_greatest_norm(p):
    def embed(w, i):
        w = w.clone()
        return F.embedding(i, w, max_norm=0.7, norm_type=p), w
    compare(embed, torch.randn(10, 4), T([1, 2, 9, 0, 2, 2]))


# ---- losses
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("p, margin, weighted", [(1, 1.0, False), (2, 0.5, False), (1, 1.0, True), (2, 1.0, True)])
def test_multi_margin_loss(p, margin, weighted, reduction):
    def loss(x, t, w):
        return F.multi_margin_loss(x, t, p, margin, w if weighted else None, reduction=reduction)
    w = torch.rand(5)
    compare(loss, randn(4, 5), T([0, 2, 4, 1]), w)
    compare(loss, randn(5), T([3]), w)
    compare(loss, randn(5), T(3), w)
    assert raises_alike(loss, torch.randn(4, 5), T([0, 2, 5, 1]), w)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_multilabel_margin_loss(reduction):
    def loss(x, t):
        return F.multilabel_margin_loss(x, t, reduction=reduction)
    compare(loss, randn(3, 5), T([[1, 3, -1, 2, 0], [-1, 0, 1, 2, 3], [4, 3, 2, 1, 0]]))
    compare(loss, randn(5), T([1, 3, -1, 2, 0]))
    assert raises_alike(loss, torch.randn(1, 5), T([[1, 5, -1, 0, 0]]))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("blank", [0, 3])
def test_ctc_loss(reduction, blank):
    frames, lengths = [9, 5, 7, 1], [3, 2, 0, 1]
    labels = torch.tensor([[1, 1, 2], [2, 4, 1], [1, 1, 1], [4, 1, 1]])
    packed = torch.cat([row[:n] for row, n in zip(labels, lengths)])
    def loss(x, t):
        return F.ctc_loss(x.log_softmax(2), t, frames, lengths, blank=blank, reduction=reduction)
    compare(loss, randn(9, 4, 5), labels)
    compare(loss, randn(9, 4, 5), packed)
    compare(loss, torch.randn(9, 4, 5, dtype=torch.float64).requires_grad_(), packed.int())


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_ctc_loss_of_lengths_on_the_device(dtype):
    x, t = randn(7, 3, 5), torch.randint(1, 5, (3, 4))
    frames, lengths = torch.tensor([7, 5, 6], dtype=dtype), torch.tensor([2, 4, 1], dtype=dtype)
    compare(lambda x, t, f, n: F.ctc_loss(x.log_softmax(2), t, f, n, reduction="none"), x, t, frames, lengths)
    compare(lambda x, t, f, n: torch.ops.aten._ctc_loss.Tensor(x.log_softmax(2), t, f, n, 0, True)[0], x, t, frames, lengths)
    assert raises_alike(lambda x, t, f, n: F.ctc_loss(x.log_softmax(2), t, f, n), x, t, frames, lengths.float())


def test_ctc_loss_without_a_path():
    def loss(x, t):
        return F.ctc_loss(x.log_softmax(2), t, [2, 4], [3, 2], zero_infinity=True)
    compare(loss, randn(4, 2, 5), torch.tensor([[1, 2, 3], [1, 1, 1]]))
    compare(lambda x, t: F.ctc_loss(x.log_softmax(2), t, [2, 4], [3, 2], reduction="none"), torch.randn(4, 2, 5), torch.tensor([[1, 2, 3], [1, 1, 1]]))
    compare(lambda x, t: F.ctc_loss(x.log_softmax(2), t, (70,), (20,)), randn(70, 1, 5), torch.randint(1, 5, (1, 20)))
    assert raises_alike(lambda x, t: F.ctc_loss(x, t, [5, 4], [3, 2]), torch.randn(4, 2, 5), torch.tensor([[1, 2, 3], [1, 1, 1]]))
    assert raises_alike(lambda x, t: F.ctc_loss(x, t, [4, 4], [3, 2], blank=5), torch.randn(4, 2, 5), torch.tensor([[1, 2, 3], [1, 1, 1]]))


# ---- segments and distances
@pytest.mark.parametrize("initial", [None, 2.0])
@pytest.mark.parametrize("word", ["sum", "mean", "max", "min", "prod"])
def test_segment_reduce(word, initial):
    def reduce(x, **how):
        return torch.segment_reduce(x, word, initial=initial, **how)
    compare(lambda x, n: reduce(x, lengths=n), randn(6, 3), T([2, 0, 3, 1]))
    compare(lambda x, n: reduce(x, lengths=n, unsafe=True), randn(6, 3), T([2, 0, 3]))
    compare(lambda x, o: reduce(x, offsets=o), randn(6, 3), T([0, 2, 2, 5, 6]))
    compare(lambda x, n: reduce(x, lengths=n, axis=1), randn(2, 6, 3), T([[2, 0, 3, 1], [1, 1, 1, 3]]))
    compare(lambda x, n: reduce(x, lengths=n), T([0.0, 2, 0, 3, 0, NAN, 2]).requires_grad_(), T([2, 3, 2]))
    assert raises_alike(lambda x, n: reduce(x, lengths=n), torch.randn(6), T([2, 3]))
    assert raises_alike(lambda x, n: torch.segment_reduce(x, "none", lengths=n), torch.randn(6), T([2, 4]))
    assert raises_alike(lambda x: reduce(x), torch.randn(6))


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, INF])
def test_distances(p):
    def cdist(x, y):
        return torch.cdist(x, y, p=p, compute_mode="donot_use_mm_for_euclid_dist")
    compare(cdist, randn(4, 5), randn(6, 5))
    compare(cdist, randn(3, 4, 5), randn(6, 5))
    compare(cdist, randn(2, 0, 5), randn(2, 6, 5))
    compare(lambda x: torch.pdist(x, p), randn(6, 4))
    compare(lambda x: torch.pdist(x, p), randn(1, 4), backward=False)


def test_cross():
    compare(torch.linalg.cross, randn(4, 3), randn(1, 3))
    compare(lambda a, b: torch.linalg.cross(a, b, dim=0), randn(3, 5), randn(3, 5))
    compare(torch.linalg.cross, torch.randint(-5, 5, (4, 3)), torch.randint(-5, 5, (4, 3)), backward=False)


# ---- parameters
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_weight_norm(dim):
    v = randn(4, 3, 5)
    compare(lambda v, g: torch._weight_norm(v, g, dim), v, randn(*torch.norm_except_dim(v, 2, dim).shape))


def test_fake_quantize():
    compare(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 7), (torch.randn(30) * 4).requires_grad_())
    compare(lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, s, z, -8, 7), torch.randn(30), T(0.1), T(3, dtype=torch.int32), backward=False)
    scale, zero = torch.rand(4) * 0.1 + 0.01, T([1, 2, 3, 4], dtype=torch.int32)
    compare(lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 1, 0, 255), torch.randn(3, 4), scale, zero, backward=False)


def test_logcumsumexp_keeps_the_gradient_of_differences():
    compare(lambda x: torch.logcumsumexp(x, 1), (torch.randn(5, 40) * 6).requires_grad_())


@pytest.mark.parametrize("n", [2, 3])
def test_fractional_pooling_with_given_samples(n):
    """Samples may be for more batches than the input has."""
    pool = F.fractional_max_pool2d if n == 2 else F.fractional_max_pool3d
    for shape, batches in (((4,), 1), ((4,), 3), ((2, 4), 2), ((2, 4), 5)):
        x = torch.randn(*shape, *[8] * n, requires_grad=True)
        compare(lambda x, s: pool(x, 2, output_size=4, _random_samples=s, return_indices=True), x, torch.rand(batches, 4, n))
    for samples in ((1, 4, n), (2, 5, n), (1, 5, n), (2, 4, n + 1), (4, n)):
        cpu, tiny = raises_alike(lambda x, s: pool(x, 2, output_size=4, _random_samples=s), torch.ones(2, 4, *[8] * n), torch.rand(samples))
        assert cpu == tiny
