"""Linear algebra: values, strides, flags, batches and errors as on the CPU, without running there."""
import pytest
import torch
import torch_tiny  # noqa: F401
from nn_compare import D, raises_alike, tensors, to
from probe import flush_count

L = torch.linalg
pytestmark = [pytest.mark.usefixtures("no_fallback"), pytest.mark.filterwarnings("ignore:torch.*deprecated")]


def matrices(*shape, dtype=torch.float64, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=dtype, generator=g)


def positive(*shape, **k):
    a = matrices(*shape, **k)
    return a @ a.mH + shape[-1] * torch.eye(shape[-1], dtype=a.dtype)


def same(function, *args):
    """Results equal those of the CPU, strides too; gradients of the float ones likewise."""
    here, there = to(args, "cpu"), to(args, D)
    expected, actual = tensors(function(*here)), tensors(function(*there))
    assert len(expected) == len(actual)
    for a, e in zip(actual, expected):
        assert a.device.type == D and a.dtype == e.dtype
        assert a.stride() == e.stride(), (a.stride(), e.stride(), e.shape)
        torch.testing.assert_close(a.detach().cpu(), e.detach(), equal_nan=True, check_stride=False)
    wanted = [(a, e) for a, e in zip(actual, expected) if e.requires_grad]
    for a, e in wanted:
        weight = matrices(*e.shape, dtype=e.dtype, seed=9)
        e.backward(weight, retain_graph=True)
        a.backward(weight.to(D), retain_graph=True)
    for a, e in zip(tensors(there), tensors(here)):
        assert (a.grad is None) == (e.grad is None)
        if e.grad is not None:
            torch.testing.assert_close(a.grad.cpu(), e.grad, check_stride=False)


def residuals(a):
    """Sums of many float32 numbers differ by their order: what is solved and factorised is put together again, within a few roundings."""
    x, n = a.to(D), a.shape[-1]
    bound = {"rtol": 0, "atol": 4 * n * torch.finfo(a.dtype).eps * a.abs().max().item()}
    p, lower, upper = L.lu(x)
    q, r = L.qr(x)
    for product in (p @ lower @ upper, q @ r):
        torch.testing.assert_close(product.cpu(), a, **bound)
    torch.testing.assert_close((x @ L.inv(x)).cpu(), torch.eye(n, dtype=a.dtype), **bound)
    s = a @ a.mH + n * torch.eye(n, dtype=a.dtype)
    f = L.cholesky(s.to(D))
    torch.testing.assert_close((f @ f.mH).cpu(), s, rtol=0, atol=4 * n * torch.finfo(a.dtype).eps * s.abs().max().item())


