"""Eigenvalues, singular values and what is made of them: as on the CPU, without running there. Vectors have a free sign or phase: they are
judged by what they put together, and by their gradients through functions that do not see it."""
import pytest
import torch
import torch_tiny  # noqa: F401
from nn_compare import D, raises_alike
from probe import flush_count

L = torch.linalg
pytestmark = [pytest.mark.usefixtures("no_fallback")]
DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
EXACT = [torch.float64, torch.complex128]
SQUARE = [(1, 1), (3, 3), (2, 5, 5), (2, 3, 8, 8), (40, 40), (0, 3, 3), (2, 0, 0)]
SHAPES = SQUARE + [(4, 7), (7, 4), (2, 50, 3), (3, 2, 40), (2, 0, 3), (2, 3, 0)]


def matrices(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def close(actual, expected, scale=1):
    """Within a few roundings of `scale`, which values of single precision differ by where sums have another order."""
    assert actual.device.type == D and actual.dtype == expected.dtype and actual.shape == expected.shape
    single = expected.dtype in (torch.float32, torch.complex64)
    bound = {"rtol": 0, "atol": 2e-5 * scale} if single else {"rtol": 1e-9, "atol": 1e-9}
    torch.testing.assert_close(actual.detach().cpu(), expected.detach(), check_stride=False, **bound)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SQUARE, ids=str)
def test_eigenvalues(shape, dtype):
    a = matrices(*shape, dtype=dtype)
    unread = ((a - a.mH) / 2).diagonal(dim1=-2, dim2=-1).diag_embed()  # imaginary parts on the diagonal
    whole = {"L": a.tril() + a.tril(-1).mH - unread, "U": a.triu() + a.triu(1).mH - unread}
    for x in (a, a.mT, a.mH):  # by rows, by columns, conjugated lazily
        for triangle in "LU":
            there = x.to(D) if x is not a.mH else a.to(D).mH
            expected, (w, v) = L.eigh(x, UPLO=triangle), L.eigh(there, UPLO=triangle)
            close(w, expected[0], 10)
            close(L.eigvalsh(there, UPLO=triangle), expected[0], 10)
            assert (w.stride(), v.stride()) == tuple(e.stride() for e in expected)
            if x is a:
                close(v @ (w.unsqueeze(-1) * v.mH), whole[triangle].contiguous(), 10)
                close(v.mH @ v, torch.eye(shape[-1], dtype=dtype).expand(shape))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_singular_values(shape, dtype):
    a = matrices(*shape, dtype=dtype)
    for x in (a, a.mT.contiguous().mT):
        for full in (False, True):
            expected, (u, s, vh) = L.svd(x, full_matrices=full), L.svd(x.to(D), full_matrices=full)
            close(s, expected[1], 10)
            assert [t.stride() for t in (u, s, vh)] == [e.stride() for e in expected]
            k = s.shape[-1]
            close(u[..., :k] @ (s.unsqueeze(-1) * vh[..., :k, :]), a, 10)
            for q in (u, vh.mH):
                close(q.mH @ q, torch.eye(q.shape[-1], dtype=dtype).expand(*shape[:-2], q.shape[-1], q.shape[-1]))
    close(L.svdvals(a.to(D)), expected[1], 10)
    if a.numel():
        b = a / 2 + a.flip(-1)  # another condition
        close(L.pinv(b.to(D)), L.pinv(b), L.cond(b).max().item())
        assert L.matrix_rank(b.to(D)).tolist() == L.matrix_rank(b).tolist()
        for p in ("nuc", 2, -2):
            close(L.matrix_norm(a.to(D), p), L.matrix_norm(a, p), 100)


def test_ranks_and_conditions():
    a = matrices(3, 6, 6)
    a[1, :, 2] = a[1, :, 3] * 2
    a[2] = 0
    assert L.matrix_rank(a.to(D)).tolist() == [6, 5, 0]
    assert L.matrix_rank((a @ a.mT).to(D), hermitian=True).tolist() == [6, 5, 0]
    close(L.cond(a[0].to(D)), L.cond(a[0]))
    close(L.pinv(a.to(D), rtol=1e-10), L.pinv(a, rtol=1e-10))
    close(L.pinv((a @ a.mT).to(D), rtol=1e-10, hermitian=True), L.pinv(a @ a.mT, rtol=1e-10, hermitian=True))


@pytest.mark.parametrize("dtype", EXACT, ids=str)
def test_gradients(dtype):
    def spectrum(x):
        w, v = L.eigh(x + x.mH)
        return w * w.sin(), v @ (w.exp().unsqueeze(-1) * v.mH)

    def singular(x):
        u, s, vh = L.svd(x, full_matrices=False)
        return s * s.sin(), u @ (s.sqrt().unsqueeze(-1) * vh)

    cases = [(spectrum, (2, 4, 4)), (singular, (2, 4, 4)), (singular, (5, 3)), (singular, (3, 5)), (lambda x: (L.pinv(x),), (5, 3)),
             (lambda x: (L.eigvalsh(x),), (4, 4)), (lambda x: (L.matrix_norm(x, "nuc"),), (2, 4, 3))]
    for function, shape in cases:
        here = matrices(*shape, dtype=dtype).requires_grad_()
        there = here.detach().to(D).requires_grad_()
        for e, t in zip(function(here), function(there)):
            close(t, e)
            weight = matrices(*e.shape, dtype=e.dtype, seed=1)
            e.backward(weight, retain_graph=True)
            t.backward(weight.to(D), retain_graph=True)
        close(there.grad, here.grad)