EXACT = [torch.float64, torch.complex128]
SHAPES = [(1, 1), (3, 3), (2, 5, 5), (2, 3, 4, 4), (40, 40), (150, 150), (2, 0, 0), (0, 3, 3), (0, 0)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_square_matrices(shape, dtype):
    # of large complex matrices MKL's qr leaves the last number on the diagonal complex, LAPACK does not
    if shape[-1] > 10 and (dtype in (torch.float32, torch.complex64) or dtype == torch.complex128 and shape[-1] > 100):
        return residuals(matrices(*shape, dtype=dtype) + 3 * torch.eye(shape[-1]).roll(1, 0) * shape[-1] ** 0.5)
    a, b = matrices(*shape, dtype=dtype), matrices(*shape[:-1], 3, dtype=dtype)
    if a.numel():
        a = a + 3 * torch.eye(shape[-1], dtype=dtype).roll(1, 0) * shape[-1] ** 0.5  # well conditioned, and its rows trade places
    s = positive(*shape, dtype=dtype)
    for x in (a, a.mT.contiguous().mT):
        same(L.lu_factor_ex, x)
        same(L.lu, x)
        same(lambda x: torch.ops.aten._linalg_solve_ex(x, b.to(x.device)), x)
        same(torch.ops.aten._linalg_det, x)
        same(torch.ops.aten._linalg_slogdet, x)
        same(L.inv_ex, x)
        same(L.qr, x)
    for upper in (False, True):
        same(lambda x: L.cholesky_ex(x, upper=upper), s)
        same(lambda x: torch.cholesky_inverse(x, upper=upper), torch.linalg.cholesky(s, upper=upper))
    same(L.ldl_factor_ex, a + a.mT)
    same(lambda x: L.ldl_factor_ex(x, hermitian=True), a + a.mH)


@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize("shape", [(4, 7), (7, 4), (2, 70, 3), (3, 2, 40), (2, 0, 3), (2, 3, 0)], ids=str)
def test_rectangular_matrices(shape, dtype):
    a = matrices(*shape, dtype=dtype)
    same(L.lu_factor_ex, a)
    same(L.lu, a)
    for mode in ("reduced", "complete", "r"):
        same(lambda x: L.qr(x, mode=mode), a)
    same(torch.geqrf, a)


@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize("flags", range(8))
def test_triangular_systems(flags, dtype):
    upper, left, unit = bool(flags & 1), bool(flags & 2), bool(flags & 4)
    for n, k in ((4, 3), (50, 6), (4, 0)):
        a = matrices(2, 1, n, n, dtype=dtype) + n * torch.eye(n, dtype=dtype)
        for x in (a, a.mT, a.mH, a[:, 0]):  # batches broadcast
            b = matrices(3, n, k, dtype=dtype) if left else matrices(3, k, n, dtype=dtype)
            if x.dim() == 3:
                b = b[:2]
            same(lambda x, b: L.solve_triangular(x, b, upper=upper, left=left, unitriangular=unit), x, b)
        for transpose in (False, True):
            same(lambda x, b: torch.triangular_solve(b, x, upper, transpose, unit), a, matrices(3, n, k, dtype=dtype))


@pytest.mark.parametrize("dtype", EXACT)
def test_factors_solve_systems(dtype):
    a, right = matrices(2, 1, 5, 5, dtype=dtype), matrices(3, 5, 2, dtype=dtype)
    lu, pivots = L.lu_factor(a)
    for adjoint in (False, True):
        same(lambda *t: L.lu_solve(*t, adjoint=adjoint), lu, pivots, right)
        same(lambda *t: L.lu_solve(*t, adjoint=adjoint, left=False), lu, pivots, right.mT.contiguous())
    for data, permutation in ((True, True), (True, False), (False, True)):
        same(lambda *t: torch.lu_unpack(*t, unpack_data=data, unpack_pivots=permutation), lu, pivots)
    for upper in (False, True):
        factor = L.cholesky(positive(2, 1, 5, 5, dtype=dtype), upper=upper)
        same(lambda b, f: torch.cholesky_solve(b, f, upper), right, factor)
    for hermitian in (False, True):
        symmetric = a + (a.mH if hermitian else a.mT)
        symmetric.diagonal(dim1=-2, dim2=-1).mul_(0.05)
        ld, pivots = L.ldl_factor(symmetric, hermitian=hermitian)
        assert (pivots < 0).any()
        # torch 2.13's CPU kernel crashes in MKL's dsytrs where pivots are 2 by 2: the definition is the judge
        solved = L.ldl_solve(ld.to(D), pivots.to(D), right.to(D), hermitian=hermitian).cpu()
        torch.testing.assert_close(symmetric @ solved, right.expand_as(solved), rtol=1e-7, atol=1e-7)
    same(L.solve, a, right)
    same(lambda x, b: L.solve(x, b, left=False), a, right.mT)
    same(L.solve, a[:, 0], matrices(2, 5, dtype=dtype))  # vectors


@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_products_of_reflections(left, transpose, dtype):
    for shape in ((3, 6, 4), (45, 40), (2, 4, 4)):
        v, tau = torch.geqrf(matrices(*shape, dtype=dtype))
        same(L.householder_product, v, tau)
        same(L.householder_product, v, tau[..., :2])
        c = matrices(*shape[:-2], shape[-2], 5, dtype=dtype)
        same(lambda *t: torch.ormqr(*t, left=left, transpose=transpose), v, tau, c if left else c.mT)


@pytest.mark.parametrize("dtype", EXACT)
def test_gradients(dtype):
    a, b = matrices(2, 4, 4, dtype=dtype).requires_grad_(), matrices(4, 3, dtype=dtype).requires_grad_()
    same(L.solve, a, b)
    same(L.inv, a)
    same(L.det, a)
    same(L.slogdet, a)
    same(lambda x: L.cholesky(x @ x.mH + torch.eye(4, dtype=x.dtype, device=x.device)), a)
    same(L.qr, a)
    same(L.lu, a)
    same(torch.matrix_exp, a)
    same(lambda x, y: L.solve_triangular(x + 4, y, upper=True), a, b)
    g = torch.autograd.gradcheck(lambda x, y: L.solve(x, y), (a.detach().to(D).requires_grad_(), b.detach().to(D).requires_grad_()))
    assert g and torch.autograd.gradgradcheck(L.inv, (a.detach().to(D).requires_grad_(),))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_exponential(dtype):
    sizes = torch.tensor([0.0, 1e-8, 0.01, 0.5, 2, 9, 60], dtype=dtype)
    a = matrices(7, 6, 6, dtype=dtype) / 6 * sizes[:, None, None]
    a = a - 2 * a.abs().sum(-1).diag_embed()  # decays, so that nothing overflows
    same(torch.matrix_exp, a)
    same(torch.matrix_exp, a.mT)
    for shape in ((0, 0), (2, 0, 0), (1, 1), (3, 1, 1)):
        same(torch.matrix_exp, matrices(*shape, dtype=dtype))
    broken = a[:2].clone()
    broken[1, 0, 0] = float("inf")
    out = torch.matrix_exp(broken.to(D)).cpu()
    assert out[0].isfinite().all() and out[1].isnan().any()
    exact = torch.matrix_exp(a.bfloat16().double()).bfloat16()  # the CPU's own bfloat16 is NaN for some of these
    torch.testing.assert_close(torch.matrix_exp(a.bfloat16().to(D)).cpu(), exact, rtol=0.1, atol=0.05)


def test_singular_and_nan_matrices():
    a = torch.eye(3).repeat(3, 1, 1)
    a[1, 1, 1], a[2] = 0, float("nan")
    same(L.lu_factor_ex, a)
    assert L.cholesky_ex(a.to(D)).info.tolist() == [0, 2, 1]
    assert L.inv_ex(a.to(D)).info.tolist() == [0, 2, 0]
    assert L.ldl_factor_ex(a[:2].to(D)).info.tolist() == [0, 2]
    same(L.det, a)
    same(L.slogdet, a)
    same(L.qr, a)
    for function in (L.inv, L.lu_factor, L.cholesky, torch.cholesky, torch.cholesky_inverse, lambda x: L.solve(x, x),
                     lambda x: L.inv_ex(x, check_errors=True), lambda x: L.lu_factor_ex(x, check_errors=True),
                     lambda x: L.cholesky_ex(x, check_errors=True), lambda x: L.solve_ex(x, x, check_errors=True)):
        for x in (a, a[1]):
            words, ours = raises_alike(function, x)
            assert ours == words


M, V, I = torch.ones(3, 3), torch.ones(3), torch.ones(3, 3).long()  # noqa: E741


@pytest.mark.parametrize("function,args", [
    (lambda a, b: L.solve_triangular(a, b, upper=True), (M, torch.ones(2, 2))),
    (lambda a, b: L.solve_triangular(a, b, upper=True, left=False), (M, torch.ones(2, 2))),
    (lambda a, b: L.solve_triangular(a, b, upper=True), (M, V)),
    (lambda a, b: L.solve_triangular(a, b, upper=True), (torch.ones(2, 3), M)),
    (lambda a, b: L.solve_triangular(a, b, upper=True), (I, I)),
    (lambda a, b: L.solve_triangular(a, b, upper=True), (M.expand(2, 3, 3), M.expand(3, 3, 3))),
    (torch.geqrf, (V,)), (torch.geqrf, (I,)), (L.qr, (V,)), (lambda a: L.qr(a, mode="x"), (M,)),
    (L.householder_product, (torch.ones(2, 3), V)), (L.householder_product, (M, torch.ones(4))), (L.householder_product, (M, M)),
    (L.householder_product, (M, V.double())), (L.householder_product, (M.expand(2, 3, 3), M)),
    (torch.ormqr, (M, V, torch.ones(4, 3))), (torch.ormqr, (M, V[:2], M)), (torch.ormqr, (M, V, M.double())), (torch.ormqr, (V, V, M)),
    (L.lu_factor, (I,)), (L.lu_factor, (V,)), (lambda a: L.lu_factor(a, pivot=False), (M,)), (L.lu_factor, (M.half(),)),
    (L.inv, (torch.ones(2, 3),)), (L.inv, (I,)), (L.det, (torch.ones(2, 3),)), (L.cholesky, (torch.ones(2, 3),)), (L.cholesky, (M.half(),)),
    (torch.cholesky, (torch.ones(2, 3),)), (torch.cholesky, (I,)), (torch.cholesky_inverse, (I,)), (torch.cholesky_inverse, (V,)),
    (torch.cholesky_solve, (M, I)), (torch.cholesky_solve, (I, I)), (L.solve, (M, torch.ones(2, 3))), (L.solve, (M, I)), (L.ldl_factor, (I,)),
    (torch.matrix_exp, (torch.ones(2, 3),)), (torch.matrix_exp, (V,)), (torch.matrix_exp, (I,)),
    (L.lu_solve, (M, torch.tensor([1, 2, 9]).int(), M)), (L.lu_solve, (M, torch.tensor([1, 2, 3]), M)),
    (torch.lu_unpack, (M, torch.tensor([1, 0, 3]).int())), (torch.lu_unpack, (M, torch.tensor([1, 2, 3]))),
])
def test_wrong_arguments(function, args):
    words, ours = raises_alike(function, *args)
    assert ours.replace("tiny:0", "cpu").split(" (value")[0] == words, ours


def test_results_in_given_tensors():
    a, b = matrices(2, 4, 4), matrices(2, 4, 3)
    cases = [(lambda x, y, out: L.solve_triangular(x, y, upper=True, out=out[0]), [(2, 4, 3)]),
             (lambda x, y, out: L.solve(x, y, out=out[0]), [(2, 4, 3)]), (lambda x, y, out: L.inv(x, out=out[0]), [(2, 4, 4)]),
             (lambda x, y, out: torch.geqrf(x, out=tuple(out)), [(2, 4, 4), (2, 4)]), (lambda x, y, out: L.det(x, out=out[0]), [(2,)]),
             (lambda x, y, out: L.qr(y, out=tuple(out)), [(2, 4, 3), (2, 3, 3)]),
             (lambda x, y, out: L.lu_factor(x, out=(out[0], out[1].int())), [(2, 4, 4), (2, 4)]),
             (lambda x, y, out: L.cholesky(x @ x.mT, out=out[0]), [(2, 4, 4)]), (lambda x, y, out: L.lu(x, out=tuple(out)), [(2, 4, 4)] * 3),
             (lambda x, y, out: torch.cholesky_inverse(x, out=out[0]), [(2, 4, 4)])]
    for function, sizes in cases:
        same(lambda x, y: function(x, y, [torch.empty(0, dtype=x.dtype, device=x.device) for _ in sizes]), a, b)
        same(lambda x, y: function(x, y, [torch.empty(s, dtype=x.dtype, device=x.device) for s in sizes]), a, b)
        same(lambda x, y: function(x, y, [torch.empty(s[::-1], dtype=x.dtype, device=x.device).permute(*range(len(s) - 1, -1, -1)) for s in sizes]),
             a, b)
    x = a.to(D)
    L.inv(x, out=x)  # over its own argument
    torch.testing.assert_close(x.cpu(), L.inv(a), check_stride=False)


def test_a_chain_waits_for_its_reader():
    a, b = positive(40, 40).to(D), matrices(40, 2).to(D)
    before = flush_count()
    q, r = L.qr(torch.cholesky_solve(b, L.cholesky_ex(a).L) * 2)
    x = q @ r
    assert flush_count() == before
    torch.testing.assert_close((a @ x / 2).cpu(), b.cpu())
    assert flush_count() == before + 1