def test_results_in_given_tensors():
    a = matrices(2, 4, 3)
    s = a.mT @ a
    for sizes in ([0], None):
        w, v = (torch.empty(sizes or n, dtype=torch.float64, device=D) for n in ((2, 3), (2, 3, 3)))
        L.eigh(s.to(D), out=(w, v))
        close(w, L.eigvalsh(s))
        close(v @ (w.unsqueeze(-1) * v.mT), s)
        u, d, vh = (torch.empty(sizes or n, dtype=torch.float64, device=D) for n in ((2, 4, 3), (2, 3), (2, 3, 3)))
        L.svd(a.to(D), full_matrices=False, out=(u, d, vh))
        close(u @ (d.unsqueeze(-1) * vh), a)


def test_what_is_not_finite():
    a = torch.eye(3).repeat(3, 1, 1)
    a[1] = float("nan")
    for function in (L.eigh, L.eigvalsh, L.svd, L.svdvals):
        for x in (a, a[1]):
            def read(x):
                r = function(x)
                return [t.cpu() for t in (r if isinstance(r, tuple) else (r,))]
            with pytest.raises(L.LinAlgError) as expected:
                function(x)
            with pytest.raises(L.LinAlgError) as ours:
                read(x.to(D))
            assert str(expected.value) == str(ours.value)
    assert L.eigvalsh(a[::2].to(D)).cpu().tolist() == [[1, 1, 1]] * 2


@pytest.mark.parametrize("function,args", [
    (L.eigh, (torch.ones(2, 3),)), (L.eigh, (torch.ones(3),)), (L.eigh, (torch.ones(3, 3).half(),)), (L.eigh, (torch.ones(3, 3).long(),)),
    (lambda x: L.eigh(x, UPLO="X"), (torch.ones(3, 3),)), (L.svd, (torch.ones(3),)), (L.svd, (torch.ones(3, 3).half(),)),
    (L.svd, (torch.ones(3, 3).long(),)), (lambda x: L.svd(x, driver="gesvd"), (torch.ones(3, 3),)),
    (L.lstsq, (torch.ones(3, 3).half(),) * 2), (lambda x: L.lstsq(x, x, driver="x"), (torch.ones(3, 3),)), (L.lstsq, (torch.ones(3),) * 2),
    (L.lstsq, (torch.ones(3, 3), torch.ones(2, 3))), (L.lstsq, (torch.ones(3, 3), torch.ones(3, 3).double())),
])
def test_wrong_arguments(function, args):
    words, ours = raises_alike(function, *args)
    assert ours.replace("tiny:0", "cpu") == words


def test_a_chain_waits_for_its_reader():
    a = matrices(20, 20).to(D)
    before = flush_count()
    w, v = L.eigh(a + a.mT)
    u, s, vh = L.svd(v * w)
    x = u @ (s.unsqueeze(-1) * vh)
    assert flush_count() == before
    close(x @ v.mT, (a + a.mT).cpu())
    assert flush_count() == before + 1


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_least_squares(driver, dtype):
    sizes = [((5, 3), (5, 2)), ((3, 5), (3, 2)), ((4, 4), (4, 3)), ((2, 5, 3), (2, 5)), ((5, 3), (5,)), ((1, 5, 3), (4, 5, 2)),
             ((60, 20), (60, 3)), ((0, 3), (0, 2)), ((3, 0), (3, 2)), ((0, 5, 3), (0, 5, 2))]
    for left, right in sizes:
        a, b = matrices(*left, dtype=dtype), matrices(*right, dtype=dtype, seed=1)
        if left[-1] == left[-2]:
            a = a + 3 * torch.eye(4)
        for t, e in zip(L.lstsq(a.to(D), b.to(D), driver=driver), L.lstsq(a, b, driver=driver)):
            close(t, e, 10)
            assert t.stride() == e.stride()


def test_least_squares_of_low_rank():
    a, b = matrices(6, 4), matrices(6, 2, seed=1)
    a[:, 3] = a[:, 1] - a[:, 2]
    for driver in ("gelsy", "gelsd", "gelss"):
        for x in (a, a.mT):
            y = b[:x.shape[0]]
            for t, e in zip(L.lstsq(x.to(D), y.to(D), rcond=1e-10, driver=driver), L.lstsq(x, y, rcond=1e-10, driver=driver)):
                close(t, e)
    out = [torch.empty(0, dtype=d, device=D) for d in (torch.float64, torch.float64, torch.int64, torch.float64)]
    torch.ops.aten.linalg_lstsq.out(a.to(D), b.to(D), solution=out[0], residuals=out[1], rank=out[2], singular_values=out[3])
    close(out[0], L.lstsq(a, b, rcond=1e-10).solution)
    assert out[2].item() == 3
    x, y = matrices(5, 3).requires_grad_(), matrices(5, 2, seed=1).requires_grad_()
    L.lstsq(x, y).solution.square().sum().backward()
    there = [t.detach().to(D).requires_grad_() for t in (x, y)]
    L.lstsq(*there).solution.square().sum().backward()
    for t, e in zip(there, (x, y)):
        close(t.grad, e.grad)
